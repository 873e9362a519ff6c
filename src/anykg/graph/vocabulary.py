"""Names of entities or relations, in id order, with an optional human-readable label for each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from unicodedata import normalize

import numpy as np
import polars as pl

from anykg.errors import DataError, UnknownName, nearest, words_of
from anykg.graph.text import Text

SHOWN = 3
"""Number of names listed in a message."""
FEW = 1000
"""Up to this many names are looked up one by one in stored buffers; for more, all names are read."""
MANY = 200_000
"""Above this many names, only some are compared with an unknown name."""


class Vocabulary(Sequence[str]):
    """An immutable list of distinct names; the position of a name is its id.

    A name is looked up by exact match, then as a label, then as a prefixed name (`wd:Q42`), if the source of the names
    had prefixes.

    >>> Vocabulary("entity", ["Q142", "Q183"], labels=["France", "Germany"]).index("Germany")
    1
    """

    def __init__(
        self,
        kind: str,
        names: pl.Series | Iterable[str],
        labels: pl.Series | Iterable[str | None] | None = None,
        prefixes: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = kind
        self.prefixes = dict(prefixes or {})
        self.names = names if isinstance(names, pl.Series) else pl.Series(values=list(names), dtype=pl.String)
        if self.names.n_unique() != len(self.names):
            twice = self.names.filter(self.names.is_duplicated())[0]
            raise DataError(f"The {kind} names must be distinct, but {twice!r} occurs more than once.")
        if labels is not None and not isinstance(labels, pl.Series):
            labels = pl.Series(labels, dtype=pl.String)
        if labels is not None and len(labels) != len(self.names):
            raise DataError(f"Expected {len(self.names)} {kind} labels, found {len(labels)}.")
        self.labels = labels

    attributes: pl.DataFrame | None = None
    """Table of further columns in id order, null where a value is missing; None if there are none."""

    @classmethod
    def mapped(cls, kind: str, names: Text, labels: Text | None, prefixes: Mapping[str, str]) -> Vocabulary:
        """A vocabulary over stored buffers, which were checked when they were written."""
        self = cls.__new__(cls)
        self.kind, self.prefixes = kind, dict(prefixes)
        self._text, self._label_text = names, labels
        return self

    _text: Text | None = None
    _label_text: Text | None = None
    _taken: tuple[Vocabulary, np.ndarray] | None = None
    """A selection from another vocabulary by ids; its names are gathered on demand."""

    @cached_property
    def names(self) -> pl.Series:
        """All names."""
        if self._taken is not None:
            return self._taken[0].names.gather(self._taken[1])
        assert self._text is not None
        return self._text.series()

    @cached_property
    def labels(self) -> pl.Series | None:
        """All labels, null for a name without one; None if no name has one."""
        if self._taken is not None:
            labels = self._taken[0].labels
            return None if labels is None else labels.gather(self._taken[1])
        return None if self._label_text is None else self._label_text.series()

    @cached_property
    def keys(self) -> np.ndarray:
        """A 63-bit hash of every name: int64 [len(self)], the same for the same name in any vocabulary."""
        if self._taken is not None:
            found: np.ndarray = self._taken[0].keys[self._taken[1]]
            return found
        digests = b"".join(blake2b(name.encode(), digest_size=8).digest() for name in self)
        return np.frombuffer(digests, "<i8").astype(np.int64) & ((1 << 63) - 1)

    def __len__(self) -> int:
        if self._taken is not None:
            return len(self._taken[1])
        return len(self.names) if self._text is None else self._text.count

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        if self._taken is not None:
            return self._taken[0][int(self._taken[1][int(index)])]
        if self._text is None:
            return str(self.names[int(index)])
        position = range(len(self))[int(index)]
        return self._text.at(position)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names.to_list())

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        return self._id(name) is not None or len(self._labelled(name)) == 1 or self._prefixed(name) is not None

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Vocabulary) and self.names.equals(other.names))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Vocabulary({self.kind!r}, {len(self)} names)"

    def index(self, name: str, start: int = 0, stop: int | None = None) -> int:
        """Return the id of a name or label; raises `UnknownName` with near matches."""
        position = self.find(name)
        if position is None:
            raise self.unknown(name)
        return position

    def unknown(self, name: str, *, suggest: bool = True, others: int = 0) -> UnknownName:
        """Return the error for an unknown name, with near matches if `suggest`."""
        near = self.nearest(name) if suggest else []
        note = ""
        if suggest and not near and len(self) > MANY:
            note = (
                f"Of {len(self):,} names, only those that contain it or its words or share its prefix were searched "
                "for similar ones."
            )
        return UnknownName(self.kind, name, near, others, note=note)

    def find(self, name: str) -> int | None:
        """Return the id of a name or label, or None; a label that several names share raises `DataError`.

        A name without an exact match is compared after Unicode composition (NFC).
        """
        position = self._id(name)
        labelled = self._labelled(name) if position is None else ()
        if len(labelled) == 1:
            return int(labelled[0])
        if position is None:
            position = self._prefixed(name)
        if position is not None:
            return position
        if labelled:
            named = [self[index] for index in labelled[:SHOWN]]
            shown = ", ".join(repr(other) for other in named) + (", ..." if len(labelled) > SHOWN else "")
            raise DataError(f"{name!r} is the label of {len(labelled)} {self.kind} names: {shown}; give the name.")
        composed = self._composed(normalize("NFC", name))
        return next(iter(composed)) if len(composed) == 1 else None

    def nearest(self, name: str) -> list[str]:
        """Return the names and labels most similar to `name`; among very many, only some are compared."""
        known = [column for column in (self.names, self.labels) if column is not None]
        if len(self) > MANY:
            folded = name.casefold()
            known = [_alike(column, folded) for column in known]
        texts = [text for column in known for text in column.drop_nulls().to_list()]
        return nearest(name, texts) or _by_local_name(name, texts)

    def _id(self, name: str) -> int | None:
        """The id of a name, by exact match."""
        if self._text is None:
            return self._ids.get(name)
        return next(iter(self._text.find(name)), None)

    def _labelled(self, label: str) -> Sequence[int]:
        """The ids of the names with a label."""
        if self._label_text is not None:
            return self._label_text.find(label) if label else ()
        if self._text is not None or self.labels is None:
            return ()
        single = self._ids_by_label.get(label)
        if single is not None:
            return (single,)
        ids: list[int] = (self.labels == label).arg_true().to_list()
        return ids

    def _prefixed(self, name: object) -> int | None:
        """The id of the name that a prefixed name stands for."""
        if not self.prefixes or not isinstance(name, str) or ":" not in name:
            return None
        prefix, _, local = name.partition(":")
        return self._id(self.prefixes[prefix] + local) if prefix in self.prefixes else None

    def ids(self, names: pl.Series | Iterable[str]) -> np.ndarray:
        """The ids [len(names)] of many names or labels, int32; the first unknown one raises `UnknownName`."""
        if not isinstance(names, pl.Series):
            names = pl.Series(names, dtype=pl.String)
        if self._text is not None and len(names) < FEW:
            return np.array([self.index(name) for name in names.to_list()], dtype=np.int32)
        table = pl.DataFrame({"name": self.names, "id": np.arange(len(self), dtype=np.int32)})
        ids = pl.DataFrame({"name": names}).join(table, on="name", how="left", maintain_order="left")["id"]
        if ids.null_count():
            return np.array([self.index(name) for name in names.to_list()], dtype=np.int32)
        return ids.to_numpy()

    def label(self, index: int) -> str:
        """The label of an id, or its name if it has none."""
        if self._taken is not None:
            return self._taken[0].label(int(self._taken[1][int(index)]))
        if self._text is not None:
            label = None if self._label_text is None else self._label_text.at(int(index)) or None
        else:
            label = None if self.labels is None else self.labels[int(index)]
        return self[index] if label is None else str(label)

    @property
    def num_labels(self) -> int:
        """The number of names with a label."""
        if self._text is not None:
            return 0 if self._label_text is None else len(self._label_text.order)
        return 0 if self.labels is None else self.labels.count()

    def gather(self, ids: np.ndarray) -> pl.Series:
        """The names [B] of ids [B]; for a few ids, the other names are not read."""
        if self._text is None or len(ids) >= FEW:
            return self.names.gather(ids)
        return pl.Series([self._text.at(index) for index in ids], dtype=pl.String)

    def gather_labels(self, ids: np.ndarray) -> pl.Series:
        """The labels [B] of ids [B], or the names of those without."""
        if self._text is not None and len(ids) < FEW:
            return pl.Series([self.label(index) for index in ids], dtype=pl.String)
        names = self.names.gather(ids)
        return names if self.labels is None else self.labels.gather(ids).fill_null(names)

    def with_labels(self, labels: dict[str, str]) -> Vocabulary:
        """The same names with labels looked up in `labels` (name -> label)."""
        if not labels:
            return self
        return self._described(Vocabulary(self.kind, self.names, [labels.get(name) for name in self], self.prefixes))

    def with_prefixes(self, prefixes: Mapping[str, str]) -> Vocabulary:
        """The same names, with prefixes that `index` expands."""
        if not prefixes:
            return self
        return self._described(Vocabulary(self.kind, self.names, self.labels, prefixes))

    def with_attributes(self, table: pl.DataFrame, key: str) -> Vocabulary:
        """The same names with the other columns of a table as attributes; the first row of each name counts."""
        rows = table.unique(key, keep="first").rename({key: "name"})
        vocabulary = Vocabulary(self.kind, self.names, self.labels, self.prefixes)
        joined = pl.DataFrame({"name": self.names}).join(rows, on="name", how="left", maintain_order="left")
        vocabulary.attributes = joined.drop("name")
        return vocabulary

    def take(self, ids: np.ndarray) -> Vocabulary:
        """The names at distinct `ids`, in that order."""
        taken = Vocabulary.__new__(Vocabulary)
        taken.kind, taken.prefixes, taken._taken = self.kind, dict(self.prefixes), (self, np.asarray(ids))
        if self.attributes is not None:
            taken.attributes = self.attributes[np.asarray(ids)]
        return taken

    def _described(self, other: Vocabulary) -> Vocabulary:
        """The other vocabulary, of the same names, with these attributes."""
        other.attributes = self.attributes
        return other

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names.to_list())}

    def _composed(self, name: str) -> set[int]:
        """The ids of names and labels that equal `name` after Unicode composition."""
        position = self._id(name)
        same = set(self._labelled(name)) | (set() if position is None else {position})
        return same | self._decomposed.get(name, set())

    @cached_property
    def _decomposed(self) -> dict[str, set[int]]:
        """Ids of the names and labels that Unicode composition changes, by what they become."""
        ids_of: dict[str, set[int]] = {}
        for column in (self.names, self.labels):
            if column is not None:
                composed = column.str.normalize("NFC")
                changed = (composed != column).fill_null(False).arg_true()
                for text, index in zip(composed.gather(changed).to_list(), changed.to_list(), strict=True):
                    ids_of.setdefault(text, set()).add(index)
        return ids_of

    @cached_property
    def _ids_by_label(self) -> dict[str, int]:
        """Labels that belong to a single name."""
        if self.labels is None:
            return {}
        counted = pl.DataFrame({"label": self.labels, "id": np.arange(len(self))}).drop_nulls()
        single = counted.filter(pl.col("label").is_unique())
        return dict(zip(single["label"].to_list(), single["id"].to_list(), strict=True))


def _by_local_name(name: str, texts: list[str]) -> list[str]:
    """The IRIs whose last part is most similar to a name, with underscores for spaces."""
    local = {re.split(r"[/#]", text)[-1].replace("_", " "): text for text in texts if "://" in text}
    return [local[part] for part in nearest(name.replace("_", " "), local)]


def _alike(column: pl.Series, folded: str) -> pl.Series:
    """Some of the strings that contain the text or all of its words, or share its beginning, ignoring case."""
    lower = column.str.to_lowercase()
    local = folded.replace(" ", "_")  # as in IRIs
    inside = column.filter(lower.str.contains_any([folded, local]).fill_null(False)).head(FEW)
    begin = column.filter(lower.str.starts_with(folded[: max(3, len(folded) // 2)]).fill_null(False))
    words = column
    for word in words_of(folded) or [folded]:
        words = words.filter(words.str.to_lowercase().str.contains(word, literal=True).fill_null(False))
    return pl.concat([inside, begin.head(5 * FEW), words.head(FEW)])
