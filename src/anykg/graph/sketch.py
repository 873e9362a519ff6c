"""A sketch of a graph's facts: enough to tell later how many of another graph's facts were among them.

The sketch holds the smallest of the hashes of all facts, by name. Facts of another graph whose hash is not above the
largest of them would be in the sketch if they were in the first graph, so they are a sample to count from.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from anykg.graph.graph import KnowledgeGraph

SIZE = 128
"""Hashes that a sketch holds."""
FEWEST = 5
"""Facts to count from, below which a sketch says nothing; a sketch that holds all facts always does."""


def sketch(graph: KnowledgeGraph) -> list[str]:
    """The hashes, 16 hexadecimal digits each, smallest first."""
    return [f"{value:016x}" for value in np.sort(graph.derive(fact_hashes))[:SIZE].tolist()]


def share_in(graph: KnowledgeGraph, other: Sequence[str]) -> float | None:
    """About which share of the graph's facts is in the graph that was sketched; None if too few can be compared."""
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
    entities, relations = graph.entities.names.to_list(), graph.relations.names.to_list()
    return np.array(
        [
            int.from_bytes(blake2b(f"{entities[h]}\t{relations[r]}\t{entities[t]}".encode(), digest_size=8).digest())
            for h, r, t in graph.triplets.tolist()
        ],
        np.uint64,
    )
