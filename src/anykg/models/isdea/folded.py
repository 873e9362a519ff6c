"""What powers of the normalised adjacency make of an all-ones vector: a few scalars for each entity and relation.

Every triplet (u, k, v), inverses included, puts 1 / sqrt(deg(u) deg(v)) at row u, column v of A_k; A is their sum over
the 2R relations. deg counts distinct neighbours in the undirected simple graph, a self-loop twice. With T hops:

    entity [N, T + 1]:       1, A 1, ..., A^T 1
    pair   [N, 2R, T]:       A_k 1, A A_k 1, ..., A^(T-1) A_k 1

Linear message passing from all-ones states, one relation apart from the others, stays in the span of these. Products
run in float64 over blocks of `BLOCK` relations; what is kept is float32, 8 N R T bytes for the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from anykg.graph.graph import KnowledgeGraph

BLOCK = 32
"""Relations whose columns are multiplied at once."""


@dataclass(frozen=True, eq=False)
class FoldedScalars:
    """The scalars of one graph."""

    entity: Tensor  # [N, T + 1]
    pair: Tensor  # [N * 2R, T]; row i * 2R + k belongs to (entity i, relation k)


@dataclass(frozen=True, eq=False)
class NormalisedEdges:
    """Every triplet and its inverse, from the entity that gathers to the one gathered from, by (target, relation)."""

    target: np.ndarray  # [2E]
    relation: np.ndarray  # [2E], below 2R
    source: np.ndarray  # [2E]
    weight: np.ndarray  # [2E], 1 / sqrt(deg deg), float64
    offsets: np.ndarray  # [N + 1]: the edges of target i are offsets[i]:offsets[i + 1]


def folded_scalars(graph: KnowledgeGraph, hops: int) -> FoldedScalars:
    """The scalars of `graph` for T = hops, computed once."""
    return graph.derive(_folded_scalars, hops)


def normalised_edges(graph: KnowledgeGraph) -> NormalisedEdges:
    """The nonzeros of all A_k, computed once."""
    return graph.derive(_normalised_edges)


def _folded_scalars(graph: KnowledgeGraph, hops: int) -> FoldedScalars:
    n, kinds = graph.num_entities, 2 * graph.num_relations
    edges = normalised_edges(graph)
    whole = sparse.csr_array((edges.weight, (edges.target, edges.source)), shape=(n, n))
    first = sparse.csc_array((edges.weight, (edges.target, edges.relation)), shape=(n, kinds))  # A_k 1 in column k
    entity = np.ones((n, hops + 1))
    for hop in range(hops):
        entity[:, hop + 1] = whole @ entity[:, hop]
    pair = np.empty((n, kinds, hops), np.float32)
    for start in range(0, kinds, BLOCK):
        block = first[:, start : start + BLOCK].toarray()
        for hop in range(hops):
            pair[:, start : start + BLOCK, hop] = block
            if hop + 1 < hops:
                block = whole @ block
    return FoldedScalars(
        torch.from_numpy(entity.astype(np.float32)),
        torch.from_numpy(pair.reshape(n * kinds, hops)),  # [N, 2R, T] -> [N * 2R, T]
    )


def _normalised_edges(graph: KnowledgeGraph) -> NormalisedEdges:
    triplets = graph.with_inverses()
    triplets = triplets[np.lexsort((triplets[:, 2], triplets[:, 1], triplets[:, 0]))].astype(np.int64)
    target, relation, source = triplets.T
    degree = _degrees(graph).astype(np.float64)
    return NormalisedEdges(
        target,
        relation,
        source,
        1.0 / np.sqrt(degree[target] * degree[source]),
        np.searchsorted(target, np.arange(graph.num_entities + 1)),
    )


def _degrees(graph: KnowledgeGraph) -> np.ndarray:
    """Distinct neighbours [N] in the undirected simple graph; an entity linked to itself counts two."""
    ends = np.unique(np.sort(graph.triplets[:, [0, 2]], axis=1), axis=0)
    return np.bincount(ends.ravel(), minlength=graph.num_entities)
