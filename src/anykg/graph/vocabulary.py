"""Names of entities or relations, in id order, with an optional human-readable label for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from unicodedata import normalize

import numpy as np
import polars as pl

from anykg.errors import DataError, UnknownName, nearest

SHOWN = 3
"""Names that a message lists."""


class Vocabulary(Sequence[str]):
    """An immutable list of distinct names; the position of a name is its id.

    A name is looked up as it is; where that fails, as a label, then as a prefixed name (`wd:Q42`), if the file that the
    names are from had prefixes.

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

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        return str(self.names[int(index)])

    def __iter__(self) -> Iterator[str]:
        return iter(self.names.to_list())

    def __contains__(self, name: object) -> bool:
        return name in self._ids or name in self._ids_by_label or self._prefixed(name) is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.names.equals(other.names)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Vocabulary({self.kind!r}, {len(self)} names)"

    def index(self, name: str, start: int = 0, stop: int | None = None) -> int:
        """Return the id of a name or label; raises `UnknownName` with near matches."""
        found = self.find(name)
        if found is None:
            raise UnknownName(self.kind, name, self.nearest(name))
        return found

    def find(self, name: str) -> int | None:
        """Return the id of a name or label, or None; a label that several names share raises `DataError`.

        A name that is not there as it is written is compared after Unicode composition (NFC).
        """
        found = self._ids.get(name, self._ids_by_label.get(name))
        if found is None:
            found = self._prefixed(name)
        if found is not None:
            return found
        if self.labels is not None:
            named = self.names.filter(self.labels == name).to_list()
            if len(named) > 1:
                shown = ", ".join(repr(other) for other in named[:SHOWN]) + (", ..." if len(named) > SHOWN else "")
                raise DataError(f"{name!r} is the label of {len(named)} {self.kind} names: {shown}; give the name.")
        composed = self._ids_composed.get(normalize("NFC", name), set())
        return next(iter(composed)) if len(composed) == 1 else None

    def nearest(self, name: str) -> list[str]:
        """Return the names and labels most like `name`."""
        return nearest(name, [*self._ids, *self._ids_by_label])

    def _prefixed(self, name: object) -> int | None:
        """The id of the name that a prefixed name stands for."""
        if not self.prefixes or not isinstance(name, str) or ":" not in name:
            return None
        prefix, _, local = name.partition(":")
        return self._ids.get(self.prefixes[prefix] + local) if prefix in self.prefixes else None

    def ids(self, names: pl.Series | Iterable[str]) -> np.ndarray:
        """The ids [len(names)] of many names or labels, int32; the first unknown one raises `UnknownName`."""
        if not isinstance(names, pl.Series):
            names = pl.Series(names, dtype=pl.String)
        table = pl.DataFrame({"name": self.names, "id": np.arange(len(self), dtype=np.int32)})
        found = pl.DataFrame({"name": names}).join(table, on="name", how="left", maintain_order="left")["id"]
        if found.null_count():
            return np.array([self.index(name) for name in names.to_list()], dtype=np.int32)
        return found.to_numpy()

    def label(self, index: int) -> str:
        """The label of an id, or its name where it has none."""
        label = None if self.labels is None else self.labels[int(index)]
        return self[index] if label is None else str(label)

    def with_labels(self, labels: dict[str, str]) -> Vocabulary:
        """The same names with labels looked up in `labels` (name -> label)."""
        if not labels:
            return self
        return Vocabulary(self.kind, self.names, [labels.get(name) for name in self], self.prefixes)

    def with_prefixes(self, prefixes: Mapping[str, str]) -> Vocabulary:
        """The same names, which prefixed names are looked up in as well."""
        return Vocabulary(self.kind, self.names, self.labels, prefixes) if prefixes else self

    def take(self, ids: np.ndarray) -> Vocabulary:
        """The names at `ids`, in that order."""
        labels = None if self.labels is None else self.labels.gather(ids)
        return Vocabulary(self.kind, self.names.gather(ids), labels, self.prefixes)

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names.to_list())}

    @cached_property
    def _ids_composed(self) -> dict[str, set[int]]:
        """Ids by name and label with all accents composed."""
        found: dict[str, set[int]] = {}
        for known in (self._ids, self._ids_by_label):
            for name, index in known.items():
                found.setdefault(normalize("NFC", name), set()).add(index)
        return found

    @cached_property
    def _ids_by_label(self) -> dict[str, int]:
        """Labels that stand for one name only."""
        if self.labels is None:
            return {}
        counted = pl.DataFrame({"label": self.labels, "id": np.arange(len(self))}).drop_nulls()
        single = counted.filter(pl.col("label").is_unique())
        return dict(zip(single["label"].to_list(), single["id"].to_list(), strict=True))
