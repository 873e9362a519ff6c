"""Untrained baselines that every model should beat: popularity, degree and personalised PageRank.

Popularity assumes that the two ends of a fact are independent given its relation. Degree does the same without the
relation; in a mix it corrects components that rank hubs too high or too low. PageRank is a random walk from the entity
of the question and ignores relation types. All scores are log-probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from anykg.errors import ConfigError
from anykg.graph.graph import HEAD, TAIL, KnowledgeGraph
from anykg.models.base import LinkPredictor, Symmetry
from anykg.models.recipe import Recipe

SCORES_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class PopularityConfig:
    """Smoothing of counts."""

    prior: float = 1.0
    """Pseudo-count of facts, distributed like those of all relations, that is added to each relation."""

    def __post_init__(self) -> None:
        if self.prior <= 0:
            raise ConfigError(f"prior: expected more than 0, found {self.prior}.")


@dataclass(frozen=True, eq=False)
class EncodedCounts:
    """Counts of entities at the ends of relations."""

    counts: csr_matrix  # [2R, N], facts of a relation (inverses from R on) that end in an entity
    background: Tensor  # [2, N], shares of the facts that end (0) or begin (1) in an entity, smoothed
    totals: Tensor  # [R], facts of a relation

    @property
    def num_entities(self) -> int:
        """N."""
        return self.background.shape[1]

    @property
    def num_relations(self) -> int:
        """R."""
        return len(self.totals)


class Popularity(LinkPredictor):
    """log P(r) + log P(h | r) + log P(t | r), with counts smoothed towards those of all relations."""

    Config = PopularityConfig
    config: PopularityConfig
    recipe = Recipe(epochs=0)
    symmetry = Symmetry.EXACT
    reads_whole_graphs = True

    def __init__(self, config: PopularityConfig = PopularityConfig()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.config = config

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> EncodedCounts:
        del seed
        n, r = graph.num_entities, graph.num_relations
        _, relations, ends = torch.from_numpy(graph.with_inverses().astype(np.int64)).T
        counts = csr_matrix((np.ones(len(ends), np.float32), (relations.numpy(), ends.numpy())), (2 * r, n))
        heads, _, tails = torch.from_numpy(graph.triplets.astype(np.int64)).T
        background = torch.stack([torch.bincount(x, minlength=n) for x in (tails, heads)]).float() + 1
        totals = torch.bincount(relations[: len(graph)], minlength=r).float()
        return EncodedCounts(counts, background / background.sum(1, keepdim=True), totals)

    def score_tails(
        self, encoded: EncodedCounts, heads: Tensor, relations: Tensor, candidates: Tensor | None = None
    ) -> Tensor:
        device = heads.device
        heads, relations = heads.cpu(), relations.cpu()
        asked, row = torch.unique(relations, return_inverse=True)
        ends = self._log_shares(encoded, asked)[row]  # [B, N]
        start = self._at(encoded, self._turned(encoded, relations), heads)
        scores = ends if candidates is None else ends.gather(1, candidates.cpu())
        return (scores + (start + self._log_relation(encoded, relations))[:, None]).to(device)

    def score_relations(
        self, encoded: EncodedCounts, heads: Tensor, tails: Tensor, candidates: Tensor | None = None
    ) -> Tensor:
        everything = torch.arange(encoded.num_relations)
        ends = self._log_shares(encoded, everything, tails.cpu())
        starts = self._log_shares(encoded, self._turned(encoded, everything), heads.cpu())
        scores = (starts + ends).T + self._log_relation(encoded, everything)
        return (scores if candidates is None else scores.gather(1, candidates.cpu())).to(heads.device)

    def score_triplets(self, encoded: EncodedCounts, triplets: Tensor) -> Tensor:
        heads, relations, tails = triplets.cpu().T
        ends = self._at(encoded, self._turned(encoded, relations), heads) + self._at(encoded, relations, tails)
        return (ends + self._log_relation(encoded, relations)).to(triplets.device)

    def _log_shares(self, encoded: EncodedCounts, relations: Tensor, entities: Tensor | None = None) -> Tensor:
        """The matrix log P(entity | relation) [K, N] of relations [K], or [K, B] for entities [B]."""
        counts, background = encoded.counts[relations.numpy()], encoded.background
        if entities is not None:
            counts, background = counts[:, entities.numpy()], background[:, entities]
        prior = self.config.prior * background[(relations >= encoded.num_relations).long()]
        totals = encoded.totals[relations % encoded.num_relations] + self.config.prior
        return ((torch.from_numpy(counts.toarray()) + prior) / totals[:, None]).log()

    def _at(self, encoded: EncodedCounts, relations: Tensor, entities: Tensor) -> Tensor:
        """The values log P(entity | relation) [B] of pairs."""
        asked, row = torch.unique(relations, return_inverse=True)
        ends, column = torch.unique(entities, return_inverse=True)
        return self._log_shares(encoded, asked, ends)[row, column]

    def _log_relation(self, encoded: EncodedCounts, relations: Tensor) -> Tensor:
        totals = encoded.totals + self.config.prior
        return (totals / totals.sum()).log()[relations % encoded.num_relations]

    def _turned(self, encoded: EncodedCounts, relations: Tensor) -> Tensor:
        r = encoded.num_relations
        return torch.where(relations < r, relations + r, relations - r)


@dataclass(frozen=True)
class DegreeConfig:
    """No settings."""


@dataclass(frozen=True, eq=False)
class EncodedDegrees:
    """The log of every entity's share of the ends of all facts."""

    log_shares: Tensor  # [N], smoothed
    num_relations: int

    @property
    def num_entities(self) -> int:
        """N."""
        return len(self.log_shares)


class Degree(LinkPredictor):
    """log P(h) + log P(t), with P(e) the share of the ends of facts that are e, whatever the relation."""

    Config = DegreeConfig
    config: DegreeConfig
    recipe = Recipe(epochs=0)
    symmetry = Symmetry.EXACT
    reads_relations = False
    reads_whole_graphs = True

    def __init__(self, config: DegreeConfig = DegreeConfig()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.config = config

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> EncodedDegrees:
        del seed
        ends = graph.triplets[:, [HEAD, TAIL]].astype(np.int64).ravel()
        counts = torch.from_numpy(np.bincount(ends, minlength=graph.num_entities)).float() + 1
        return EncodedDegrees((counts / counts.sum()).log(), graph.num_relations)

    def score_tails(
        self, encoded: EncodedDegrees, heads: Tensor, relations: Tensor, candidates: Tensor | None = None
    ) -> Tensor:
        del relations
        ends = encoded.log_shares[None] if candidates is None else encoded.log_shares[candidates.cpu()]
        return (encoded.log_shares[heads.cpu()][:, None] + ends).to(heads.device)

    def score_relations(
        self, encoded: EncodedDegrees, heads: Tensor, tails: Tensor, candidates: Tensor | None = None
    ) -> Tensor:
        scores = self.score_triplets(encoded, torch.stack([heads, heads, tails], 1))
        return scores[:, None].expand(-1, encoded.num_relations if candidates is None else candidates.shape[1])

    def score_triplets(self, encoded: EncodedDegrees, triplets: Tensor) -> Tensor:
        heads, _, tails = triplets.cpu().T
        return (encoded.log_shares[heads] + encoded.log_shares[tails]).to(triplets.device)


@dataclass(frozen=True)
class PageRankConfig:
    """Settings of the random walk."""

    damping: float = 0.7
    """Probability of continuing at each step instead of restarting."""
    steps: int = 8
    """Number of steps after which the walk is truncated."""
    floor: float = 0.01
    """Share of the walks that end in a uniformly drawn entity, so that every score is finite."""

    def __post_init__(self) -> None:
        if not 0 < self.damping < 1 or not 0 < self.floor < 1:
            raise ConfigError(f"damping and floor: expected 0 to 1, found {self.damping} and {self.floor}.")
        if self.steps < 1:
            raise ConfigError(f"steps: expected 1 or more, found {self.steps}.")


@dataclass(frozen=True, eq=False)
class EncodedWalk:
    """The transition matrix of a walk over facts, in either direction."""

    moves: csr_matrix  # [N, N], the chance of going from column to row
    num_relations: int

    @property
    def num_entities(self) -> int:
        """N."""
        return int(self.moves.shape[0])


class PageRank(LinkPredictor):
    """The log of how often a walk from the head, restarted there at random, visits the tail."""

    Config = PageRankConfig
    config: PageRankConfig
    recipe = Recipe(epochs=0)
    symmetry = Symmetry.EXACT
    reads_relations = False

    def __init__(self, config: PageRankConfig = PageRankConfig()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.config = config

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> EncodedWalk:
        del seed
        n = graph.num_entities
        starts, _, ends = graph.with_inverses().T
        degrees = np.maximum(np.bincount(starts, minlength=n), 1).astype(np.float32)
        return EncodedWalk(csr_matrix((1 / degrees[starts], (ends, starts)), (n, n)), graph.num_relations)

    def visits(self, encoded: EncodedWalk, heads: Tensor) -> Tensor:
        """Log visit probabilities [B, N]; the start counts only if the walk returns to it."""
        blocks = torch.split(heads, max(SCORES_AT_ONCE // max(encoded.num_entities, 1), 1))
        return torch.cat([self._visits(encoded, block) for block in blocks])

    def _visits(self, encoded: EncodedWalk, heads: Tensor) -> Tensor:
        walk: np.ndarray = np.zeros((encoded.num_entities, len(heads)), np.float32)
        walk[heads.numpy(), np.arange(len(heads))] = 1
        seen = np.zeros_like(walk)
        for _ in range(self.config.steps):
            walk = self.config.damping * (encoded.moves @ walk)
            seen += walk
        seen *= (1 - self.config.damping) / self.config.damping
        return torch.from_numpy(np.log(seen * (1 - self.config.floor) + self.config.floor / encoded.num_entities).T)

    def score_tails(
        self, encoded: EncodedWalk, heads: Tensor, relations: Tensor, candidates: Tensor | None = None
    ) -> Tensor:
        del relations
        asked, row = torch.unique(heads.cpu(), return_inverse=True)
        scores = self.visits(encoded, asked)[row]
        return (scores if candidates is None else scores.gather(1, candidates.cpu())).to(heads.device)

    def score_relations(
        self, encoded: EncodedWalk, heads: Tensor, tails: Tensor, candidates: Tensor | None = None
    ) -> Tensor:
        scores = self.score_triplets(encoded, torch.stack([heads, heads, tails], 1))
        return scores[:, None].expand(-1, encoded.num_relations if candidates is None else candidates.shape[1])

    def score_triplets(self, encoded: EncodedWalk, triplets: Tensor) -> Tensor:
        heads, _, tails = triplets.cpu().T
        asked, row = torch.unique(heads, return_inverse=True)
        return self.visits(encoded, asked)[row, tails].to(triplets.device)
