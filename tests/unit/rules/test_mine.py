"""Mining against the matcher, which is tested against the definition; and the null it is compared with."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.rules.clause import Clause, parse
from anykg.rules.ground import best_groundings, rule_table
from anykg.rules.match import implied
from anykg.rules.mine import Measured, measure, mine, shuffled
from anykg.rules.shapes import shapes
from graphs import graphs, named, random_graph


def counts(measured: list[Measured]) -> dict[Clause, tuple[int, int, int]]:
    return {m.clause.canonical(): (m.implied, m.support, m.partial) for m in measured}


@settings(max_examples=12, deadline=None)
@given(graphs(max_entities=7, max_relations=3, min_triplets=10))
def test_counts_are_those_of_the_matcher(graph: KnowledgeGraph) -> None:
    found = mine(graph, length=2, nulls=0)
    assert counts(found) == counts(measure([m.clause for m in found], graph))


def test_counts_of_three_steps_are_those_of_the_matcher() -> None:
    for seed in range(2):
        graph = random_graph(8, 4, 26, seed)
        found = [m for m in mine(graph, nulls=0) if len(m.clause.body) == 3 and m.family == "path"]
        assert len(found) == 120
        assert counts(found) == counts(measure([m.clause for m in found], graph))


def test_shapes_are_different_and_complete() -> None:
    found = [shape.clause.canonical() for shape in shapes(3)]
    assert len(set(found)) == len(found)
    assert sum(s.family == "path" for s in shapes(3)) == 3 + 20 + 120
    figures = (
        "(E1, C2, E3) & (E3, C1, E2) => (E1, C1, E2)",
        "(E1, C2, E3) & (E3, C3, E2) & (E4, C2, E5) & (E5, C3, E6) & (E4, C1, E6) => (E1, C1, E2)",
    )
    assert {parse(text).canonical() for text in figures} <= set(found)
    assert not any(shape.clause.is_tautology for shape in shapes(3))


@settings(max_examples=15, deadline=None)
@given(graphs(max_entities=10, max_relations=3, min_triplets=12), st.integers(0, 2**31))
def test_mining_ignores_names(graph: KnowledgeGraph, seed: int) -> None:
    random = np.random.default_rng(seed)
    renamed = graph.relabel(random.permutation(graph.num_entities), random.permutation(graph.num_relations))
    assert counts(mine(graph, length=2, nulls=0)) == counts(mine(renamed, length=2, nulls=0))


@settings(max_examples=25, deadline=None)
@given(graphs(min_triplets=8), st.integers(0, 1000))
def test_the_null_keeps_degrees(graph: KnowledgeGraph, seed: int) -> None:
    other = shuffled(graph, seed)
    assert len(other) == len(graph)
    for ends in ([0, 1], [1, 2]):
        before, after = (np.unique(g.triplets[:, ends], axis=0, return_counts=True) for g in (graph, other))
        np.testing.assert_array_equal(before[0], after[0])
        np.testing.assert_array_equal(before[1], after[1])


def test_the_null_moves_facts_and_tells_structure_from_chance() -> None:
    random = np.random.default_rng(0)
    pairs = random.integers(60, size=(150, 2))
    lines = [f"e{h} r e{t}" for h, t in pairs] + [f"e{t} r e{h}" for h, t in pairs]  # symmetric, otherwise random
    lines += [f"e{h} s e{t}" for h, t in random.integers(60, size=(150, 2))]
    graph = named(*lines)
    assert graph.contains(shuffled(graph, 0).triplets).mean() < 0.3
    found = {str(m.clause): m for m in mine(graph, length=1, nulls=9)}
    symmetric, parallel = found["(E2, C1, E1) => (E1, C1, E2)"], found["(E1, C2, E2) => (E1, C1, E2)"]
    assert symmetric.null is not None
    assert parallel.null is not None
    assert symmetric.null.z > 10
    assert symmetric.null.p == pytest.approx(0.1)
    assert abs(parallel.null.z) < 4
    assert mine(graph, length=1, nulls=2) == mine(graph, length=1, nulls=2)


def test_an_interrupted_mining_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anykg.rules.mine.CHUNK", 5)
    graph, file = random_graph(20, 3, 60, 1), tmp_path / "deep" / "rules.json"
    whole = mine(graph, nulls=2, null_heads=7)
    counted: list[tuple[int, int]] = []

    def stop_at(limit: float) -> Callable[[int, int], None]:
        def progress(done: int, total: int) -> None:
            counted.append((done, total))
            if done / total > limit:
                raise KeyboardInterrupt

        return progress

    for limit in (0.3, 0.6, 0.9):  # within the graph itself, and within shuffled ones
        with pytest.raises(KeyboardInterrupt):
            mine(graph, nulls=2, null_heads=7, progress=stop_at(limit), checkpoint=file)
        before = json.loads(file.read_text())["parts"]
        assert 0 < sum(part["done"] for part in before.values()) <= counted[-1][0]
    counted.clear()
    assert mine(graph, nulls=2, null_heads=7, progress=stop_at(1), checkpoint=file) == whole
    assert counted[-1][0] == counted[-1][1]
    assert not file.exists()


def test_a_checkpoint_of_another_graph_or_a_damaged_one_is_ignored(tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    file = tmp_path / "rules.json"
    for seed, damage in ((1, False), (2, False), (2, True)):
        graph = random_graph(12, 3, 40, seed)
        assert mine(graph, length=2, nulls=0, checkpoint=file) == mine(graph, length=2, nulls=0)
        with pytest.raises(KeyboardInterrupt):
            mine(graph, length=2, nulls=0, progress=interrupt, checkpoint=file)
        assert file.exists()
        if damage:
            file.write_text('{"owner": ', encoding="utf-8")
            assert mine(graph, length=2, nulls=0, checkpoint=file) == mine(graph, length=2, nulls=0)


def test_groundings_count_pairs() -> None:
    graph = random_graph(12, 3, 70, 4)
    facts = {tuple(t) for t in graph.triplets.tolist()}
    for rule in best_groundings(graph, 2, min_support=1, count=None):
        pairs = _pairs(rule.clause, rule.relations, facts)
        head = rule.relations[0]
        assert rule.body == len(pairs)
        assert rule.support == sum((h, head, t) in facts for h, t in pairs)
        assert rule.partial == sum(any(f[:2] == (h, head) for f in facts) for h, t in pairs)


def test_every_implied_fact_is_a_grounding() -> None:
    graph = random_graph(12, 3, 70, 5)
    for length in (1, 2):
        rules = rule_table(graph, length)
        clauses = {rules.shape(rule)[0] for rule in range(len(rules.heads))}
        for shape in shapes(length):
            if shape.family == "path" and shape.length == length:
                assert graph.contains(implied(shape.clause, graph)).any() == (shape.clause in clauses)


def test_groundings_have_names() -> None:
    graph = named("a wed b", "b in x", "a in x", "c wed d", "d in y", "c in y")
    best = best_groundings(graph, 2, min_support=2)
    assert "(E1, 'wed', E3) & (E3, 'in', E2) => (E1, 'in', E2)" in [rule.text(graph) for rule in best]


def test_empty_and_wrong_input() -> None:
    empty = random_graph(3, 2, 4).subset(np.zeros(0, int))
    assert all(m.support == 0 for m in mine(empty, length=2))
    with pytest.raises(ConfigError, match="length: expected 1 to 3, found 4"):
        mine(empty, length=4)


def _pairs(clause: Clause, relations: tuple[int, ...], facts: set[tuple[int, ...]]) -> set[tuple[int, int]]:
    """The ends of every path of a rule, one step at a time."""
    found = set()
    steps = [(a, relations[a.relation]) for a in clause.body]
    for e1 in range(12):
        for e2 in range(12):
            for e3 in range(12) if clause.num_entities == 3 else [-1]:
                values = (e1, e2, e3)
                if len(set(values)) == 3 and all((values[a.head], r, values[a.tail]) in facts for a, r in steps):
                    found.add((e1, e2))
    return found
