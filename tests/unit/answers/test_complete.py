"""New facts of a whole graph: what is asked, what is proposed, stopping and going on."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.answers import complete as module
from anykg.answers.calibrating.lookup import kept_calibration
from anykg.answers.calibrating.missing import chance_of_missing
from anykg.answers.complete import Selection, complete, questions_of
from anykg.answers.completing.both_ends import BothEnds
from anykg.answers.completing.proposals import Proposals, _missing, judged, limited, mirrored, proposals_of
from anykg.answers.hiding.recovery import hide_together
from anykg.answers.work import Subject
from anykg.benchmarks.answers.staff import staff_graph
from anykg.errors import ConfigError, DataError, InputError, Interrupted
from anykg.evaluation.ranking import best_answers
from anykg.graph.graph import HEAD, TAIL, KnowledgeGraph
from anykg.graph.schema import symmetric_relations
from anykg.models.random import RandomScorer
from anykg.models.rulebook import fit_rulebook
from anykg.models.store import load_model
from graphs import graphs, named, random_graph


def rows(graph: KnowledgeGraph, **how: object) -> list[tuple[object, ...]]:
    return complete(graph, model=RandomScorer(), calibrated=False, **how).to_polars().rows()  # type: ignore[arg-type]


def test_relations_are_asked_from_their_smaller_end() -> None:
    graph = named("a in x", "b in x", "c in y", "x has a", "x has b", "y has c")
    asked = questions_of(graph, None, None)
    names = {(int(h) >= 0, graph.relations[r], int(t) >= 0) for h, r, t in asked}
    assert names == {(False, "in", True), (True, "has", False)}
    assert len(asked) == 4
    assert len(questions_of(graph, np.array([0]), None)) == 2
    assert questions_of(graph, None, np.array([1, 0])).tolist() == [[0, 0, -1], [0, 1, -1], [1, 0, -1], [1, 1, -1]]


def test_what_is_proposed_for_given_heads_suits_them() -> None:
    """Most relations have nothing to do with an entity; no list of its own facts says so."""
    graph = staff_graph(0)
    heads = ["Finance", "Legal", "Berlin", "Data skill 1", "Sales service 2"]
    found = complete(graph, heads=heads, count=100)
    people = {"reports to", "runs", "has skill", "works in"}
    stated = [row["probability"] for row in found.to_list() if row["relation"] in people]
    assert stated
    assert max(stated) < 0.05
    assert found.extra["expected"] < 5


def test_a_relation_that_is_full_lacks_nothing() -> None:
    people = [f"p{i} born_in town{i % 5}" for i in range(50)]
    friends = [f"p{i} knows p{(i + j) % 50}" for i in range(50) for j in range(1, 2 + i % 8)]
    graph = named(*people, *friends)
    keys, values = chance_of_missing(graph, 0.1)
    by_name = {(graph.entities[k // 4], int(k % 4)): v for k, v in zip(keys, values, strict=True)}
    born, knows = graph.relations.index("born_in"), graph.relations.index("knows")
    assert by_name["p3", born] < 0.01  # everybody has one birthplace
    assert 0.2 < by_name["p3", knows] < 0.9
    assert ("town0", born) not in by_name
    assert all(0 < value < 1 for value in values)


def test_the_chance_is_what_hiding_facts_gives() -> None:
    """With a share hidden, the mean chance of those who lack a fact or not agrees with how many do."""
    random = np.random.default_rng(0)
    facts = [f"h{i} r t{j}" for i in range(800) for j in random.choice(4000, random.integers(1, 7), replace=False)]
    whole = named(*facts)
    hidden = random.random(len(whole)) < 0.1
    rest, lost = whole.subset(~hidden), np.unique(whole.triplets[hidden, 0])
    keys, values = chance_of_missing(rest, 0.1)
    heads = keys % 2 == 0
    lacks = np.isin(keys[heads] // 2, lost)
    assert values[heads].mean() == pytest.approx(lacks.mean(), abs=0.05)


def test_limits_by_relation_and_entity() -> None:
    facts = np.array([[0, 0, 1], [0, 0, 2], [0, 1, 3], [4, 0, 5], [4, 1, 1]])
    values = np.array([0.9, 0.8, 0.7, 0.6, 0.1])
    assert Selection(3).rows(facts, values).tolist() == [0, 1, 2]
    assert Selection(9, min_probability=0.5).rows(facts, values).tolist() == [0, 1, 2, 3]
    assert Selection(9, per_relation=1).rows(facts, values).tolist() == [0, 2]
    assert Selection(9, per_entity=1).rows(facts, values).tolist() == [0, 3]
    assert Selection(1, per_entity=1).rows(facts, values).tolist() == [0]


def test_probabilities_are_ranked_and_summed() -> None:
    lines = [f"p{i} in d{i % 4}" for i in range(60)] + [f"d{i} at site{i % 2}" for i in range(4)]
    lines += [f"p{i} works_at site{i % 4 % 2}" for i in range(50)]
    graph = named(*lines)
    found = complete(graph, model="rulebook", count=20, relations=["works_at"])
    values = found.to_polars()["probability"].to_list()
    assert values == sorted(values, reverse=True)
    assert all(0 < value < 1 for value in values)
    assert found.summary()["expected"] == pytest.approx(sum(values), rel=1e-4)
    right = {(f"p{i}", f"site{i % 4 % 2}") for i in range(50, 60)}
    assert {(row["head"], row["tail"]) for row in found.to_list()[:10]} == right


def towns() -> tuple[KnowledgeGraph, KnowledgeGraph]:
    """A graph with a tenth hidden: everybody lives where their team is, and has some hobbies at random."""
    random = np.random.default_rng(0)
    lines = [f"p{i} in team{i % 20}" for i in range(300)] + [f"team{i} at town{i % 5}" for i in range(20)]
    lines += [f"p{i} lives_in town{i % 20 % 5}" for i in range(300)]
    lines += [f"p{i} likes h{j}" for i in range(300) for j in random.choice(30, 2, replace=False)]
    return hide_together(named(*lines), 0.1, seed=5)


def test_the_probabilities_are_learnt_by_proposing_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proposed first is right, and about as much of it as promised."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rest, hidden = towns()
    found = complete(rest, model="rulebook", count=30)
    vocabularies = (rest.entities, rest.relations, rest.entities)
    columns = [v.ids(found.frame[name]) for v, name in zip(vocabularies, ("head", "relation", "tail"), strict=True)]
    right = hidden.contains(np.stack(columns, axis=1))
    assert right.mean() > 0.8
    assert found.summary()["expected"] == pytest.approx(right.sum(), rel=0.35)
    model = load_model("rulebook")
    known = kept_calibration(model, rest, "node")
    assert known is not None
    made = proposals_of(model, rest, known, 0.1)
    assert made is not None
    assert made == proposals_of(model, rest, known, 0.1)  # kept
    asked = questions_of(rest, None, None)[:40]
    best = best_answers(model, rest, asked, k=50)
    for learnt in (made, None):  # None: of a model that has seen the graph
        values = judged(learnt, known, rest, best, np.argmin(asked, axis=1)[best.questions], 0.1)
        there = ~np.isnan(values)
        assert there.any()
        assert ((values[there] >= 0) & (values[there] <= 1)).all()


def asked_from(monkeypatch: pytest.MonkeyPatch) -> list[tuple[np.ndarray, np.ndarray]]:
    """The facts and columns that the model is asked for from the other end."""
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    real = module.other_end

    def spy(subject: Subject, calibration: object, facts: np.ndarray, columns: np.ndarray, **how: Any) -> np.ndarray:
        seen.append((facts, columns))
        return real(subject, calibration, facts, columns, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "other_end", spy)
    return seen


def judged_by(monkeypatch: pytest.MonkeyPatch, both_ends: BothEnds | None) -> None:
    """Have proposals judged from both ends in this way, whatever is learnt."""
    real = module.proposals_of

    def made(*given: Any, **how: Any) -> Proposals | None:
        found = real(*given, **how)
        return None if found is None else replace(found, both_ends=both_ends)

    monkeypatch.setattr(module, "proposals_of", made)


def test_the_best_facts_are_asked_for_from_their_other_end(monkeypatch: pytest.MonkeyPatch) -> None:
    rest, _ = towns()
    judged_by(monkeypatch, None)
    one_end = complete(rest, model="rulebook", count=30)
    seen = asked_from(monkeypatch)
    judged_by(monkeypatch, BothEnds(-1.0, 0.5, -30.0, 30.0))
    both = complete(rest, model="rulebook", count=30)
    ((facts, columns),) = seen
    assert len(facts) == 120
    asked = {int(r): int(np.argmin(row)) for row in questions_of(rest, None, None) for r in row[1:2]}
    assert [asked[int(r)] + int(c) for r, c in zip(facts[:, 1], columns, strict=True)] == [HEAD + TAIL] * 120
    stated = both.to_polars()["probability"]
    assert stated.to_list() != one_end.to_polars()["probability"].to_list()
    assert stated.n_unique() > 10, "each fact has a probability of its own"
    assert len(both) == len(one_end) == 30


def test_limits_list_as_many_facts_as_without_the_other_end(monkeypatch: pytest.MonkeyPatch) -> None:
    rest, _ = towns()
    limits = {"model": "rulebook", "count": 60, "per_entity": 1}
    judged_by(monkeypatch, None)
    one_end = complete(rest, **limits)  # type: ignore[arg-type]
    judged_by(monkeypatch, BothEnds(-1.0, 0.5, -30.0, 30.0))
    assert len(complete(rest, **limits)) >= 0.9 * len(one_end)  # type: ignore[arg-type]


def test_stopped_while_asking_from_the_other_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rest, _ = towns()
    judged_by(monkeypatch, BothEnds(-1.0, 0.5, -30.0, 30.0))
    how = {"model": "rulebook", "count": 30, "state": tmp_path / "state"}
    steps: list[tuple[int, int]] = []
    whole = complete(rest, progress=lambda done, total: steps.append((done, total)), **how)  # type: ignore[arg-type]
    assert steps == sorted(steps)
    assert steps[-1][0] == steps[-1][1]
    (tmp_path / "state").unlink()
    real = module.other_end

    def stop(*given: Any, **how: Any) -> np.ndarray:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "other_end", stop)
    with pytest.raises(Interrupted, match="while scoring from the other end; run it again to resume"):
        complete(rest, **how)  # type: ignore[arg-type]
    monkeypatch.setattr(module, "other_end", real)
    estimates: list[module.Estimate] = []
    again = complete(rest, announce=estimates.append, **how)  # type: ignore[arg-type]
    assert again.to_polars().equals(whole.to_polars())
    assert estimates[0].done == estimates[0].questions
    assert estimates[0].seconds > 0


def test_proposals_of_a_functional_relation_exclude_each_other() -> None:
    graph = named(*(f"p{person} lives c{person % 3}" for person in range(40)))
    ids = {name: index for index, name in enumerate(graph.entities)}
    asked = np.array([[ids["p0"], 0, ids["c1"]], [ids["p0"], 0, ids["c2"]]])
    second = limited(graph, asked, np.array([0.9, 0.8]), 0.1)
    assert second.sum() < 0.05, "p0 has a home already"
    free = graph.without(np.array([[ids["p0"], 0, ids["c0"]]]))
    shared = limited(free, asked, np.array([0.9, 0.8]), 0.1)
    np.testing.assert_allclose(shared, [9 / 13, 4 / 13], atol=1e-6)
    possible = np.array([0.5, 0.3])
    np.testing.assert_allclose(limited(free, asked, possible, 0.1), possible)
    alone = limited(free, asked[:1], np.array([0.9]), 0.1)
    np.testing.assert_allclose(alone, [0.9], atol=1e-6)


def test_a_question_does_not_lack_more_answers_than_it_can() -> None:
    """Of 200 known members one in a hundred may be missing, and not ten."""
    facts = [f"p{i} likes h{j}" for i in range(200) for j in (0, 1 + i % 3)] + [f"q{i} likes h1" for i in range(12)]
    graph = named(*facts)
    asked = np.array([[graph.entities.index(f"q{i}"), 0, graph.entities.index("h0")] for i in range(10)])
    likely = np.linspace(0.99, 0.9, 10)
    few, many = limited(graph, asked, likely, 0.01), limited(graph, asked, likely, 0.1)
    assert few.sum() < 6
    assert (np.diff(few) <= 0).all()
    np.testing.assert_allclose(many, likely)
    np.testing.assert_allclose(limited(graph, asked[:1], likely[:1], 0.01), likely[:1])


def test_a_fitted_model_needs_scores_or_its_own_calibration() -> None:
    rest, _ = towns()
    with pytest.raises(InputError, match="rank by scores instead"):
        complete(rest, model=fit_rulebook(rest, seconds=1.0), count=5)


def test_a_one_way_relation_is_not_answered_backwards() -> None:
    graph = named(*(f"p{i} reports_to p{i // 3}" for i in range(1, 60)))
    known = {(row["tail"], row["head"]) for row in graph.to_polars().to_dicts()}
    assert not known & {row[::2][:2] for row in rows(graph, count=1000)}


@settings(max_examples=30, deadline=None)
@given(graphs(min_triplets=1), st.integers(1, 40))
def test_facts_are_new_distinct_and_half_known(graph: KnowledgeGraph, count: int) -> None:
    found = rows(graph, count=count)
    facts = np.array(
        [(graph.entities.index(h), graph.relations.index(r), graph.entities.index(t)) for h, r, t, _, _ in found],
        np.int64,
    ).reshape(-1, 3)
    assert len(found) <= count
    assert len({row[:3] for row in found}) == len(found)
    assert not graph.contains(facts).any()
    known = {(h, r) for h, r, _ in graph.triplets.tolist()} | {(r, t) for _, r, t in graph.triplets.tolist()}
    other_half = mirrored(graph, facts)
    assert all(
        (h, r) in known or (r, t) in known or half for (h, r, t), half in zip(facts.tolist(), other_half, strict=True)
    )
    scores = [row[3] for row in found]
    assert scores == sorted(scores, reverse=True)
    assert [row[:3] for row in rows(graph, count=max(1, count // 2))] == [r[:3] for r in found[: max(1, count // 2)]]


def test_one_of_each_mirrored_pair() -> None:
    pairs = [(f"a{i}", f"a{i + 1}") for i in range(12)]
    graph = named(*(f"{h} near {t}" for h, t in pairs), *(f"{t} near {h}" for h, t in pairs))
    assert symmetric_relations(graph).tolist() == [True]
    found = {frozenset(row[::2][:2]) for row in rows(graph, count=1000)}
    assert len(found) == len(rows(graph, count=1000)) == 13 * 12 // 2 - 12


@pytest.mark.parametrize("how", [{"calibrated": False}, {}])
def test_the_other_half_of_a_symmetric_relation_is_proposed(how: dict[str, bool]) -> None:
    """Neither end has a fact of the relation in that direction."""
    pairs = [(f"a{i}", f"b{i}") for i in range(30)]
    facts = [f"{h} partner {t}" for h, t in pairs] + [f"{t} partner {h}" for h, t in pairs[:-1]]
    found = complete(named(*facts, *(f"{h} in team{i % 5}" for i, (h, _) in enumerate(pairs))), model="rulebook", **how)  # type: ignore[arg-type]
    first = next(row for row in found.to_list() if row["relation"] == "partner")
    assert (first["head"], first["tail"]) == ("b29", "a29")


def test_the_surest_proposals_tell_how_much_is_missing() -> None:
    """If a tenth is hidden and nothing else is missing, the surest answers are hidden facts."""
    random, log_odds = np.random.default_rng(0), np.linspace(5, -5, 4000)
    true = random.random(4000) < 1 / (1 + np.exp(-4 * log_odds))
    assert _missing(log_odds, true) < 0.01
    lost = random.random(4000) < 0.32  # 0.1 (1 - m) / (1 - 0.9 (1 - m)) of the true answers are hidden: m is 0.045
    assert 0.035 < _missing(log_odds, true & ~lost) < 0.06
    assert _missing(log_odds, true & (random.random(4000) < 0.2)) == 0.1


def test_only_what_was_asked_for() -> None:
    graph = random_graph(20, 3, 60)
    assert {row[1] for row in rows(graph, relations=["r2"])} == {"r2"}
    assert {row[0] for row in rows(graph, heads=["e4", "e7"])} == {"e4", "e7"}
    with pytest.raises(DataError, match="Nothing to complete"):
        rows(graph, relations=[])


def test_interrupted_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, state = random_graph(40, 3, 150), tmp_path / "state"
    monkeypatch.setattr(module, "SLICE", 5)
    whole = rows(graph, count=30)

    def stop(done: int, total: int) -> None:
        if done >= 20:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match=r"20 of \d+ questions; run it again"):
        rows(graph, count=30, state=state, progress=stop)
    estimates: list[module.Estimate] = []
    assert rows(graph, count=30, state=state, announce=estimates.append) == whole
    assert estimates[0].done == 20
    assert estimates[0].questions > 20
    estimates.clear()
    rows(graph, count=31, state=state, announce=estimates.append)
    assert estimates[0].done == 0  # kept for other work
    state.write_bytes(b"damaged")
    assert rows(graph, count=30, state=state) == whole
    state.unlink()
    state.mkdir()
    with pytest.raises(ConfigError, match="found a folder"):
        rows(graph, count=30, state=state)
    with pytest.raises(Interrupted, match="nothing was kept"):
        rows(graph, count=30, progress=stop)
