"""UQER clauses as a model: a logistic score over the evidence of a fixed set of clauses for a triplet.

The clauses name no entities or relations (`rules.shapes`, `rules.evidence`), so their weights, learnt on one graph,
apply to any other: about 200 numbers, and every score is a sum of readable terms. The model is exactly double
equivariant. The paper defines what a clause implies; with `evidence = "implied"` this is the only feature, 0 or 1. By
default, the number of groundings and the share of cases in which they hold in the graph at hand are features as well.
Targets are removed from the graph in training, so that no share counts the fact to be learnt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from anykg.errors import SettingError
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import EncodedGraph, LinkPredictor, Symmetry
from anykg.models.recipe import Recipe
from anykg.rules.evidence import Feature, evidence, features

ROWS = 1 << 16
"""Number of triplets whose evidence is in memory at a time."""


@dataclass(frozen=True)
class UQERConfig:
    """Which clauses are used, and which features of them."""

    length: int = 3
    """Longest path in a clause, 1 to 3."""
    evidence: Literal["graded", "implied"] = "graded"
    """How often and how reliably a clause applies; or only whether it implies the triplet."""

    def __post_init__(self) -> None:
        if not 1 <= self.length <= 3:
            raise SettingError("length", f"expected 1 to 3, found {self.length}")


class UQER(LinkPredictor):
    """Weighted clauses."""

    Config = UQERConfig
    config: UQERConfig
    recipe = Recipe(
        epochs=20,
        batch_size=512,
        lr=0.05,
        targets="held-out",
        target_share=0.1,
        inverses=True,
        negative_entities=16,
        sides="tail",
        negative_relations=8,
        loss="self-adversarial",
    )
    symmetry = Symmetry.EXACT

    def __init__(self, config: UQERConfig = UQERConfig()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.config = config
        self.weight = nn.Parameter(0.1 * torch.randn(len(self.features)))
        self.bias = nn.Parameter(torch.zeros(()))

    @property
    def features(self) -> tuple[Feature, ...]:
        """What each weight belongs to."""
        return features(self.config.length, self.config.evidence == "graded")

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> EncodedGraph:
        del seed
        return EncodedGraph(graph)

    def evidence(self, graph: KnowledgeGraph, triplets: Tensor) -> Tensor:
        """[B, F] on triplets [B, 3]."""
        graded = self.config.evidence == "graded"
        features = evidence(graph, triplets.cpu().numpy(), length=self.config.length, graded=graded)
        return torch.from_numpy(features).to(self.weight)

    def score_triplets(self, encoded: EncodedGraph, triplets: Tensor) -> Tensor:
        parts = [
            self.evidence(encoded.graph, triplets[first : first + ROWS]) @ self.weight + self.bias
            for first in range(0, max(len(triplets), 1), ROWS)
        ]
        return torch.cat(parts)
