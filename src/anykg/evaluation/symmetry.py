"""Test the symmetry a model declares: relabel a graph at random and compare the scores.

Symmetry alone is trivial, since even a constant scorer has it: `separates` tests that a model distinguishes triplets
that no relabelling maps onto each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor, Symmetry
from anykg.seeds import generator

TOLERANCE = 1e-4
"""Largest deviation attributed to rounding, relative to the range of the scores (or to 1, if that is larger)."""
DRAWS = 64
"""Number of random draws to test symmetry in expectation."""
Z_LIMIT = 5.0
"""Means further apart than this many standard errors differ; by chance, about one in a million does."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of a relabelling test."""

    symmetry: Symmetry
    """The declared symmetry."""
    relabelled: str
    """What was relabelled: entities and relations, or entities alone."""
    largest: float
    """The largest deviation of a score; in expectation, of a mean score in standard errors."""
    allowed: float
    triplets: int
    separated: int
    """Number of different scores among them."""

    @property
    def holds(self) -> bool:
        """Whether the declared symmetry holds."""
        return self.largest <= self.allowed


def verify(model: LinkPredictor, graph: KnowledgeGraph, *, count: int = 200, seed: int = 0) -> Verdict:
    """Relabel `graph` at random and compare the scores of `count` triplets, facts and others, both directions."""
    rng = generator(seed, "verify")
    triplets = sample_triplets(graph, count, rng)
    entity_order = rng.permutation(graph.num_entities)
    names_only = model.symmetry is Symmetry.ENTITIES_ONLY
    relation_order = np.arange(graph.num_relations) if names_only else rng.permutation(graph.num_relations)
    renamed = graph.relabel(entity_order, relation_order)
    moved = relabel_triplets(triplets, entity_order, relation_order)
    model.eval()
    with torch.no_grad():
        if model.symmetry is Symmetry.IN_EXPECTATION:
            # Independent draws on either side: equal means, whatever the draws have in common.
            before = torch.stack([_score(model, graph, triplets, 2 * i) for i in range(DRAWS)])  # [DRAWS, count]
            after = torch.stack([_score(model, renamed, moved, 2 * i + 1) for i in range(DRAWS)])
            error = ((before.var(0) + after.var(0)) / DRAWS).sqrt().clamp(min=1e-9)
            largest, allowed = float(((before.mean(0) - after.mean(0)).abs() / error).max()), Z_LIMIT
            scores = before[0]
        else:
            scores, again = _score(model, graph, triplets, 0), _score(model, renamed, moved, 0)
            largest = float((scores - again).abs().max())
            allowed = TOLERANCE * max(1.0, float(scores.max() - scores.min()))
    return Verdict(
        symmetry=model.symmetry,
        relabelled="entities" if names_only else "entities and relations",
        largest=largest,
        allowed=allowed,
        triplets=len(triplets),
        separated=len(torch.unique(scores)),
    )


def separates(
    model: LinkPredictor, graph: KnowledgeGraph, one: tuple[str, str, str], other: tuple[str, str, str]
) -> bool:
    """Return whether two triplets, given by name, get different scores."""
    rows = np.array(
        [[graph.entities.index(h), graph.relations.index(r), graph.entities.index(t)] for h, r, t in (one, other)]
    )
    with torch.no_grad():
        first, second = _score(model.eval(), graph, rows, 0).tolist()
    return bool(abs(first - second) > TOLERANCE * 1e-2 * max(1.0, abs(first), abs(second)))


def sample_triplets(graph: KnowledgeGraph, count: int, rng: np.random.Generator) -> np.ndarray:
    """`count` triplets [count, 3]: facts, then random ones; every other one inverted (relation r + R)."""
    facts = graph.triplets[rng.permutation(len(graph))[: count // 2]].astype(np.int64)
    rest = count - len(facts)
    others = np.stack(
        [
            rng.integers(graph.num_entities, size=rest),
            rng.integers(graph.num_relations, size=rest),
            rng.integers(graph.num_entities, size=rest),
        ],
        axis=1,
    )
    triplets = np.concatenate([facts, others])
    triplets[1::2] = graph.inverted(triplets[1::2])
    return triplets


def relabel_triplets(triplets: np.ndarray, entity_order: np.ndarray, relation_order: np.ndarray) -> np.ndarray:
    """Triplets [B, 3] under the same renaming as `KnowledgeGraph.relabel`, inverse relations included."""
    both = np.concatenate([relation_order, relation_order + len(relation_order)])
    return np.stack([entity_order[triplets[:, 0]], both[triplets[:, 1]], entity_order[triplets[:, 2]]], axis=1)


def _score(model: LinkPredictor, graph: KnowledgeGraph, triplets: np.ndarray, seed: int) -> Tensor:
    scores = model.score_triplets(model.encode(graph, seed), torch.from_numpy(triplets))
    if torch.isnan(scores).any():
        raise FloatingPointError(f"{int(torch.isnan(scores).sum())} of {len(scores)} scores are NaN.")
    return scores.double()
