"""Count what the clauses whose body is a path of three steps imply; shapes are numbered as in `paths`.

For one start s and one choice of directions, the paths s -a- x -b- m -c- e are grouped by m. `three_steps_entries`
lists the steps before m as entries (a, b), each with a gap: the only x on the way, or MANY. An end must not be x, so
the gap of a set of entries is left out of their ends. What the entries of m imply at its ends depends on c only if c is
one of their relations, so all other facts of m are read as one range.

If C1 is a or b, ends are marked in rows of bits, which are counted when all m are done. `three_steps_common` handles
the other cases: C1 is c, or off the path.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from anykg.rules.kernels.paths import APART, CHOICES, LAST_TWO, OUTER, PATTERNS
from anykg.rules.kernels.rows import Rows, Runs, count_rows, new_rows
from anykg.rules.kernels.three_steps_common import count_last, count_off, mark_last, new_seen
from anykg.rules.kernels.three_steps_entries import MANY, NONE, Entries, Work, by_first, by_second, joined, new_work

SLOTS = np.array(
    [pattern * CHOICES + 1 for pattern in range(PATTERNS)]  # C1 is the relation of the first step
    + [pattern * CHOICES + 2 for pattern in (APART, OUTER, LAST_TWO)]  # of the second
)
"""The shape of each slot among those of one choice of directions."""
BY_FIRST, BY_SECOND = (0, 3, 2, 1, 4), (5, 6, 7, -1, -1)
"""Slots as `_mark_own` takes them, -1 for those of the other."""


@njit(cache=True, nogil=True)
def count_three_steps(runs: Runs, sizes: tuple[int, int], own: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Counts [shapes, 3] over the triplets whose head is one of `starts`; own [E, 3] are all facts by head."""
    n, r = sizes
    counts = np.zeros((8 * PATTERNS * CHOICES, 3), np.int64)
    rows = new_rows(len(SLOTS), n, r)
    seen, work = new_seen(runs, n), new_work(n, r)
    has_fact, between = np.zeros(r, np.bool_), np.zeros(n, np.int64)
    for start in starts:
        facts = own[np.searchsorted(own[:, 0], start) : np.searchsorted(own[:, 0], start + 1)]
        for fact in facts:
            has_fact[fact[1]] = True
            between[fact[2]] += 1
        for directions in range(8):
            last = directions >> 2
            entries = by_first(runs, r, start, directions, work)
            _mark_own(runs, last, entries, BY_FIRST, rows, work)
            _mark_own(runs, last, by_second(entries, r, work), BY_SECOND, rows, work)
            shapes = counts[directions * PATTERNS * CHOICES : (directions + 1) * PATTERNS * CHOICES]
            seen.flags[runs.nodes[1 - last, start] : runs.nodes[1 - last, start + 1]] = 255  # the start is not an end
            mark_last(runs, last, entries, seen, work, has_fact, shapes)
            count_last(runs, last, start, facts, seen.flags, shapes)
            count_rows(rows, SLOTS, start, facts, has_fact, shapes)
            count_off(seen, start, facts, has_fact, between, shapes)
        for fact in facts:
            has_fact[fact[1]] = False
            between[fact[2]] = 0
    return counts


@njit(cache=True)
def _mark_own(
    runs: Runs, last: int, entries: Entries, slots: tuple[int, int, int, int, int], rows: Rows, work: Work
) -> None:
    """Mark all ends for C1 the relation by which entries are grouped.

    Slots are those for c apart from both; c = partner; c = own; own = partner; all equal.
    """
    bits, used = rows
    others, edges, kinds, firsts = runs.others, runs.edges, runs.kinds, runs.nodes[last]
    nodes, bounds, owns, partners, gaps = entries
    in_set, position, tag = work.kind, work.position, work.number[0]
    r = used.shape[1]
    words = len(bits) // max(used.size, 1)
    marks = np.empty((5 * r + 2, 4), np.int64)  # what to mark: slot, facts from, to, gap
    for group in range(len(nodes)):
        low, high, own, tag = firsts[nodes[group]], firsts[nodes[group] + 1], owns[group], tag + 1
        if low == high:
            continue
        same, apart, num_many = NONE, NONE, 0
        for i in range(bounds[group], bounds[group + 1]):
            if partners[i] == own:
                same = gaps[i] if slots[3] >= 0 else NONE
            else:
                in_set[partners[i]], position[partners[i]] = tag, i
                apart = joined(apart, gaps[i])
                num_many += gaps[i] == MANY
        begin, count = edges[low], 0
        for run in range(low, high):
            c = kinds[run]
            if c != own and in_set[c] != tag:
                continue
            count = _to_mark(marks, count, slots[0], begin, edges[run], apart)
            count = _to_mark(marks, count, slots[3], begin, edges[run], same)
            here, stop = edges[run], edges[run + 1]
            begin = stop
            if c == own:
                count = _to_mark(marks, count, slots[2], here, stop, apart)
                count = _to_mark(marks, count, slots[4], here, stop, same)
                continue
            gap = gaps[position[c]]
            rest = MANY
            if num_many - (gap == MANY) == 0:
                rest = NONE
                for i in range(bounds[group], bounds[group + 1]):
                    if partners[i] != own and partners[i] != c:
                        rest = joined(rest, gaps[i])
            count = _to_mark(marks, count, slots[1], here, stop, gap)
            count = _to_mark(marks, count, slots[0], here, stop, rest)
            count = _to_mark(marks, count, slots[3], here, stop, same)
        count = _to_mark(marks, count, slots[0], begin, edges[high], apart)
        count = _to_mark(marks, count, slots[3], begin, edges[high], same)
        for i in range(count):
            slot, first, stop, gap = marks[i, 0], marks[i, 1], marks[i, 2], marks[i, 3]
            used[slot, own] = True
            base = (slot * r + own) * words
            skipped = base + (max(gap, 0) >> 6)
            before = bits[skipped]
            for at in range(first, stop):
                end = others[at]
                bits[base + (end >> 6)] |= np.uint64(1) << np.uint64(end & 63)
            if gap >= 0:
                bit = np.uint64(1) << np.uint64(gap & 63)
                bits[skipped] = (bits[skipped] & ~bit) | (before & bit)
    work.number[0] = tag


@njit(cache=True, forceinline=True)
def _to_mark(marks: np.ndarray, count: int, slot: int, first: int, stop: int, gap: int) -> int:
    """Note that the ends of the facts first:stop are to be marked in a slot, except the gap."""
    if gap != NONE and first < stop:
        marks[count, 0], marks[count, 1], marks[count, 2], marks[count, 3] = slot, first, stop, gap
        count += 1
    return count
