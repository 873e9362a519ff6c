"""What Bellman-Ford models share: queries grouped, blocks that fit the cache, and the edges a batch may not see.

A query is (head, relation): its relation may be an inverse, r + R. One pass over the graph answers a query for every
tail, so equal queries are asked once, and triplets are scored by reading the states of their tails.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.models.nbf.edges import RelationalEdges
from anykg.models.nbf.fast import propagate
from anykg.models.nbf.reference import Layer, Queries

CACHE_BYTES = 16 * 2**20
"""States of the queries that are answered together; a block of this size stays in the processor's cache."""


class BellmanFordLayer(nn.Module):
    """The parameters of x <- x + ReLU(LayerNorm(Linear([x, aggregate])))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(2 * width, width)
        self.norm = nn.LayerNorm(width)

    def with_weights(self, weights: Tensor) -> Layer:
        """The layer for relation vectors [U, K, D]."""
        return Layer(weights, self.linear.weight, self.linear.bias, self.norm.weight, self.norm.bias)


def bellman_ford(layers: nn.ModuleList) -> list[BellmanFordLayer]:
    """The layers with their type, which a module list forgets."""
    return [layer for layer in layers if isinstance(layer, BellmanFordLayer)]


class RelationalNetwork(nn.Module):
    """Bellman-Ford layers over the facts, whose weights are an MLP of the relations' vectors, one for each layer."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(BellmanFordLayer(width) for _ in range(depth))
        self.relations = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)) for _ in range(depth)
        )

    def states(
        self,
        vectors: Tensor,
        queries: Queries,
        edges: RelationalEdges,
        *,
        start: Tensor | None = None,
        keep: np.ndarray | None = None,
        edge_weights: Tensor | None = None,
        targets: Tensor | None = None,
    ) -> Tensor:
        """States [B, N, D], or [M, D] at the targets, for relation vectors [U, 2R, D]; see `reference.propagate`."""
        layers = [
            layer.with_weights(project(vectors))
            for layer, project in zip(bellman_ford(self.layers), self.relations, strict=True)
        ]
        return propagate(layers, queries, edges, start=start, keep=keep, edge_weights=edge_weights, targets=targets)


Targets = tuple[Tensor, Tensor]
"""What is read of a block of queries: the place of a query [M] and an entity [M]."""


class BellmanFordPredictor(LinkPredictor):
    """A model that answers a query in one pass: equal queries once, in blocks, reading what is asked of each."""

    @abstractmethod
    def answers(self, encoded: Any, queries: Tensor, targets: Targets | None) -> Tensor:
        """Scores [Q, N] of queries [Q, 2], or [M] of the targets."""

    @abstractmethod
    def query_bytes(self, encoded: Any) -> int:
        """What one query's states take."""

    def score_tails(self, encoded: Any, heads: Tensor, relations: Tensor, candidates: Tensor | None = None) -> Tensor:
        if candidates is not None:
            return super().score_tails(encoded, heads, relations, candidates)
        queries, which, _ = group(torch.stack([heads, relations, heads], dim=1))
        parts = [
            self.answers(encoded, queries[part], None) for part in blocks(len(queries), self.query_bytes(encoded))
        ]  # each [B', N]
        scores = torch.cat(parts) if parts else heads.new_zeros(0, encoded.num_entities, dtype=torch.float32)
        return scores if len(which) == len(queries) and bool((which.diff() > 0).all()) else scores[which]

    def edge_relevance(self, graph: KnowledgeGraph, triplet: Tensor) -> Tensor | None:
        """The gradient of the score with respect to a factor of 1 on every message, as NBFNet's authors do."""
        layers = getattr(self.config, "entity_layers", None) or self.config.layers
        factors = torch.ones(layers, 2 * len(graph), device=triplet.device, requires_grad=True)
        with torch.enable_grad():
            encoded = replace(self.encode(graph), edge_weights=factors)
            (gradient,) = torch.autograd.grad(self.score_triplets(encoded, triplet[None]).sum(), factors)
        return gradient

    def score_triplets(self, encoded: Any, triplets: Tensor) -> Tensor:
        queries, which, nodes = group(triplets)
        order = which.argsort(stable=True)
        bounds = torch.searchsorted(which[order], torch.arange(len(queries) + 1, device=which.device))
        parts = []
        for part in blocks(len(queries), self.query_bytes(encoded)):
            mine = order[bounds[part.start] : bounds[part.stop]]
            parts.append(self.answers(encoded, queries[part], (which[mine] - part.start, nodes[mine])))
        scores = torch.cat(parts) if parts else triplets.new_zeros(0, dtype=torch.float32)
        return scores[order.argsort()]


def at_least_one(settings: object, *names: str) -> None:
    """Refuse settings that must be 1 or more and are not."""
    for name in names:
        if getattr(settings, name) < 1:
            raise ConfigError(f"Expected {name} of at least 1, found {getattr(settings, name)}.")


class Grouped(NamedTuple):
    """Distinct queries and what is read of each."""

    queries: Tensor  # int64 [Q, 2]: head, relation; sorted by relation
    which: Tensor  # int64 [M]: the query of a triplet
    nodes: Tensor  # int64 [M]: its tail


def group(triplets: Tensor) -> Grouped:
    """The distinct queries of triplets [M, 3]."""
    queries, which = torch.unique(triplets[:, [1, 0]], dim=0, return_inverse=True)
    return Grouped(queries.flip(1), which, triplets[:, 2])


def blocks(count: int, row_bytes: int) -> Iterator[slice]:
    """Cut `count` queries of `row_bytes` each into blocks of about CACHE_BYTES and equal length."""
    size = max(1, CACHE_BYTES // max(row_bytes, 1))
    number = -(-count // size)
    for index in range(number):
        yield slice(count * index // number, count * (index + 1) // number)


def as_queries(rows: Tensor, num_relations: int) -> Tensor:
    """Training rows [B, 1 + K, 3] as triplets [B * (1 + K), 3] whose query a target and its negatives share.

    Where a target's heads vary and its tails do not, the rows are told from the other end: (tail, r + R, head).
    """
    varies = (rows != rows[:, :1]).any(dim=1)  # [B, 3]
    turned = varies[:, 0] & ~varies[:, 2]
    relations = rows[..., 1]
    inverse = torch.where(relations < num_relations, relations + num_relations, relations - num_relations)
    flipped = torch.stack([rows[..., 2], inverse, rows[..., 0]], dim=-1)
    return torch.where(turned[:, None, None], flipped, rows).reshape(-1, 3)


def without_facts(graph: KnowledgeGraph, targets: np.ndarray) -> np.ndarray:
    """Bool [2E] over `graph.with_inverses()`: False for the targets [B, 3] and their inverses."""
    keys = graph.derive(_keys)
    inverse = targets[:, 1] >= graph.num_relations
    direct = np.where(inverse[:, None], graph.inverted(targets), targets)
    wanted = _key(graph, direct)
    keep = np.ones(2 * graph.num_triplets, bool)
    if len(keys):
        places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        places = places[keys[places] == wanted]
        keep[places] = keep[places + graph.num_triplets] = False
    return keep


def _keys(graph: KnowledgeGraph) -> np.ndarray:
    """One sorted number per triplet: they are sorted by head, relation and tail already."""
    return _key(graph, graph.triplets)


def _key(graph: KnowledgeGraph, triplets: np.ndarray) -> np.ndarray:
    heads, relations, tails = triplets.T.astype(np.int64)
    keys: np.ndarray = (heads * graph.num_relations + relations) * graph.num_entities + tails
    return keys
