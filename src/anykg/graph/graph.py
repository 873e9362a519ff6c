"""The knowledge graph: facts as integers, with vocabularies of names.

Triplets [E, 3] are (head, relation, tail), int32, distinct, sorted; that order makes equal graphs equal arrays, and
membership a binary search. A query relation may be given as r + R, the inverse of r: its tails are the heads of r.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import polars as pl

from anykg.errors import DataError
from anykg.graph.keys import Ragged as Ragged
from anykg.graph.keys import distinct, find, ranges
from anykg.graph.vocabulary import Vocabulary

T = TypeVar("T")
LARGE = 100_000
"""Minimum number of rows for which names are mapped to ids by a compiled loop, which takes a moment to import."""

HEAD, RELATION, TAIL = range(3)
COLUMNS = ("head", "relation", "tail")
"""The columns of triplets [E, 3]."""


class KnowledgeGraph:
    """An immutable set of facts over named entities and relations.

    Entities and relations need not occur in a triplet. `name` describes where a graph comes from; it is for display
    only and not part of the content.
    """

    name: str
    arrays: Mapping[str, np.ndarray] = MappingProxyType({})
    """Further arrays of a packed graph by name, such as sorted edges, which are slow to compute."""
    packed: Path | None = None
    """The packed file that it was opened from."""

    def __init__(self, triplets: np.ndarray, entities: Vocabulary, relations: Vocabulary) -> None:
        triplets = np.asarray(triplets)
        if triplets.ndim != 2 or triplets.shape[1] != 3:
            raise DataError(f"Expected triplets of shape [E, 3], found {list(triplets.shape)}.")
        self.entities, self.relations = entities, relations
        sizes = (self.num_entities, self.num_relations, self.num_entities)
        if self.num_entities**2 * max(self.num_relations, 1) >= 2**63:
            raise DataError(
                f"{self.num_entities} entities and {self.num_relations} relations exceed the 2^63 possible triplets "
                "that can be indexed; split the graph."
            )
        for column, (name, size) in enumerate(zip(("head", "relation", "tail"), sizes, strict=True)):
            values = triplets[:, column]
            if len(values) and (values.min() < 0 or values.max() >= size):
                bad = values.max() if values.max() >= size else values.min()
                raise DataError(f"Expected {name} ids from 0 to {size - 1}, found {bad}.")
        self._keys = distinct(self._key(triplets[:, 0], triplets[:, 1], triplets[:, 2]))
        self._keys.setflags(write=False)
        n, r = max(self.num_entities, 1), max(self.num_relations, 1)
        pair, tail = np.divmod(self._keys, n)
        head, relation = np.divmod(pair, r)
        self.triplets = np.stack([head, relation, tail], axis=1, dtype=np.int32, casting="unsafe")  # [E, 3]
        self.triplets.setflags(write=False)
        self.name = "graph"
        self._derived: dict[Any, Any] = {}

    @classmethod
    def stored(
        cls,
        triplets: np.ndarray,
        entities: Vocabulary,
        relations: Vocabulary,
        *,
        keys: np.ndarray,
        inverse_keys: np.ndarray,
        pair_keys: np.ndarray,
        digest: str,
    ) -> KnowledgeGraph:
        """A graph from arrays that `lookups` and `digest` returned before; nothing is checked or computed."""
        self = cls.__new__(cls)
        self.triplets, self.entities, self.relations = triplets, entities, relations
        self._keys, self._inverse_keys, self._pair_keys = keys, inverse_keys, pair_keys
        self.digest, self.name, self._derived = digest, "graph", {}
        return self

    @property
    def lookups(self) -> dict[str, np.ndarray]:
        """The sorted keys [E] behind the lookups, all computed."""
        return {"keys": self._keys, "inverse_keys": self._inverse_keys, "pair_keys": self._pair_keys}

    @classmethod
    def from_names(
        cls,
        heads: pl.Series | Iterable[str],
        relations: pl.Series | Iterable[str],
        tails: pl.Series | Iterable[str],
    ) -> KnowledgeGraph:
        """A graph from three columns of names; ids follow first appearance, heads before tails."""
        for values in (heads, relations, tails):
            if isinstance(values, str):
                raise DataError(f"Expected columns of names, found the single name {values!r}; give a list.")
        columns = [pl.Series(values, dtype=pl.String) for values in (heads, relations, tails)]
        if len({len(column) for column in columns}) > 1:
            raise DataError(f"Expected as many heads as relations and tails, found {[len(c) for c in columns]}.")
        if any(column.null_count() for column in columns):
            raise DataError("Expected a name for every head, relation and tail, found a missing one.")
        if len(columns[0]) > LARGE:
            from anykg.graph.builder import GraphBuilder

            builder = GraphBuilder()
            builder.add(pl.DataFrame(dict(zip(("head", "relation", "tail"), columns, strict=True))))
            return builder.graph()
        ends = pl.concat([columns[0], columns[2]])
        entities = Vocabulary("entity", ends.unique(maintain_order=True))
        kinds = Vocabulary("relation", columns[1].unique(maintain_order=True))
        head_ids, tail_ids = np.split(entities.ids(ends), 2)
        return cls(np.stack([head_ids, kinds.ids(columns[1]), tail_ids], axis=1), entities, kinds)

    @property
    def num_entities(self) -> int:
        """N."""
        return len(self.entities)

    @property
    def num_relations(self) -> int:
        """R, inverses not counted."""
        return len(self.relations)

    @property
    def num_triplets(self) -> int:
        """E."""
        return len(self._keys)

    def __len__(self) -> int:
        return self.num_triplets

    def __repr__(self) -> str:
        return (
            f"KnowledgeGraph({self.num_entities:,} entities, {self.num_relations:,} relations, "
            f"{self.num_triplets:,} facts)"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KnowledgeGraph) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def digest(self) -> str:
        """A hash of the content in id order: names, triplets and, if there are any, attributes."""
        content = blake2b(digest_size=16)
        for vocabulary in (self.entities, self.relations):
            lengths = vocabulary.names.str.len_bytes().to_numpy().astype(np.int64)
            content.update(np.int64(len(vocabulary)).tobytes() + lengths.tobytes())
            content.update("".join(vocabulary.names.to_list()).encode())
        content.update(self.triplets.tobytes())
        for column in () if self.entities.attributes is None else self.entities.attributes:
            content.update(f"{column.name} {column.to_list()}".encode())
        return content.hexdigest()

    @property
    def nbytes(self) -> int:
        """Bytes of the triplets and of the lookups computed so far; names are not counted."""
        lookups = (self.__dict__.get(name) for name in ("_inverse_keys", "_pair_keys"))
        return int(self.triplets.nbytes + self._keys.nbytes + sum(k.nbytes for k in lookups if k is not None))

    def derive(self, build: Callable[..., T], *arguments: Any) -> T:
        """`build(graph, *arguments)`, computed once and cached with this graph."""
        key = (build, arguments)
        if key not in self._derived:
            self._derived[key] = build(self, *arguments)
        result: T = self._derived[key]
        return result

    # -- lookups ------------------------------------------------------------------------------------------------

    def contains(self, triplets: np.ndarray) -> np.ndarray:
        """Whether each of the triplets [..., 3] is a fact, bool [...]; a relation r + R refers to (tail, r, head)."""
        known: np.ndarray = self.positions(triplets) >= 0
        return known

    def positions(self, triplets: np.ndarray) -> np.ndarray:
        """Return the row in `self.triplets` of each of the triplets [..., 3], -1 if it is not a fact."""
        triplets = np.asarray(triplets)
        heads, relations, tails = triplets[..., 0], triplets[..., 1], triplets[..., 2]
        inverse = relations >= self.num_relations
        return find(
            self._keys,
            self._key(
                np.where(inverse, tails, heads),
                np.where(inverse, relations - self.num_relations, relations),
                np.where(inverse, heads, tails),
            ),
        )

    def answers(self, heads: np.ndarray, relations: np.ndarray) -> Ragged:
        """The known tails of each query (head, relation); with relation r + R the known heads of r."""
        heads, relations = np.asarray(heads, np.int64), np.asarray(relations, np.int64)
        n, r = max(self.num_entities, 1), max(self.num_relations, 1)
        inverse = relations >= self.num_relations
        first = (heads * r + np.where(inverse, relations - self.num_relations, relations)) * n
        offsets, values = ranges(self._keys, first, np.where(inverse, first, first + n))
        if inverse.any():
            other_offsets, other = ranges(self._inverse_keys, first, np.where(inverse, first + n, first))
            merged = np.diff(offsets) + np.diff(other_offsets)
            rows = np.concatenate([Ragged(offsets, values).rows, Ragged(other_offsets, other).rows])
            values = np.concatenate([values, other])[np.argsort(rows, kind="stable")]
            offsets = np.concatenate([[0], np.cumsum(merged)])
        return Ragged(offsets, (values % n).astype(np.int32))

    def relations_between(self, heads: np.ndarray, tails: np.ndarray) -> Ragged:
        """The known relations of each pair (head, tail)."""
        heads, tails = np.asarray(heads, np.int64), np.asarray(tails, np.int64)
        r = max(self.num_relations, 1)
        first = (heads * self.num_entities + tails) * r
        offsets, values = ranges(self._pair_keys, first, first + r)
        return Ragged(offsets, (values % r).astype(np.int32))

    def with_inverses(self) -> np.ndarray:
        """Triplets [2E, 3]: the facts, then (tail, relation + R, head) of each in the same order."""
        return np.concatenate([self.triplets, self.inverted(self.triplets)])

    def inverted(self, triplets: np.ndarray) -> np.ndarray:
        """The inverse triplets [..., 3]: (tail, r + R, head), and back for relations from R on."""
        flipped = np.asarray(triplets)[..., ::-1].copy()
        relations, r = flipped[..., 1], self.num_relations
        flipped[..., 1] = np.where(relations < r, relations + r, relations - r)
        return flipped

    # -- new graphs from old ------------------------------------------------------------------------------------

    def with_triplets(self, triplets: np.ndarray) -> KnowledgeGraph:
        """Other facts over the same entities and relations."""
        return KnowledgeGraph(triplets, self.entities, self.relations)

    def subset(self, keep: np.ndarray) -> KnowledgeGraph:
        """Only the facts at `keep` (indices or a mask over [E]); names stay."""
        return self.with_triplets(self.triplets[keep])

    def without(self, triplets: np.ndarray) -> KnowledgeGraph:
        """Drop the facts among triplets [B, 3], in either direction (r or r + R); returns `self` if there are none."""
        rows = self.positions(triplets)
        if not (rows >= 0).any():
            return self
        keep = np.ones(len(self), bool)
        keep[rows[rows >= 0]] = False
        return self.subset(keep)

    def union(self, other: KnowledgeGraph) -> KnowledgeGraph:
        """The union of the facts of both graphs, with entities and relations merged by name."""
        if self.entities == other.entities and self.relations == other.relations:
            return self.with_triplets(np.concatenate([self.triplets, other.triplets]))
        entities, entity_ids = _join(self.entities, other.entities)
        relations, relation_ids = _join(self.relations, other.relations)
        moved = np.stack(
            [
                entity_ids[other.triplets[:, 0]],
                relation_ids[other.triplets[:, 1]],
                entity_ids[other.triplets[:, 2]],
            ],
            axis=1,
        )
        return KnowledgeGraph(np.concatenate([self.triplets, moved]), entities, relations)

    def relabel(self, entity_order: np.ndarray, relation_order: np.ndarray) -> KnowledgeGraph:
        """The same facts with entity i renumbered to entity_order[i], relation k to relation_order[k]."""
        moved = np.stack(
            [
                entity_order[self.triplets[:, 0]],
                relation_order[self.triplets[:, 1]],
                entity_order[self.triplets[:, 2]],
            ],
            axis=1,
        )
        return KnowledgeGraph(
            moved,
            self.entities.take(np.argsort(entity_order)),
            self.relations.take(np.argsort(relation_order)),
        )

    # -- exchange with other libraries --------------------------------------------------------------------------

    def to_polars(self) -> pl.DataFrame:
        """A table of names with columns head, relation, tail."""
        return pl.DataFrame(
            {
                "head": self.entities.names.gather(self.triplets[:, 0]),
                "relation": self.relations.names.gather(self.triplets[:, 1]),
                "tail": self.entities.names.gather(self.triplets[:, 2]),
            }
        )

    @classmethod
    def from_polars(cls, table: pl.DataFrame) -> KnowledgeGraph:
        """A graph from a table with columns head, relation, tail (or just three columns in that order)."""
        names = ["head", "relation", "tail"]
        if not set(names) <= set(table.columns):
            if table.width != 3:
                raise DataError(f"Expected columns head, relation, tail; found {', '.join(table.columns)}.")
            names = table.columns
        return cls.from_names(*(table[name].cast(pl.String) for name in names))

    # -- internals ----------------------------------------------------------------------------------------------

    def _key(self, heads: np.ndarray, relations: np.ndarray, tails: np.ndarray) -> np.ndarray:
        n, r = max(self.num_entities, 1), max(self.num_relations, 1)
        keys: np.ndarray = (heads.astype(np.int64) * r + relations) * n + tails
        return keys

    @cached_property
    def _inverse_keys(self) -> np.ndarray:
        """(tail, relation, head) packed and sorted: the heads of (relation, tail) are one range."""
        return np.sort(self._key(self.triplets[:, 2], self.triplets[:, 1], self.triplets[:, 0]))

    @cached_property
    def _pair_keys(self) -> np.ndarray:
        """(head, tail, relation) packed and sorted: the relations of a pair are one range."""
        heads, relations, tails = self.triplets.T.astype(np.int64)
        return np.sort((heads * self.num_entities + tails) * max(self.num_relations, 1) + relations)


def _join(mine: Vocabulary, theirs: Vocabulary) -> tuple[Vocabulary, np.ndarray]:
    """One vocabulary with the names of both, those of `mine` first, and the new id of each name of `theirs`."""
    names = pl.concat([mine.names, theirs.names]).unique(maintain_order=True)
    labels = {
        name: label
        for vocabulary in (theirs, mine)
        if vocabulary.labels is not None
        for name, label in zip(vocabulary, vocabulary.labels.to_list(), strict=True)
        if label is not None
    }
    joined = Vocabulary(mine.kind, names).with_labels(labels)
    return joined, joined.ids(theirs.names)
