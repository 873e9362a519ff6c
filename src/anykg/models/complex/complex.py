"""ComplEx: a complex vector for every entity and relation of one graph, fitted to its facts in seconds.

The vectors are stored by name, so a fitted model works on its own graph, also after the graph has grown: an unknown
entity gets the mean vector, an unknown relation gives all answers the same score, and `Encoded.knows_*` are masks of
the known ones. A model without vectors fits them when it encodes a graph. That procedure treats all entities and all
relations alike, so over its random initialisation it is double equivariant in expectation.

Source: Trouillon et al. 2016; reciprocal relations, N3 and the full softmax from Lacroix et al. 2018. Departures: facts
with the same query share a row of the softmax; several runs can be averaged, which concatenates their vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.models.base import LinkPredictor, Symmetry
from anykg.models.complex.vectors import product, product_conjugate
from anykg.models.recipe import Recipe


@dataclass(frozen=True)
class ComplExConfig:
    """The size of the vectors and how they are fitted."""

    rank: int = 100
    """Rank: the number of complex numbers in a vector."""
    regularisation: float = 0.05
    """Weight of N3, the cubed moduli of the vectors of every fact."""
    relation_loss: float = 0.05
    """Weight of the loss for relations relative to that for entities."""
    lr: float = 0.1
    """Learning rate of Adagrad."""
    batch_size: int = 500
    """Number of facts per step."""
    sample: int = 0
    """Number of entities in the softmax of a step; 0 uses all."""
    epochs: int = 30
    """Number of epochs when a graph is encoded without fitted vectors."""
    scale: float = 0.01
    """Standard deviation of the initial vectors."""
    num_entities: int = 0
    """Number of entities of the graph it is fitted to; 0 if it is not fitted."""
    num_relations: int = 0
    """Number of relations of the graph it is fitted to."""

    def __post_init__(self) -> None:
        least = {"rank": 1, "regularisation": 0, "relation_loss": 0, "batch_size": 1, "sample": 0, "epochs": 1}
        for name, smallest in (least | {"num_entities": 0, "num_relations": 0}).items():
            if getattr(self, name) < smallest:
                raise ConfigError(f"{name}: expected {smallest} or more, found {getattr(self, name)}.")
        if self.lr <= 0 or self.scale <= 0:
            raise ConfigError(f"lr and scale: expected more than 0, found {self.lr} and {self.scale}.")


@dataclass(frozen=True, eq=False)
class Encoded:
    """The vectors of a graph's entities [N, 2K] and relations [2R, 2K], in its own order."""

    entities: Tensor
    relations: Tensor
    knows_entities: Tensor  # bool [N]
    knows_relations: Tensor  # bool [2R]

    @property
    def num_entities(self) -> int:
        """N."""
        return len(self.entities)

    @property
    def num_relations(self) -> int:
        """R."""
        return len(self.relations) // 2


class ComplEx(LinkPredictor):
    """Vectors by name; if there are none, they are fitted to the encoded graph."""

    Config = ComplExConfig
    config: ComplExConfig
    recipe = Recipe(epochs=0)
    symmetry = Symmetry.IN_EXPECTATION
    reads_whole_graphs = True

    entity_keys: Tensor
    relation_keys: Tensor
    entity_vectors: Tensor
    relation_vectors: Tensor

    def __init__(self, config: ComplExConfig = ComplExConfig()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.config = config
        entities, relations, width = config.num_entities, config.num_relations, 2 * config.rank
        self.register_buffer("entity_keys", torch.zeros(entities, dtype=torch.int64))
        self.register_buffer("relation_keys", torch.zeros(relations, dtype=torch.int64))
        self.register_buffer("entity_vectors", torch.zeros(entities, width))
        self.register_buffer("relation_vectors", torch.zeros(2 * relations, width))

    @property
    def fitted(self) -> bool:
        """Whether it has vectors."""
        return self.config.num_entities > 0

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> Encoded:
        """The vectors of the graph's names; fitted from initial values drawn with `seed` if there are none."""
        device = self.entity_vectors.device
        if not self.fitted:
            from anykg.models.complex.fit import fit_complex

            found = fit_complex(graph, config=self.config, seed=seed).encode(graph)
            return Encoded(*(part.to(device) for part in vars(found).values()))
        entities = rows_of(self.entity_keys, name_keys(graph.entities)).to(device)
        relations = rows_of(self.relation_keys, name_keys(graph.relations)).to(device)
        both = torch.cat([relations, torch.where(relations < 0, -1, relations + self.config.num_relations)])
        middle = self.entity_vectors.mean(0)
        return Encoded(
            torch.where(entities[:, None] < 0, middle, self.entity_vectors[entities]),
            self.relation_vectors[both] * (both >= 0)[:, None],
            entities >= 0,
            both >= 0,
        )

    def score_triplets(self, encoded: Encoded, triplets: Tensor) -> Tensor:
        heads, relations, tails = triplets.T
        queries = product(encoded.entities[heads], encoded.relations[relations])
        return (queries * encoded.entities[tails]).sum(-1)

    def score_tails(
        self, encoded: Encoded, heads: Tensor, relations: Tensor, candidates: Tensor | None = None
    ) -> Tensor:
        queries = product(encoded.entities[heads], encoded.relations[relations])  # [B, 2K]
        if candidates is None:
            return queries @ encoded.entities.T
        return torch.einsum("bd,bcd->bc", queries, encoded.entities[candidates])

    def score_relations(
        self, encoded: Encoded, heads: Tensor, tails: Tensor, candidates: Tensor | None = None
    ) -> Tensor:
        pairs = product_conjugate(encoded.entities[tails], encoded.entities[heads])
        if candidates is None:
            return pairs @ encoded.relations[: encoded.num_relations].T
        return torch.einsum("bd,bcd->bc", pairs, encoded.relations[candidates])


def name_keys(vocabulary: Vocabulary) -> Tensor:
    """The hash of every name [len(vocabulary)], by which vectors are stored."""
    return torch.from_numpy(vocabulary.keys.copy())  # tensors of several models share no memory


def rows_of(known: Tensor, keys: Tensor) -> Tensor:
    """The position of each of `keys` in `known`, -1 if it is missing."""
    known = known.cpu()
    if not len(known):
        return torch.full((len(keys),), -1)
    if len(known) == len(keys) and torch.equal(known, keys):
        return torch.arange(len(keys))
    ordered, order = torch.sort(known)
    at = torch.searchsorted(ordered, keys).clamp(max=len(known) - 1)
    return torch.where(ordered[at] == keys, order[at], -1)
