"""The loops behind `neighbourhood`, compiled: forward push of mass, and the facts between chosen entities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit


class Facts(NamedTuple):
    """A graph in the form used by the kernels."""

    keys: np.ndarray  # int64 [E], (head * R + relation) * N + tail, ascending
    inverse_keys: np.ndarray  # int64 [E], (tail * R + relation) * N + head, ascending
    starts: np.ndarray
    ends: np.ndarray
    num_relations: int


@njit(cache=True, nogil=True)
def _group_end(keys: np.ndarray, first: int, end: int, bound: int) -> int:
    """The first position in [`first`, `end`) whose key is at least `bound`, by galloping search."""
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


@njit(cache=True, nogil=True)
def _appended(items: np.ndarray, size: int, item: int) -> np.ndarray:
    """A list with an item at `size`; twice as long if it was full."""
    if size == len(items):
        items = np.concatenate((items, np.empty(max(size, 1), np.int64)))
    items[size] = item
    return items


@njit(cache=True, nogil=True)
def push(facts, mass, seeds, least, kept):  # type: ignore[no-untyped-def]
    """Push mass, at least `least` along a fact, until no entity can; return the entities with mass.

    `mass` int64 [2, N] is the settled mass of entities and their residual mass, initially at `seeds`. An entity keeps
    one part in `kept` of the residual, the remainders of divisions, and the shares of groups that are too large. All
    entities of a step push simultaneously, and masses are integers, so the result does not depend on the order of
    entities and relations.
    """
    count = len(facts.starts) - 1
    settled, left = mass
    reached, step, following = seeds.copy(), seeds, np.empty(1024, np.int64)
    marks = np.zeros(count, np.uint8)  # 1: reached, 2: in the next step
    marks[seeds] = 1
    num_reached = len(reached)
    while len(step):
        amounts = left[step]
        num_following = 0
        for index in range(len(step)):
            entity, amount = step[index], amounts[index]
            passed = amount - amount // kept
            groups = _num_groups(facts, entity, passed // least)
            if groups < 0:  # not enough for each; more may come
                continue
            left[entity] -= amount
            share = passed // max(groups, 1)
            settled[entity] += amount - share * groups
            for side in range(2):
                keys, offsets = (facts.keys, facts.starts) if side == 0 else (facts.inverse_keys, facts.ends)
                at, end = offsets[entity], offsets[entity + 1]
                while at < end:
                    after = _group_end(keys, at, end, (keys[at] // count + 1) * count)
                    each = share // (after - at)
                    if each < least:
                        settled[entity] += share
                        at = after
                        continue
                    settled[entity] += share - each * (after - at)
                    for position in range(at, after):
                        other = keys[position] % count
                        left[other] += each
                        if marks[other] < 2:
                            if marks[other] == 0:
                                reached = _appended(reached, num_reached, other)
                                num_reached += 1
                            marks[other] = 2
                            following = _appended(following, num_following, other)
                            num_following += 1
                    at = after
        step = following[:num_following].copy()
        marks[step] = 1
    return reached[:num_reached]


@njit(cache=True, nogil=True)
def _num_groups(facts, entity, most):  # type: ignore[no-untyped-def]
    """The number of relations, by direction, in which an entity has facts; -1 for more than `most`."""
    count = len(facts.starts) - 1
    groups = 0
    for side in range(2):
        keys, offsets = (facts.keys, facts.starts) if side == 0 else (facts.inverse_keys, facts.ends)
        at, end = offsets[entity], offsets[entity + 1]
        while at < end:
            groups += 1
            if groups > most:
                return -1
            at = _group_end(keys, at, end, (keys[at] // count + 1) * count)
    return groups


@njit(cache=True, nogil=True)
def induced(facts, positions, near, hub):  # type: ignore[no-untyped-def]
    """The facts between entities `near`: their rows, and the later position of each fact's two entities.

    Facts are left out if their head is the head of more than `hub` facts and their tail is the tail of more than `hub`
    facts.
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
