"""Map 128-bit keys to ids in the order of their first appearance, over any number of batches.

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
    """Write the ids of `keys` [B, 2], add new keys to `slots` and `known`, and return how many are new.

    `fresh` receives the index in the batch at which each new key first occurs.
    """
    return int(_intern(keys, slots, known, count, ids, fresh))


def intern_reference(
    keys: np.ndarray, slots: np.ndarray, known: np.ndarray, count: int, ids: np.ndarray, fresh: np.ndarray
) -> int:
    """`intern` with a dictionary of the known keys; leaves `slots` alone."""
    del slots
    ids_of = {tuple(key): index for index, key in enumerate(known[:count].tolist())}
    new = 0
    for index, key in enumerate(map(tuple, keys.tolist())):
        if key not in ids_of:
            ids_of[key] = count + new
            known[count + new] = key
            fresh[new] = index
            new += 1
        ids[index] = ids_of[key]
    return new


def enter(slots: np.ndarray, known: np.ndarray, count: int) -> None:
    """Insert the first `count` keys of `known` into empty `slots`, after the table has grown."""
    _enter(slots, known, count)


@njit(cache=True)
def _intern(
    keys: np.ndarray, slots: np.ndarray, known: np.ndarray, count: int, ids: np.ndarray, fresh: np.ndarray
) -> int:
    mask = np.uint64(len(slots) - 1)
    new = 0
    for index in range(len(keys)):
        first, second = keys[index, 0], keys[index, 1]
        slot = first & mask
        while True:
            found = slots[slot]
            if found == FREE:
                found = np.int32(count + new)
                slots[slot] = found
                known[found, 0], known[found, 1] = first, second
                fresh[new] = index
                new += 1
                break
            if known[found, 0] == first and known[found, 1] == second:
                break
            slot = (slot + np.uint64(1)) & mask
        ids[index] = found
    return new


@njit(cache=True)
def _enter(slots: np.ndarray, known: np.ndarray, count: int) -> None:
    mask = np.uint64(len(slots) - 1)
    for index in range(count):
        slot = known[index, 0] & mask
        while slots[slot] != FREE:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = index
