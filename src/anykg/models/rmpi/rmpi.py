"""RMPI, the NE variant with concatenation: messages between triplets that share an end.

`reference.py` is the definition of the score, `fast.py` computes it for many candidates at once.

Relation vectors are learned for the relations of the training graph and looked up by name, so relabelling entities
changes nothing and renaming relations does: the symmetry is "entities only". On a graph whose set of relations is
another one, all vectors are drawn from the seed of `encode`, also for names that occurred in training; there the scores
are double equivariant in expectation over the draws. They are drawn with the variance of the learned ones, which an L2
penalty makes small; the public code draws standard normal vectors, ten times as long as those learned on EN-FR, and
keeps learned ones for known names.

Further departures from the public code: its distances are those within the subgraph it is about to prune, ours those of
the graph; its disclosing subgraph loses neighbours that are far from the other root, ours has all of them; in training
it squares the dropout weights of parallel triplets and doubles attention, ours drops each triplet whole. A subgraph
without any triplet scores like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Self

import torch
from torch import Tensor, nn

from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import EncodedGraph, LinkPredictor, Symmetry
from anykg.models.recipe import Recipe
from anykg.models.rmpi import fast
from anykg.seeds import derive, torch_generator


@dataclass(frozen=True)
class RMPIConfig:
    """Settings of RMPI; the defaults are the published ones."""

    width: int = 32
    """Width of all vectors."""
    edge_dropout: float = 0.5
    """Share of a subgraph's triplets that is dropped in training, drawn for each layer."""
    num_relations: int = 0
    """Relations of the training graph; set when the model is built."""
    relations: str = ""
    """Hashes of their names; set when the model is built."""

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ConfigError(f"width must be at least 1, found {self.width}.")
        if not 0 <= self.edge_dropout < 1:
            raise ConfigError(f"edge_dropout must be at least 0 and below 1, found {self.edge_dropout}.")


@dataclass(frozen=True, eq=False)
class Encoded(EncodedGraph):
    """A graph and the vectors of its relations."""

    vectors: Tensor  # [R, D]


class RMPI(LinkPredictor):
    """Relational message passing over the triplets around a candidate."""

    Config = RMPIConfig
    # The public loss is the sum over a batch of 16, with an L2 penalty of 5e-2. Adam does not see the scale of a loss
    # but the penalty's share of the gradient: for a mean it is a sixteenth.
    recipe = Recipe(
        epochs=20,
        batch_size=16,
        lr=1e-3,
        weight_decay=5e-2 / 16,
        negative_entities=1,
        sides="either",
        fixed_negatives=True,
        loss="margin",
        margin=10.0,
        select="node/-mr",
        validation_limit=1000,
    )
    symmetry = Symmetry.ENTITIES_ONLY
    hides_facts = False

    def __init__(self, config: RMPIConfig = RMPIConfig()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.config = config
        width = config.width
        self.vectors = nn.Parameter(torch.randn(config.num_relations, width))
        self.first, self.second = (
            nn.Linear(width, fast.KINDS * width) for _ in range(2)
        )  # one map for each kind of link
        self.beside = nn.Linear(width, width)
        self.fuse = nn.Linear(2 * width, width)
        self.last = nn.Linear(width, 1)

    @classmethod
    def build(cls, config: RMPIConfig, graph: KnowledgeGraph) -> Self:
        return cls(replace(config, num_relations=graph.num_relations, relations=relation_keys(graph)))

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> Encoded:
        vectors = self._learned(graph)
        if vectors is None:
            size = (graph.num_relations, self.config.width)
            drawn = torch.randn(size, generator=torch_generator(seed, "relation vectors")).to(self.vectors)
            vectors = drawn * self._spread()
        return Encoded(graph, vectors)

    def score_triplets(self, encoded: Encoded, triplets: Tensor) -> Tensor:
        rows = as_facts(triplets, encoded.num_relations).cpu().numpy()
        return fast.scores(self, encoded.graph, encoded.vectors, rows)

    def training_scores(self, graph: KnowledgeGraph, rows: Tensor, seed: int, targets: Tensor | None = None) -> Tensor:
        del targets  # each row's subgraph treats the row as unknown
        flat = as_facts(rows.reshape(-1, 3), graph.num_relations).cpu().numpy()
        drop = self.config.edge_dropout if self.training else 0.0
        vectors = self.encode(graph, seed).vectors
        return fast.training_scores(self, graph, vectors, flat, drop, derive(seed, "edge dropout")).view(rows.shape[:2])

    @property
    def width(self) -> int:
        """D."""
        return int(self.config.width)

    def _learned(self, graph: KnowledgeGraph) -> Tensor | None:
        """The learned vectors in the order of the graph's relations; None if it has other relations."""
        keys, own = relation_keys(graph), self.config.relations
        if keys == own or ("," not in own and own == graph.derive(_names_digest)):
            return self.vectors
        rows = {key: row for row, key in enumerate(own.split(","))}
        asked = keys.split(",")
        if len(asked) != len(rows) or not rows.keys() >= set(asked):
            return None
        return self.vectors[torch.tensor([rows[key] for key in asked], device=self.vectors.device)]

    def _spread(self) -> float:
        """The standard deviation of all entries of the learned vectors."""
        return float(self.vectors.detach().std()) if self.vectors.numel() > 1 else 1.0


def as_facts(triplets: Tensor, num_relations: int) -> Tensor:
    """The same triplets [B, 3] without inverse relations: (tail, r, head) for (head, r + R, tail)."""
    inverse = (triplets[:, 1] >= num_relations)[:, None]
    turned = triplets.flip(1) - torch.tensor([0, num_relations, 0], device=triplets.device)
    return torch.where(inverse, turned, triplets)


def relation_keys(graph: KnowledgeGraph) -> str:
    """A short hash of each relation's name, in the order of ids, separated by commas."""
    return graph.derive(_relation_keys)


def _relation_keys(graph: KnowledgeGraph) -> str:
    return ",".join(blake2b(name.encode(), digest_size=6).hexdigest() for name in graph.relations)


def _names_digest(graph: KnowledgeGraph) -> str:
    """The equivalent of `relation_keys` in version 0.1: one hash of all names in order."""
    return blake2b("\x1f".join(graph.relations).encode(), digest_size=8).hexdigest()
