"""Ultra: a relation network over the graph of relations, an entity network over the graph itself.

Both are Bellman-Ford networks (`models.nbf.fast`). For a query relation the relation network gives every one of
the 2R relations a vector, starting from ones at the query relation; the entity network starts from the query relation's
vector at the head, passes messages weighted by an MLP of the relation vectors, and an MLP on [state, query vector]
scores every entity as a tail. Nothing is learnt for an entity or a relation: the model is exactly double equivariant.

A head query (?, r, t) is (t, r + R, ?), with the relation network started at the *direct* relation r, as in the
published model: R passes serve both sides. They are made when first asked for and kept with the encoded graph.
Training departs from the paper in the batch size alone, 16 for a CPU instead of 64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from anykg.errors import CheckpointError
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import Symmetry
from anykg.models.nbf.edges import RelationalEdges
from anykg.models.nbf.fast import propagate
from anykg.models.nbf.mlp import read_out
from anykg.models.nbf.queries import (
    BellmanFordLayer,
    BellmanFordPredictor,
    RelationalNetwork,
    Targets,
    as_queries,
    at_least_one,
    bellman_ford,
    blocks,
    group,
    without_facts,
)
from anykg.models.nbf.reference import Queries
from anykg.models.nbf.relation_graph import NUM_TYPES, entity_graph, relation_graph
from anykg.models.recipe import Recipe

KEPT_BYTES = 512 * 2**20
"""Relation vectors kept with an encoded graph; the oldest give way."""


@dataclass(frozen=True)
class UltraConfig:
    """The published model by default."""

    width: int = 64
    """Width of all states; multiples of 16 are fast."""
    relation_layers: int = 6
    """Layers of the relation network."""
    entity_layers: int = 6
    """Layers of the entity network."""
    relation_ends: Literal["tail", "both"] = "tail"
    """How (head, ?, tail) is answered: read at the tail, as published, or as the mean of reading at the tail and, with
    the inverse relation, at the head: twice the work, and what is known of either end counts."""

    def __post_init__(self) -> None:
        at_least_one(self, "width", "relation_layers", "entity_layers")


@dataclass(frozen=True, eq=False)
class Encoded:
    """A graph ready for queries."""

    num_entities: int
    num_relations: int
    entities: RelationalEdges
    relations: RelationalEdges
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
        layers = [layer.with_weights(self.types[i][None]) for i, layer in enumerate(bellman_ford(self.layers))]
        ones = self.types.new_ones(len(relations), self.width)
        return propagate(layers, Queries(relations[:, None], ones[:, None], torch.zeros_like(relations)), edges)


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
        *,
        keep: np.ndarray | None = None,
        edge_weights: Tensor | None = None,
        targets: Targets | None = None,
    ) -> Tensor:
        """Scores [Q, N] of queries [Q, 2], or [M] of the targets.

        `vectors` [U, 2R, D] are relation vectors, `tables` [Q] which of them belong to a query.
        """
        heads, relations = queries.unbind(1)
        boundary = vectors[tables, relations]  # [Q, D]
        asked = Queries(heads[:, None], boundary[:, None], tables)
        if targets is None:
            states = self.states(vectors, asked, edges, keep=keep, edge_weights=edge_weights)
            return read_out(states, boundary, self.hidden, self.last)
        which, nodes = targets
        rows = which * edges.num_nodes + nodes
        states = self.states(vectors, asked, edges, keep=keep, edge_weights=edge_weights, targets=rows)  # [M, D]
        scores: Tensor = self.last(self.hidden(torch.cat([states, boundary[which]], dim=-1)).relu())
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
        super().__init__()
        self.config = config
        self.relation_network = RelationNetwork(config.width, config.relation_layers)
        self.entity_network = EntityNetwork(config.width, config.entity_layers)

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> Encoded:
        del seed
        edges, relations = graph.derive(entity_graph), graph.derive(relation_graph)
        return Encoded(graph.num_entities, graph.num_relations, edges, relations)

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

    def training_scores(self, graph: KnowledgeGraph, rows: Tensor, seed: int, targets: Tensor | None = None) -> Tensor:
        encoded = self.encode(graph, seed)
        queries, which, nodes = group(as_queries(rows, graph.num_relations))
        relations, tables = torch.unique(queries[:, 1] % graph.num_relations, return_inverse=True)
        vectors = self.relation_network(encoded.relations, relations)
        keep = without_facts(graph, (rows[:, 0] if targets is None else targets).cpu().numpy())
        scores: Tensor = self.entity_network(
            encoded.entities, vectors, tables, queries, keep=keep, targets=(which, nodes)
        )
        return scores.view(rows.shape[:2])

    def training_tail_scores(self, graph: KnowledgeGraph, queries: Tensor, hidden: Tensor) -> Tensor:
        encoded = self.encode(graph)
        distinct, which = torch.unique(queries, dim=0, return_inverse=True)
        relations, tables = torch.unique(distinct[:, 1] % graph.num_relations, return_inverse=True)
        vectors = self.relation_network(encoded.relations, relations)
        keep = without_facts(graph, hidden.cpu().numpy())
        scores: Tensor = self.entity_network(encoded.entities, vectors, tables, distinct, keep=keep)
        return scores[which]

    def query_bytes(self, encoded: Encoded) -> int:
        return 2 * 4 * encoded.num_entities * self.config.width

    def answers(self, encoded: Encoded, queries: Tensor, targets: Targets | None) -> Tensor:
        relations, tables = torch.unique(queries[:, 1] % encoded.num_relations, return_inverse=True)
        size = 4 * 2 * encoded.num_relations * self.config.width
        scores: Tensor = self.entity_network(
            encoded.entities,
            cached_vectors(encoded.kept, relations, size, lambda some: self.relation_network(encoded.relations, some)),
            tables,
            queries,
            edge_weights=encoded.edge_weights,
            targets=targets,
        )
        return scores


@torch.no_grad()
def cached_vectors(
    cache: dict[int, Tensor], relations: Tensor, size: int, compute: Callable[[Tensor], Tensor]
) -> Tensor:
    """Relation vectors [U, 2R, D], of `size` bytes for each of the direct relations [U], computed once for each."""
    wanted = relations.tolist()
    missing = [relation for relation in wanted if relation not in cache]
    found = {relation: cache[relation] for relation in wanted if relation in cache}
    for part in blocks(len(missing), 2 * size):
        found.update(zip(missing[part], compute(relations.new_tensor(missing[part])), strict=True))
    cache.update(found)
    while len(cache) > max(1, KEPT_BYTES // max(size, 1)):
        del cache[next(iter(cache))]
    return torch.stack([found[relation] for relation in wanted])


def import_ultra_weights(state: Mapping[str, Tensor]) -> tuple[UltraConfig, dict[str, Tensor]]:
    """Settings and parameters from a published state dict (the `model` entry of its file)."""
    try:
        width = state["entity_model.layers.0.layer_norm.weight"].shape[0]
        depth = {
            name: 1 + max(int(key.split(".")[2]) for key in state if key.startswith(f"{name}.layers."))
            for name in ("relation_model", "entity_model")
        }
        result: dict[str, Tensor] = {
            "relation_network.types": torch.stack(
                [state[f"relation_model.layers.{i}.relation.weight"] for i in range(depth["relation_model"])]
            )
        }
        for theirs, ours in (("relation_model", "relation_network"), ("entity_model", "entity_network")):
            for i in range(depth[theirs]):
                for part, name in (("linear", "linear"), ("layer_norm", "norm")):
                    for kind in ("weight", "bias"):
                        result[f"{ours}.layers.{i}.{name}.{kind}"] = state[f"{theirs}.layers.{i}.{part}.{kind}"]
        for kind in ("weight", "bias"):
            for i in range(depth["entity_model"]):
                for place in (0, 2):
                    key = f"entity_model.layers.{i}.relation_projection.{place}.{kind}"
                    result[f"entity_network.relations.{i}.{place}.{kind}"] = state[key]
            result[f"entity_network.hidden.{kind}"] = state[f"entity_model.mlp.0.{kind}"]
            result[f"entity_network.last.{kind}"] = state[f"entity_model.mlp.2.{kind}"]
    except (KeyError, ValueError) as error:
        raise CheckpointError(
            f"Expected the state dict of a published Ultra model, found none of {error}; give its `model` entry."
        ) from error
    return UltraConfig(width, depth["relation_model"], depth["entity_model"]), result
