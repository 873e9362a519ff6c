"""The folded scalars are what dense powers of the adjacency say, whatever the block size."""

import numpy as np
import pytest
import torch

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.models.isdea import folded


def random_graph(seed: int, entities: int = 9, relations: int = 4, triplets: int = 30) -> KnowledgeGraph:
    random = np.random.default_rng(seed)
    rows = random.integers(0, [entities, relations, entities], size=(triplets, 3))
    names = (Vocabulary(kind, [f"{kind}{i}" for i in range(n)]) for kind, n in (("e", entities), ("r", relations)))
    return KnowledgeGraph(rows, *names)


def dense_adjacencies(graph: KnowledgeGraph) -> np.ndarray:
    """A_k [2R, N, N], written plainly."""
    n = graph.num_entities
    linked = np.zeros((n, n))
    for head, _, tail in graph.triplets:
        linked[head, tail] = linked[tail, head] = 1
    degree = linked.sum(1) + np.diag(linked)
    dense = np.zeros((2 * graph.num_relations, n, n))
    for head, relation, tail in graph.with_inverses():
        dense[relation, head, tail] = 1 / np.sqrt(degree[head] * degree[tail])
    return dense


@pytest.mark.parametrize("seed", range(3))
def test_scalars_are_dense_powers(seed: int) -> None:
    graph = random_graph(seed)
    kinds = dense_adjacencies(graph)
    whole = kinds.sum(0)
    scalars = folded.folded_scalars(graph, 3)
    ones = np.ones(graph.num_entities)
    entity = np.stack([np.linalg.matrix_power(whole, t) @ ones for t in range(4)], axis=1)
    pair = np.stack([np.linalg.matrix_power(whole, t) @ (kinds @ ones).T for t in range(3)], axis=2)  # [N, 2R, T]
    np.testing.assert_allclose(scalars.entity, entity, rtol=1e-5)
    np.testing.assert_allclose(scalars.pair, pair.reshape(-1, 3), rtol=1e-5, atol=1e-7)


def test_a_self_loop_counts_twice() -> None:
    graph = KnowledgeGraph.from_names(["a", "a"], ["r", "r"], ["a", "b"])
    edges = folded.normalised_edges(graph)
    loop = edges.weight[(edges.target == 0) & (edges.source == 0)]
    np.testing.assert_allclose(loop, 1 / 3)


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = folded.folded_scalars(random_graph(5), 3)
    monkeypatch.setattr(folded, "BLOCK", 3)
    found = folded.folded_scalars(random_graph(5), 3)
    assert torch.equal(found.pair, expected.pair)


def test_an_empty_graph_has_scalars() -> None:
    scalars = folded.folded_scalars(random_graph(0, triplets=0), 2)
    assert scalars.entity[:, 0].eq(1).all()
    assert scalars.pair.eq(0).all()
