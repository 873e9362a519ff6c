# ruff: noqa: SIM109 - a compiled `in` compares equal types only
"""Count what the clauses whose body is a path imply, all of them in one walk over the graph.

The body is a path of distinct entities E1, .., E2 of 1 to 3 steps, each along a fact (direction bit 0) or against (1).
Relations at the steps that are equal belong to one variable, so every path fits exactly one way of joining steps:
its `pattern`. The head's relation C1 is a variable of its own, or one of the path's. A shape is numbered

    (directions * PATTERNS + pattern) * CHOICES + choice

with choice 0 for C1 outside the path and choice i for C1 the i-th distinct relation along it. Bit i of `directions` is
the direction of step i. Counts [shapes, 3] are the implied triplets; those of them that are facts; and those of them
whose (E1, C1) has a fact at all, the denominator of confidence under partial completeness.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import njit

from anykg.rules.kernels.matching import FactIndex

LONGEST = 3
PATTERNS = 5
"""Ways of joining up to three steps: none, the first two, first and last, the last two, all."""
CHOICES = LONGEST + 1
IMPLIED, SUPPORT, PARTIAL = 0, 1, 2
MOST_KEPT = 16
"""Paths of which none makes another superfluous (see `_adds`) are at most 10: sets of 3 that avoid sets of 2."""


def num_shapes(length: int) -> int:
    """Numbers of shapes of paths of so many steps; some stand for no clause."""
    return int(PATTERNS * CHOICES << length)


@njit(cache=True)
def _pattern(length: int, a: int, b: int, c: int, blocks: np.ndarray) -> int:
    """The pattern of a path's relations; its distinct ones are written to `blocks`, -1 after the last."""
    blocks[0], blocks[1], blocks[2] = a, -1, -1
    if length == 1:
        return 0
    if length == 2:
        if a == b:
            return 1
        blocks[1] = b
        return 0
    if a == b:
        if b == c:
            return 4
        blocks[1] = c
        return 1
    blocks[1] = b
    if a == c:
        return 2
    if b == c:
        return 3
    blocks[2] = c
    return 0


class _Seen(NamedTuple):
    """What the paths from one entity in one way of directions have implied so far."""

    marks: np.ndarray  # uint64 [slots, words]: bit C1 * N + E2 for C1 on the path
    touched: np.ndarray  # int64 [slots, words]: words that are not 0
    num_touched: np.ndarray  # int64 [slots]
    shared: np.ndarray  # int32 [PATTERNS, N, 3]: relations on every path to E2; all others are implied, C1 off the path
    num_shared: np.ndarray  # int64 [PATTERNS, N]; -1 where no path was found
    reached: np.ndarray  # int64 [PATTERNS, N]: every E2 found
    num_reached: np.ndarray  # int64 [PATTERNS]


class _Facts(NamedTuple):
    """The facts of the entity that paths start from, without loops."""

    bits: np.ndarray  # uint64 [words]: bit C1 * N + E2
    between: np.ndarray  # int64 [N]: facts with E2
    has_fact: np.ndarray  # bool [R], loops counted


@njit(cache=True, nogil=True)
def count_paths(index: FactIndex, sizes: tuple[int, int], length: int, starts: np.ndarray) -> np.ndarray:
    """Counts [shapes, 3] over the triplets whose head is one of `starts`; sizes are (N, R)."""
    n, r = sizes
    words, slots = (n * r + 63) // 64, PATTERNS * LONGEST
    counts = np.zeros((PATTERNS * CHOICES << length, 3), np.int64)
    found = _Seen(
        np.zeros((slots, words), np.uint64),
        np.empty((slots, words), np.int64),
        np.zeros(slots, np.int64),
        np.empty((PATTERNS, n, LONGEST), np.int32),
        np.full((PATTERNS, n), -1, np.int64),
        np.empty((PATTERNS, n), np.int64),
        np.zeros(PATTERNS, np.int64),
    )
    facts = _Facts(np.zeros(words, np.uint64), np.zeros(n, np.int64), np.zeros(r, np.bool_))
    blocks = np.empty(LONGEST, np.int64)
    seen, entry, size = np.full(r * r, -1, np.int64), np.empty(r * r, np.int64), np.zeros(n, np.int64)
    witness = np.empty((slots, r), np.int64)
    run_of = np.full((slots, r), -1, np.int64)
    kept = np.empty((PATTERNS, MOST_KEPT), np.int64)
    num_kept = np.zeros(PATTERNS, np.int64)
    full = np.zeros(PATTERNS, np.bool_)  # no other path can add anything
    run = 0
    for start in starts:
        own = index.facts[0, index.offsets[0, start] : index.offsets[0, start + 1]]
        _set_facts(facts, own, start, n)
        for directions in range(1 << length):
            base = directions * PATTERNS * CHOICES
            last = (directions >> (length - 1)) & 1
            nodes, bounds, first, second, one, two = _prefixes(index, r, length, start, directions, size, seen, entry)
            for group in range(len(nodes)):
                node = nodes[group]
                low, stop = index.offsets[last, node], index.offsets[last, node + 1]
                while low < stop:  # a run of facts with one relation
                    c = np.int64(index.facts[last, low, 1])
                    high = low + 1
                    while high < stop and index.facts[last, high, 1] == c:
                        high += 1
                    ends = index.facts[last, low:high, 2]
                    low = high
                    run += 1
                    num_kept[:] = 0
                    full[:] = False
                    for i in range(bounds[group], bounds[group + 1]):
                        if length == 1:
                            pattern = _pattern(1, c, -1, -1, blocks)
                        elif length == 2:
                            pattern = _pattern(2, first[i], c, -1, blocks)
                        else:
                            pattern = _pattern(3, first[i], second[i], c, blocks)
                        inner = one[i] if length == 3 and two[i] < 0 else -1
                        for block in range(LONGEST):
                            kind = blocks[block]
                            if kind < 0:
                                break
                            slot = pattern * LONGEST + block
                            # Paths that differ only in between imply the same, but for an end that is in between.
                            if run_of[slot, kind] == run and (witness[slot, kind] < 0 or witness[slot, kind] == inner):
                                continue
                            again = run_of[slot, kind] == run
                            run_of[slot, kind], witness[slot, kind] = run, -1 if again else inner
                            row = base + pattern * CHOICES + block + 1
                            _mark(
                                found,
                                facts,
                                slot,
                                kind * n,
                                ends,
                                start,
                                node,
                                inner,
                                facts.has_fact[kind],
                                counts[row],
                            )
                        if length == 3:
                            if full[pattern]:
                                continue
                            some = kept[pattern, : num_kept[pattern]]
                            if not _adds(some, first, second, c, one, two, first[i], second[i], inner):
                                continue
                            kept[pattern, num_kept[pattern]] = i
                            num_kept[pattern] += 1
                            some = kept[pattern, : num_kept[pattern]]
                            full[pattern] = not _adds(some, first, second, c, one, two, -1, -1, -1)
                        _share(found, pattern, blocks, ends, start, node, inner)
            _clear_marks(found)
            _count_shared(found, facts, counts[base : base + PATTERNS * CHOICES], n, r)
        for row_of in own:
            facts.has_fact[row_of[1]] = False
            facts.bits[(row_of[1] * n + row_of[2]) >> 6] = 0
            facts.between[row_of[2]] = 0
    return counts


@njit(cache=True)
def _set_facts(facts: _Facts, own: np.ndarray, start: int, n: int) -> None:
    for row in own:
        facts.has_fact[row[1]] = True
        if row[2] != start:
            place = np.int64(row[1]) * n + row[2]
            facts.bits[place >> 6] |= np.uint64(1) << np.uint64(place & 63)
            facts.between[row[2]] += 1


@njit(cache=True)
def _mark(
    found: _Seen,
    facts: _Facts,
    slot: int,
    base: int,
    ends: np.ndarray,
    start: int,
    node: int,
    inner: int,
    partial: bool,
    counts: np.ndarray,
) -> None:
    """(E2, C1) is implied for every E2 of `ends` that is not on the path; count what was not before."""
    for end in ends:
        if end == start or end == node or end == inner:
            continue
        place = base + end
        word, bit = place >> 6, np.uint64(1) << np.uint64(place & 63)
        before = found.marks[slot, word]
        if before & bit:
            continue
        if before == 0:
            found.touched[slot, found.num_touched[slot]] = word
            found.num_touched[slot] += 1
        found.marks[slot, word] = before | bit
        counts[IMPLIED] += 1
        counts[SUPPORT] += (facts.bits[word] & bit) != 0
        counts[PARTIAL] += partial


@njit(cache=True)
def _share(found: _Seen, pattern: int, blocks: np.ndarray, ends: np.ndarray, start: int, node: int, inner: int) -> None:
    """Keep of the relations on every path to each E2 of `ends` those on this one too."""
    for end in ends:
        if end == start or end == node or end == inner:
            continue
        before = found.num_shared[pattern, end]
        left = 0
        if before < 0:
            found.reached[pattern, found.num_reached[pattern]] = end
            found.num_reached[pattern] += 1
            for block in range(LONGEST):
                if blocks[block] >= 0:
                    found.shared[pattern, end, left] = blocks[block]
                    left += 1
        for j in range(before):
            kind = found.shared[pattern, end, j]
            if kind == blocks[0] or kind == blocks[1] or kind == blocks[2]:
                found.shared[pattern, end, left] = kind
                left += 1
        found.num_shared[pattern, end] = left


@njit(cache=True)
def _adds(
    kept: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    c: int,
    one: np.ndarray,
    two: np.ndarray,
    new_first: int,
    new_second: int,
    new_inner: int,
) -> bool:
    """Is there a relation k and an end such that a new path avoids both and none of the kept paths does?

    A path avoids k if k is not on it, and the end if that is not its only entity in between. Such a pair must meet the
    first kept path in its relations or in that entity, which leaves few to try. All paths end with relation c; -1 for
    the rest of the new one asks about a path that avoids everything else.
    """
    if len(kept) == 0:
        return True
    for kind in (first[kept[0]], second[kept[0]]):
        if kind == new_first or kind == new_second or kind == c:
            continue
        end, works = np.int64(-1), True
        for other in kept[1:]:
            if first[other] == kind or second[other] == kind:
                continue
            inner = one[other] if two[other] < 0 else np.int64(-1)
            if inner < 0 or inner == new_inner or (end >= 0 and end != inner):
                works = False
                break
            end = inner
        if works:
            return True
    if two[kept[0]] >= 0 or one[kept[0]] == new_inner:
        return False
    end = one[kept[0]]
    common_first, common_second, some = np.int64(-1), np.int64(-1), False
    for other in kept[1:]:
        if two[other] < 0 and one[other] == end:
            continue
        if not some:
            common_first, common_second, some = first[other], second[other], True
        else:
            if common_first != first[other] and common_first != second[other]:
                common_first = np.int64(-1)
            if common_second != first[other] and common_second != second[other]:
                common_second = np.int64(-1)
    if not some:
        return True
    for kind in (common_first, common_second):
        if kind >= 0 and kind != new_first and kind != new_second and kind != c:
            return True
    return False


@njit(cache=True)
def _clear_marks(found: _Seen) -> None:
    for slot in range(len(found.num_touched)):
        for i in range(found.num_touched[slot]):
            found.marks[slot, found.touched[slot, i]] = 0
        found.num_touched[slot] = 0


@njit(cache=True)
def _count_shared(found: _Seen, facts: _Facts, counts: np.ndarray, n: int, r: int) -> None:
    """Count what is implied for C1 off the path, and forget it."""
    kinds = facts.has_fact.sum()
    for pattern in range(PATTERNS):
        row = counts[pattern * CHOICES]
        for i in range(found.num_reached[pattern]):
            end = found.reached[pattern, i]
            left = found.num_shared[pattern, end]
            row[IMPLIED] += r - left
            row[SUPPORT] += facts.between[end]
            row[PARTIAL] += kinds
            for j in range(left):
                kind = np.int64(found.shared[pattern, end, j])
                place = kind * n + end
                row[SUPPORT] -= np.int64((facts.bits[place >> 6] >> np.uint64(place & 63)) & np.uint64(1))
                row[PARTIAL] -= facts.has_fact[kind]
            found.num_shared[pattern, end] = -1
        found.num_reached[pattern] = 0


@njit(cache=True)
def _prefixes(
    index: FactIndex,
    r: int,
    length: int,
    start: int,
    directions: int,
    size: np.ndarray,
    seen: np.ndarray,
    entry: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """All but the last step of the paths from `start`, grouped by where they arrive.

    Returns the nodes [G], where the entries of each begin [G + 1], and of every entry its relations and, for two steps,
    one or two entities in between: a third is never needed, since the path's end can only be one of them.
    """
    none = np.empty(0, np.int64)
    if length == 1:
        return np.full(1, start, np.int64), np.array([0, 1]), none, none, none, none
    way = directions & 1
    low, high = index.offsets[way, start], index.offsets[way, start + 1]
    if length == 2:
        nodes, first = np.empty(high - low, np.int64), np.empty(high - low, np.int64)
        count = 0
        for at in range(low, high):
            if index.facts[way, at, 2] != start:
                nodes[count], first[count] = index.facts[way, at, 2], index.facts[way, at, 1]
                count += 1
        return nodes[:count], np.arange(count + 1), first, none, none, none
    then = (directions >> 1) & 1
    total, groups = 0, 0
    for at in range(low, high):
        x = index.facts[way, at, 2]
        if x == start:
            continue
        for to in range(index.offsets[then, x], index.offsets[then, x + 1]):
            y = index.facts[then, to, 2]
            if y != x and y != start:
                groups += size[y] == 0
                size[y] += 1
                total += 1
    nodes, begin = np.empty(groups, np.int64), np.empty(groups + 1, np.int64)
    kinds, between = np.empty(total, np.int64), np.empty(total, np.int64)
    count, place = 0, 0
    for at in range(low, high):
        x = index.facts[way, at, 2]
        if x == start:
            continue
        a = np.int64(index.facts[way, at, 1])
        for to in range(index.offsets[then, x], index.offsets[then, x + 1]):
            y = index.facts[then, to, 2]
            if y == x or y == start:
                continue
            if (
                size[y] > 0
            ):  # first seen: give it its room; from now on size holds the next free place, less one, negated
                nodes[count], begin[count] = y, place
                count += 1
                place += size[y]
                size[y] = -(begin[count - 1]) - 1
            free = -size[y] - 1
            kinds[free], between[free] = a * r + index.facts[then, to, 1], x
            size[y] -= 1
    begin[groups] = place
    first, second = np.empty(total, np.int64), np.empty(total, np.int64)
    one, two = np.empty(total, np.int64), np.empty(total, np.int64)
    bounds = np.zeros(groups + 1, np.int64)
    count = 0
    for group in range(groups):
        for i in range(begin[group], begin[group + 1]):
            kind = kinds[i]
            if seen[kind] == group:
                if two[entry[kind]] < 0 and one[entry[kind]] != between[i]:
                    two[entry[kind]] = between[i]
            else:
                seen[kind], entry[kind] = group, count
                first[count], second[count] = kind // r, kind % r
                one[count], two[count] = between[i], -1
                count += 1
        bounds[group + 1] = count
        size[nodes[group]] = 0
    for i in range(total):
        seen[kinds[i]] = -1
    return nodes, bounds, first, second, one, two


def count_paths_reference(index: FactIndex, sizes: tuple[int, int], length: int, starts: np.ndarray) -> np.ndarray:
    """`count_paths`, with sets of implied triplets."""
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
