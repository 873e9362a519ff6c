"""Measure bodies of rules: where a path leads, the pairs it links, and which of them have a relation."""

from __future__ import annotations

import numpy as np
from numba import njit

from anykg.rules.kernels.joins import NONE, Adjacency, Scratch, scratch, step_one, step_three, step_two, stride


@njit(cache=True, nogil=True)
def path_ends(adjacent: Adjacency, start: int, body: np.ndarray, buffers: Scratch) -> tuple[int, np.ndarray, int]:
    """Where a path of up to three steps [3] leads from a start: how many entities, these, and the facts read.

    The entities are marked with the current tick.
    """
    found, reached = step_one(adjacent, start, body[0], buffers), buffers.first
    if body[1] == NONE:
        buffers.tick[0] += 1
        for i in range(found):
            buffers.mark[reached[i]] = buffers.tick[0]
        return found, reached, 0
    found, work = step_two(adjacent, start, found, body[1], buffers)
    if body[2] == NONE:
        return found, buffers.second, work
    found, more = step_three(adjacent, start, found, body[2], buffers)
    return found, buffers.third, work + more


@njit(cache=True, nogil=True)
def count_starts(
    adjacent: Adjacency, body: np.ndarray, relation: int, most_starts: int, most_work: int, buffers: Scratch
) -> np.ndarray:
    """Measure a path [3] from each start apart: rows [S, 3] of pairs, support and partial, as `count_bodies` sums them.

    Starts are taken, and limited, as there.
    """
    low, high = adjacent.start_offsets[body[0]], adjacent.start_offsets[body[0] + 1]
    total = high - low
    step, work, size = stride(total), 0, 0
    rows = np.zeros((min(total, most_starts), 3), np.int64)
    while size < len(rows) and work <= most_work:
        start = adjacent.starts[low + (size * step) % total]
        found, _, more = path_ends(adjacent, start, body, buffers)
        first, last = adjacent.offsets[start], adjacent.offsets[start + 1]
        work += more + last - first
        rows[size, 0] = found
        for at in range(first, last):
            if adjacent.relations[at] == relation:
                rows[size, 1] += buffers.mark[adjacent.tails[at]] == buffers.tick[0]
                rows[size, 2] = found
        size += 1
    return rows[:size].copy()


@njit(cache=True, nogil=True)
def count_bodies(
    adjacent: Adjacency, bodies: np.ndarray, most_starts: int, most_work: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Measure paths [B, 3]: the pairs each joins [B], rows [S, 4] of body, relation, support, partial; starts used [B].

    Partial counts the pairs whose first entity has any fact of the relation. A path that starts at more than
    `most_starts` entities, or reads more than `most_work` facts, is measured on a sample of them; the counts are those
    of the sample.
    """
    num_entities, kinds = len(adjacent.offsets) - 1, len(adjacent.start_offsets) - 1
    buffers = scratch(num_entities)
    pairs, used = np.zeros(len(bodies), np.int64), np.zeros(len(bodies), np.int64)
    held, touched = np.zeros(kinds, np.int64), np.empty(kinds, np.int64)
    partial = np.zeros(kinds, np.int64)
    rows, size = np.empty((1 << 12, 4), np.int64), 0
    for body in range(len(bodies)):
        low, high = adjacent.start_offsets[bodies[body, 0]], adjacent.start_offsets[bodies[body, 0] + 1]
        total = high - low
        step = stride(total)
        count, work = 0, 0
        for number in range(min(total, most_starts)):
            if work > most_work:
                break
            used[body] += 1
            start = adjacent.starts[low + (number * step) % total]
            found, _, more = path_ends(adjacent, start, bodies[body], buffers)
            work += more
            if found == 0:
                continue
            pairs[body] += found
            tick = buffers.tick[0]
            work += adjacent.offsets[start + 1] - adjacent.offsets[start]
            last = NONE
            for at in range(adjacent.offsets[start], adjacent.offsets[start + 1]):
                relation = adjacent.relations[at]
                if relation != last:
                    last = relation
                    if partial[relation] == 0:
                        touched[count] = relation
                        count += 1
                    partial[relation] += found
                if buffers.mark[adjacent.tails[at]] == tick:
                    held[relation] += 1
        while size + count > len(rows):
            rows = np.concatenate((rows, np.empty_like(rows)))
        for i in range(count):
            relation = touched[i]
            if held[relation]:
                rows[size, 0], rows[size, 1] = body, relation
                rows[size, 2], rows[size, 3] = held[relation], partial[relation]
                size += 1
            held[relation], partial[relation] = 0, 0
    return pairs, rows[:size].copy(), used


@njit(cache=True, nogil=True)
def joined_pairs(adjacent: Adjacency, body: np.ndarray, most: int) -> np.ndarray:
    """The pairs [P, 2] linked by a path of up to three steps [3]; `most` + 1 of them if there are more."""
    buffers = scratch(len(adjacent.offsets) - 1)
    pairs, size = np.empty((1 << 10, 2), np.int64), 0
    for i in range(adjacent.start_offsets[body[0]], adjacent.start_offsets[body[0] + 1]):
        start = adjacent.starts[i]
        found, reached, _ = path_ends(adjacent, start, body, buffers)
        for number in range(found):
            if size > most:
                return pairs[:size].copy()
            if size == len(pairs):
                pairs = np.concatenate((pairs, np.empty_like(pairs)))
            pairs[size, 0], pairs[size, 1] = start, reached[number]
            size += 1
    return pairs[:size].copy()
