# ruff: noqa: SIM109 - a compiled `in` compares equal types only
"""Count the triplets implied by clauses whose body is a path of one or two steps, in one walk over the graph.

The body is a path of distinct entities E1, .., E2 of 1 to 3 steps, each along a fact (direction bit 0) or against (1).
Relations at the steps that are equal belong to one variable, so every path fits exactly one way of joining steps:
its `pattern`. The head's relation C1 is a variable of its own, or one of the path's. A shape is numbered

    (directions * PATTERNS + pattern) * CHOICES + choice

with choice 0 for C1 outside the path and choice i for C1 the i-th distinct relation along it. Bit i of `directions` is
the direction of step i. Counts [shapes, 3] are the implied triplets; those of them that are facts; and those of them
whose (E1, C1) has a fact at all, the denominator of confidence under partial completeness. Paths of three steps, which
are many more, are counted in `three_steps`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import njit

from anykg.rules.kernels.matching import FactIndex

LONGEST = 3
PATTERNS = 5
APART, FIRST_TWO, OUTER, LAST_TWO, ALL = range(PATTERNS)
"""Patterns: which of up to three steps have equal relations."""
CHOICES = LONGEST + 1
IMPLIED, SUPPORT, PARTIAL = 0, 1, 2


def num_shapes(length: int) -> int:
    """The number of shapes of paths with `length` steps; some of them are unused."""
    return int(PATTERNS * CHOICES << length)


@njit(cache=True)
def _pattern(length: int, a: int, b: int, c: int, blocks: np.ndarray) -> int:
    """The pattern of a path's relations; its distinct ones are written to `blocks`, -1 after the last."""
    blocks[0], blocks[1], blocks[2] = a, -1, -1
    if length == 1:
        return APART
    if length == 2:
        if a == b:
            return FIRST_TWO
        blocks[1] = b
        return APART
    if a == b:
        if b == c:
            return ALL
        blocks[1] = c
        return FIRST_TWO
    blocks[1] = b
    if a == c:
        return OUTER
    if b == c:
        return LAST_TWO
    blocks[2] = c
    return APART


class _Seen(NamedTuple):
    """What the paths from one entity, in one choice of directions, imply so far."""

    marks: np.ndarray  # uint64 [CHOICES * 2, words]: bit C1 * N + E2, by pattern and choice
    touched: np.ndarray  # int64 [CHOICES * 2, words]: words that are not 0
    num_touched: np.ndarray  # int64 [CHOICES * 2]
    shared: np.ndarray  # int32 [2, N, 2]: relations on every path to E2, -1 for none; C1 can be any other
    reached: np.ndarray  # int64 [2, N]: every E2 found
    num_reached: np.ndarray  # int64 [2]


class _Facts(NamedTuple):
    """The facts of the entity that paths start from, without loops."""

    bits: np.ndarray  # uint64 [words]: bit C1 * N + E2
    between: np.ndarray  # int64 [N]: facts with E2
    has_fact: np.ndarray  # bool [R], loops counted


_UNSEEN = -2


@njit(cache=True, nogil=True)
def count_paths(index: FactIndex, sizes: tuple[int, int], length: int, starts: np.ndarray) -> np.ndarray:
    """Counts [shapes, 3] over the triplets whose head is one of `starts`; sizes are (N, R), length 1 or 2."""
    n, r = sizes
    words, slots = (n * r + 63) // 64, 2 * CHOICES
    counts = np.zeros((PATTERNS * CHOICES << length, 3), np.int64)
    seen = _Seen(
        np.zeros((slots, words), np.uint64),
        np.empty((slots, words), np.int64),
        np.zeros(slots, np.int64),
        np.full((2, n, 2), _UNSEEN, np.int32),
        np.empty((2, n), np.int64),
        np.zeros(2, np.int64),
    )
    facts = _Facts(np.zeros(words, np.uint64), np.zeros(n, np.int64), np.zeros(r, np.bool_))
    for start in starts:
        own = index.facts[0, index.offsets[0, start] : index.offsets[0, start + 1]]
        _set_facts(facts, own, start, n)
        for directions in range(1 << length):
            rows = counts[directions * PATTERNS * CHOICES : (directions + 1) * PATTERNS * CHOICES]
            _mark(index, start, length, directions, seen, facts, rows)
            _clear_marks(seen)
            _count_shared(seen, facts, rows)
        for row in own:
            facts.has_fact[row[1]] = False
            facts.bits[(np.int64(row[1]) * n + row[2]) >> 6] = 0
            facts.between[row[2]] = 0
    return counts


@njit(cache=True)
def _set_facts(facts: _Facts, own: np.ndarray, start: int, n: int) -> None:
    for row in own:
        facts.has_fact[row[1]] = True
        if row[2] != start:
            position = np.int64(row[1]) * n + row[2]
            facts.bits[position >> 6] |= np.uint64(1) << np.uint64(position & 63)
            facts.between[row[2]] += 1


@njit(cache=True)
def _mark(
    index: FactIndex, start: int, length: int, directions: int, seen: _Seen, facts: _Facts, counts: np.ndarray
) -> None:
    """Follow every path from a start, count new implied triplets, and keep the relations on all paths to an end."""
    marks, touched, num_touched, shared, reached, num_reached = seen
    bits, between, has_fact = facts
    triplets, offsets, n = index.facts, index.offsets, len(between)
    way, last = directions & 1, directions >> (length - 1)
    low, high = (offsets[way, start], offsets[way, start + 1]) if length == 2 else (0, 1)
    for first in range(low, high):
        before, node = np.int64(-1), np.int64(start)
        if length == 2:
            before, node = np.int64(triplets[way, first, 1]), np.int64(triplets[way, first, 2])
            if node == start:
                continue
        for at in range(offsets[last, node], offsets[last, node + 1]):
            kind, end = np.int64(triplets[last, at, 1]), np.int64(triplets[last, at, 2])
            if end == start or end == node:
                continue
            pattern = 1 if before == kind else 0
            one, two = (kind, np.int64(-1)) if before < 0 or before == kind else (before, kind)
            for slot in range(pattern * CHOICES + 1, pattern * CHOICES + (2 if two < 0 else 3)):
                c1 = one if slot == pattern * CHOICES + 1 else two
                word, bit = (c1 * n + end) >> 6, np.uint64(1) << np.uint64((c1 * n + end) & 63)
                if marks[slot, word] & bit:
                    continue
                if marks[slot, word] == 0:
                    touched[slot, num_touched[slot]] = word
                    num_touched[slot] += 1
                marks[slot, word] |= bit
                counts[slot, IMPLIED] += 1
                counts[slot, SUPPORT] += (bits[word] & bit) != 0
                counts[slot, PARTIAL] += has_fact[c1]
            if shared[pattern, end, 0] == _UNSEEN:
                reached[pattern, num_reached[pattern]] = end
                num_reached[pattern] += 1
                shared[pattern, end, 0], shared[pattern, end, 1] = one, two
            for i in range(2):
                if shared[pattern, end, i] != one and shared[pattern, end, i] != two:
                    shared[pattern, end, i] = -1


@njit(cache=True)
def _clear_marks(seen: _Seen) -> None:
    for slot in range(len(seen.num_touched)):
        for i in range(seen.num_touched[slot]):
            seen.marks[slot, seen.touched[slot, i]] = 0
        seen.num_touched[slot] = 0


@njit(cache=True)
def _count_shared(seen: _Seen, facts: _Facts, counts: np.ndarray) -> None:
    """Count what is implied for C1 off the path, and reset the state."""
    n, r, kinds = len(facts.between), len(facts.has_fact), facts.has_fact.sum()
    for pattern in range(2):
        row = counts[pattern * CHOICES]
        for i in range(seen.num_reached[pattern]):
            end = seen.reached[pattern, i]
            row[IMPLIED] += r
            row[SUPPORT] += facts.between[end]
            row[PARTIAL] += kinds
            for j in range(2):
                kind = np.int64(seen.shared[pattern, end, j])
                if kind >= 0:
                    position = kind * n + end
                    row[IMPLIED] -= 1
                    row[SUPPORT] -= np.int64((facts.bits[position >> 6] >> np.uint64(position & 63)) & np.uint64(1))
                    row[PARTIAL] -= facts.has_fact[kind]
                seen.shared[pattern, end, j] = _UNSEEN
        seen.num_reached[pattern] = 0


def count_paths_reference(index: FactIndex, sizes: tuple[int, int], length: int, starts: np.ndarray) -> np.ndarray:
    """Count paths of any length, with sets of implied triplets."""
    _, r = sizes
    facts = {(int(h), int(k), int(t)) for h, k, t in index.facts[0]}
    has_fact = {(h, k) for h, k, _ in facts}
    implied: dict[int, set[tuple[int, int, int]]] = {}
    for start in starts.tolist():
        for nodes, relations, directions in _paths(facts, start, length):
            blocks = list(dict.fromkeys(relations))
            equal = {(i, j) for i in range(length) for j in range(i) if relations[i] == relations[j]}
            names = [set(), {(1, 0)}, {(2, 0)}, {(2, 1)}, {(1, 0), (2, 0), (2, 1)}]
            base = (directions * PATTERNS + names.index(equal)) * CHOICES
            for choice, kind in enumerate(blocks):
                implied.setdefault(base + choice + 1, set()).add((start, kind, nodes[-1]))
            free = {(start, kind, nodes[-1]) for kind in range(r) if kind not in blocks}
            implied.setdefault(base, set()).update(free)
    counts = np.zeros((num_shapes(length), 3), np.int64)
    for shape, triplets in implied.items():
        partial = sum((h, k) in has_fact for h, k, _ in triplets)
        counts[shape] = len(triplets), len(triplets & facts), partial
    return counts


def _paths(facts: set[tuple[int, int, int]], start: int, length: int) -> Iterator[tuple[list[int], list[int], int]]:
    """Every path of distinct entities: its nodes, its relations, its directions."""
    steps = [(h, (k, t, 0)) for h, k, t in facts] + [(t, (k, h, 1)) for h, k, t in facts]

    def go(nodes: list[int], relations: list[int], directions: int) -> Iterator[tuple[list[int], list[int], int]]:
        if len(relations) == length:
            yield nodes, relations, directions
            return
        for node, (kind, other, way) in steps:
            if node == nodes[-1] and other not in nodes:
                yield from go([*nodes, other], [*relations, kind], directions | way << len(relations))

    yield from go([start], [], 0)
