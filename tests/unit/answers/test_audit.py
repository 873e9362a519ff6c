"""Audits: a planted error is found and named."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from anykg.answers.audit import _Reasons, audit
from anykg.answers.auditing import plausibility
from anykg.answers.auditing.plausibility import NO_BETTER, _among_their_kind, corrupted, hiding_order
from anykg.errors import DataError, SettingError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.schema import entity_kinds
from anykg.models.complex.complex import ComplExConfig
from anykg.models.complex.fit import fit_complex
from graphs import named


def staff() -> KnowledgeGraph:
    lines = []
    for i in range(120):
        d = i % 6
        lines += [f"p{i} works_in d{d}", f"p{i} sits_at site{d % 3}", f"p{i} has_skill s{d}", f"p{i} uses tool{d}"]
    return named(*lines, *(f"d{i} located_at site{i % 3}" for i in range(6)))


def test_corrupted_facts_are_new_and_of_the_same_kind() -> None:
    graph = staff()
    kinds = entity_kinds(graph)
    false, new = corrupted(graph, graph.triplets[:200], kinds, np.random.default_rng(0))
    before, after = graph.triplets[:200][new], false[new]
    assert new.sum() > 150
    assert not graph.contains(after).any()
    assert ((before != after).sum(1) == 1).all()
    assert np.array_equal(kinds.of_entity[before[:, [0, 2]]], kinds.of_entity[after[:, [0, 2]]])


def test_planted_errors_come_first_with_a_reason() -> None:
    clean = staff()
    wrong = named("p7 works_in d4", "p20 has_skill s5", "p33 uses tool1")
    right = named("p7 works_in d1", "p20 has_skill s2", "p33 uses tool3")
    ids = [
        [clean.entities.index(row["head"]), clean.relations.index(row["relation"]), clean.entities.index(row["tail"])]
        for row in right.to_polars().to_dicts()
    ]
    graph = clean.without(np.array(ids)).union(wrong)
    result = audit(graph, epochs=40)
    found = result.to_polars().to_dicts()
    planted = {tuple(row) for row in wrong.to_polars().iter_rows()}
    assert planted == {(row["head"], row["relation"], row["tail"]) for row in found[:3]}
    assert len(found) <= 10, "not the facts that are merely less certain"
    assert all(row["plausibility"] < 0.5 for row in found)
    assert f"{len(found)} of {len(graph)} facts are less plausible than 0.5." in repr(result)
    reasons = [row["reason"] for row in found]
    assert all("was expected as" in reason for reason in reasons)
    assert any(re.search(r"tool3 was expected as tail: p33.* \(\d+ of \d+ such pairs agree\)$", one) for one in reasons)


def test_the_number_of_facts_that_are_listed_is_limited_and_said() -> None:
    some = audit(staff(), epochs=1, folds=2, max_plausibility=1)
    assert (len(some.to_polars()), some.doubtful) == (10, 486)
    assert "the 10 least plausible are listed" in some.sentence
    one = audit(staff(), epochs=1, folds=2, max_plausibility=1, count=1, relations=["located_at"])
    second = some.to_polars()["plausibility"][1]
    assert audit(staff(), epochs=1, folds=2, max_plausibility=second).doubtful == 1, "only what is below"
    assert one.sentence == "6 of 6 facts are less plausible than 1; the least plausible is listed."


def test_what_an_audit_found_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = audit(staff(), epochs=1, folds=2, max_plausibility=1)
    with monkeypatch.context() as patched:
        patched.setattr(plausibility, "fit_complex", None)  # nothing is fitted again
        more = audit(staff(), epochs=1, folds=2, max_plausibility=1, count=20)
        with pytest.raises(TypeError):
            audit(staff(), epochs=1, folds=2, again=True)
    assert more.to_polars().head(10).equals(first.to_polars())


def test_expected_is_what_the_relation_has_elsewhere() -> None:
    graph = staff()
    result = audit(graph, epochs=3, folds=2, max_plausibility=1, count=len(graph)).to_polars()
    for column in ("tail", "head"):
        ends = {(row["relation"], row[column]) for row in graph.to_polars().to_dicts()}
        expected = result.filter(result[f"expected_{column}"].is_not_null())
        assert len(expected) > 10
        assert {(row["relation"], row[f"expected_{column}"]) for row in expected.to_dicts()} <= ends


def test_what_nothing_is_left_to_judge_by_is_not_listed() -> None:
    graph = staff().union(named("p3 mentors newcomer"))
    found = audit(graph, epochs=1, folds=2, max_plausibility=1, count=len(graph))
    assert (found.alone, found.considered) == (1, len(graph) - 1)
    assert "newcomer" not in found.to_polars()["tail"].to_list()
    assert found.sentence.endswith("1 more is the only fact of an entity, so it cannot be judged.")


def test_nothing_is_expected_to_be_joined_to_itself() -> None:
    lines = [f"floor{i} part_of building{i % 2}" for i in range(12)]
    graph = named(
        *lines,
        *(f"building{i} part_of site" for i in range(2)),
        *(f"r{i} on floor{i % 12}" for i in range(48)),
        *(f"r{i} next_to r{i + 1}" for i in range(47)),
    )
    found = audit(graph, epochs=2, folds=2, max_plausibility=1, count=len(graph)).to_polars()
    assert len(found) > 40
    assert not (found["head"] == found["expected_tail"]).any()
    assert not (found["tail"] == found["expected_head"]).any()


def test_what_has_its_only_fact_is_not_expected() -> None:
    """Every person has a badge, and no badge two: another one's badge is no alternative."""
    lines = [
        line for i in range(60) for line in (f"p{i} has_badge b{i}", f"b{i} opens d{i % 3}", f"p{i} works_in d{i % 3}")
    ]
    graph = named(*lines, *(f"p{i} knows p{(i + 3) % 60}" for i in range(60)))
    found = audit(graph, epochs=2, folds=2, max_plausibility=1, count=len(graph)).to_polars()
    reasons = found.filter(found["relation"] == "has_badge")["reason"]
    assert len(reasons) == 60
    assert not reasons.str.contains("was expected").any()


def reason_of(graph: KnowledgeGraph, fact: str, ranks: tuple[int, int] = (1, 1)) -> str:
    """The reason against a fact if the same entity is at either end of the others."""
    (ids,) = [
        [graph.entities.index(row["head"]), graph.relations.index(row["relation"]), graph.entities.index(row["tail"])]
        for row in named(fact).to_polars().to_dicts()
    ]
    return _Reasons(graph).of(np.array(ids, np.int64), np.array(ranks), np.array([NO_BETTER, NO_BETTER]))


def test_what_a_rule_supports_is_not_called_unsupported() -> None:
    graph = named(*(f"a{i} near b{i}" for i in range(8)), *(f"b{i} close_to a{i}" for i in range(6)), "odd out one")
    supported = reason_of(graph, "a0 near b0")
    assert supported.startswith("no specific contradiction was found, and a rule supports it: b0 close_to a0")
    assert supported.endswith("(5 of 6 such pairs agree)"), "without the fact itself"
    assert reason_of(graph, "odd out one") == "little else in the graph supports it"
    few = named(*(f"a{i} near b{i}" for i in range(8)), *(f"b{i} close_to a{i}" for i in range(3)))
    assert reason_of(few, "a0 near b0") == "little else in the graph supports it", "3 pairs are too few"


def test_a_fact_whose_inverse_is_known_says_so() -> None:
    facts = [line for i in range(20) for line in (f"work{i} shown_at show{i % 4}", f"show{i % 4} includes work{i}")]
    reason = reason_of(named(*facts), "work3 shown_at show3")
    assert reason.endswith("; (show3, includes, work3) is known and states the same")
    assert "states the same" not in reason_of(named(*facts, "work3 shown_at show1"), "work3 shown_at show1")


def cited(wrong: bool) -> tuple[KnowledgeGraph, np.ndarray, np.ndarray]:
    """Random citations, each with its inverse; whether the inverse of a fact [E] is known, and whether it is wrong."""
    rng = np.random.default_rng(0)
    pairs = sorted({(int(a), int(b)) for a, b in rng.integers(40, size=(160, 2))})
    cites, back = {(f"a{a}", "cites", f"b{b}") for a, b in pairs}, {(f"b{b}", "is_cited_by", f"a{a}") for a, b in pairs}
    errors = set()
    for a, b in pairs[::20] if wrong else ():
        new = next(c for c in rng.permutation(40).tolist() if (a, c) not in pairs)
        cites = cites - {(f"a{a}", "cites", f"b{b}")} | {(f"a{a}", "cites", f"b{new}")}
        errors.add((f"a{a}", "cites", f"b{new}"))
    graph = named(*sorted(" ".join(fact) for fact in cites | back))
    facts = list(graph.to_polars().iter_rows())
    other = {"cites": "is_cited_by", "is_cited_by": "cites"}
    known = np.array([(tail, other[relation], head) in cites | back for head, relation, tail in facts])
    return graph, known, np.array([fact in errors for fact in facts])


@pytest.mark.parametrize("folds", [2, 10])
def test_a_fact_is_not_hidden_with_its_inverse_or_duplicate(folds: int) -> None:
    graph, _, _ = cited(wrong=False)
    order = hiding_order(graph, 0)
    assert np.array_equal(np.sort(order), np.arange(len(graph)))
    assert not np.array_equal(order, hiding_order(graph, 1))
    for number in range(folds):
        ends = np.sort(graph.triplets[order[number::folds]][:, [0, 2]], axis=1)
        assert len(np.unique(ends, axis=0)) == len(ends)


def test_a_known_inverse_supports_a_fact() -> None:
    graph, known, errors = cited(wrong=True)
    log_odds = audit(graph, epochs=20, again=True).log_odds
    assert errors.sum() == 8
    assert (log_odds[known] > 0).all(), "nothing but the inverse says that it is right"
    assert (log_odds[errors] < 0).all()


def test_reasons_are_grammatical_for_any_name() -> None:
    lines = [line for i in range(30) for line in (f"album{i} by band{i}", f"band{i} in town{i % 3}")]
    graph = named(*lines, *(f"album{i} year y{i % 5}" for i in range(30)), "band3 by album3", "album5 by band6")
    assert reason_of(graph, "band3 by album3") == (
        "the inverse is known too, and in 30 of 32 facts 'by' goes one way; band3 has kind 'head of in', and 97% of "
        "the heads have kind 'head of by'; album3 has kind 'head of by', and 97% of the tails have kind 'head of in'"
    )
    assert "30 of 31 heads of 'by' have one tail, but album5 also has band5" in reason_of(graph, "album5 by band6")
    ids = np.array([graph.entities.index("album7"), graph.relations.index("by"), graph.entities.index("band7")])
    other = np.array([graph.entities.index("town1"), NO_BETTER])
    reasons = _Reasons(graph)
    reasons.functional[:] = False
    assert reasons.of(ids, np.array([1234, 1]), other) == "town1 was expected as tail, band7 has rank 1,234 of 68"


def test_settings_are_checked() -> None:
    with pytest.raises(SettingError, match="folds"):
        audit(staff(), folds=1)
    with pytest.raises(DataError, match="at least 20 facts"):
        audit(named("a r b", "b r c"), folds=10)


def test_a_fact_is_compared_with_unknown_ones_of_its_kind_and_not_with_itself() -> None:
    graph = staff()
    kinds = entity_kinds(graph)
    model = fit_complex(graph, config=ComplExConfig(rank=4, epochs=3))
    encoded = model.encode(graph)
    false = corrupted(graph, graph.triplets[::7], kinds, np.random.default_rng(0))[0]
    facts = np.concatenate([graph.triplets[::5].astype(np.int64), false])
    found = _among_their_kind(graph, kinds, model, encoded, facts)
    for (head, relation, tail), score, relative, better in zip(facts, *found, strict=True):
        others = [
            other
            for other in range(graph.num_entities)
            if kinds.of_entity[other] == kinds.of_entity[tail]
            and not (other == tail or graph.contains(np.array([head, relation, other])))
        ]
        scores = model.score_triplets(encoded, torch.tensor([[head, relation, e] for e in [tail, *others]]))
        assert score == pytest.approx(float(scores[0]), abs=1e-5)
        assert relative == pytest.approx(float(scores[0] - scores.logsumexp(0)), abs=1e-4)
        assert better == pytest.approx(np.log1p(float((scores[1:] > scores[0]).sum())))
    known = _among_their_kind(graph.union(graph.with_triplets(false[:1])), kinds, model, encoded, false[:1])
    assert np.allclose(known[:, 0], found[:, len(graph.triplets[::5])]), "known or not, it is the same"


def test_what_was_found_serves_with_as_much_time_or_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    graph = cited(wrong=True)[0]
    found = audit(graph, minutes=0.02, folds=2)
    with monkeypatch.context() as patched:
        patched.setattr(plausibility, "fit_complex", None)  # nothing is fitted again
        for minutes in (0.02, 0.01):
            assert np.array_equal(audit(graph, minutes=minutes, folds=2).log_odds, found.log_odds)
        for other in ({"minutes": 0.03}, {"epochs": 1}, {"minutes": 0.02, "seed": 1}, {"minutes": 0.02, "again": True}):
            with pytest.raises(TypeError):
                audit(graph, folds=2, **other)
    longer = audit(graph, minutes=0.03, folds=2)
    assert np.array_equal(audit(graph, minutes=0.02, folds=2).log_odds, longer.log_odds), "the longer one"


def test_folds_are_kept_until_the_result_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(plausibility, "_judged", stop)
        with pytest.raises(KeyboardInterrupt):
            audit(staff(), epochs=1, folds=2)
    monkeypatch.setattr(plausibility, "fit_complex", None)  # nothing is fitted again
    assert audit(staff(), epochs=1, folds=2).doubtful >= 0
