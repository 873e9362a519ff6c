"""The schema of a graph as a model: whether entities fit the ends of a relation, and whether the direction is right.

score(h, r, t) = log P(r) + log P(h | head of r) + log P(t | tail of r) + log P(direction | r), in this graph's terms:

- An end of a relation repeats its entities or takes new ones, at the rate observed in the graph, so that a relation
  with one head per tail does not use a tail twice.
- Entities new to an end are scored by naive Bayes over the other ends at which they occur and their common attributes
  (such as types), at a temperature chosen by the likelihood of the known entities at the end.
- Direction: how often facts of r are known in both directions, or link an entity to itself, so that a one-way relation
  is not predicted backwards.

There is no training. A fact that is being scored is excluded from the counts of its ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.schema import RelationCounts, ends_of_entities, relation_counts
from anykg.models.base import LinkPredictor, Symmetry
from anykg.models.recipe import Recipe

TEMPERATURES = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0)
TRIED = 60
"""Number of ends on which the temperature is chosen."""
MOST_ATTRIBUTES = 2000
CACHED = 1 << 28
"""Bytes of likelihoods kept."""


@dataclass(frozen=True)
class SchemaConfig:
    """Settings of naive Bayes."""

    smoothing: float = 2.0
    """Pseudo-count of entities at every end."""
    attribute_share: float = 0.002
    """Share of all entities (and at least 20) that must have an attribute for it to count."""


@dataclass(eq=False)
class EncodedSchema:
    """A graph's ends, with the likelihoods computed so far."""

    graph: KnowledgeGraph
    counts: RelationCounts
    keys: np.ndarray  # int64: entity * 2R + end, sorted
    members: np.ndarray  # int64: facts of each key
    facts: np.ndarray  # [2R] facts at each end
    sizes: np.ndarray  # [2R] entities at each end
    repeat: np.ndarray  # [2R] chance that a fact's entity has another fact at the end
    features: sp.csr_array  # [N, K] ends, then attributes
    common: np.ndarray  # [K] share of the entities
    smoothing: float
    temperature: float = 1.0
    cache: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def num_entities(self) -> int:
        """N."""
        return self.graph.num_entities

    @property
    def num_relations(self) -> int:
        """R."""
        return self.graph.num_relations

    def evidence(self, end: int) -> np.ndarray:
        """Log-likelihood ratio [N] of occurring at an end, given the other facts of an entity."""
        at = self.features[:, [end]].nonzero()[0]
        share = np.asarray(self.features[at].sum(0)).reshape(-1)
        given = (share + self.smoothing * self.common) / (len(at) + self.smoothing)
        given, common = np.clip(given, 1e-6, 1 - 1e-6), np.clip(self.common, 1e-6, 1 - 1e-6)
        present, absent = np.log(given / common), np.log((1 - given) / (1 - common))
        present[end] = absent[end] = 0.0
        result: np.ndarray = self.features @ (present - absent).astype(np.float32) + np.float32(absent.sum())
        return result

    def likelihood(self, end: int) -> np.ndarray:
        """Log-probability [N] of every entity as the next one that is new to an end."""
        if end not in self.cache:
            if len(self.cache) * self.num_entities * 4 > CACHED:
                self.cache.clear()
            values = self.evidence(end) / self.temperature if self.sizes[end] else np.zeros(self.num_entities)
            self.cache[end] = _log_softmax(values).astype(np.float32)
        return self.cache[end]

    def known(self, entities: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Facts of entities at ends."""
        wanted = entities.astype(np.int64) * (2 * self.num_relations) + ends
        index = np.minimum(np.searchsorted(self.keys, wanted), max(len(self.keys) - 1, 0))
        if not len(self.keys):
            return np.zeros(wanted.shape, np.int64)
        return np.where(self.keys[index] == wanted, self.members[index], 0)

    def fits(self, entities: np.ndarray, end: int, own: np.ndarray | int = 0) -> np.ndarray:
        """Log-probability of entities at an end; `own` facts at it are left out."""
        seen = self.known(entities, np.full(entities.shape, end)) - own > 0
        again = np.log(self.repeat[end] / max(self.sizes[end], 1))
        new = np.log1p(-self.repeat[end]) + self.likelihood(end)[entities]
        result: np.ndarray = np.where(seen, again, new)
        return result


class SchemaModel(LinkPredictor):
    """Scores by fit at the ends and by direction."""

    Config = SchemaConfig
    config: SchemaConfig
    recipe = Recipe(epochs=0)
    symmetry = Symmetry.EXACT

    def __init__(self, config: SchemaConfig = SchemaConfig()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.config = config

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> EncodedSchema:
        del seed
        kinds = 2 * graph.num_relations
        ends = graph.derive(ends_of_entities).tocoo()
        keys = ends.row.astype(np.int64) * kinds + ends.col
        order = np.argsort(keys)
        present = sp.csr_array((np.ones(len(keys), np.float32), (ends.row, ends.col)), shape=ends.shape)
        features = sp.csr_array(sp.hstack([present, _attributes(graph, self.config.attribute_share)]))
        facts = np.bincount(ends.col, ends.data, minlength=kinds)
        repeated = np.bincount(ends.col, ends.data * (ends.data > 1), minlength=kinds)
        encoded = EncodedSchema(
            graph,
            graph.derive(relation_counts),
            keys[order],
            ends.data[order].astype(np.int64),
            facts,
            np.bincount(ends.col, minlength=kinds),
            (repeated + 0.5) / (facts + 1),
            features,
            np.asarray(features.sum(0)).reshape(-1) / max(graph.num_entities, 1),
            self.config.smoothing,
        )
        encoded.temperature = _temperature(encoded)
        return encoded

    def score_tails(
        self, encoded: EncodedSchema, heads: Tensor, relations: Tensor, candidates: Tensor | None = None
    ) -> Tensor:
        if candidates is not None:
            return super().score_tails(encoded, heads, relations, candidates)
        graph, r = encoded.graph, encoded.num_relations
        asked, kinds = heads.cpu().numpy(), relations.cpu().numpy()
        scores = np.empty((len(asked), encoded.num_entities), np.float32)
        everyone = np.arange(encoded.num_entities)
        for relation in np.unique(kinds):
            mine = kinds == relation
            other = (relation + r) % (2 * r)
            scores[mine] = encoded.fits(everyone, other) + encoded.fits(asked[mine], relation)[:, None]
            scores[mine] += self._direction(encoded, np.array([relation % r]))[0, 0]
        known, reverse = graph.answers(asked, kinds), graph.answers(asked, (kinds + r) % (2 * r))
        rows = np.concatenate([known.rows, reverse.rows, np.arange(len(asked))])
        tails = np.concatenate([known.values, reverse.values, asked]).astype(np.int64)
        special = np.unique(rows * encoded.num_entities + tails)  # known in the opposite direction, or a loop
        rows, tails = special // encoded.num_entities, special % encoded.num_entities
        scores[rows, tails] = self._scores(encoded, np.stack([asked[rows], kinds[rows], tails], axis=1))
        return torch.from_numpy(scores).to(heads.device)

    def score_triplets(self, encoded: EncodedSchema, triplets: Tensor) -> Tensor:
        scores = self._scores(encoded, triplets.cpu().numpy().astype(np.int64))
        return torch.from_numpy(scores.astype(np.float32)).to(triplets.device)

    def _scores(self, encoded: EncodedSchema, triplets: np.ndarray) -> np.ndarray:
        r = encoded.num_relations
        heads, relations, tails = triplets.T
        known = encoded.graph.contains(triplets)
        scores = np.empty(len(triplets))
        for relation in np.unique(relations):
            mine = relations == relation
            own = known[mine].astype(np.int64)
            scores[mine] = encoded.fits(heads[mine], int(relation), own)
            scores[mine] += encoded.fits(tails[mine], int(relation + r) % (2 * r), own)
        result: np.ndarray = scores + self.direction(encoded, triplets)
        return result

    def direction(self, encoded: EncodedSchema, triplets: np.ndarray) -> np.ndarray:
        """Log-probability [B] of the relations of triplets [B, 3] and of their opposite directions."""
        backwards = encoded.graph.contains(triplets[:, ::-1])
        kind = np.where(triplets[:, 0] == triplets[:, 2], 2, backwards.astype(np.int64))
        values = self._direction(encoded, triplets[:, 1] % encoded.num_relations)
        result: np.ndarray = values[np.arange(len(kind)), kind]
        return result

    def _direction(self, encoded: EncodedSchema, relations: np.ndarray) -> np.ndarray:
        """[B, 3]: log-probability of a relation and a fact with unknown opposite, with known opposite, or a loop."""
        facts, loops, mutual = (
            part[relations] for part in (encoded.counts.facts, encoded.counts.loops, encoded.counts.mutual)
        )
        links = facts - loops
        loop = (loops + 0.5) / (facts + 1)
        back = (1 - loop) * (mutual + 0.5) / (links + 1)
        forth = (1 - loop) * (links - mutual + 0.5) / (links + 1)
        prior = np.log((facts + 0.5) / (len(encoded.graph) + 1))
        result: np.ndarray = np.log(np.stack([forth, back, loop], axis=1)) + prior[:, None]
        return result


def _attributes(graph: KnowledgeGraph, share: float) -> sp.csr_array:
    """[N, A]: attributes (relation, entity) that many entities have."""
    triplets = graph.with_inverses().astype(np.int64)
    n = max(graph.num_entities, 1)
    attributes, inverse, counts = np.unique(
        triplets[:, 1] * n + triplets[:, 2], return_inverse=True, return_counts=True
    )
    least = max(20.0, share * n)
    if len(attributes) > MOST_ATTRIBUTES:
        least = max(least, float(np.partition(counts, -MOST_ATTRIBUTES)[-MOST_ATTRIBUTES]))
    number = np.cumsum(counts >= least) - 1
    column = inverse.reshape(-1)
    keep = counts[column] >= least
    rows, columns = triplets[keep, 0], number[column[keep]]
    shape = (graph.num_entities, int((counts >= least).sum()))
    return sp.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)


def _temperature(encoded: EncodedSchema) -> float:
    """The temperature that maximises the likelihood of the entities at the largest ends."""
    ends = np.argsort(-encoded.sizes, kind="stable")[:TRIED]
    totals = np.zeros(len(TEMPERATURES))
    for end in ends[encoded.sizes[ends] > 1]:
        evidence = encoded.evidence(int(end))
        members = encoded.features[:, [end]].nonzero()[0]
        totals += [_log_softmax(evidence / t)[members].mean() for t in TEMPERATURES]
    return TEMPERATURES[int(np.argmax(totals))]


def _log_softmax(values: np.ndarray) -> np.ndarray:
    values = values.astype(np.float64) - values.max(initial=0.0)
    result: np.ndarray = values - np.log(np.exp(values).sum())
    return result
