"""The loops behind `neighbourhood`, compiled: forward push of mass, and the facts between chosen entities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit


class Facts(NamedTuple):
    """A graph as the kernels read it."""

    keys: np.ndarray  # int64 [E], (head * R + relation) * N + tail, ascending
    inverse_keys: np.ndarray  # int64 [E], (tail * R + relation) * N + head, ascending
    starts: np.ndarray
    ends: np.ndarray
    num_relations: int


@njit(cache=True)
def _group_end(keys: np.ndarray, first: int, end: int, bound: int) -> int:
    """The first position from `first` on, before `end`, whose key is `bound` or more; near ones are found first."""
    step = 1
    low, high = first, first + 1
    while high < end and keys[high] < bound:
        low = high
        high += step
        step *= 2
    high = min(high, end)
    while low + 1 < high:
        middle = (low + high) // 2
        if keys[middle] < bound:
            low = middle
        else:
            high = middle
    return high


@njit(cache=True)
def _appended(items: np.ndarray, size: int, item: int) -> np.ndarray:
    """A list with an item at `size`; twice as long if it was full."""
    if size == len(items):
        items = np.concatenate((items, np.empty(size, np.int64)))
    items[size] = item
    return items


@njit(cache=True)
def push(facts, mass, marks, waiting, threshold, kept, offset):  # type: ignore[no-untyped-def]
    """Pass mass on until no entity has `threshold` left to pass.

    `mass` float32 [2, N] is what entities keep and what they have still to pass on; `waiting` are the entities with
    some of the latter. `marks` uint8 [N] has bit 1 for queued entities and bit 2 for all reached before. Returns the
    entities that have mass to pass on, and those that were reached for the first time.
    """
    count = len(facts.starts) - 1
    settled, left = mass
    queue, parked, reached = np.empty(1024, np.int64), np.empty(1024, np.int64), np.empty(1024, np.int64)
    head, tail, num_parked, num_reached = 0, 0, 0, 0
    for entity in waiting:
        queue = _appended(queue, tail, entity)
        tail += 1
        if marks[entity] < 2:
            reached = _appended(reached, num_reached, entity)
            num_reached += 1
        marks[entity] = 3
    while head < tail:
        entity = queue[head]
        head += 1
        marks[entity] = 2
        amount = left[entity]
        if amount < threshold:
            parked = _appended(parked, num_parked, entity)
            num_parked += 1
            continue
        groups = 0
        for side in range(2):
            keys, offsets = (facts.keys, facts.starts) if side == 0 else (facts.inverse_keys, facts.ends)
            at, end = offsets[entity], offsets[entity + 1]
            while at < end:
                at = _group_end(keys, at, end, (keys[at] // count + 1) * count)
                groups += 1
        settled[entity] += kept * amount if groups else amount
        left[entity] = 0
        share = (1 - kept) * amount / max(groups, 1)
        for side in range(2):
            keys, offsets = (facts.keys, facts.starts) if side == 0 else (facts.inverse_keys, facts.ends)
            at, end = offsets[entity], offsets[entity + 1]
            while at < end:
                after = _group_end(keys, at, end, (keys[at] // count + 1) * count)
                size = after - at
                taken = min(size, max(1, int(4 * share / threshold)))
                begin = (offset + entity * 7919) % size if taken < size else 0
                for step in range(taken):
                    other = keys[at + (begin + step * size // taken) % size] % count
                    left[other] += share / taken
                    if marks[other] < 2:
                        reached = _appended(reached, num_reached, other)
                        num_reached += 1
                    if marks[other] % 2 == 0:
                        marks[other] = 3
                        if tail == len(queue) and head > tail // 2:
                            queue[: tail - head] = queue[head:tail].copy()
                            head, tail = 0, tail - head
                        queue = _appended(queue, tail, other)
                        tail += 1
                at = after
    return np.unique(parked[:num_parked]), reached[:num_reached]


@njit(cache=True)
def induced(facts, positions, near, hub):  # type: ignore[no-untyped-def]
    """The facts between entities `near`: their rows, and the later position of each fact's two entities.

    Facts between an entity that is the head of more than `hub` facts and one that is the tail of as many are left out.
    """
    count = len(facts.starts) - 1
    rows, last = np.empty(1024, np.int64), np.empty(1024, np.int64)
    size = 0
    for entity in near:
        for side in range(2):
            keys, offsets = (facts.keys, facts.starts) if side == 0 else (facts.inverse_keys, facts.ends)
            first, end = offsets[entity], offsets[entity + 1]
            if end - first > hub:
                continue
            for at in range(first, end):
                other = keys[at] % count
                if positions[other] < 0:
                    continue
                row = at
                if side == 1:  # only what was not found from the other end
                    if facts.starts[other + 1] - facts.starts[other] <= hub:
                        continue
                    relation = keys[at] // count % facts.num_relations
                    key = (other * facts.num_relations + relation) * count + entity
                    row = np.searchsorted(facts.keys, key)
                if size == len(rows):
                    rows = np.concatenate((rows, np.empty(size, np.int64)))
                    last = np.concatenate((last, np.empty(size, np.int64)))
                rows[size] = row
                last[size] = max(positions[entity], positions[other])
                size += 1
    return rows[:size], last[:size]
