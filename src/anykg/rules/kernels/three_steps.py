# ruff: noqa: SIM109 - a compiled `in` compares equal types only
"""Count what the clauses whose body is a path of three steps imply; shapes are numbered as in `paths`.

For one start s and one choice of directions, the paths s -a- x -b- m -c- e are taken by m. The steps before m are a
list of entries (a, b), each with a `gap`: the only x on the way, or MANY. An end must not be x, so the gap of a set of
entries is left out of their ends. What the entries of m imply at its ends depends on c only if c is one of their
relations, so all other facts of m are read in one stretch.

If C1 is a or b, ends are marked in rows of bits, which are counted when all m are done. If C1 is c, each (c, e) has a
flag. If C1 is off the path, an end keeps the relations that all its paths have in common, at most three.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from anykg.rules.kernels.paths import CHOICES, IMPLIED, PARTIAL, PATTERNS, SUPPORT
from anykg.rules.kernels.rows import Rows, Runs, count_rows, new_rows

MANY, NONE = -1, -2
"""Gaps of entries: several x, so that no end is left out; there is no entry."""
APART, FIRST_TWO, OUTER, LAST_TWO, ALL = range(PATTERNS)
"""Patterns: which of the three relations are equal."""
SLOTS = np.array(
    [pattern * CHOICES + 1 for pattern in range(PATTERNS)]  # C1 is the relation of the first step
    + [pattern * CHOICES + 2 for pattern in (APART, OUTER, LAST_TWO)]  # of the second
)
"""The shape of each slot among those of one choice of directions."""
BY_FIRST, BY_SECOND = (0, 3, 2, 1, 4), (5, 6, 7, -1, -1)
"""Slots as `_mark_own` takes them, -1 for those of the other."""
LAST_SHAPES = (APART * CHOICES + 3, FIRST_TWO * CHOICES + 2)
"""C1 is the relation of the last step alone, for the first two patterns."""
MARKED, DONE = 1, 4
"""Flags of (c, E2), shifted by the pattern: C1 = c is implied; no path with c can change what all have in common."""
FIELD, MASK = np.uint64(20), np.uint64((1 << 20) - 1)
REACHED = np.uint64(1 << 63)
"""A set of up to three relations is a word of three fields, relation + 1; this bit is set in all of them."""


class Entries(NamedTuple):
    """The first two steps of paths, each (a, b, m) once, in groups with one m and one of the two relations."""

    nodes: np.ndarray  # int32 [G]: m
    bounds: np.ndarray  # int32 [G + 1]: the entries of a group
    own: np.ndarray  # int32 [G]: the relation of the group
    partners: np.ndarray  # int32 [entries]: the other relation
    gaps: np.ndarray  # int32 [entries]


class Seen(NamedTuple):
    """What is known of the last step's relation and of those that all paths have in common."""

    flags: np.ndarray  # uint8 [Q]: by the run of E2 and c
    common: np.ndarray  # uint64 [PATTERNS, N]: relations on all paths to E2, 0 if there is none
    ends: np.ndarray  # int64 [PATTERNS, N]: every E2 found
    num_ends: np.ndarray  # int64 [PATTERNS]


class Work(NamedTuple):
    """Working memory; a set of relations or entities is emptied by a new number."""

    number: np.ndarray  # int64 [1]
    kind: np.ndarray  # int64 [R]: the number, if the relation is in the set
    position: np.ndarray  # int64 [R]: where it is
    entity: np.ndarray  # int64 [N]
    size: np.ndarray  # int32 [N]: ways to each entity


@njit(cache=True, nogil=True)
def count_three_steps(runs: Runs, sizes: tuple[int, int], own: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Counts [shapes, 3] over the triplets whose head is one of `starts`; own [E, 3] are all facts by head."""
    n, r = sizes
    counts = np.zeros((8 * PATTERNS * CHOICES, 3), np.int64)
    rows = new_rows(len(SLOTS), n, r)
    seen = Seen(
        np.zeros(len(runs.kinds), np.uint8),
        np.zeros((PATTERNS, n), np.uint64),
        np.empty((PATTERNS, n), np.int64),
        np.zeros(PATTERNS, np.int64),
    )
    work = Work(
        np.zeros(1, np.int64),
        np.zeros(r, np.int64),
        np.zeros(r, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int32),
    )
    has_fact, between = np.zeros(r, np.bool_), np.zeros(n, np.int64)
    for start in starts:
        facts = own[np.searchsorted(own[:, 0], start) : np.searchsorted(own[:, 0], start + 1)]
        for fact in facts:
            has_fact[fact[1]] = True
            between[fact[2]] += 1
        for directions in range(8):
            last = directions >> 2
            nodes, bounds, kinds, gaps = _two_steps(runs, r, start, directions, work.size)
            by_first = _by_first(nodes, bounds, kinds, gaps, r, work)
            by_second = _by_second(by_first, r, work)
            _mark_own(runs, last, by_first, BY_FIRST, rows, work)
            _mark_own(runs, last, by_second, BY_SECOND, rows, work)
            shapes = counts[directions * PATTERNS * CHOICES : (directions + 1) * PATTERNS * CHOICES]
            seen.flags[runs.nodes[1 - last, start] : runs.nodes[1 - last, start + 1]] = 255  # the start is no end
            _mark_last(runs, last, by_first, seen, work, has_fact, shapes)
            _count_last(runs, last, start, facts, seen.flags, shapes)
            count_rows(rows, SLOTS, start, facts, has_fact, shapes)
            _count_off(seen, start, facts, has_fact, between, shapes)
        for fact in facts:
            has_fact[fact[1]] = False
            between[fact[2]] = 0
    return counts


@njit(cache=True)
def _two_steps(
    runs: Runs, r: int, start: int, directions: int, size: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Every way of two steps, by where it arrives: the m [G], bounds [G + 1], a * R + b, and x, by rising a."""
    way, then = directions & 1, (directions >> 1) & 1
    low, high = runs.nodes[way, start], runs.nodes[way, start + 1]
    for at in range(runs.edges[low], runs.edges[high]):
        x = runs.others[at]
        for to in range(runs.edges[runs.nodes[then, x]], runs.edges[runs.nodes[then, x + 1]]):
            size[runs.others[to]] += 1
    size[start] = 0
    total, groups = 0, 0
    for m in range(len(size)):
        total += size[m]
        groups += size[m] > 0
    nodes, bounds = np.empty(groups, np.int32), np.empty(groups + 1, np.int32)
    kinds, gaps = np.empty(total, np.int32), np.empty(total, np.int32)
    free, group = 0, 0
    for m in range(len(size)):
        if size[m] > 0:
            nodes[group], bounds[group] = m, free
            free += size[m]
            size[m] = bounds[group]
            group += 1
    bounds[groups] = total
    for first in range(low, high):
        for at in range(runs.edges[first], runs.edges[first + 1]):
            x = runs.others[at]
            for second in range(runs.nodes[then, x], runs.nodes[then, x + 1]):
                kind = runs.kinds[first] * r + runs.kinds[second]
                for to in range(runs.edges[second], runs.edges[second + 1]):
                    m = runs.others[to]
                    if m != start:
                        kinds[size[m]], gaps[size[m]] = kind, x
                        size[m] += 1
    size[nodes] = 0
    return nodes, bounds, kinds, gaps


@njit(cache=True)
def _by_first(
    nodes: np.ndarray, bounds: np.ndarray, kinds: np.ndarray, gaps: np.ndarray, r: int, work: Work
) -> Entries:
    """Join the ways with equal relations, and group them by m and a; the groups of one m follow each other."""
    count, groups, most, tag = 0, 0, len(kinds), work.number[0]
    node, begin, own = np.empty(most, np.int32), np.empty(most + 1, np.int32), np.empty(most, np.int32)
    partners, gap = np.empty(most, np.int32), np.empty(most, np.int32)
    in_set, position = work.kind, work.position
    for at in range(len(nodes)):
        previous = -1
        for i in range(bounds[at], bounds[at + 1]):
            a = kinds[i] // r
            b = kinds[i] - a * r
            if a != previous:
                tag += 1
                previous = a
                node[groups], begin[groups], own[groups] = nodes[at], count, a
                groups += 1
            if in_set[b] != tag:
                in_set[b], position[b] = tag, count
                partners[count], gap[count] = b, gaps[i]
                count += 1
            elif gap[position[b]] != gaps[i]:
                gap[position[b]] = MANY
    begin[groups] = count
    work.number[0] = tag
    return Entries(node[:groups], begin[: groups + 1], own[:groups], partners[:count], gap[:count])


@njit(cache=True)
def _by_second(entries: Entries, r: int, work: Work) -> Entries:
    """The same entries, grouped by m and b."""
    nodes, bounds, own, partners, gaps = entries
    count, groups, at, most, tag = 0, 0, 0, len(partners), work.number[0]
    node, begin, kind = np.empty(most, np.int32), np.empty(most + 1, np.int32), np.empty(most, np.int32)
    other, gap = np.empty(most, np.int32), np.empty(most, np.int32)
    in_set, position, size = work.kind, work.position, np.zeros(r, np.int64)
    while at < len(nodes):
        stop, tag, first = at, tag + 1, groups
        while stop < len(nodes) and nodes[stop] == nodes[at]:
            stop += 1
        for i in range(bounds[at], bounds[stop]):
            b = partners[i]
            if in_set[b] != tag:
                in_set[b], size[b] = tag, 0
                node[groups], kind[groups] = nodes[at], b
                groups += 1
            size[b] += 1
        for group in range(first, groups):
            begin[group], position[kind[group]] = count, count
            count += size[kind[group]]
        for group in range(at, stop):
            for i in range(bounds[group], bounds[group + 1]):
                to = position[partners[i]]
                other[to], gap[to] = own[group], gaps[i]
                position[partners[i]] += 1
        at = stop
    begin[groups] = count
    work.number[0] = tag
    return Entries(node[:groups], begin[: groups + 1], kind[:groups], other, gap)


@njit(cache=True, forceinline=True)
def _joined(one: int, two: int) -> int:
    """The gap of two sets of entries together."""
    return two if one == NONE or one == two else one if two == NONE else MANY


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
                apart = _joined(apart, gaps[i])
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
                        rest = _joined(rest, gaps[i])
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
    """Note that the ends of the facts first:stop are to be marked in a slot, but for the gap."""
    if gap != NONE and first < stop:
        marks[count, 0], marks[count, 1], marks[count, 2], marks[count, 3] = slot, first, stop, gap
        count += 1
    return count


@njit(cache=True)
def _mark_last(
    runs: Runs, last: int, entries: Entries, seen: Seen, work: Work, has_fact: np.ndarray, counts: np.ndarray
) -> None:
    """Count what is implied for C1 = c, and keep the relations that all paths to each end have in common.

    Most ends are met again and again, so the flags of (c, end) say what can no longer change.
    """
    flags, common, ends, num_ends = seen
    others, back, edges, kinds, firsts = runs.others, runs.back, runs.edges, runs.kinds, runs.nodes[last]
    nodes, bounds, owns, partners, gaps = entries
    in_set, in_gap, tag = work.kind, work.entity, work.number[0]
    usual, special, alone, summaries = 0, 1, 2, np.full((3, PATTERNS, 3), NONE)
    firsts_of = np.empty(len(partners), np.int32)
    for group in range(len(nodes)):
        firsts_of[bounds[group] : bounds[group + 1]] = owns[group]
    # Relations of all entries, such as the only one of the start, are on all paths to every end.
    _summarise(firsts_of, partners, gaps, 0, len(partners), -1, -1, usual, summaries)
    fixed = summaries[usual, :, 1:].copy()
    fixed[OUTER] = fixed[LAST_TWO] = fixed[APART]
    fixed[ALL] = fixed[FIRST_TWO]
    group = 0
    while group < len(nodes):
        m, begin, tag = nodes[group], bounds[group], tag + 1
        while group < len(nodes) and nodes[group] == m:
            in_set[owns[group]] = tag
            group += 1
        stop = bounds[group]
        for i in range(begin, stop):
            in_set[partners[i]] = tag
            if gaps[i] >= 0:
                in_gap[gaps[i]] = tag
        _summarise(firsts_of, partners, gaps, begin, stop, -1, -1, usual, summaries)
        usual_flags = _flags(usual, summaries)
        for run in range(firsts[m], firsts[m + 1]):
            c = kinds[run]
            summary, wanted, patterns = usual, usual_flags, 2
            if in_set[c] == tag:
                _summarise(firsts_of, partners, gaps, begin, stop, c, -1, special, summaries)
                summary, wanted, patterns = special, _flags(special, summaries), PATTERNS
            for at in range(edges[run], edges[run + 1]):
                known = flags[back[at]]
                if known & wanted == wanted:
                    continue
                end, found = others[at], summary
                if in_gap[end] == tag:
                    _summarise(firsts_of, partners, gaps, begin, stop, c, end, alone, summaries)
                    found = alone
                for pattern in range(patterns):
                    if summaries[found, pattern, 0] == NONE or known & (DONE << pattern):
                        continue
                    if pattern < 2 and not known & (MARKED << pattern):
                        known |= MARKED << pattern
                        counts[LAST_SHAPES[pattern], IMPLIED] += 1
                        counts[LAST_SHAPES[pattern], PARTIAL] += has_fact[c]
                    before, one, two = common[pattern, end], summaries[found, pattern, 1], summaries[found, pattern, 2]
                    if before == 0:
                        ends[pattern, num_ends[pattern]] = end
                        num_ends[pattern] += 1
                        now = _packed(c, one, two)
                    else:
                        now = _shared(before, c, one, two)
                    common[pattern, end] = now
                    if now == _shared(now, c, fixed[pattern, 0], fixed[pattern, 1]):
                        known |= DONE << pattern
                flags[back[at]] = known
    work.number[0] = tag


@njit(cache=True, forceinline=True)
def _flags(which: int, summaries: np.ndarray) -> int:
    """The flags that an end has when entries with one of the summaries can add nothing to it."""
    flags = 0
    for pattern in range(PATTERNS):
        if summaries[which, pattern, 0] != NONE:
            flags |= DONE << pattern
            if pattern < 2:
                flags |= MARKED << pattern
    return flags


@njit(cache=True, forceinline=True)
def _summarise(
    first: np.ndarray,
    second: np.ndarray,
    gaps: np.ndarray,
    begin: int,
    stop: int,
    c: int,
    end: int,
    which: int,
    summaries: np.ndarray,
) -> None:
    """What the entries that do not come over `end` have in common, by the pattern they have with c.

    summaries[which] [PATTERNS, 3] is their gap, and the relations other than c that all of them have, -1 for none.
    """
    for pattern in range(PATTERNS):
        summaries[which, pattern, 0] = NONE
    for i in range(begin, stop):
        a, b, gap = first[i], second[i], gaps[i]
        if gap >= 0 and gap == end:
            continue
        pattern = FIRST_TWO if a == b else APART
        if c == a or c == b:
            pattern = ALL if a == b else OUTER if a == c else LAST_TWO
        one = -1 if a == c else a
        two = -1 if b == c or a == b else b
        if summaries[which, pattern, 0] == NONE:
            summaries[which, pattern, 0], summaries[which, pattern, 1], summaries[which, pattern, 2] = gap, one, two
        else:
            summaries[which, pattern, 0] = _joined(summaries[which, pattern, 0], gap)
            if summaries[which, pattern, 1] != one and summaries[which, pattern, 1] != two:
                summaries[which, pattern, 1] = -1
            if summaries[which, pattern, 2] != one and summaries[which, pattern, 2] != two:
                summaries[which, pattern, 2] = -1


@njit(cache=True, forceinline=True)
def _packed(c: int, one: int, two: int) -> np.uint64:
    """A set of relations, -1 for none."""
    return REACHED | np.uint64(c + 1) | (np.uint64(one + 1) << FIELD) | (np.uint64(two + 1) << (FIELD + FIELD))


@njit(cache=True, forceinline=True)
def _shared(word: np.uint64, c: int, one: int, two: int) -> np.uint64:
    """The relations in a set that are among these, -1 for none."""
    for i in range(3):
        shift = np.uint64(i) * FIELD
        kind = np.int64((word >> shift) & MASK) - 1
        if (kind != c) & (kind != one) & (kind != two):  # without branches, which would be mispredicted
            word &= ~(MASK << shift)
    return word


@njit(cache=True)
def _count_last(runs: Runs, last: int, start: int, facts: np.ndarray, flags: np.ndarray, counts: np.ndarray) -> None:
    """Count the facts among what is implied for C1 = c, and forget it."""
    for fact in facts:
        low, high = runs.nodes[1 - last, fact[2]], runs.nodes[1 - last, fact[2] + 1]
        run = low + np.searchsorted(runs.kinds[low:high], fact[1])
        if fact[2] != start and run < high and runs.kinds[run] == fact[1]:
            for pattern in range(2):
                counts[LAST_SHAPES[pattern], SUPPORT] += (flags[run] & (MARKED << pattern)) != 0
    flags[:] = 0


@njit(cache=True)
def _count_off(
    seen: Seen,
    start: int,
    facts: np.ndarray,
    has_fact: np.ndarray,
    between: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Count what is implied for C1 off the path, all relations but those on every path, and forget it."""
    r, kinds = len(has_fact), has_fact.sum()
    for pattern in range(PATTERNS):
        row, common = counts[pattern * CHOICES], seen.common[pattern]
        common[start] = 0
        for fact in facts:
            for i in range(3):
                row[SUPPORT] -= (common[fact[2]] >> (np.uint64(i) * FIELD)) & MASK == np.uint64(fact[1] + 1)
        implied = support = partial = 0
        for at in range(seen.num_ends[pattern]):
            end = seen.ends[pattern, at]
            if end == start:
                continue
            implied += r
            support += between[end]
            partial += kinds
            if common[end] != REACHED:
                for i in range(3):
                    kind = np.int64((common[end] >> (np.uint64(i) * FIELD)) & MASK) - 1
                    if kind >= 0:
                        implied -= 1
                        partial -= has_fact[kind]
            common[end] = 0
        row[IMPLIED] += implied
        row[SUPPORT] += support
        row[PARTIAL] += partial
        seen.num_ends[pattern] = 0
