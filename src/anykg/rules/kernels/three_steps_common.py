# ruff: noqa: SIM109 - a compiled `in` compares equal types only
"""Paths of three steps with C1 the relation of the last step, or off the path.

If C1 is c, each (c, end) has a flag. If C1 is off the path, it can be any relation that is not on every path to an end,
so an end keeps the relations that all its paths have in common, at most three.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from anykg.rules.kernels.paths import (
    ALL,
    APART,
    CHOICES,
    FIRST_TWO,
    IMPLIED,
    LAST_TWO,
    OUTER,
    PARTIAL,
    PATTERNS,
    SUPPORT,
)
from anykg.rules.kernels.rows import Runs
from anykg.rules.kernels.three_steps_entries import NONE, Entries, Work, joined

LAST_SHAPES = (APART * CHOICES + 3, FIRST_TWO * CHOICES + 2)
"""C1 is the relation of the last step alone, for the first two patterns."""
MARKED, DONE = 1, 4
"""Flags of (c, E2), shifted by the pattern: C1 = c is implied; no path with c can change what all have in common."""
FIELD, MASK = np.uint64(20), np.uint64((1 << 20) - 1)
REACHED = np.uint64(1 << 63)
"""A set of up to three relations is a word of three fields, relation + 1; this bit is set in all of them."""


class Seen(NamedTuple):
    """The state about the last step's relation and the relations that all paths have in common."""

    flags: np.ndarray  # uint8 [Q]: by the run of E2 and c
    common: np.ndarray  # uint64 [PATTERNS, N]: relations on all paths to E2, 0 if there is none
    ends: np.ndarray  # int64 [PATTERNS, N]: every E2 found
    num_ends: np.ndarray  # int64 [PATTERNS]


class Steps(NamedTuple):
    """The first two steps of paths, an entry at a time."""

    first: np.ndarray  # int32 [entries]: a
    second: np.ndarray  # int32 [entries]: b
    gaps: np.ndarray  # int32 [entries]


@njit(cache=True)
def new_seen(runs: Runs, n: int) -> Seen:
    """The state before the first path, for n entities."""
    return Seen(
        np.zeros(len(runs.kinds), np.uint8),
        np.zeros((PATTERNS, n), np.uint64),
        np.empty((PATTERNS, n), np.int64),
        np.zeros(PATTERNS, np.int64),
    )


@njit(cache=True)
def mark_last(
    runs: Runs, last: int, entries: Entries, seen: Seen, work: Work, has_fact: np.ndarray, counts: np.ndarray
) -> None:
    """Count what is implied for C1 = c, and keep the relations that all paths to each end have in common.

    Most ends are visited many times, so the flags of (c, end) mark what can no longer change.
    """
    flags, common, ends, num_ends = seen
    others, back, edges, kinds, firsts = runs.others, runs.back, runs.edges, runs.kinds, runs.nodes[last]
    nodes, bounds, owns, partners, gaps = entries
    in_set, in_gap, tag = work.kind, work.entity, work.number[0]
    usual, special, alone, summaries = 0, 1, 2, np.full((3, PATTERNS, 3), NONE)
    firsts_of = np.empty(len(partners), np.int32)
    for group in range(len(nodes)):
        firsts_of[bounds[group] : bounds[group + 1]] = owns[group]
    steps = Steps(firsts_of, partners, gaps)
    # Relations of all entries, such as the only one of the start, are on all paths to every end.
    _summarise(steps, 0, len(partners), -1, -1, usual, summaries)
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
        _summarise(steps, begin, stop, -1, -1, usual, summaries)
        usual_flags = _flags(usual, summaries)
        for run in range(firsts[m], firsts[m + 1]):
            c = kinds[run]
            summary, wanted, patterns = usual, usual_flags, 2
            if in_set[c] == tag:
                _summarise(steps, begin, stop, c, -1, special, summaries)
                summary, wanted, patterns = special, _flags(special, summaries), PATTERNS
            for at in range(edges[run], edges[run + 1]):
                known = flags[back[at]]
                if known & wanted == wanted:
                    continue
                end, found = others[at], summary
                if in_gap[end] == tag:
                    _summarise(steps, begin, stop, c, end, alone, summaries)
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
def _summarise(steps: Steps, begin: int, stop: int, c: int, end: int, which: int, summaries: np.ndarray) -> None:
    """What the entries that do not come over `end` have in common, by the pattern they have with c.

    summaries[which] [PATTERNS, 3] is their gap, and the relations other than c that all of them have, -1 for none.
    """
    first, second, gaps = steps
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
            summaries[which, pattern, 0] = joined(summaries[which, pattern, 0], gap)
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
def count_last(runs: Runs, last: int, start: int, facts: np.ndarray, flags: np.ndarray, counts: np.ndarray) -> None:
    """Count the facts among what is implied for C1 = c, and reset the state."""
    for fact in facts:
        low, high = runs.nodes[1 - last, fact[2]], runs.nodes[1 - last, fact[2] + 1]
        run = low + np.searchsorted(runs.kinds[low:high], fact[1])
        if fact[2] != start and run < high and runs.kinds[run] == fact[1]:
            for pattern in range(2):
                counts[LAST_SHAPES[pattern], SUPPORT] += (flags[run] & (MARKED << pattern)) != 0
    flags[:] = 0


@njit(cache=True)
def count_off(
    seen: Seen,
    start: int,
    facts: np.ndarray,
    has_fact: np.ndarray,
    between: np.ndarray,
    counts: np.ndarray,
) -> None:
    """Count what is implied for C1 off the path, all relations but those on every path, and reset the state."""
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
