"""Shared code of Bellman-Ford models: queries in groups and blocks, masks of hidden facts, cached vectors.

A query is (head, relation): its relation may be an inverse, r + R. One pass over the graph answers a query for every
tail, so equal queries are computed once, and triplets are scored by reading the states of their tails.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.models.nbf.fast import kernels_apply

KEPT_BYTES = 512 * 2**20
"""Relation vectors kept with an encoded graph; the oldest are dropped."""
BLOCK_BYTES = 64 * 2**20
"""States of the queries that are answered together. A layer reads one query's states after the other, so a block need
not fit into the processor's cache, and a large one shares the fixed costs of a layer."""


Targets = tuple[Tensor, Tensor]
"""The outputs read from a block of queries: the index of a query [M] and an entity [M]."""


class BellmanFordPredictor(LinkPredictor):
    """A model that answers a query in one pass: distinct queries are computed once, in blocks."""

    @abstractmethod
    def answers(self, encoded: Any, queries: Tensor, targets: Targets | None) -> Tensor:
        """Scores [Q, N] of queries [Q, 2], or [M] of the targets; `encoded.keep` masks edges in training."""

    def query_bytes(self, encoded: Any) -> int:
        """Bytes of one query's states before and after a layer, and an allowance for its messages without kernels."""
        width = self.config.width
        copies = 2 if kernels_apply(next(self.parameters()).new_empty(width)) else 8
        return copies * 4 * int(encoded.num_entities) * int(width)

    def score_tails(self, encoded: Any, heads: Tensor, relations: Tensor, candidates: Tensor | None = None) -> Tensor:
        if candidates is not None:
            return super().score_tails(encoded, heads, relations, candidates)
        queries, which, _ = group(torch.stack([heads, relations, heads], dim=1))
        parts = [
            self.answers(encoded, queries[part], None) for part in blocks(len(queries), self.query_bytes(encoded))
        ]  # each [B', N]
        scores = torch.cat(parts) if parts else heads.new_zeros(0, encoded.num_entities, dtype=torch.float32)
        return scores if len(which) == len(queries) and bool((which.diff() > 0).all()) else scores[which]

    def training_scores(self, graph: KnowledgeGraph, rows: Tensor, seed: int, targets: Tensor | None = None) -> Tensor:
        encoded = self.encode_without(graph, rows[:, 0] if targets is None else targets)
        queries, which, nodes = group(as_queries(rows, graph.num_relations))
        return self.answers(encoded, queries, (which, nodes)).view(rows.shape[:2])

    def training_tail_scores(self, graph: KnowledgeGraph, queries: Tensor, hidden: Tensor) -> Tensor:
        distinct, which = torch.unique(queries, dim=0, return_inverse=True)
        return self.answers(self.encode_without(graph, hidden), distinct, None)[which]

    def encode_without(self, graph: KnowledgeGraph, hidden: Tensor) -> Any:
        """The graph encoded for training, without the facts `hidden` [G, 3] and their inverses."""
        return replace(self.encode(graph), keep=without_facts(graph, hidden.cpu().numpy()))

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
    """Check that settings are at least 1."""
    for name in names:
        if getattr(settings, name) < 1:
            raise ConfigError(f"Expected {name} of at least 1, found {getattr(settings, name)}.")


class Grouped(NamedTuple):
    """Distinct queries and the outputs read from each."""

    queries: Tensor  # int64 [Q, 2]: head, relation; sorted by relation
    which: Tensor  # int64 [M]: the query of a triplet
    nodes: Tensor  # int64 [M]: its tail


def group(triplets: Tensor) -> Grouped:
    """The distinct queries of triplets [M, 3]."""
    queries, which = torch.unique(triplets[:, [1, 0]], dim=0, return_inverse=True)
    return Grouped(queries.flip(1), which, triplets[:, 2])


def blocks(count: int, row_bytes: int) -> Iterator[slice]:
    """Cut `count` queries of `row_bytes` each into blocks of about BLOCK_BYTES and equal length."""
    size = max(1, BLOCK_BYTES // max(row_bytes, 1))
    number = -(-count // size)
    for index in range(number):
        yield slice(count * index // number, count * (index + 1) // number)


def as_queries(rows: Tensor, num_relations: int) -> Tensor:
    """Training rows [B, 1 + K, 3] as triplets [B * (1 + K), 3] whose query a target and its negatives share.

    If a target's heads vary and its tails do not, the rows are turned around: (tail, r + R, head).
    """
    varies = (rows != rows[:, :1]).any(dim=1)  # [B, 3]
    turned = varies[:, 0] & ~varies[:, 2]
    relations = rows[..., 1]
    inverse = torch.where(relations < num_relations, relations + num_relations, relations - num_relations)
    flipped = torch.stack([rows[..., 2], inverse, rows[..., 0]], dim=-1)
    return torch.where(turned[:, None, None], flipped, rows).reshape(-1, 3)


def without_facts(graph: KnowledgeGraph, facts: np.ndarray) -> np.ndarray:
    """Bool [2E] over `graph.with_inverses()`: False for the facts [G, 3], given from either end, and their inverses."""
    keep = np.ones(2 * graph.num_triplets, bool)
    rows = graph.positions(facts)
    rows = rows[rows >= 0]
    keep[rows] = keep[rows + graph.num_triplets] = False
    return keep


@torch.no_grad()
def cached_vectors(
    cache: dict[int, Tensor], relations: Tensor, size: int, compute: Callable[[Tensor], Tensor]
) -> Tensor:
    """Relation vectors [U, 2R, D], of `size` bytes for each of the direct relations [U], computed once for each."""
    ids = relations.tolist()
    missing = [relation for relation in ids if relation not in cache]
    vectors = {relation: cache[relation] for relation in ids if relation in cache}
    for part in blocks(len(missing), 2 * size):
        vectors.update(zip(missing[part], compute(relations.new_tensor(missing[part])), strict=True))
    cache.update(vectors)
    while len(cache) > max(1, KEPT_BYTES // max(size, 1)):
        del cache[next(iter(cache))]
    return torch.stack([vectors[relation] for relation in ids])
