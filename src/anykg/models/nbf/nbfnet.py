"""NBFNet with one learned vector per relation and layer, drawn at random for relations it has never seen.

The boundary is the query relation's vector, from a table [2R, D], at the head. A layer aggregates state * relation
vector over the edges (from tail to head) and updates x <- ReLU(Linear([x, aggregate])), without residual or LayerNorm
in the public default, where the aggregate is PNA (12 D); with `sum` the layer is Ultra's, x <- x + ReLU(LayerNorm(
Linear([x, aggregate]))). The score is an MLP on [state, query vector]. With `query_dependent` the vectors of a layer
are a linear map of the query vector, one map and one offset for each relation; queries about one relation share them.

Trained vectors belong to the relations of the training graph. With `relation_vectors = "random"` every vector is drawn
from the seed of `encode`, on any graph and also for relations whose names occurred in training: names carry no
information. Training always uses the learned ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import Symmetry
from anykg.models.nbf import pna
from anykg.models.nbf.aggregate import PNA_PARTS
from anykg.models.nbf.edges import RelationalEdges
from anykg.models.nbf.fast import kernels_apply, propagate
from anykg.models.nbf.mlp import read_out
from anykg.models.nbf.queries import BellmanFordPredictor, Targets, as_queries, at_least_one, blocks, without_facts
from anykg.models.nbf.reference import BellmanFordLayer, Queries
from anykg.models.nbf.relation_graph import entity_graph
from anykg.models.recipe import Recipe
from anykg.seeds import torch_generator

SHARED = -1
"""In place of a relation, where all queries have the same relation vectors."""


@dataclass(frozen=True)
class NBFNetConfig:
    """Settings of NBFNet; the defaults are the paper's."""

    width: int = 32
    """Width of all states; multiples of 16 are fast."""
    layers: int = 3
    """Bellman-Ford layers."""
    aggregation: Literal["pna", "sum"] = "pna"
    """How messages are aggregated."""
    relation_vectors: Literal["random", "trained"] = "random"
    """Relation vectors at inference: random for all relations, or the learned ones of the training graph's
    relations."""
    query_dependent: bool = False
    """Make relation vectors a linear map of the query relation's vector, one map for each relation and layer."""
    num_relations: int = 0
    """Relations of the training graph; set when the model is built."""

    def __post_init__(self) -> None:
        at_least_one(self, "width", "layers")


@dataclass(frozen=True, eq=False)
class Encoded:
    """A graph and the vectors of its relations."""

    num_entities: int
    num_relations: int
    edges: RelationalEdges
    vectors: Tensor  # [L, 2R, D], of the messages
    query: Tensor  # [2R, D], of boundary and read-out
    maps: Tensor | None = None  # [L, 2R, D, D], of the query vector; what it gives is added to `vectors`
    keep: np.ndarray | None = None
    """bool [2E]; edges where it is False are ignored."""
    edge_weights: Tensor | None = None
    """[layers, 2E] factors of the messages, to attribute a score to edges."""
    background: dict[int, list[Tensor] | None] = field(default_factory=dict)
    """What `pna.background_states` returned for all edges, by query relation, or SHARED; filled when needed."""

    def for_relation(self, relation: int) -> Encoded:
        """The same with the vectors for queries about one relation."""
        assert self.maps is not None
        return replace(self, vectors=self.vectors + self.maps @ self.query[relation], maps=None)


def _drawn(
    config: NBFNetConfig, size: int, random: torch.Generator | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Tables of a fresh model: vectors [L, 2R, D], query [2R, D] and, if they are used, maps [L, 2R, D, D].

    Vectors that depend on the query start as an nn.Linear of it does, other vectors as an nn.Embedding.
    """
    width = config.width
    tables = torch.randn(config.layers + 1, size, width, generator=random)
    if not config.query_dependent:
        return tables[:-1], tables[-1], None
    linear = (2 * torch.rand(config.layers, size, 1 + width, width, generator=random) - 1) * width**-0.5
    return linear[:, :, 0], tables[-1], linear[:, :, 1:]


class NBFNet(BellmanFordPredictor):
    """Neural Bellman-Ford network."""

    Config = NBFNetConfig
    config: NBFNetConfig
    recipe = Recipe(
        epochs=10,
        batch_size=16,
        lr=1e-3,
        weight_decay=5e-4,
        negative_entities=32,
        sides="halves",
        strict=True,
        loss="self-adversarial",
    )

    def __init__(self, config: NBFNetConfig = NBFNetConfig()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.config = config
        random = config.relation_vectors == "random"
        self.symmetry = Symmetry.IN_EXPECTATION if random else Symmetry.ENTITIES_ONLY
        width, size = config.width, 2 * config.num_relations
        if config.aggregation == "sum":
            self.layers = nn.ModuleList(BellmanFordLayer(width) for _ in range(config.layers))
        else:
            self.layers = nn.ModuleList(nn.Linear((1 + PNA_PARTS) * width, width) for _ in range(config.layers))
        vectors, query, maps = _drawn(config, size)
        self.vectors, self.query = nn.Parameter(vectors), nn.Parameter(query)
        self.maps = None if maps is None else nn.Parameter(maps)
        self.hidden = nn.Linear(2 * width, 2 * width)
        self.last = nn.Linear(2 * width, 1)

    @classmethod
    def build(cls, config: NBFNetConfig, graph: KnowledgeGraph) -> Self:
        return cls(replace(config, num_relations=graph.num_relations))

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> Encoded:
        if self.config.relation_vectors == "trained":
            return self._encode_trained(graph)
        random = torch_generator(seed, "relation vectors")
        vectors, query, maps = _drawn(self.config, 2 * graph.num_relations, random)
        return Encoded(
            graph.num_entities,
            graph.num_relations,
            graph.derive(entity_graph),
            vectors.to(self.vectors),  # device and dtype of the model
            query.to(self.vectors),
            None if maps is None else maps.to(self.vectors),
        )

    def _encode_trained(self, graph: KnowledgeGraph) -> Encoded:
        if graph.num_relations != self.config.num_relations:
            raise ConfigError(
                f"NBFNet has vectors for the {self.config.num_relations} relations it was trained on, but this graph "
                f"has {graph.num_relations}; set relation_vectors to random for other graphs."
            )
        edges = graph.derive(entity_graph)
        return Encoded(graph.num_entities, graph.num_relations, edges, self.vectors, self.query, self.maps)

    def answers(self, encoded: Encoded, queries: Tensor, targets: Targets | None) -> Tensor:
        query = encoded.query[queries[:, 1]]
        if targets is None:
            size = 2 * 4 * encoded.num_entities * self.config.width
            parts = [
                read_out(self._states(encoded, queries[part]), query[part], self.hidden, self.last)
                for part in blocks(len(queries), max(size, self.query_bytes(encoded)))
            ]
            return torch.cat(parts) if parts else query.new_zeros(0, encoded.num_entities)
        which, nodes = targets
        states = self._states(encoded, queries, which * encoded.num_entities + nodes)  # [M, D]
        scores: Tensor = self.last(self.hidden(torch.cat([states, query[which]], dim=-1)).relu())
        return scores.squeeze(-1)

    def query_bytes(self, encoded: Encoded) -> int:
        all_states = 4 * encoded.num_entities * self.config.width
        if self.config.aggregation == "sum":
            return super().query_bytes(encoded)
        if encoded.edge_weights is not None or not kernels_apply(encoded.query):
            return (2 + PNA_PARTS) * all_states
        return all_states // 2  # of triplets; states are computed where they are needed, nearly never everywhere

    def training_scores(self, graph: KnowledgeGraph, rows: Tensor, seed: int, targets: Tensor | None = None) -> Tensor:
        encoded = self.encode_without(graph, rows[:, 0] if targets is None else targets)
        scores = self.score_triplets(encoded, as_queries(rows, graph.num_relations))
        return scores.view(rows.shape[:2])

    def encode_without(self, graph: KnowledgeGraph, hidden: Tensor) -> Encoded:
        if graph.num_relations != self.config.num_relations:
            raise ConfigError(
                f"NBFNet learns the vectors of one graph's relations, here {self.config.num_relations}, but another "
                f"graph to learn from has {graph.num_relations}; train it on one graph."
            )
        return replace(self._encode_trained(graph), keep=without_facts(graph, hidden.cpu().numpy()))

    def _states(self, encoded: Encoded, queries: Tensor, rows: Tensor | None = None) -> Tensor:
        """States [Q, N, D] for queries [Q, 2], or [M, D] at rows q * N + entity."""
        if encoded.maps is None:
            return self._states_shared(encoded, queries, rows, SHARED)
        parts, places = [], []
        asked = queries[:, 1] if rows is None else queries[rows // encoded.num_entities, 1]  # relation of each result
        for relation in sorted(set(queries[:, 1].tolist())):
            own, mine = queries[:, 1] == relation, torch.nonzero(asked == relation).squeeze(1)
            local = None
            if rows is not None:
                number = own.cumsum(0) - 1  # of a query among those about the relation
                local = number[rows[mine] // encoded.num_entities] * encoded.num_entities
                local = local + rows[mine] % encoded.num_entities
            parts.append(self._states_shared(encoded.for_relation(relation), queries[own], local, relation))
            places.append(mine)
        return torch.cat(parts)[torch.cat(places).argsort()]

    def _states_shared(self, encoded: Encoded, queries: Tensor, rows: Tensor | None, relation: int) -> Tensor:
        """The same for queries with the same relation vectors; their background is stored under `relation`."""
        heads, relations = queries.unbind(1)
        start = encoded.query[relations]
        options: dict[str, Any] = {"keep": encoded.keep, "edge_weights": encoded.edge_weights, "targets": rows}
        vectors = encoded.vectors.unbind(0)
        if self.config.aggregation == "sum":
            sums = [layer(own[None]) for layer, own in zip(self.layers, vectors, strict=True)]
            asked = Queries(heads[:, None], start[:, None], torch.zeros_like(heads))
            return propagate(sums, asked, encoded.edges, **options)
        layers = [pna.Layer(own, *layer.parameters()) for layer, own in zip(self.layers, vectors, strict=True)]
        background = None
        if not torch.is_grad_enabled() and encoded.keep is None and encoded.edge_weights is None:
            if relation not in encoded.background:
                encoded.background[relation] = pna.background_states(layers, encoded.edges)
            background = encoded.background[relation]
        return pna.propagate(layers, heads, start, encoded.edges, background=background, **options)
