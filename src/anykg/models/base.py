"""What a model promises, and what it may rely on.

Shapes: B queries, N entities, R relations, E triplets, D width, C candidates. Relation ids r + R are inverses, so that
a head query (?, r, t) is the tail query (t, r + R, ?). Models score. They never rank, filter, print, pick a device
or read a file. Randomness at inference comes from the seed given to `encode`.
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
    """What relabelling entities and relations does to the scores."""

    EXACT = "exact"
    """Nothing, to rounding."""
    IN_EXPECTATION = "in expectation"
    """Their distribution over the random draws stays the same."""
    ENTITIES_ONLY = "entities only"
    """Relabelling entities does nothing; relabelling relations does."""


@dataclass(frozen=True, eq=False)
class EncodedGraph:
    """For models whose scores need the graph alone: what they compute of it is kept with the graph itself."""

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
    """The contract of every model. `score_triplets` is all a model must have besides `encode`."""

    Config: ClassVar[type]
    """A frozen dataclass with the model's settings; a field's docstring is its help."""
    recipe: ClassVar[Recipe] = Recipe()
    grid: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Values of settings that `anykg train --grid` chooses from by validation."""
    one_thread: ClassVar[bool] = False
    """Its training steps are so small that waiting for a second thread costs more than it saves."""
    symmetry: Symmetry
    reads_relations: bool = True
    """False for models that score every relation alike."""

    config: Any

    @classmethod
    def build(cls, config: Any, graph: KnowledgeGraph) -> Self:
        """A model to train on `graph`; only a model with vectors per relation needs to look at it."""
        del graph
        return cls(config)

    def with_config(self, **settings: Any) -> Self:
        """The same weights under other settings, such as more samples at inference."""
        other = type(self)(replace(self.config, **settings))
        other.load_state_dict(self.state_dict())
        one = next(self.parameters(), None)
        return (other if one is None else other.to(one)).train(self.training)

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> Any:
        """Everything the scores need of the graph, computed once. `seed` is for models that draw inputs."""
        raise NotImplementedError

    def score_triplets(self, encoded: Any, triplets: Tensor) -> Tensor:
        """Scores [B] of triplets [B, 3]; a relation r + R scores (tail, r, head)."""
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
        """Standard errors [B] of the scores of triplets [B, 3], from a model that averages over random draws."""
        del encoded, triplets
        return None

    def training_scores(self, graph: KnowledgeGraph, rows: Tensor, seed: int, targets: Tensor | None = None) -> Tensor:
        """Scores [B, 1 + K] of a batch's rows [B, 1 + K, 3], the target first, its negatives after it.

        A target that is a fact of `graph` must not be read off that fact. Where the rows are only a part of a batch, or
        more is to be left out, `targets` [G, 3] are all facts to leave out, so that every part is scored as the whole
        would be.
        """
        del targets
        encoded = self.encode(graph, seed)
        return self.score_triplets(encoded, rows.reshape(-1, 3)).view(rows.shape[:2])

    def compiled_loss(self, graph: KnowledgeGraph, rows: Tensor, recipe: Recipe) -> Tensor | None:
        """The recipe's loss of `training_scores`, from a model that has it compiled as a whole; None if it has not."""
        del graph, rows, recipe
        return None
