"""Answers from neighbourhoods: the same as from the whole graph where it is the neighbourhood, and mapped back."""

import numpy as np
import pytest

from anykg.errors import SettingError
from anykg.evaluation import ranking, reading, scoring
from anykg.evaluation.ranks import Ties
from anykg.graph.graph import HEAD, RELATION, TAIL, KnowledgeGraph
from anykg.models.mixture import Component, Mixture, MixtureConfig
from anykg.models.store import load_model
from graphs import random_graph

MODEL = load_model("anykg-small")


def two_islands() -> KnowledgeGraph:
    """Two copies of a small random graph that share nothing but their relations."""
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(40, size=150), rng.integers(3, size=150), rng.integers(40, size=150)], axis=1)
    facts = [(f"{island}{h}", f"r{r}", f"{island}{t}") for island in "ab" for h, r, t in rows]
    return KnowledgeGraph.from_names(*zip(*facts, strict=True))


def questions(graph: KnowledgeGraph) -> np.ndarray:
    asked = graph.triplets[::37].astype(np.int64)[:9]
    asked[np.arange(9), np.arange(9) % 3] = -1
    return asked


def test_answers_are_those_of_the_part() -> None:
    graph = two_islands()
    asked = questions(graph)
    best = reading.best_answers(MODEL, graph, asked, k=5, budget=100)
    for row, question in enumerate(asked):
        [(_, part)] = reading.neighbourhoods(graph, question[None], 100)
        expected = ranking.best_answers(MODEL, part.graph, part.inside(question[None]), k=5)
        mine = best.questions == row
        assert np.array_equal(best.triplets[mine], part.outside(expected.triplets))
        np.testing.assert_allclose(best.scores[mine], expected.scores, rtol=1e-4)
        assert not graph.contains(best.triplets[mine]).any(), "facts of the whole graph are known"


def test_a_budget_of_all_facts_changes_nothing() -> None:
    graph = two_islands()
    asked = questions(graph)
    whole = ranking.best_answers(MODEL, graph, asked, k=5)
    for budget in (0, None, len(graph)):
        best = reading.best_answers(MODEL, graph, asked, k=5, budget=budget)
        assert np.array_equal(best.triplets, whole.triplets)
    assert reading.note_on(graph, None, "a0") is None
    with pytest.raises(SettingError, match="budget"):
        reading.budget_of(graph, -1)


def test_facts_outside_are_ranked_last() -> None:
    graph = two_islands()
    inside = graph.triplets[0].astype(np.int64)
    outside = inside.copy()
    outside[TAIL] = graph.entities.index("b3")
    facts = np.stack([inside, outside])
    rest = graph.without(facts)
    found = reading.rank_facts(MODEL, rest, facts, TAIL, known=graph, budget=60, best=3)
    [(_, part)] = reading.neighbourhoods(rest, scoring.questions_about(facts, TAIL)[:1], 60)
    assert outside[TAIL] not in part.entities
    assert np.isneginf(found.scores[1])
    assert np.isfinite(found.scores[0]) == (inside[TAIL] in part.entities)
    known = len(graph.answers(inside[:1], inside[1:2]).values)
    assert found.ranks.candidates[1] == graph.num_entities - known, "the known answers, of which this is none, are out"
    whole = ranking.rank_facts(MODEL, rest, facts, TAIL, known=graph)
    assert np.array_equal(found.ranks.candidates, whole.ranks.candidates)
    pessimistic = found.ranks.by(Ties.PESSIMISTIC)
    assert pessimistic[1] == found.ranks.candidates[1] > len(part.entities) - known
    assert found.best is not None
    assert set(found.best.questions) == set(found.questions)
    known_too = reading.rank_facts(MODEL, rest, facts, TAIL, known=rest.union(graph.with_triplets(facts)), budget=60)
    assert known_too.ranks.candidates[1] == found.ranks.candidates[1], "a hidden fact counts itself, and only once"
    assert known_too.ranks.by(Ties.PESSIMISTIC)[1] == known_too.ranks.candidates[1]


def test_known_answers_are_counted_on_the_whole_graph() -> None:
    """Probabilities use these counts; a check must not learn them from parts and `predict` read them off the whole."""
    tails = [str(i) for i in range(320)]
    star = KnowledgeGraph.from_names(["hub"] * 320, ["likes"] * 300 + ["knows"] * 20, tails)
    facts = star.triplets[:2].astype(np.int64)
    rest = star.without(facts)
    for seen in (False, True):
        found = reading.rank_facts(MODEL, rest, facts, TAIL, known=star, budget=50, best=3, seen=seen, standing=seen)
        assert found.best is not None
        assert set(found.best.answered) == {298}
        assert found.standing is None or set(found.standing.answered) == {298}
    asked = scoring.questions_about(facts, TAIL)
    assert set(reading.best_answers(MODEL, rest, asked, budget=50).answered) == {298}


def test_models_without_messages_read_large_graphs_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = two_islands()
    monkeypatch.setattr(reading, "LARGE", 50)
    monkeypatch.setattr(reading, "BUDGET", 40)
    assert reading.budget_of(graph, None, MODEL) == 40
    asked = questions(graph)
    for name in ("popularity", "complex", "random"):
        model = load_model(name)
        assert reading.budget_of(graph, None, model) is None
        assert reading.note_on(graph, None, "a0", model) is None
        assert reading.budget_of(graph, 40, model) == 40, "unless a budget is given"
    popularity = load_model("popularity")
    whole = ranking.best_answers(popularity, graph, asked, k=5)
    assert np.array_equal(reading.best_answers(popularity, graph, asked, k=5).triplets, whole.triplets)
    with_walks = Mixture(MixtureConfig())
    assert reading.budget_of(graph, None, with_walks) == 40, "one component walks"
    assert reading.budget_of(graph, None, Mixture(MixtureConfig((Component("counts", "popularity"),)))) is None


def test_facts_that_are_given_have_scores() -> None:
    graph = two_islands()
    facts = np.array([[graph.entities.index("a3"), 0, graph.entities.index("b5")]])
    for column in (HEAD, TAIL):
        found = reading.rank_facts(MODEL, graph, facts, column, known=graph, budget=40, seen=True, standing=True)
        assert np.isfinite(found.scores).all()
        assert found.ranks.candidates[0] > 60
    found = reading.rank_facts(MODEL, graph, facts, RELATION, known=graph, budget=40)
    assert found.ranks.candidates[0] == 3


def test_limits_are_those_of_the_whole_graph() -> None:
    """Entities seen as tails, and relations with loops, are so even if no such fact is in the part."""
    near = [("a", "near", f"n{i}") for i in range(30)] + [(f"n{i}", "near", f"n{i + 1}") for i in range(29)]
    crowd = [(f"c{i}", "likes", f"c{(i + step) % 200}") for i in range(200) for step in range(1, 6)]
    far = [(f"f{i}", "likes", "n3") for i in range(300)] + [("far", "likes", "far")]
    graph = KnowledgeGraph.from_names(*zip(*near, *crowd, *far, strict=True))
    question = np.array([[graph.entities.index("a"), graph.relations.index("likes"), -1]])
    [(_, part)] = reading.neighbourhoods(graph, question, 100)
    assert graph.entities.index("n3") in part.entities
    assert not {"far", *(f"f{i}" for i in range(300))} & set(part.graph.entities)
    tails = reading.best_answers(
        MODEL, graph, question, k=2000, budget=100, limits=ranking.Limits(seen_only=True)
    ).triplets[:, TAIL]
    assert graph.entities.index("n3") in tails
    assert graph.entities.index("n4") not in tails
    fact = np.array([[*question[0, :2], graph.entities.index("n3")]])
    everyone = reading.best_answers(MODEL, graph, question, k=2000, budget=100).triplets[:, TAIL]
    assert question[0, 0] in everyone, "the relation has a loop, though not in the part"
    ranked = reading.rank_facts(MODEL, graph, fact, TAIL, known=graph, budget=100, best=2000)
    assert ranked.best is not None
    assert question[0, 0] in ranked.best.triplets[:, TAIL]


def test_renaming_renames_answers_within_a_budget() -> None:
    graph = random_graph(300, 4, 900)
    rng = np.random.default_rng(1)
    entities, relations = rng.permutation(300), rng.permutation(4)
    other = graph.relabel(entities, relations)
    asked = questions(graph)
    names = [{"e": graph.entities, "r": graph.relations}, {"e": other.entities, "r": other.relations}]
    columns = ("e", "r", "e")
    renamed = np.array(
        [
            [-1 if i < 0 else names[1][c].index(names[0][c][int(i)]) for c, i in zip(columns, row, strict=True)]
            for row in asked
        ]
    )
    one, again = (reading.best_answers(MODEL, g, q, k=3, budget=300) for g, q in ((graph, asked), (other, renamed)))
    told, told_again = (
        [[known[c][int(i)] for c, i in zip(columns, row, strict=True)] for row in best.triplets]
        for known, best in zip(names, (one, again), strict=True)
    )
    assert told == told_again
    np.testing.assert_allclose(one.scores, again.scores, rtol=1e-4)
