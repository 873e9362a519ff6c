"""Random scores, independent of the graph: the baseline of every table.

A triplet's score is a hash of (seed, head, relation, tail): the same triplet scores the same in every batch, and the
draws of another seed are independent of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor, Symmetry
from anykg.models.recipe import Recipe
from anykg.seeds import derive


@dataclass(frozen=True)
class RandomConfig:
    """No settings."""


@dataclass(frozen=True)
class Encoded:
    """The sizes of a graph and the seed of its scores."""

    num_entities: int
    num_relations: int
    seed: int


class RandomScorer(LinkPredictor):
    """Uniform scores in [0, 1)."""

    Config = RandomConfig
    recipe = Recipe(epochs=0)
    symmetry = Symmetry.IN_EXPECTATION
    reads_whole_graphs = True

    def __init__(self, config: RandomConfig = RandomConfig()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.config = config

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> Encoded:
        return Encoded(graph.num_entities, graph.num_relations, derive(seed, "random scores"))

    def score_triplets(self, encoded: Encoded, triplets: Tensor) -> Tensor:
        inverse = triplets[:, 1] >= encoded.num_relations
        heads, tails = triplets[:, 0].where(~inverse, triplets[:, 2]), triplets[:, 2].where(~inverse, triplets[:, 0])
        relations = triplets[:, 1] % encoded.num_relations
        state = torch.full_like(heads, encoded.seed)
        for part in (heads, relations, tails):
            state = _mix(state ^ _mix(part + 1))
        return (state & 0xFFFFFF).float() / 0x1000000


def _mix(x: Tensor) -> Tensor:
    """A 64-bit finaliser (splitmix): every input bit changes half of the output bits."""
    x = (x ^ (x >> 30)) * -4658895280553007687
    x = (x ^ (x >> 27)) * -7723592293110705685
    return x ^ (x >> 31)
