"""Shuffle lists of distinct values among each other: every list keeps its length, every value its number of lists.

The curveball algorithm: two lists of a group pool the values that only one of them has, and redistribute the pool at
random. After a few trades per list, all such arrangements are about equally likely.
"""

from __future__ import annotations

import numpy as np
from numba import njit

TRADES = 5
"""Trades per list."""


@njit(cache=True)
def curveball(
    values: np.ndarray, offsets: np.ndarray, groups: np.ndarray, num_values: int, random: np.random.Generator
) -> np.ndarray:
    """The values [E] of lists values[offsets[i]:offsets[i + 1]], traded among the lists groups[g]:groups[g + 1]."""
    result = values.copy()
    owner = np.zeros(num_values, np.int8)
    pool = np.empty(len(values), values.dtype)
    for group in range(len(groups) - 1):
        first, lists = groups[group], groups[group + 1] - groups[group]
        if lists < 2:
            continue
        for _ in range(TRADES * lists):
            one = first + int(random.random() * lists)
            two = first + int(random.random() * (lists - 1))
            two += two >= one
            _trade(
                result[offsets[one] : offsets[one + 1]], result[offsets[two] : offsets[two + 1]], owner, pool, random
            )
    return result


@njit(cache=True)
def _trade(one: np.ndarray, two: np.ndarray, owner: np.ndarray, pool: np.ndarray, random: np.random.Generator) -> None:
    """Redistribute the values that only one of two lists has."""
    for value in one:
        owner[value] += 1
    for value in two:
        owner[value] += 2
    size = 0
    for values, mine in ((one, 1), (two, 2)):
        for value in values:
            if owner[value] == mine:
                pool[size] = value
                size += 1
    for i in range(size - 1, 0, -1):
        j = int(random.random() * (i + 1))
        pool[i], pool[j] = pool[j], pool[i]
    taken = 0
    for values, mine in ((one, 1), (two, 2)):
        for i in range(len(values)):
            if owner[values[i]] == mine:
                owner[values[i]] = 0
                values[i] = -pool[taken] - 1
                taken += 1
    for values in (one, two):
        for i in range(len(values)):
            if values[i] < 0:
                values[i] = -values[i] - 1
            else:
                owner[values[i]] = 0
