"""Ultra: a relation network over the graph of relations, an entity network over the graph itself.

Both are the Bellman-Ford networks of `reference`. For a query relation the relation network gives each of the 2R
relations a vector, starting from ones at the query relation; the entity network starts from the query relation's vector
at the head, passes messages weighted by an MLP of the relation vectors, and an MLP of [state, query vector] scores each
entity as a tail. Nothing is learned for an entity or a relation: the model is exactly double equivariant.

A head query (?, r, t) is (t, r + R, ?), with the relation network started at the *direct* relation r, as in the
published model: R passes serve both sides. They are computed when first needed and kept with the encoded graph.
Training hides facts from the entity network; the graph of relations is that of all facts, as published. The only
departure from the paper is the batch size, 16 for a CPU instead of 64.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import Symmetry
from anykg.models.nbf.edges import RelationalEdges
from anykg.models.nbf.fast import propagate
from anykg.models.nbf.mlp import read_out
from anykg.models.nbf.queries import BellmanFordPredictor, Targets, at_least_one, cached_vectors
from anykg.models.nbf.reference import BellmanFordLayer, Queries
from anykg.models.nbf.relation_graph import NUM_TYPES, entity_graph, relation_graph
from anykg.models.recipe import Recipe


@dataclass(frozen=True)
class UltraConfig:
    """Settings of Ultra; the defaults are the published ones."""

    width: int = 64
    """Width of all states; multiples of 16 are fast."""
    relation_layers: int = 6
    """Layers of the relation network."""
    entity_layers: int = 6
    """Layers of the entity network."""
    relation_ends: Literal["tail", "both"] = "tail"
    """How (head, ?, tail) is scored: at the tail, as published, or as the mean of the scores at the tail and, with the
    inverse relation, at the head, which takes twice the time and uses the known facts of both ends."""

    def __post_init__(self) -> None:
        at_least_one(self, "width", "relation_layers", "entity_layers")


@dataclass(frozen=True, eq=False)
class Encoded:
    """A graph ready for queries."""

    num_entities: int
    num_relations: int
    entities: RelationalEdges
    relations: RelationalEdges
    keep: np.ndarray | None = None
    """bool [2E], in training: the entity network ignores edges where it is False."""
    edge_weights: Tensor | None = None
    """[layers, 2E] factors of the entity network's messages, to attribute a score to edges."""
    kept: dict[int, Tensor] = field(default_factory=dict)
    """Relation vectors [2R, D] by direct query relation."""


class RelationNetwork(nn.Module):
    """Vectors of all relations, conditional on a query relation."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.width = width
        self.layers = nn.ModuleList(BellmanFordLayer(width) for _ in range(depth))
        self.types = nn.Parameter(torch.randn(depth, NUM_TYPES, width))

    def forward(self, edges: RelationalEdges, relations: Tensor) -> Tensor:
        """[U, 2R, D] for query relations [U]."""
        layers = [layer(types[None]) for layer, types in zip(self.layers, self.types, strict=True)]
        ones = self.types.new_ones(len(relations), 1, self.width)
        return propagate(layers, Queries(relations[:, None], ones, torch.zeros_like(relations)), edges)


class RelationalNetwork(nn.Module):
    """Bellman-Ford layers over the facts whose weights are an MLP of the relations' vectors, one for each layer."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(BellmanFordLayer(width) for _ in range(depth))
        self.relations = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)) for _ in range(depth)
        )

    def states(self, edges: RelationalEdges, vectors: Tensor, queries: Queries, **options: Any) -> Tensor:
        """States [B, N, D] for relation vectors [U, 2R, D]; options as of `reference.propagate`."""
        layers = [layer(project(vectors)) for layer, project in zip(self.layers, self.relations, strict=True)]
        return propagate(layers, queries, edges, **options)


class EntityNetwork(RelationalNetwork):
    """States of all entities, conditional on a query, and the scores read from them."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__(width, depth)
        self.hidden = nn.Linear(2 * width, 2 * width)
        self.last = nn.Linear(2 * width, 1)

    def forward(
        self,
        edges: RelationalEdges,
        vectors: Tensor,
        tables: Tensor,
        queries: Tensor,
        targets: Targets | None = None,
        **options: Any,
    ) -> Tensor:
        """Scores [Q, N] of queries [Q, 2], or [M] of the targets.

        `vectors` [U, 2R, D] are relation vectors, `tables` [Q] which of them belong to a query.
        """
        heads, relations = queries.unbind(1)
        boundary = vectors[tables, relations][:, None]  # [Q, 1, D]
        asked = Queries(heads[:, None], boundary, tables)
        if targets is None:
            states = self.states(edges, vectors, asked, **options)
            return read_out(states, boundary[:, 0], self.hidden, self.last)
        which, nodes = targets
        states = self.states(edges, vectors, asked, targets=which * edges.num_nodes + nodes, **options)  # [M, D]
        scores: Tensor = self.last(self.hidden(torch.cat([states, boundary[:, 0][which]], dim=-1)).relu())
        return scores.squeeze(-1)


class Ultra(BellmanFordPredictor):
    """The foundation model for knowledge graphs."""

    Config = UltraConfig
    config: UltraConfig
    recipe = Recipe(
        epochs=10,
        batch_size=16,
        lr=5e-4,
        weight_decay=1e-2,
        optimizer="adamw",
        negative_entities=256,
        sides="halves",
        strict=True,
        loss="self-adversarial",
    )
    symmetry = Symmetry.EXACT

    def __init__(self, config: UltraConfig = UltraConfig()) -> None:  # noqa: B008 - frozen
        super().__init__(config)
        self.relation_network = RelationNetwork(config.width, config.relation_layers)
        self.entity_network = EntityNetwork(config.width, config.entity_layers)

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> Encoded:
        del seed
        edges, relations = graph.derive(entity_graph), graph.derive(relation_graph)
        return Encoded(graph.num_entities, graph.num_relations, edges, relations)

    def answers(self, encoded: Encoded, queries: Tensor, targets: Targets | None) -> Tensor:
        relations, tables = torch.unique(queries[:, 1] % encoded.num_relations, return_inverse=True)
        if encoded.keep is not None:  # in training
            vectors = self.relation_network(encoded.relations, relations)
        else:
            size = 4 * 2 * encoded.num_relations * self.config.width
            network = partial(self.relation_network, encoded.relations)
            vectors = cached_vectors(encoded.kept, relations, size, network)
        options = {"keep": encoded.keep, "edge_weights": encoded.edge_weights}
        scores: Tensor = self.entity_network(encoded.entities, vectors, tables, queries, targets, **options)
        return scores

    def score_relations(
        self, encoded: Encoded, heads: Tensor, tails: Tensor, candidates: Tensor | None = None
    ) -> Tensor:
        at_tails = super().score_relations(encoded, heads, tails, candidates)
        if self.config.relation_ends == "tail":
            return at_tails
        count = encoded.num_relations
        if candidates is None:
            candidates = torch.arange(count, device=heads.device).expand(len(heads), -1)
        inverse = (candidates + count) % (2 * count)
        return (at_tails + super().score_relations(encoded, tails, heads, inverse)) / 2
