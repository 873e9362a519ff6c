"""Distances against Floyd and Warshall on the graph from which the facts have really been taken out."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anykg.errors import ConfigError, DataError
from anykg.graph import distances
from anykg.graph.distances import adjacency, triplet_distances
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary


def make(triplets: list[tuple[int, int, int]], entities: int, relations: int = 2) -> KnowledgeGraph:
    return KnowledgeGraph(
        np.array(triplets, np.int32).reshape(-1, 3),
        Vocabulary("entity", [f"e{i}" for i in range(entities)]),
        Vocabulary("relation", [f"r{i}" for i in range(relations)]),
    )


def floyd_warshall(triplets: np.ndarray, entities: int, directed: bool) -> np.ndarray:
    far = 10**6
    table = np.full((entities, entities), far)
    for head, _, tail in triplets:
        table[head, tail] = 1
        if not directed:
            table[tail, head] = 1
    np.fill_diagonal(table, 0)
    for middle in range(entities):
        table = np.minimum(table, table[:, [middle]] + table[[middle], :])
    return np.where(table >= far, -1, table)


def expected(graph: KnowledgeGraph, row: tuple[int, int, int], directed: bool, leave_out: str) -> list[int]:
    head, relation, tail = row
    fact = (head, relation, tail) if relation < graph.num_relations else (tail, relation - graph.num_relations, head)
    ends = graph.triplets[:, [0, 2]]
    if leave_out == "triplet":
        gone = (graph.triplets == fact).all(axis=1)
    else:
        gone = (ends == (head, tail)).all(axis=1) | (ends == (tail, head)).all(axis=1)
    table = floyd_warshall(graph.triplets[~gone], graph.num_entities, directed)
    return [int(table[head, tail]), int(table[tail, head])]


@st.composite
def graphs(draw: st.DrawFn) -> KnowledgeGraph:
    entities = draw(st.integers(2, 6))
    ids = st.integers(0, entities - 2)  # the last entity stays alone
    triplets = draw(st.lists(st.tuples(ids, st.integers(0, 1), ids), max_size=15))
    return make(triplets, entities)


def every_row(graph: KnowledgeGraph) -> np.ndarray:
    shape = (graph.num_entities, 2 * graph.num_relations, graph.num_entities)
    return np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)


@pytest.mark.parametrize("path", ["table", "search", "search, then table"])
@pytest.mark.parametrize("leave_out", ["triplet", "pair"])
@pytest.mark.parametrize("directed", [True, False])
@settings(max_examples=15, deadline=None)
@given(graph=graphs())
@example(graph=make([(0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 0, 2), (2, 1, 3), (3, 0, 0), (4, 0, 4)], 6))
def test_equals_brute_force(path, leave_out, directed, graph):
    rows = every_row(graph)
    exact = np.array([expected(graph, tuple(row), directed, leave_out) for row in rows.tolist()])
    with pytest.MonkeyPatch.context() as patch:
        if path != "table":
            patch.setattr(distances, "TABLE_BYTES", 0)
            patch.setattr(distances, "BLOCK_BYTES", 3 * graph.num_entities)
        if path == "search":
            patch.setattr(distances, "LARGE_TABLE_BYTES", 0)
            patch.setattr(distances, "_table", None)
        for limit in (None, 0, 1, 2, 3, None):
            wanted = exact if limit is None else np.where(exact > limit, -1, exact)
            for part in (rows[:, 0] >= 0, rows[:, 0] == 0, rows[:, 2] == 0):  # all, few heads, few tails
                found = triplet_distances(graph, rows[part], directed=directed, leave_out=leave_out, limit=limit)
                assert found.dtype == np.int32
                np.testing.assert_array_equal(found, wanted[part])


def test_a_known_graph():
    graph = make([(0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 0, 2), (2, 0, 0), (3, 0, 3)], 4)
    rows = np.array([(0, 0, 1), (1, 0, 0), (0, 2, 1), (0, 3, 1), (1, 0, 2), (3, 0, 3), (0, 0, 3)])
    found = triplet_distances(graph, rows, directed=True, leave_out="triplet")
    # (0, 2, 1) asks about (1, 0, 0); (0, 3, 1) about (1, 1, 0), which is no fact
    assert found.tolist() == [[1, 1], [2, 1], [1, 2], [1, 1], [-1, 2], [0, 0], [-1, -1]]
    found = triplet_distances(graph, rows, directed=True, leave_out="pair")
    assert found.tolist() == [[-1, 2], [2, -1], [-1, 2], [-1, 2], [-1, 2], [0, 0], [-1, -1]]
    found = triplet_distances(graph, rows, directed=False, leave_out="pair", limit=1)
    assert found.tolist() == [[-1, -1]] * 5 + [[0, 0], [-1, -1]]


@pytest.mark.parametrize("budget", [0, 2**20])
def test_distances_above_254(monkeypatch, budget):
    monkeypatch.setattr(distances, "TABLE_BYTES", budget)
    ring = make([(i, 0, (i + 1) % 400) for i in range(400)], 400, 1)
    found = triplet_distances(ring, np.array([(0, 0, 399), (0, 0, 1)]), directed=True, leave_out="triplet")
    assert found.tolist() == [[399, 1], [-1, 399]]
    found = triplet_distances(ring, np.array([(0, 0, 1)]), directed=False, leave_out="triplet")
    assert found.tolist() == [[399, 399]]


def test_a_graph_that_is_searched_often_gets_a_table(monkeypatch):
    monkeypatch.setattr(distances, "TABLE_BYTES", 0)
    ring = make([(i, 0, (i + 1) % 8) for i in range(8)], 8, 1)
    for asked in range(4):  # two searches each: 8 are as many as a table takes
        assert distances.distance_table(ring, directed=True) is None
        triplet_distances(ring, np.array([(asked, 0, 7)]), directed=True, leave_out="triplet")
    assert distances.distance_table(ring, directed=True).shape == (8, 8)
    assert distances.distance_table(ring, directed=False) is None


def test_limits_do_not_share_detours():
    square = make([(0, 0, 1), (1, 0, 2), (2, 0, 3), (3, 0, 0)], 4)
    row = np.array([(0, 0, 1)])
    near = triplet_distances(square, row, directed=False, leave_out="pair", limit=2)
    far = triplet_distances(square, row, directed=False, leave_out="pair")
    assert (near.tolist(), far.tolist()) == ([[-1, -1]], [[3, 3]])


def test_adjacency_counts_facts_and_drops_self_loops():
    graph = make([(0, 0, 1), (0, 1, 1), (1, 0, 0), (2, 0, 2)], 3)
    for direction, neighbours, counts in (("out", [1, 0], [2, 1]), ("in", [1, 0], [1, 2]), ("both", [1, 0], [3, 3])):
        edges = adjacency(graph, direction)
        assert edges.offsets.tolist() == [0, 1, 2, 2]
        assert (edges.neighbours.tolist(), edges.counts.tolist()) == (neighbours, counts)


def test_empty_inputs():
    empty = make([], 3)
    assert triplet_distances(empty, np.empty((0, 3)), directed=True, leave_out="pair").shape == (0, 2)
    assert triplet_distances(empty, np.array([(0, 0, 1)]), directed=True, leave_out="pair").tolist() == [[-1, -1]]


def test_wrong_inputs_are_refused():
    graph = make([(0, 0, 1)], 2)
    with pytest.raises(DataError, match=r"\[B, 3\]"):
        triplet_distances(graph, np.zeros((2, 2)), directed=True, leave_out="pair")
    with pytest.raises(DataError, match="0 to 1, found 2"):
        triplet_distances(graph, np.array([(0, 0, 2)]), directed=True, leave_out="pair")
    with pytest.raises(DataError, match="0 to 1, found -1"):
        triplet_distances(graph, np.array([(-1, 0, 1)]), directed=True, leave_out="pair")
    with pytest.raises(ConfigError, match="found -3"):
        triplet_distances(graph, np.array([(0, 0, 1)]), directed=True, leave_out="pair", limit=-3)
