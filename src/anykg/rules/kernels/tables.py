# ruff: noqa: SIM109 - a compiled `in` compares equal types only
"""Rules in relations of one graph: a path of one or two steps with given relations, and a relation its ends have.

A body is numbered directions * R^L + relations (first step first), bit i of the directions being that of step i; a rule
is its body and the head's relation. `ground_paths` counts bodies and rules by distinct pairs of ends. `examples` keeps,
for each rule, places where it holds: few, yet enough to say for any other place whether the rule holds at a place
that has no entity in common with it. `count_repeats` counts what is implied by "the path is here, and elsewhere such a
path has such a relation between its ends", numbered like the paths in `rule_paths`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from anykg.rules.kernels.matching import FactIndex
from anykg.rules.kernels.paths import CHOICES, IMPLIED, PARTIAL, PATTERNS, SUPPORT

MOST_EXAMPLES = 20
"""Sets of 3 entities of which none makes another superfluous for avoiding 3 others: at most 6 over 3."""


class RuleTable(NamedTuple):
    """The rules that hold at least once, sorted by body and head."""

    offsets: np.ndarray  # int64 [bodies + 1]: rules of body b are offsets[b]:offsets[b + 1]
    heads: np.ndarray  # int64 [P]: the head's relation of each rule


@njit(cache=True)
def ground_paths(
    index: FactIndex, sizes: tuple[int, int], length: int, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of ends of each body [bodies], and body * R + relation for every pair and relation it has [S]."""
    n, r = sizes
    bodies = np.zeros((1 << length) * r**length, np.int64)
    keys, count = np.empty(1024, np.int64), 0
    latest, before = np.full(n, -1, np.int64), np.empty(len(index.facts[0]), np.int64)
    stamp = np.full(r * n if length == 2 else 1, -1, np.int32)
    run, previous = 0, np.int64(-1)
    for start in starts:
        low, high = index.offsets[0, start], index.offsets[0, start + 1]
        _link(index.facts[0], low, high, latest, before)
        for directions in range(1 << length):
            way, then = directions & 1, directions >> 1
            previous = np.int64(-1)
            for at in range(index.offsets[way, start], index.offsets[way, start + 1]):
                a, x = np.int64(index.facts[way, at, 1]), np.int64(index.facts[way, at, 2])
                if x == start:
                    continue
                if length == 1:
                    bodies[directions * r + a] += 1
                    fact = latest[x]
                    while fact >= 0:
                        kind = index.facts[0, fact, 1]
                        if directions == 1 or kind != a:
                            keys, count = _append(keys, count, (directions * r + a) * r + kind)
                        fact = before[fact]
                    continue
                run += a != previous
                previous = a
                for to in range(index.offsets[then, x], index.offsets[then, x + 1]):
                    b, end = np.int64(index.facts[then, to, 1]), np.int64(index.facts[then, to, 2])
                    if end == start or end == x or stamp[b * n + end] == run:
                        continue
                    stamp[b * n + end] = run
                    body = (directions * r + a) * r + b
                    bodies[body] += 1
                    fact = latest[end]
                    while fact >= 0:
                        keys, count = _append(keys, count, body * r + index.facts[0, fact, 1])
                        fact = before[fact]
        for at in range(low, high):
            latest[index.facts[0, at, 2]] = -1
    return bodies, keys[:count]


@njit(cache=True)
def _link(facts: np.ndarray, low: int, high: int, latest: np.ndarray, before: np.ndarray) -> None:
    """Chain the facts low:high by their tail: the last one in `latest`, each one's predecessor in `before`."""
    for at in range(low, high):
        tail = facts[at, 2]
        before[at] = latest[tail]
        latest[tail] = at


@njit(cache=True)
def _append(values: np.ndarray, count: int, value: int) -> tuple[np.ndarray, int]:
    if count == len(values):
        longer = np.empty(2 * count, values.dtype)
        longer[:count] = values
        values = longer
    values[count] = value
    return values, count + 1


@njit(cache=True)
def examples(index: FactIndex, sizes: tuple[int, int], length: int, table: RuleTable) -> tuple[np.ndarray, np.ndarray]:
    """Places [P, MOST_EXAMPLES, 3] where each rule holds (start, between or -1, end), and how many are kept [P]."""
    n, r = sizes
    kept = np.full((len(table.heads), MOST_EXAMPLES, 3), -1, np.int32)
    count = np.zeros(len(table.heads), np.int64)
    enough = np.zeros(len(table.heads), np.bool_)
    latest, before = np.full(n, -1, np.int64), np.empty(len(index.facts[0]), np.int64)
    for start in range(n):
        low, high = index.offsets[0, start], index.offsets[0, start + 1]
        _link(index.facts[0], low, high, latest, before)
        for directions in range(1 << length):
            way, then = directions & 1, directions >> 1
            for at in range(index.offsets[way, start], index.offsets[way, start + 1]):
                a, x = np.int64(index.facts[way, at, 1]), np.int64(index.facts[way, at, 2])
                if x == start:
                    continue
                if length == 1:
                    _keep(index, table, directions * r + a, start, -1, x, latest, before, kept, count, enough)
                    continue
                for to in range(index.offsets[then, x], index.offsets[then, x + 1]):
                    b, end = np.int64(index.facts[then, to, 1]), np.int64(index.facts[then, to, 2])
                    if end != start and end != x and latest[end] >= 0:
                        body = (directions * r + a) * r + b
                        _keep(index, table, body, start, x, end, latest, before, kept, count, enough)
        for at in range(low, high):
            latest[index.facts[0, at, 2]] = -1
    return kept, count


@njit(cache=True)
def _keep(
    index: FactIndex,
    table: RuleTable,
    body: int,
    start: int,
    between: int,
    end: int,
    latest: np.ndarray,
    before: np.ndarray,
    kept: np.ndarray,
    count: np.ndarray,
    enough: np.ndarray,
) -> None:
    """Add a place to the examples of every rule that holds there, where they lack it."""
    fact = latest[end]
    while fact >= 0:
        rule = _find(table, body, index.facts[0, fact, 1])
        fact = before[fact]
        if rule < 0 or enough[rule]:  # -1: the fact is the body itself
            continue
        if _is_needed(kept[rule, : count[rule]], start, between, end):
            kept[rule, count[rule]] = start, between, end
            count[rule] += 1
            enough[rule] = _are_apart(kept[rule, : count[rule]], 4 if between >= 0 else 3)


@njit(cache=True)
def _find(table: RuleTable, body: int, head: int) -> int:
    """The number of a rule, -1 if it never holds."""
    low, high = table.offsets[body], table.offsets[body + 1]
    place = low + np.searchsorted(table.heads[low:high], head)
    return place if place < high and table.heads[place] == head else -1


@njit(cache=True)
def _is_needed(kept: np.ndarray, start: int, between: int, end: int) -> bool:
    """Are there as many entities as a place has that are not in this one, and meet all kept ones?"""
    first = _missed(kept, -2, -2, -2)
    if first < 0:
        return True
    for one in kept[first]:
        if one < 0 or one == start or one == between or one == end:
            continue
        second = _missed(kept, one, -2, -2)
        if second < 0:
            return True
        for two in kept[second]:
            if two < 0 or two == start or two == between or two == end:
                continue
            third = _missed(kept, one, two, -2)
            if third < 0:
                return True
            if between < 0:
                continue
            for three in kept[third]:
                if three == start or three == between or three == end:
                    continue
                if _missed(kept, one, two, three) < 0:
                    return True
    return False


@njit(cache=True)
def _missed(kept: np.ndarray, one: int, two: int, three: int) -> int:
    """The first kept place with none of these entities, -1 if there is none."""
    for i in range(len(kept)):
        met = False
        for entity in kept[i]:
            met |= entity >= 0 and (entity == one or entity == two or entity == three)
        if not met:
            return i
    return -1


@njit(cache=True)
def _are_apart(kept: np.ndarray, wanted: int) -> bool:
    """Do so many kept places, the last among them, have no entity in common? Then no place meets them all."""
    chosen = np.empty((wanted, 3), np.int32)
    count = 0
    for i in range(len(kept) - 1, -1, -1):
        apart = True
        for j in range(count):
            for entity in kept[i]:
                for other in chosen[j]:
                    apart &= entity < 0 or entity != other
        if apart:
            chosen[count] = kept[i]
            count += 1
            if count == wanted:
                return True
    return False


class _Marks(NamedTuple):
    """What was implied for one start and way of directions: bits C1 * N + E2, few enough to stay in the cache."""

    bits: np.ndarray  # uint64 [slots, words]
    touched: np.ndarray  # int64 [slots, words]: words that are not 0
    num_touched: np.ndarray  # int64 [slots]
    facts: np.ndarray  # uint64 [words]: the start's facts
    has_fact: np.ndarray  # bool [R]


@njit(cache=True, nogil=True)
def count_repeats(
    index: FactIndex,
    sizes: tuple[int, int],
    length: int,
    starts: np.ndarray,
    table: RuleTable,
    kept: np.ndarray,
    count: np.ndarray,
) -> np.ndarray:
    """Counts [shapes, 3] as `rule_paths.count_paths` gives them, with examples from `examples`."""
    n, r = sizes
    counts = np.zeros((PATTERNS * CHOICES << length, 3), np.int64)
    words = (n * r + 63) // 64
    marks = _Marks(
        np.zeros((6, words), np.uint64),
        np.empty((6, words), np.int64),
        np.zeros(6, np.int64),
        np.zeros(words, np.uint64),
        np.zeros(r, np.bool_),
    )
    for start in starts:
        own = index.facts[0, index.offsets[0, start] : index.offsets[0, start + 1]]
        for row in own:
            place = np.int64(row[1]) * n + row[2]
            marks.facts[place >> 6] |= np.uint64(1) << np.uint64(place & 63)
            marks.has_fact[row[1]] = True
        for directions in range(1 << length):
            way, then = directions & 1, directions >> 1
            base = directions * PATTERNS * CHOICES
            for at in range(index.offsets[way, start], index.offsets[way, start + 1]):
                a, x = np.int64(index.facts[way, at, 1]), np.int64(index.facts[way, at, 2])
                if x == start:
                    continue
                if length == 1:
                    body = directions * r + a
                    _repeat(table, body, a, -1, start, -1, x, n, kept, count, marks, 0, counts[base:])
                    continue
                for to in range(index.offsets[then, x], index.offsets[then, x + 1]):
                    b, end = np.int64(index.facts[then, to, 1]), np.int64(index.facts[then, to, 2])
                    if end != start and end != x:
                        body, pattern = (directions * r + a) * r + b, 1 if a == b else 0
                        rows = counts[base + pattern * CHOICES :]
                        _repeat(table, body, a, b, start, x, end, n, kept, count, marks, 3 * pattern, rows)
            for slot in range(6):
                for i in range(marks.num_touched[slot]):
                    marks.bits[slot, marks.touched[slot, i]] = 0
                marks.num_touched[slot] = 0
        for row in own:
            marks.facts[(np.int64(row[1]) * n + row[2]) >> 6] = 0
            marks.has_fact[row[1]] = False
    return counts


@njit(cache=True)
def _repeat(
    table: RuleTable,
    body: int,
    a: int,
    b: int,
    start: int,
    between: int,
    end: int,
    n: int,
    kept: np.ndarray,
    count: np.ndarray,
    marks: _Marks,
    first: int,
    counts: np.ndarray,
) -> None:
    """Count what the rules of a body imply at one place, where they hold at another; slots from `first` on."""
    for rule in range(table.offsets[body], table.offsets[body + 1]):
        head = table.heads[rule]
        choice = 1 if head == a else 2 if head == b else 0
        slot, place = first + choice, head * n + end
        word, bit = place >> 6, np.uint64(1) << np.uint64(place & 63)
        before = marks.bits[slot, word]
        if before & bit or _missed(kept[rule, : count[rule]], start, between, end) < 0:
            continue
        if before == 0:
            marks.touched[slot, marks.num_touched[slot]] = word
            marks.num_touched[slot] += 1
        marks.bits[slot, word] = before | bit
        counts[choice, IMPLIED] += 1
        counts[choice, SUPPORT] += (marks.facts[word] & bit) != 0
        counts[choice, PARTIAL] += marks.has_fact[head]
