"""Lookups in sorted integer keys, by binary search."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Ragged(NamedTuple):
    """B lists of ids: list b is `values[offsets[b]:offsets[b + 1]]`."""

    offsets: np.ndarray  # [B + 1]
    values: np.ndarray

    def __getitem__(self, index: int) -> np.ndarray:  # type: ignore[override]
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    @property
    def rows(self) -> np.ndarray:
        """The list that each value belongs to, of the same length as `values`."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


def distinct(keys: np.ndarray) -> np.ndarray:
    """Return the sorted distinct keys; a full sort is many times faster here than np.unique, which hashes.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    keys = np.sort(keys)
    first = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return keys if first.all() else keys[first]


def find(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the position of each wanted key in sorted keys, -1 where it is absent.

    >>> find(np.array([1, 3, 5]), np.array([5, 2, 1])).tolist()
    [2, -1, 0]
    """
    if not len(keys):
        return np.full(np.shape(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, at, -1)


def ranges(keys: np.ndarray, first: np.ndarray, last: np.ndarray) -> Ragged:
    """Return the keys in [first, last) of every row; `last` may be `first` for none.

    >>> ranges(np.array([1, 3, 5]), np.array([0, 4]), np.array([4, 4]))
    Ragged(offsets=array([0, 2, 2]), values=array([1, 3]))
    """
    start = np.searchsorted(keys, first)
    counts = np.searchsorted(keys, last) - start
    offsets = np.concatenate([[0], np.cumsum(counts)])
    positions = np.arange(offsets[-1]) + np.repeat(start - offsets[:-1], counts)
    return Ragged(offsets, keys[positions])
