"""TRIX: relation vectors and entity states that refine each other, and relations answered in one pass.

**Entities.** For a query (h, r, ?) every relation has a vector z, at first ones at the direct relation of the query and
zeros elsewhere, which is also the boundary of every relation step. A relation step (`reference.relation_messages`,
`relation_update`) sends z of each relation to those it meets in an entity v, multiplied by an MLP of x_v. The first
step has x = 1 and depends on the query relation alone. An early Bellman-Ford network of 2 layers then gives every
entity a state, x is a linear map of [state, query vector], 2 more steps refine z, and a late network of 4 layers with
the new z gives the scores, as Ultra's entity network does. With `first = network` Ultra's relation network replaces
the first step.

**Relations.** For (h, ?, t) x is 1 at h, -1 at t (-1 if both are one entity) and 0 elsewhere, z is 1 for all. Three
rounds, each with weights of its own: 2 entity layers that start from x, x an MLP of [state, 1], 2 relation steps with
boundary 1. The score of r is an MLP of its z: one pass for all relations. In the first round only entities near h or t
have states that depend on them; those of all others are computed once (`near`).

Relation steps use the graph without the facts that are hidden in training, as the entity layers do; the relation
network of `first = network` sees the whole graph, as in Ultra. All of it is exactly double equivariant.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from anykg.errors import CheckpointError, ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor, Symmetry
from anykg.models.nbf.edges import RelationalEdges
from anykg.models.nbf.mlp import transform
from anykg.models.nbf.near import CommonStates, NearStates, near_rows, nowhere
from anykg.models.nbf.queries import BellmanFordPredictor, Targets, at_least_one, blocks, cached_vectors
from anykg.models.nbf.reference import Factors, Queries, RelationUpdate
from anykg.models.nbf.relation_graph import entity_graph, relation_graph
from anykg.models.nbf.relation_step import meeting_counts, relation_messages, relation_update
from anykg.models.nbf.ultra import EntityNetwork, RelationalNetwork, RelationNetwork, Ultra


@dataclass(frozen=True)
class TRIXConfig:
    """Settings of TRIX; the defaults are those of both published models."""

    width: int = 32
    """Width of all states; multiples of 16 are fast."""
    networks: Literal["both", "entity", "relation"] = "both"
    """The networks of the model. Without a relation network, (head, ?, tail) is answered by scoring the tail under each
    relation; without an entity network, entities are answered by scoring the relation of each pair, which is slow."""
    first: Literal["step", "network"] = "step"
    """Initial relation vectors: one relation step, as published, or Ultra's relation network."""
    first_layers: int = 4
    """Layers of that relation network, with first = network."""
    early_layers: int = 2
    """Entity layers before the relation steps."""
    relation_steps: int = 2
    """Relation steps between the early and the late entity layers."""
    entity_layers: int = 4
    """Entity layers after the relation steps."""
    rounds: int = 3
    """Rounds of the network that answers (head, ?, tail)."""
    round_layers: int = 2
    """Entity layers in a round."""
    round_steps: int = 2
    """Relation steps in a round."""

    def __post_init__(self) -> None:
        at_least_one(self, "width", "first_layers", "early_layers", "relation_steps", "entity_layers")
        at_least_one(self, "rounds", "round_layers", "round_steps")


@dataclass(frozen=True, eq=False)
class Encoded:
    """A graph ready for queries."""

    num_entities: int
    num_relations: int
    entities: RelationalEdges
    relations: RelationalEdges | None
    """The graph of relations, with first = network."""
    keep: np.ndarray | None = None
    """bool [2E]; edges where it is False are ignored."""
    edge_weights: Tensor | None = None
    """[layers, 2E] factors of the late entity network's messages, to attribute a score to edges."""
    kept: dict[int, Tensor] = field(default_factory=dict)
    """First relation vectors [2R, D] by direct query relation."""
    common: dict[nn.Module, CommonStates] = field(default_factory=dict)
    """States without a question after the first round, once they were needed; for all edges."""


class RelationStep(nn.Module):
    """The parameters of a relation step, those of the four link types side by side."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner, outer, linear = ([nn.Linear(size, width) for _ in range(4)] for size in (width, width, 2 * width))
        self.first, self.first_bias = _stacked(inner)
        self.second, self.second_bias = _stacked(outer)
        self.linear, self.bias = _stacked(linear)
        self.scale, self.shift = nn.Parameter(torch.ones(4, width)), nn.Parameter(torch.zeros(4, width))

    def factors(self) -> Factors:
        """The MLP of entity states."""
        return Factors(self.first, self.first_bias[None], self.second, self.second_bias)

    def factors_of(self, joined: nn.Linear, query: Tensor) -> Factors:
        """The MLP of `joined([state, query vector])`, for query vectors [B, D], as an MLP of the state alone."""
        width = query.shape[1]
        constant = nn.functional.linear(query, joined.weight[:, width:], joined.bias)  # [B, D]
        offsets = torch.einsum("ked,bd->bke", self.first, constant) + self.first_bias
        return Factors(self.first @ joined.weight[:, :width], offsets, self.second, self.second_bias)

    def first_vectors(self, counts: Tensor, boundary: Tensor) -> Tensor:
        """The step from z = boundary [U, 2R, 1] with x = 1: messages are counts [4, U, 2R] times constants."""
        hidden = (self.first.sum(-1) + self.first_bias).relu()  # [4, D]
        constants = torch.einsum("ked,kd->ke", self.second, hidden) + self.second_bias
        vectors = boundary.expand(-1, -1, constants.shape[1])
        received = counts.to(vectors)[..., None] * constants[:, None, None]  # [4, U, 2R, D]
        return self.updated(vectors, received, boundary)

    def updated(self, vectors: Tensor, received: Tensor, boundary: Tensor) -> Tensor:
        """New vectors [B, 2R, D]."""
        return relation_update(
            vectors, received, boundary, RelationUpdate(self.linear, self.bias, self.scale, self.shift)
        )


def relation_steps(steps: nn.ModuleList) -> list[RelationStep]:
    """The steps with their type, which `nn.ModuleList` loses."""
    return [step for step in steps if isinstance(step, RelationStep)]


class TRIXEntities(nn.Module):
    """The network that answers (head, relation, ?)."""

    def __init__(self, config: TRIXConfig) -> None:
        super().__init__()
        width = config.width
        self.first = RelationStep(width) if config.first == "step" else RelationNetwork(width, config.first_layers)
        self.early = RelationalNetwork(width, config.early_layers)
        self.join = nn.Linear(2 * width, width)
        self.steps = nn.ModuleList(RelationStep(width) for _ in range(config.relation_steps))
        self.late = EntityNetwork(width, config.entity_layers)

    def first_vectors(self, encoded: Encoded, relations: Tensor) -> Tensor:
        """Relation vectors [U, 2R, D] for direct query relations [U], before entities refine them."""
        if isinstance(self.first, RelationNetwork):
            assert encoded.relations is not None
            vectors: Tensor = self.first(encoded.relations, relations)
            return vectors
        counts = meeting_counts(encoded.entities, relations, encoded.keep)
        return self.first.first_vectors(counts, self._boundary(encoded, relations))

    def forward(
        self, encoded: Encoded, vectors: Tensor, tables: Tensor, queries: Tensor, targets: Targets | None
    ) -> Tensor:
        """Scores [Q, N] of queries [Q, 2], or [M] of the targets, from first vectors [U, 2R, D] and their index [Q]."""
        heads, relations = queries.unbind(1)
        query = vectors[tables, relations]  # [Q, D]
        asked = Queries(heads[:, None], query[:, None], tables)
        states = self.early.states(encoded.entities, vectors, asked, keep=encoded.keep)  # [Q, N, D]
        refined = vectors[tables]  # [Q, 2R, D]
        boundary = self._boundary(encoded, relations % encoded.num_relations)
        for step in relation_steps(self.steps):
            factors = step.factors_of(self.join, query)
            received = relation_messages(states, refined, factors, encoded.entities, keep=encoded.keep)
            refined = step.updated(refined, received, boundary)
        own = torch.arange(len(queries), device=queries.device)
        scores: Tensor = self.late(
            encoded.entities,
            refined,
            own,
            queries,
            keep=encoded.keep,
            edge_weights=encoded.edge_weights,
            targets=targets,
        )
        return scores

    def _boundary(self, encoded: Encoded, relations: Tensor) -> Tensor:
        """1 at each direct relation [U], 0 elsewhere: [U, 2R, 1]."""
        boundary = self.join.weight.new_zeros(len(relations), 2 * encoded.num_relations, 1)
        return boundary.scatter(1, relations[:, None, None], 1.0)


class Round(nn.Module):
    """Entity layers, an MLP of the states, relation steps."""

    def __init__(self, config: TRIXConfig) -> None:
        super().__init__()
        width = config.width
        self.network = RelationalNetwork(width, config.round_layers)
        self.hidden = nn.Linear(2 * width, 2 * width)
        self.last = nn.Linear(2 * width, width)
        self.steps = nn.ModuleList(RelationStep(width) for _ in range(config.round_steps))

    def states(
        self, encoded: Encoded, vectors: Tensor, queries: Queries, start: Tensor | None = None, **options: Any
    ) -> Tensor:
        """New states [B, N, D] for relation vectors [U, 2R, D]; [1, A, D] of the targets [A]."""
        states = self.network.states(encoded.entities, vectors, queries, start=start, keep=encoded.keep, **options)
        return transform(states if states.dim() == 3 else states[None], self.hidden, self.last)

    def first_states(self, encoded: Encoded, vectors: Tensor, queries: Queries) -> Tensor | NearStates:
        """The same from the boundary, for relation vectors [1, 2R, D]: only what is near a query is computed for it."""
        if encoded.keep is not None:  # encodings with different masks share `common`
            return self.states(encoded, vectors, queries)
        more = 0 if self in encoded.common else encoded.num_entities
        rows = near_rows(queries, encoded.entities, len(self.network.layers), more)
        if rows is None:
            return self.states(encoded, vectors, queries)
        if self not in encoded.common:
            encoded.common[self] = CommonStates(self.states(encoded, vectors, nowhere(queries)))
        own = self.states(encoded, vectors, queries, targets=torch.from_numpy(rows.astype(np.int64)))
        return NearStates(len(queries.heads), encoded.common[self], rows, own)


class TRIXRelations(nn.Module):
    """The network that answers (head, ?, tail) for all relations in one pass."""

    def __init__(self, config: TRIXConfig) -> None:
        super().__init__()
        self.rounds = nn.ModuleList(Round(config) for _ in range(config.rounds))
        self.hidden = nn.Linear(config.width, config.width)
        self.last = nn.Linear(config.width, 1)

    def forward(self, encoded: Encoded, pairs: Tensor) -> Tensor:
        """Scores [B, R] for (head, tail) pairs [B, 2]."""
        ones = self.last.weight.new_ones(len(pairs), 1, self.last.in_features)
        at_head = torch.where(pairs[:, :1, None] == pairs[:, 1:, None], torch.zeros_like(ones), ones)
        marks = torch.cat([at_head, -ones], dim=1)  # [B, 2, D]
        tables = torch.arange(len(pairs), device=pairs.device)
        vectors, states = ones[:1].expand(1, 2 * encoded.num_relations, -1), None
        boundary = ones[:1, :, :1]
        for part in self.rounds:
            assert isinstance(part, Round)
            if states is None:
                states = part.first_states(encoded, vectors, Queries(pairs, marks, torch.zeros_like(tables)))
            else:
                start = states.everywhere() if isinstance(states, NearStates) else states
                states = part.states(encoded, vectors, Queries(pairs, marks, tables), start)
            vectors = vectors.expand(len(pairs), -1, -1)
            for step in relation_steps(part.steps):
                received = relation_messages(states, vectors, step.factors(), encoded.entities, keep=encoded.keep)
                vectors = step.updated(vectors, received, boundary)
        scores: Tensor = self.last(self.hidden(vectors[:, : encoded.num_relations]).relu())
        return scores.squeeze(-1)


class TRIX(BellmanFordPredictor):
    """Relations and entities that refine each other."""

    Config = TRIXConfig
    config: TRIXConfig
    recipe = replace(Ultra.recipe, loss="softmax", relation_every=4)
    symmetry = Symmetry.EXACT

    def __init__(self, config: TRIXConfig = TRIXConfig()) -> None:  # noqa: B008 - frozen
        super().__init__(config)
        self.entities = TRIXEntities(config) if config.networks != "relation" else None
        self.relations = TRIXRelations(config) if config.networks != "entity" else None
        self.relations_apart = config.networks != "entity"

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> Encoded:
        del seed
        relations = graph.derive(relation_graph) if self.config.first == "network" else None
        return Encoded(graph.num_entities, graph.num_relations, graph.derive(entity_graph), relations)

    def answers(self, encoded: Encoded, queries: Tensor, targets: Targets | None) -> Tensor:
        if self.entities is None:
            raise ConfigError("This TRIX has no entity network; to train it, set relation_every = 1.")
        relations, tables = torch.unique(queries[:, 1] % encoded.num_relations, return_inverse=True)
        if encoded.keep is not None:  # in training
            vectors = self.entities.first_vectors(encoded, relations)
        else:
            size = 4 * 2 * encoded.num_relations * self.config.width
            vectors = cached_vectors(encoded.kept, relations, size, partial(self.entities.first_vectors, encoded))
        scores: Tensor = self.entities(encoded, vectors, tables, queries, targets)
        return scores

    def score_tails(
        self, encoded: Encoded, heads: Tensor, relations: Tensor, candidates: Tensor | None = None
    ) -> Tensor:
        if self.entities is None:
            return LinkPredictor.score_tails(self, encoded, heads, relations, candidates)
        return super().score_tails(encoded, heads, relations, candidates)

    def score_triplets(self, encoded: Encoded, triplets: Tensor) -> Tensor:
        if self.entities is not None:
            return super().score_triplets(encoded, triplets)
        heads, relations, tails = triplets.unbind(1)
        inverse = relations >= encoded.num_relations
        heads, tails = torch.where(inverse, tails, heads), torch.where(inverse, heads, tails)
        scores = self.score_relations(encoded, heads, tails)
        return scores.gather(1, (relations % max(encoded.num_relations, 1))[:, None]).squeeze(1)

    def score_relations(
        self, encoded: Encoded, heads: Tensor, tails: Tensor, candidates: Tensor | None = None
    ) -> Tensor:
        if self.relations is None:
            return super().score_relations(encoded, heads, tails, candidates)
        pairs, which = torch.unique(torch.stack([heads, tails], dim=1), dim=0, return_inverse=True)
        size = self.query_bytes(encoded) // 2  # blocks of twice the size are faster in this network
        parts = [self.relations(encoded, pairs[part]) for part in blocks(len(pairs), size)]
        scores = torch.cat(parts)[which] if parts else heads.new_zeros(0, encoded.num_relations, dtype=torch.float32)
        return scores if candidates is None else scores.gather(1, candidates)

    def edge_relevance(self, graph: KnowledgeGraph, triplet: Tensor) -> Tensor | None:
        return None if self.entities is None else super().edge_relevance(graph, triplet)

    def training_relation_scores(self, graph: KnowledgeGraph, pairs: Tensor, hidden: Tensor) -> Tensor:
        if self.relations is None:
            raise ConfigError("This TRIX has no relation network; relation_every must be 0.")
        scores: Tensor = self.relations(self.encode_without(graph, hidden), pairs)
        return scores


def joined(one: TRIX, other: TRIX) -> TRIX:
    """One model from an entity network and a relation network, in either order."""
    entity, relation = (one, other) if one.entities is not None else (other, one)
    if entity.config.width != relation.config.width:
        raise CheckpointError(
            f"Expected networks of equal width, found {entity.config.width} and {relation.config.width}."
        )
    names = ("rounds", "round_layers", "round_steps")
    settings = {name: getattr(relation.config, name) for name in names}
    result = TRIX(replace(entity.config, networks="both", **settings))
    result.load_state_dict({**entity.state_dict(), **relation.state_dict()})
    return result


def _stacked(layers: list[nn.Linear]) -> tuple[nn.Parameter, nn.Parameter]:
    """The weights [4, out, in] and biases [4, out] of layers, initialised as torch does."""
    return (
        nn.Parameter(torch.stack([layer.weight.detach() for layer in layers])),
        nn.Parameter(torch.stack([layer.bias.detach() for layer in layers])),
    )
