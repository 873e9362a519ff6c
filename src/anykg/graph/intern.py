"""Number 128-bit keys in the order of their first appearance, over any number of batches.

Keys [B] as two uint64 -> ids [B], int32. The keys seen so far are an open-addressing table: `slots` [2^k] holds ids, -1
where free; `keys` [capacity, 2] the key of each id. The caller keeps more than half of the slots free.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FREE = -1


def intern(
    keys: np.ndarray, slots: np.ndarray, known: np.ndarray, count: int, ids: np.ndarray, fresh: np.ndarray
) -> int:
    """Write the ids of `keys` [B, 2], enter new keys into `slots` and `known`, and say how many are new.

    `fresh` gets the place in the batch where each new key is first seen.
    """
    return int(_intern(keys, slots, known, count, ids, fresh))


def intern_reference(
    keys: np.ndarray, slots: np.ndarray, known: np.ndarray, count: int, ids: np.ndarray, fresh: np.ndarray
) -> int:
    """`intern`, by a dictionary of what `known` holds; leaves `slots` alone."""
    del slots
    places = {tuple(key): place for place, key in enumerate(known[:count].tolist())}
    new = 0
    for place, key in enumerate(map(tuple, keys.tolist())):
        if key not in places:
            places[key] = count + new
            known[count + new] = key
            fresh[new] = place
            new += 1
        ids[place] = places[key]
    return new


def enter(slots: np.ndarray, known: np.ndarray, count: int) -> None:
    """Enter the first `count` keys of `known` into free `slots`: a table that has grown."""
    _enter(slots, known, count)


@njit(cache=True)
def _intern(
    keys: np.ndarray, slots: np.ndarray, known: np.ndarray, count: int, ids: np.ndarray, fresh: np.ndarray
) -> int:
    mask = np.uint64(len(slots) - 1)
    new = 0
    for place in range(len(keys)):
        first, second = keys[place, 0], keys[place, 1]
        slot = first & mask
        while True:
            found = slots[slot]
            if found == FREE:
                found = np.int32(count + new)
                slots[slot] = found
                known[found, 0], known[found, 1] = first, second
                fresh[new] = place
                new += 1
                break
            if known[found, 0] == first and known[found, 1] == second:
                break
            slot = (slot + np.uint64(1)) & mask
        ids[place] = found
    return new


@njit(cache=True)
def _enter(slots: np.ndarray, known: np.ndarray, count: int) -> None:
    mask = np.uint64(len(slots) - 1)
    for place in range(count):
        slot = known[place, 0] & mask
        while slots[slot] != FREE:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = place
