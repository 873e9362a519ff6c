"""Pairwise ISDEA+: representations of pairs of entities instead of single ones (Equation 3 of the paper).

For a query (h, k, ?) every entity v has a state that represents the pair (h, v). As in ISDEA+, a relation is only
distinguished from all the others: a triplet of k, of the inverse of k, of another relation or of an inverse of another
one has one of four learned weights. With these weights a Bellman-Ford network runs over the graph, as NBFNet:

    x_v^0 = b at h, 0 elsewhere                     b a learned vector                                [D]
    m_u = x_u^0 + sum over triplets (u, r, v), inverses included, of w_type(r, k) * x_v
    x_u <- x_u + ReLU(LayerNorm(Linear([x_u, m_u])))
    score(h, k, v) = MLP([x_v, b])

No weight belongs to an entity or a relation, so the scores are exactly double equivariant. It runs on the kernels of
`models.nbf`, with a table of 2R weights for each query relation, three of its rows different.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import Symmetry
from anykg.models.nbf.edges import RelationalEdges
from anykg.models.nbf.fast import propagate
from anykg.models.nbf.mlp import read_out
from anykg.models.nbf.queries import BellmanFordPredictor, Targets, at_least_one
from anykg.models.nbf.reference import BellmanFordLayer, Queries
from anykg.models.nbf.relation_graph import entity_graph
from anykg.models.recipe import Recipe

OWN, OWN_INVERSE, OTHER, OTHER_INVERSE = range(4)
"""Types of triplets, seen from a query relation."""


@dataclass(frozen=True)
class PairwiseConfig:
    """The size of the network."""

    width: int = 32
    """Width of all states; multiples of 16 are fast."""
    layers: int = 4
    """Layers, the longest path that is read."""

    def __post_init__(self) -> None:
        at_least_one(self, "width", "layers")


@dataclass(frozen=True, eq=False)
class Encoded:
    """A graph ready for queries."""

    num_entities: int
    num_relations: int
    edges: RelationalEdges
    keep: np.ndarray | None = None
    """bool [2E]; edges where it is False are ignored."""
    edge_weights: Tensor | None = None
    """[layers, 2E] factors of the messages, to attribute a score to edges."""


class PairwiseISDEA(BellmanFordPredictor):
    """ISDEA+ over pairs of entities."""

    Config = PairwiseConfig
    config: PairwiseConfig
    recipe = Recipe(
        epochs=10,
        batch_size=16,
        lr=1e-3,
        negative_entities=32,
        sides="halves",
        strict=True,
        loss="self-adversarial",
    )
    symmetry = Symmetry.EXACT

    def __init__(self, config: PairwiseConfig = PairwiseConfig()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.config = config
        width = config.width
        self.layers = nn.ModuleList(BellmanFordLayer(width) for _ in range(config.layers))
        self.types = nn.Parameter(torch.randn(config.layers, 4, width))
        self.start = nn.Parameter(torch.randn(width))
        self.hidden = nn.Linear(2 * width, 2 * width)
        self.last = nn.Linear(2 * width, 1)

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> Encoded:
        del seed
        return Encoded(graph.num_entities, graph.num_relations, graph.derive(entity_graph))

    def query_bytes(self, encoded: Encoded) -> int:
        return 4 * 2 * encoded.num_entities * self.config.width

    def answers(self, encoded: Encoded, queries: Tensor, targets: Targets | None) -> Tensor:
        heads, relations = queries.unbind(1)
        kinds, tables = torch.unique(relations, return_inverse=True)
        seen = triplet_types(kinds, encoded.num_relations)  # [U, 2R]
        layers = [layer(types[seen]) for layer, types in zip(self.layers, self.types, strict=True)]
        start = self.start.expand(len(queries), -1)  # [Q, D]
        rows = None if targets is None else targets[0] * encoded.num_entities + targets[1]
        states = propagate(
            layers,
            Queries(heads[:, None], start[:, None], tables),
            encoded.edges,
            keep=encoded.keep,
            edge_weights=encoded.edge_weights,
            targets=rows,
        )
        if targets is None:
            return read_out(states, start, self.hidden, self.last)
        scores: Tensor = self.last(self.hidden(torch.cat([states, start[targets[0]]], dim=-1)).relu())  # states [M, D]
        return scores.squeeze(-1)


def triplet_types(kinds: Tensor, num_relations: int) -> Tensor:
    """The type of each of 2R relations seen from query relations [U]: [U, 2R]."""
    every = torch.arange(2 * num_relations, device=kinds.device)
    inverse = (kinds + num_relations) % max(2 * num_relations, 1)
    turned = (every >= num_relations) != (kinds >= num_relations)[:, None]  # in the opposite direction of the query
    types = torch.where(turned, OTHER_INVERSE, OTHER)
    types = torch.where(every == inverse[:, None], OWN_INVERSE, types)
    return torch.where(every == kinds[:, None], OWN, types)
