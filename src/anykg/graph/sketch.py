"""A sketch of a graph's facts, from which the overlap with another graph can be estimated later.

The sketch has the smallest hashes of all facts, by name (MinHash). Facts of another graph whose hash does not exceed
the largest of them would be in the sketch if they were in the first graph, so they are a random sample to estimate
from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np

from anykg.graph.graph import KnowledgeGraph

SIZE = 128
"""Number of hashes in a sketch."""
FEWEST = 5
"""Minimum sample size for an estimate; a sketch with all facts needs none."""


def sketch(graph: KnowledgeGraph) -> list[str]:
    """The hashes, 16 hexadecimal digits each, smallest first."""
    return [f"{value:016x}" for value in np.sort(graph.derive(fact_hashes))[:SIZE].tolist()]


def share_in(graph: KnowledgeGraph, other: Sequence[str]) -> float | None:
    """Estimate the share of the graph's facts that are in the sketched graph; None if too few are comparable."""
    kept = np.array([int(text, 16) for text in other], np.uint64)
    if not len(kept):
        return None
    hashes = graph.derive(fact_hashes)
    compared = hashes if len(kept) < SIZE else hashes[hashes <= kept.max()]
    if not len(compared) or (len(compared) < FEWEST and len(kept) == SIZE):
        return None
    return float(np.isin(compared, kept).mean())


def fact_hashes(graph: KnowledgeGraph) -> np.ndarray:
    """A hash, uint64 [E], of the names of every fact."""
    entities, relations = _hashes(graph.entities), _hashes(graph.relations)
    heads, kinds, tails = graph.triplets.T
    return _mixed(_mixed(_mixed(entities[heads]) + relations[kinds]) + entities[tails])


def _hashes(names: Iterable[str]) -> np.ndarray:
    values = (int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") for name in names)
    return np.fromiter(values, np.uint64)


def _mixed(values: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64: every bit of the result depends on every bit of the value."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ (values >> np.uint64(31)))
