"""Estimate how much two versions of a graph differ, from a sketch of each.

A fact is identified by a 64-bit hash of its names, so that versions with different ids can be compared. A sketch keeps
the smallest hashes: all facts of a graph of up to 65,536, otherwise a random sample, of the same facts in both
versions.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import NamedTuple

import numpy as np

from anykg.atomic import atomic_path
from anykg.graph.graph import KnowledgeGraph

SIZE = 1 << 16
_MIX = np.uint64(0x9E3779B97F4A7C15)


class Sketch(NamedTuple):
    """The facts of a graph, or a sample of them."""

    facts: int
    keys: np.ndarray  # uint64, sorted: the smallest hashes


def sketch_of(graph: KnowledgeGraph) -> Sketch:
    """Sketch a graph; call as `graph.derive(sketch_of)`, which caches the result."""
    heads, relations = (names.names.hash(7).to_numpy() for names in (graph.entities, graph.relations))
    keys = heads[graph.triplets[:, 0]]
    for part in (relations[graph.triplets[:, 1]], heads[graph.triplets[:, 2]]):
        keys = (keys ^ (keys >> np.uint64(29))) * _MIX + part
    keys = (keys ^ (keys >> np.uint64(32))) * _MIX
    if len(keys) > SIZE:
        keys = np.partition(keys, SIZE)[:SIZE]
    return Sketch(len(graph), np.sort(keys))


def difference(one: Sketch, other: Sketch) -> int:
    """The number of facts in only one of two graphs: exact for up to 65,536 facts, otherwise estimated."""
    ends = [sketch.keys[-1] for sketch in (one, other) if sketch.facts > len(sketch.keys)]
    mine, theirs = (sketch.keys[sketch.keys <= min(ends)] if ends else sketch.keys for sketch in (one, other))
    differing = len(np.setxor1d(mine, theirs, assume_unique=True))
    if not ends:
        return differing
    share = differing / max(len(mine) + len(theirs), 1)  # of the facts of both
    return max(round(share * (one.facts + other.facts)), abs(one.facts - other.facts))


def save(sketch: Sketch, path: Path) -> None:
    """Write a sketch."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.save(file, np.concatenate([np.array([sketch.facts], np.uint64), sketch.keys]), allow_pickle=False)


def load(path: Path) -> Sketch | None:
    """Read a sketch; None if the file is missing or unreadable."""
    try:
        stored = np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
        return Sketch(int(stored[0]), stored[1:].astype(np.uint64))
    except (OSError, ValueError, EOFError, IndexError):
        return None
