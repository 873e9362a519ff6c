"""Audits: a planted error is found and named."""

import numpy as np
import pytest

from anykg.answers.audit import audit
from anykg.answers.plausibility import corrupted
from anykg.errors import DataError, SettingError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.schema import entity_kinds
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
    found = audit(graph, count=10, minutes=0.15).to_polars().to_dicts()
    listed = {(row["head"], row["relation"], row["tail"]) for row in found}
    planted = {tuple(row) for row in wrong.to_polars().iter_rows()}
    assert planted <= listed
    assert all(row["reason"] for row in found)
    assert any("expected" in row["reason"] for row in found)


def test_settings_are_checked() -> None:
    with pytest.raises(SettingError, match="folds"):
        audit(staff(), folds=1)
    with pytest.raises(DataError, match="at least 20 facts"):
        audit(named("a r b", "b r c"), folds=10)
