"""The interface of a model: what training, evaluation, prediction and explanation rely on.

Shapes: B queries, N entities, R relations, E triplets, D width, C candidates, K negatives. Relation r + R is the
inverse of r, so a head query (?, r, t) is the tail query (t, r + R, ?). Models only score: they never rank, filter,
print, pick a device or read a file. Randomness at inference comes from the seed given to `encode`.

A model must define `symmetry` and `score_triplets`; everything else has a default. `anykg.testing.check_model` tests
an implementation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor, nn

from anykg.models.recipe import Recipe

if TYPE_CHECKING:
    from anykg.graph.graph import KnowledgeGraph


class Symmetry(StrEnum):
    """How scores respond when entities and relations are relabelled."""

    EXACT = "exact"
    """Scores do not change, up to rounding."""
    IN_EXPECTATION = "in expectation"
    """The distribution of scores over the random draws does not change."""
    ENTITIES_ONLY = "entities only"
    """Relabelling entities changes nothing; relabelling relations changes the scores."""


@dataclass(frozen=True)
class NoSettings:
    """The configuration of a model that has nothing to configure."""


@dataclass(frozen=True, eq=False)
class EncodedGraph:
    """What `encode` returns by default: the graph. Quantities derived from it are cached with `graph.derive`."""

    graph: KnowledgeGraph

    @property
    def num_entities(self) -> int:
        """N."""
        return self.graph.num_entities

    @property
    def num_relations(self) -> int:
        """R."""
        return self.graph.num_relations


class LinkPredictor(nn.Module):
    """The base class of every model. Only `symmetry` and `score_triplets` are required."""

    Config: ClassVar[type] = NoSettings
    """A frozen dataclass with the model's settings; the docstring of a field is its help text."""
    recipe: ClassVar[Recipe] = Recipe()
    """The default training settings."""
    grid: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Settings and the values among which `anykg train --grid` selects by validation."""
    one_thread: ClassVar[bool] = False
    """Train on one thread: steps are so small that a second thread costs more than it saves."""
    symmetry: Symmetry
    """Which relabellings leave the scores unchanged; `anykg verify` tests it."""
    reads_relations: bool = True
    """False for models that score every relation alike; they cannot learn from corrupted relations."""
    reads_direction: bool = True
    """False for models that score (h, r, t) and (t, r, h) alike."""
    relations_apart: bool = False
    """True for models with a separate network for (head, ?, tail): the scores of `score_relations` compare the
    relations of one pair and differ from those of `score_triplets`."""
    reads_whole_graphs: bool = False
    """True for models that by default read graphs of any size as a whole instead of the neighbourhood of a question
    (`evaluation.reading`): those that score all entities at once from vectors or counts, without message passing, and
    those whose weights were learnt on the whole graph."""
    hides_facts: ClassVar[bool] = True
    """False if `training_scores` masks only the row's own fact for each row, not all of `targets`."""

    config: Any
    loaded_as: str = ""
    """The name or folder it was loaded from, for display."""

    def __init__(self, config: Any = None) -> None:
        super().__init__()
        self.config = self.Config() if config is None else config

    @classmethod
    def build(cls, config: Any, graph: KnowledgeGraph) -> Self:
        """Return a model to train on `graph`; only models with a vector per relation depend on the graph."""
        del graph
        return cls(config)

    @classmethod
    def foreign_code(cls, config: Any) -> list[str]:
        """Import paths (`module:attribute`) in a config; a checkpoint that has any is loaded only with `trust`."""
        del config
        return []

    def with_config(self, **settings: Any) -> Self:
        """Return a model with the same weights and other settings, such as more samples at inference."""
        other = type(self)(replace(self.config, **settings))
        other.load_state_dict(self.state_dict())
        one = next(self.parameters(), None)
        return (other if one is None else other.to(one)).train(self.training)

    def upgrade(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Rename or convert the tensors of a checkpoint that an earlier version of the model saved."""
        return tensors

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> Any:
        """Precompute what scoring needs from the graph; `seed` is for models with random inputs.

        The result has the attributes `num_entities` and `num_relations`.
        """
        del seed
        return EncodedGraph(graph)

    def fixed_to(self, graph: KnowledgeGraph) -> LinkPredictor:
        """The same model with everything that `encode` learns from a graph, such as rules, learnt from this one.

        It scores this graph as before, and parts of it, such as the graph without a fact, in the same way.
        """
        del graph
        return self

    def remark(self, graph: KnowledgeGraph) -> str | None:
        """A sentence for users on how questions about this graph are answered, if not as usual."""
        del graph
        return None

    def score_triplets(self, encoded: Any, triplets: Tensor) -> Tensor:
        """Scores [B] of triplets [B, 3]; relation r + R scores (tail, r, head)."""
        raise NotImplementedError

    def score_tails(self, encoded: Any, heads: Tensor, relations: Tensor, candidates: Tensor | None = None) -> Tensor:
        """Scores of (head, relation, ?): [B, N], or [B, C] for candidates [B, C]."""
        if candidates is None:
            everyone = torch.arange(encoded.num_entities, device=heads.device)
            candidates = everyone.expand(len(heads), -1)
        shape = candidates.shape
        rows = torch.stack([heads[:, None].expand(shape), relations[:, None].expand(shape), candidates], dim=-1)
        return self.score_triplets(encoded, rows.reshape(-1, 3)).view(candidates.shape)

    def score_relations(self, encoded: Any, heads: Tensor, tails: Tensor, candidates: Tensor | None = None) -> Tensor:
        """Scores of (head, ?, tail): [B, R], or [B, C] for candidates [B, C]."""
        if candidates is None:
            everything = torch.arange(encoded.num_relations, device=heads.device)
            candidates = everything.expand(len(heads), -1)
        shape = candidates.shape
        rows = torch.stack([heads[:, None].expand(shape), candidates, tails[:, None].expand(shape)], dim=-1)
        return self.score_triplets(encoded, rows.reshape(-1, 3)).view(candidates.shape)

    def score_errors(self, encoded: Any, triplets: Tensor) -> Tensor | None:
        """Standard errors [B] of the scores of triplets [B, 3], for models that average over random draws."""
        del encoded, triplets
        return None

    def edge_relevance(self, graph: KnowledgeGraph, triplet: Tensor) -> Tensor | None:
        """Relevance of each edge in each layer to the score of a triplet [3], not a fact of `graph`: [L, 2E], or None.

        Edges are in the order of `graph.with_inverses()`; an edge (u, r, v) carries a message from v to u. `explain`
        joins edges of positive relevance, at most one per layer, to paths from head to tail, and then tests those by
        removing them. If a model returns None, the default, it removes facts near the triplet one at a time.
        """
        del graph, triplet
        return None

    def training_scores(self, graph: KnowledgeGraph, rows: Tensor, seed: int, targets: Tensor | None = None) -> Tensor:
        """Scores [B, 1 + K] of rows [B, 1 + K, 3]: each target, then its negatives.

        The targets are removed from the graph before it is encoded, so a target's score cannot be read off the fact it
        predicts. `targets` [G, 3] replaces that set if the rows are part of a larger batch, or if the recipe hides more
        facts. An override must keep a target's score independent of whether the target is in `graph`.
        """
        encoded = self.encode(without_targets(graph, rows, targets), seed)
        return self.score_triplets(encoded, rows.reshape(-1, 3)).view(rows.shape[:2])

    def training_tail_scores(self, graph: KnowledgeGraph, queries: Tensor, hidden: Tensor) -> Tensor:
        """Scores [B, N] of all entities as tails of queries [B, 2], (head, relation), for loss = softmax.

        The facts `hidden` [G, 3] are removed from the graph. A model without this method cannot use that loss.
        """
        raise NotImplementedError

    def training_relation_scores(self, graph: KnowledgeGraph, pairs: Tensor, hidden: Tensor) -> Tensor:
        """Scores [B, R] of all relations between pairs [B, 2], (head, tail), of a model with `relations_apart`.

        The facts `hidden` [G, 3] are removed from the graph.
        """
        raise NotImplementedError

    def compiled_loss(
        self,
        graph: KnowledgeGraph,
        rows: Tensor,
        recipe: Recipe,
        targets: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Tensor | None:
        """The recipe's loss of `training_scores`, if the model has a compiled version of it; otherwise None.

        With `labels` [B] rows are [B, 1, 3], and those where it is False are negatives.
        """
        del graph, rows, recipe, targets, labels
        return None


def without_targets(graph: KnowledgeGraph, rows: Tensor, targets: Tensor | None) -> KnowledgeGraph:
    """Remove `targets` [G, 3], by default the targets of the rows [B, 1 + K, 3]; the same graph if none is a fact."""
    return graph.without((rows[:, 0] if targets is None else targets).cpu().numpy())
