"""Build graphs from tables of names that arrive in parts.

Names are mapped to ids as they are read, and only ids are kept.

E triplets over N entities take 12 bytes per triplet and about 100 per entity. A name is identified by a
128-bit hash: the probability that two of ten million names collide is 1 in 10^24.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary


class Interner:
    """Maps names to ids in order of first appearance."""

    def __init__(self) -> None:
        self.count = 0
        self._names: list[pl.Series] = []
        self._slots = np.full(1 << 10, -1, np.int32)
        self._known = np.empty((1 << 9, 2), np.uint64)

    def ids(self, names: pl.Series) -> np.ndarray:
        """The ids [B], int32, of names [B]; new names get the next ids."""
        from anykg.graph.intern import intern

        self._reserve(self.count + len(names))
        keys = np.stack([names.hash(seed).to_numpy() for seed in (1, 2)], axis=1)  # [B, 2]
        ids, fresh = np.empty(len(names), np.int32), np.empty(len(names), np.int64)
        new = intern(keys, self._slots, self._known, self.count, ids, fresh)
        if new:
            # Copied through a list: names picked from a table would keep the memory of the whole table alive.
            self._names.append(pl.Series(names.gather(fresh[:new]).to_list(), dtype=pl.String))
            self.count += new
        return ids

    def vocabulary(self, kind: str) -> Vocabulary:
        """All names so far, in order."""
        return Vocabulary(kind, pl.concat(self._names) if self._names else pl.Series(dtype=pl.String))

    def _reserve(self, count: int) -> None:
        """Room for `count` keys in at most half of the slots."""
        from anykg.graph.intern import enter

        if 2 * count <= len(self._slots):
            return
        size = 1 << (2 * count - 1).bit_length()
        known = np.empty((size // 2, 2), np.uint64)
        known[: self.count] = self._known[: self.count]
        self._slots, self._known = np.full(size, -1, np.int32), known
        enter(self._slots, self._known, self.count)


class GraphBuilder:
    """A graph from tables with columns head, relation, tail."""

    def __init__(self) -> None:
        self.entities, self.relations = Interner(), Interner()
        self.count = 0
        """Number of rows so far, duplicates included."""
        self._parts: list[np.ndarray] = []

    def add(self, table: pl.DataFrame) -> None:
        """Add rows; within a part, heads are numbered before tails."""
        ends = self.entities.ids(pl.concat([table["head"], table["tail"]]))
        heads, tails = np.split(ends, 2)
        self._parts.append(np.stack([heads, self.relations.ids(table["relation"]), tails], axis=1))  # [B, 3]
        self.count += table.height

    def graph(self) -> KnowledgeGraph:
        """The graph of all rows."""
        triplets = np.concatenate(self._parts) if self._parts else np.empty((0, 3), np.int32)
        self._parts.clear()
        return KnowledgeGraph(triplets, self.entities.vocabulary("entity"), self.relations.vocabulary("relation"))
