"""Folded ISDEA+: powers of the normalised adjacency applied to ones, a few scalars for each entity and relation.

Every triplet (u, k, v), inverses included, puts 1 / sqrt(deg(u) deg(v)) at row u, column v of A_k; A is their sum over
the 2R relations. deg counts distinct neighbours in the undirected simple graph, a self-loop twice. With T hops:

    entity [N, T + 1]:       1, A 1, ..., A^T 1
    pair   [N, 2R, T]:       A_k 1, A A_k 1, ..., A^(T-1) A_k 1

Linear message passing from all-ones states, one relation apart from the others, stays in the span of these. So with
the GCN kernel the states s^0..s^T of `reference.py` are these scalars times small coefficient matrices, which `fold`
computes from the model's maps: a training step does not touch the graph, and the function is the same.

Products run in float64 over blocks of `BLOCK` relations; what is kept is float32, 8 N R T bytes for the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from anykg.graph.graph import KnowledgeGraph

if TYPE_CHECKING:
    from anykg.models.isdea.isdea import ISDEA

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


def first_layers(model: ISDEA, graph: KnowledgeGraph, entities: Tensor, relations: Tensor) -> Tensor:
    """The first layer [2, P, hidden] of both streams' MLPs, before tanh, of pairs (entities [P], relations [P])."""
    first = torch.bmm(fold(model, moves(model, graph.num_relations)), model.weights["streams.weight.0"])
    rows = scalars_of(graph, model.config.layers, entities, relations).to(model.self_bias)  # [P, 2T + 1]
    return torch.baddbmm(model.weights["streams.bias.0"], rows.expand(2, -1, -1), first)


def scalars_of(graph: KnowledgeGraph, hops: int, entities: Tensor, relations: Tensor) -> Tensor:
    """1, A 1, .., A^T 1, A_k 1, .., A^(T-1) A_k 1 of pairs: [P, 2T + 1]."""
    scalars = folded_scalars(graph, hops)
    pairs = entities * (2 * graph.num_relations) + relations
    return torch.cat([scalars.entity[entities.cpu()], scalars.pair[pairs.cpu()]], dim=1)


def moves(model: ISDEA, num_relations: int) -> Tensor:
    """The action of a hop on the coefficients of the scalars: [first or later, stream, to, from].

    A later hop takes each scalar to its product with A; the first one takes 1 to A_k 1, or to A 1 - A_k 1, which the
    mean over the other relations divides by their number.
    """
    share = 1.0 if model.config.aggregation == "sum" else 1.0 / (2 * num_relations - 1)
    flat = model.weights.flat
    return _moves(model.config.layers, share, flat.dtype, flat.device)


def fold(model: ISDEA, moves: Tensor) -> Tensor:
    """The states s^0..s^T of each stream as coefficients of the scalars: [2, 2T + 1, (T + 1) D]."""
    now = model.self_bias.new_zeros(2, moves.shape[-1], model.config.width)
    now[:, 0] = 1.0
    seen = [now]
    for layer in range(model.config.layers):
        moved = torch.bmm(moves[min(layer, 1)], now)
        now = torch.bmm(now, model.self_weight[layer]) + torch.bmm(moved, model.hop_weight[layer])
        now = torch.cat([now[:, :1] + model.self_bias[layer][:, None], now[:, 1:]], dim=1)
        seen.append(now)
    return torch.cat(seen, dim=2)


@lru_cache(maxsize=64)
def _moves(layers: int, share: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    moves = torch.zeros(2, 2, 2 * layers + 1, 2 * layers + 1, dtype=dtype, device=device)
    moves[0, 0, layers + 1, 0] = 1.0
    moves[0, 1, 1, 0], moves[0, 1, layers + 1, 0] = share, -share
    later = [*range(layers), *range(layers + 1, 2 * layers)]
    moves[1, :, [c + 1 for c in later], later] = 1.0
    return moves


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
