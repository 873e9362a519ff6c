# ruff: noqa: SIM109 - a compiled `in` compares equal types only
"""Rules over the relations of one graph: a path of one or two steps with given relations, and a relation of its ends.

A body is numbered directions * R^L + relations (first step first), bit i of the directions being that of step i; a rule
is its body and the head's relation. `ground_paths` counts bodies and rules by distinct pairs of ends. `examples` keeps
a few groundings of each rule: enough to decide, for any path, whether the rule has a grounding that shares no entity
with it. `count_repeats` counts what is implied by "the path is here, and elsewhere such a path has such a relation
between its ends", numbered as in `paths`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from anykg.rules.kernels.matching import FactIndex
from anykg.rules.kernels.paths import CHOICES, PATTERNS
from anykg.rules.kernels.rows import Rows, Runs, count_rows, new_rows

REPEATS = np.array([pattern * CHOICES + choice for pattern in (0, 1) for choice in (0, 1, 2)])
"""The shape of each slot in which `count_repeats` marks, among those of one choice of directions."""
MOST_EXAMPLES = 20
"""Upper bound on the examples a rule needs: 6 choose 3 sets of 3 entities (Bollobás), none of them redundant for
avoiding 3 given entities."""


class RuleTable(NamedTuple):
    """The rules that hold at least once, sorted by body and head."""

    offsets: np.ndarray  # int64 [bodies + 1]: rules of body b are offsets[b]:offsets[b + 1]
    heads: np.ndarray  # int64 [P]: the head's relation of each rule


class Examples(NamedTuple):
    """Some groundings of each rule of a table."""

    entities: np.ndarray  # int32 [P, MOST_EXAMPLES, 3]: start, between or -1, end
    number: np.ndarray  # int64 [P]: how many
    enough: np.ndarray  # bool [P]: for any path, some grounding of the rule shares no entity with it


class Chains(NamedTuple):
    """The facts of one head, chained by their tail."""

    latest: np.ndarray  # int64 [N]: the last fact with each tail, -1 for none
    before: np.ndarray  # int64 [E]: the one before each fact, -1 for none


@njit(cache=True)
def ground_paths(
    index: FactIndex, sizes: tuple[int, int], length: int, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of ends of each body [bodies], and body * R + relation for every pair and relation it has [S]."""
    n, r = sizes
    bodies = np.zeros((1 << length) * r**length, np.int64)
    keys, count = np.empty(1024, np.int64), 0
    chains = _no_chains(n, len(index.facts[0]))
    latest, before = chains
    stamp = np.full(r * n if length == 2 else 1, -1, np.int32)
    run, previous = 0, np.int64(-1)
    for start in starts:
        low, high = index.offsets[0, start], index.offsets[0, start + 1]
        _link(index.facts[0], low, high, chains)
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
def _no_chains(num_entities: int, num_facts: int) -> Chains:
    return Chains(np.full(num_entities, -1, np.int64), np.empty(num_facts, np.int64))


@njit(cache=True)
def _link(facts: np.ndarray, low: int, high: int, chains: Chains) -> None:
    """Chain the facts low:high by their tail."""
    latest, before = chains
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
def examples(index: FactIndex, sizes: tuple[int, int], length: int, table: RuleTable) -> Examples:
    """Examples of every rule of a table."""
    n, r = sizes
    num_rules = len(table.heads)
    kept = Examples(
        np.full((num_rules, MOST_EXAMPLES, 3), -1, np.int32),
        np.zeros(num_rules, np.int64),
        np.zeros(num_rules, np.bool_),
    )
    chains = _no_chains(n, len(index.facts[0]))
    latest, _ = chains
    for start in range(n):
        low, high = index.offsets[0, start], index.offsets[0, start + 1]
        _link(index.facts[0], low, high, chains)
        for directions in range(1 << length):
            way, then = directions & 1, directions >> 1
            for at in range(index.offsets[way, start], index.offsets[way, start + 1]):
                a, x = np.int64(index.facts[way, at, 1]), np.int64(index.facts[way, at, 2])
                if x == start:
                    continue
                if length == 1:
                    _keep(index, table, chains, directions * r + a, start, -1, x, kept)
                    continue
                for to in range(index.offsets[then, x], index.offsets[then, x + 1]):
                    b, end = np.int64(index.facts[then, to, 1]), np.int64(index.facts[then, to, 2])
                    if end != start and end != x and latest[end] >= 0:
                        body = (directions * r + a) * r + b
                        _keep(index, table, chains, body, start, x, end, kept)
        for at in range(low, high):
            latest[index.facts[0, at, 2]] = -1
    return kept


@njit(cache=True)
def _keep(
    index: FactIndex, table: RuleTable, chains: Chains, body: int, start: int, between: int, end: int, kept: Examples
) -> None:
    """Add a path to the examples of every rule that holds for it and needs it."""
    latest, before = chains
    entities, number, enough = kept
    fact = latest[end]
    while fact >= 0:
        rule = _find(table, body, index.facts[0, fact, 1])
        fact = before[fact]
        if rule < 0 or enough[rule]:  # -1: the fact is the body itself
            continue
        if _is_needed(entities[rule, : number[rule]], start, between, end):
            entities[rule, number[rule]] = start, between, end
            number[rule] += 1
            enough[rule] = _are_disjoint(entities[rule, : number[rule]], 4 if between >= 0 else 3)


@njit(cache=True)
def _find(table: RuleTable, body: int, head: int) -> int:
    """The number of a rule, -1 if it never holds."""
    low, high = table.offsets[body], table.offsets[body + 1]
    rule = low + np.searchsorted(table.heads[low:high], head)
    return rule if rule < high and table.heads[rule] == head else -1


@njit(cache=True)
def _is_needed(kept: np.ndarray, start: int, between: int, end: int) -> bool:
    """Whether some set of the same number of entities, disjoint from this path, hits every kept example."""
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
    """The first kept example with none of these entities, -1 if there is none."""
    for i in range(len(kept)):
        met = False
        for entity in kept[i]:
            met |= entity >= 0 and (entity == one or entity == two or entity == three)
        if not met:
            return i
    return -1


@njit(cache=True)
def _are_disjoint(kept: np.ndarray, needed: int) -> bool:
    """Whether `needed` kept examples, the last among them, are disjoint: then no path shares an entity with all."""
    chosen = np.empty((needed, 3), np.int32)
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
            if count == needed:
                return True
    return False


@njit(cache=True, nogil=True)
def count_repeats(
    runs: Runs,
    sizes: tuple[int, int],
    length: int,
    own: np.ndarray,
    table: RuleTable,
    kept: Examples,
    starts: np.ndarray,
) -> np.ndarray:
    """Counts [shapes, 3] numbered as in `paths`; own [E, 3] are all facts by head."""
    n, r = sizes
    counts = np.zeros((PATTERNS * CHOICES << length, 3), np.int64)
    rows, has_fact = new_rows(len(REPEATS), n, r), np.zeros(r, np.bool_)
    for start in starts:
        facts = own[np.searchsorted(own[:, 0], start) : np.searchsorted(own[:, 0], start + 1)]
        for fact in facts:
            has_fact[fact[1]] = True
        for directions in range(1 << length):
            _mark_repeats(runs, r, length, directions, start, table, kept, rows)
            shapes = counts[directions * PATTERNS * CHOICES : (directions + 1) * PATTERNS * CHOICES]
            count_rows(rows, REPEATS, start, facts, has_fact, shapes)
        for fact in facts:
            has_fact[fact[1]] = False
    return counts


@njit(cache=True)
def _mark_repeats(
    runs: Runs, r: int, length: int, directions: int, start: int, table: RuleTable, kept: Examples, rows: Rows
) -> None:
    """Mark the ends of the paths from one start for every rule of their body that holds elsewhere."""
    bits, used = rows
    entities, count, enough = kept
    offsets, heads = table
    others, edges, kinds, words = runs.others, runs.edges, runs.kinds, len(bits) // max(used.size, 1)
    first, between, last = _last_runs(runs, length, directions, start)
    for path in range(len(last)):
        a, x, run = first[path], between[path], last[path]
        b = np.int64(kinds[run])
        body = directions * r + b if length == 1 else (directions * r + a) * r + b
        for rule in range(offsets[body], offsets[body + 1]):
            head = heads[rule]
            slot = 3 if length == 2 and a == b else 0
            slot += 1 if head == a or (length == 1 and head == b) else 2 if head == b else 0
            base = (slot * r + head) * words
            used[slot, head] = True
            example = 0
            if not enough[rule]:
                while example < count[rule] and _meets(entities, rule, example, start, x):
                    example += 1
                if example == count[rule]:
                    continue
            for at in range(edges[run], edges[run + 1]):
                end, other = others[at], example
                if not enough[rule]:
                    while other < count[rule] and (
                        _meets(entities, rule, other, end, end) or _meets(entities, rule, other, start, x)
                    ):
                        other += 1
                    if other == count[rule]:
                        continue
                bits[base + (end >> 6)] |= np.uint64(1) << np.uint64(end & 63)


@njit(cache=True, forceinline=True)
def _meets(entities: np.ndarray, rule: int, example: int, one: int, two: int) -> bool:
    """Whether an example has one of two entities; `two` is -1 for none."""
    met = False
    for i in range(3):
        met |= entities[rule, example, i] == one or (entities[rule, example, i] == two and two >= 0)
    return met


@njit(cache=True)
def _last_runs(runs: Runs, length: int, directions: int, start: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The last run of facts of every path, with the relation and the entity before it, -1 for none."""
    way, then = directions & 1, directions >> 1
    low, high = runs.nodes[way, start], runs.nodes[way, start + 1]
    if length == 1:
        return np.full(high - low, -1), np.full(high - low, -1), np.arange(low, high)
    size = 0
    for at in range(runs.edges[low], runs.edges[high]):
        x = runs.others[at]
        size += runs.nodes[then, x + 1] - runs.nodes[then, x]
    first, between, last = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    count = 0
    for run in range(low, high):
        for at in range(runs.edges[run], runs.edges[run + 1]):
            x = runs.others[at]
            for second in range(runs.nodes[then, x], runs.nodes[then, x + 1]):
                first[count], between[count], last[count] = runs.kinds[run], x, second
                count += 1
    return first, between, last
