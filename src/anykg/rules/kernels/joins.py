"""Joins for rules with named relations: paths of up to three facts from an entity, and the pairs they link.

Facts with their inverses are sorted by (head, relation, tail), so that the tails of (head, relation) are one range; a
relation r + R is the inverse of r. The entities of a path are pairwise distinct, so a fact is never part of a path
that implies it.
"""
# ruff: noqa: SIM109 - numba does not search tuples of unlike integers

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from anykg.graph.graph import KnowledgeGraph

NONE = -1


class Adjacency(NamedTuple):
    """Facts with their inverses by head, and the heads of every relation."""

    offsets: np.ndarray  # int64 [N + 1]: the facts of entity x are offsets[x]:offsets[x + 1]
    relations: np.ndarray  # int32 [2E], sorted within an entity
    tails: np.ndarray  # int32 [2E], sorted within an entity and relation
    start_offsets: np.ndarray  # int64 [2R + 1]
    starts: np.ndarray  # int32: the distinct heads of each relation
    degrees: np.ndarray  # int32: how many facts of the relation each of them has


class Scratch(NamedTuple):
    """Buffers of one thread."""

    first: np.ndarray  # int32 [N]: entities after one step
    second: np.ndarray
    third: np.ndarray
    before: np.ndarray  # int32 [N]: the entity before one after two steps; NONE if there are several
    mark: np.ndarray  # int64 [N]
    tick: np.ndarray  # int64 [1]: the current mark


def adjacency(graph: KnowledgeGraph) -> Adjacency:
    """The facts of a graph in both directions."""
    triplets = graph.with_inverses()
    order = np.lexsort((triplets[:, 2], triplets[:, 1], triplets[:, 0]))
    heads, relations, tails = (np.ascontiguousarray(column[order]) for column in triplets.T)
    offsets = np.searchsorted(heads, np.arange(graph.num_entities + 1))
    new = np.append(True, (np.diff(heads) != 0) | (np.diff(relations) != 0))[: len(heads)]
    pair_relations, pair_heads = relations[new], heads[new]
    by_relation = np.argsort(pair_relations, kind="stable")
    start_offsets = np.searchsorted(pair_relations[by_relation], np.arange(2 * graph.num_relations + 1))
    degrees = np.diff(np.append(np.flatnonzero(new), len(heads))).astype(np.int32)
    return Adjacency(offsets, relations, tails, start_offsets, pair_heads[by_relation], degrees[by_relation])


@njit(cache=True, nogil=True)
def scratch(num_entities: int) -> Scratch:
    """Fresh buffers."""
    return Scratch(
        np.empty(num_entities, np.int32),
        np.empty(num_entities, np.int32),
        np.empty(num_entities, np.int32),
        np.empty(num_entities, np.int32),
        np.zeros(num_entities, np.int64),
        np.zeros(1, np.int64),
    )


# -- paths ------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def range_of(adjacent: Adjacency, entity: int, relation: int) -> tuple[int, int]:
    """The range of the tails of (entity, relation)."""
    low, high = adjacent.offsets[entity], adjacent.offsets[entity + 1]
    end = high
    while low < high:
        middle = (low + high) // 2
        if adjacent.relations[middle] < relation:
            low = middle + 1
        else:
            high = middle
    high = low
    step = 1
    while high < end and adjacent.relations[high] == relation:  # gallop: most ranges are short
        low_known = high
        high += step
        step *= 2
        if high >= end or adjacent.relations[high] != relation:
            bottom, top = low_known + 1, min(high, end)
            while bottom < top:
                middle = (bottom + top) // 2
                if adjacent.relations[middle] == relation:
                    bottom = middle + 1
                else:
                    top = middle
            high = bottom
            break
    return low, high


@njit(cache=True, nogil=True)
def step_one(adjacent: Adjacency, start: int, relation: int, buffers: Scratch) -> int:
    """Entities after one step from `start`."""
    low, high = range_of(adjacent, start, relation)
    count = 0
    for at in range(low, high):
        if adjacent.tails[at] != start:
            buffers.first[count] = adjacent.tails[at]
            count += 1
    return count


@njit(cache=True, nogil=True)
def step_two(adjacent: Adjacency, start: int, count: int, relation: int, buffers: Scratch) -> tuple[int, int]:
    """Entities after two steps, given `count` after one; and how many facts were read."""
    buffers.tick[0] += 1
    tick, found, work = buffers.tick[0], 0, 0
    for i in range(count):
        middle = buffers.first[i]
        low, high = range_of(adjacent, middle, relation)
        work += high - low + 4
        for at in range(low, high):
            entity = adjacent.tails[at]
            if entity == start or entity == middle:
                continue
            if buffers.mark[entity] == tick:
                buffers.before[entity] = NONE
            else:
                buffers.mark[entity] = tick
                buffers.before[entity] = middle
                buffers.second[found] = entity
                found += 1
    return found, work


@njit(cache=True, nogil=True)
def step_three(adjacent: Adjacency, start: int, count: int, relation: int, buffers: Scratch) -> tuple[int, int]:
    """Entities after three steps, given `count` after two; overwrites the marks of `step_two`, not its results."""
    buffers.tick[0] += 1
    tick, found, work = buffers.tick[0], 0, 0
    for i in range(count):
        middle = buffers.second[i]
        before = buffers.before[middle]
        low, high = range_of(adjacent, middle, relation)
        work += high - low + 4
        for at in range(low, high):
            entity = adjacent.tails[at]
            if entity == start or entity == middle or entity == before or buffers.mark[entity] == tick:
                continue
            buffers.mark[entity] = tick
            buffers.third[found] = entity
            found += 1
    return found, work


@njit(cache=True, nogil=True)
def closing_paths(
    adjacent: Adjacency, facts: np.ndarray, num_relations: int, length: int, width: int, rng: np.random.Generator
) -> np.ndarray:
    """Keys of the paths between the ends of facts [F, 3], each once per fact.

    A key is ((relation * 2R + step) * 2R + step) .. for `length` steps. For three steps at most `width` facts of the
    tail and of each of its neighbours are tried, drawn at random.
    """
    kinds = 2 * num_relations
    num_entities = len(adjacent.offsets) - 1
    first, mark = np.empty(num_entities, np.int64), np.zeros(num_entities, np.int64)
    following = np.empty(len(adjacent.tails), np.int64)
    keys, size = np.empty(1 << 16, np.int64), 0
    for fact in range(len(facts)):
        head, relation, tail = facts[fact, 0], facts[fact, 1], facts[fact, 2]
        begin = size
        if head == tail:
            continue
        for at in range(adjacent.offsets[head], adjacent.offsets[head + 1]):
            entity = adjacent.tails[at]
            if length == 1:
                if entity == tail and adjacent.relations[at] != relation:
                    if size == len(keys):
                        keys = np.concatenate((keys, np.empty(len(keys), np.int64)))
                    keys[size] = relation * kinds + adjacent.relations[at]
                    size += 1
                continue
            if entity == head or entity == tail:
                continue
            following[at] = first[entity] if mark[entity] == fact + 1 else NONE
            first[entity] = at
            mark[entity] = fact + 1
        if length > 1:
            low, high = adjacent.offsets[tail], adjacent.offsets[tail + 1]
            tries = high - low if length == 2 else min(high - low, width)
            for number in range(tries):
                at = low + number if tries == high - low else low + rng.integers(0, high - low)
                middle = adjacent.tails[at]
                last = turned(adjacent.relations[at], num_relations)
                if middle == head or middle == tail:
                    continue
                if length == 2:
                    if mark[middle] == fact + 1:
                        back = first[middle]
                        while back != NONE:
                            if size == len(keys):
                                keys = np.concatenate((keys, np.empty(len(keys), np.int64)))
                            keys[size] = (relation * kinds + adjacent.relations[back]) * kinds + last
                            size += 1
                            back = following[back]
                    continue
                low_middle, high_middle = adjacent.offsets[middle], adjacent.offsets[middle + 1]
                tries_middle = min(high_middle - low_middle, width)
                for other in range(tries_middle):
                    link = low_middle + other
                    if tries_middle < high_middle - low_middle:
                        link = low_middle + rng.integers(0, high_middle - low_middle)
                    entity = adjacent.tails[link]
                    if entity == tail or entity == middle or mark[entity] != fact + 1:
                        continue
                    second = turned(adjacent.relations[link], num_relations)
                    back = first[entity]
                    while back != NONE:
                        if size == len(keys):
                            keys = np.concatenate((keys, np.empty(len(keys), np.int64)))
                        key = (relation * kinds + adjacent.relations[back]) * kinds + second
                        keys[size] = key * kinds + last
                        size += 1
                        back = following[back]
        own = np.unique(keys[begin:size])
        keys[begin : begin + len(own)] = own
        size = begin + len(own)
    return keys[:size].copy()


@njit(cache=True, nogil=True)
def connections(adjacent: Adjacency, pairs: np.ndarray, width: int, rng: np.random.Generator) -> np.ndarray:
    """How strongly pairs [B, 2] are connected, [B, 3]: facts between them, and paths of two and three facts.

    A path is weighted by the inverse log-degrees of its inner entities (Adamic-Adar). At most `width` facts of the
    second entity and of each of its neighbours are followed, drawn at random if there are more.
    """
    num_entities = len(adjacent.offsets) - 1
    facts_with, mark = np.empty(num_entities, np.int64), np.zeros(num_entities, np.int64)
    found = np.zeros((len(pairs), 3))
    for pair in range(len(pairs)):
        one, other = pairs[pair, 0], pairs[pair, 1]
        for at in range(adjacent.offsets[one], adjacent.offsets[one + 1]):
            entity = adjacent.tails[at]
            facts_with[entity] = facts_with[entity] + 1 if mark[entity] == pair + 1 else 1
            mark[entity] = pair + 1
        found[pair, 0] = facts_with[other] if mark[other] == pair + 1 else 0
        low, high = adjacent.offsets[other], adjacent.offsets[other + 1]
        tries = min(high - low, width)
        scale = (high - low) / max(tries, 1)
        for number in range(tries):
            at = low + number if tries == high - low else low + rng.integers(0, high - low)
            middle = adjacent.tails[at]
            if middle == one or middle == other:
                continue
            low_middle, high_middle = adjacent.offsets[middle], adjacent.offsets[middle + 1]
            weight = scale / np.log(1.0 + high_middle - low_middle)
            if mark[middle] == pair + 1:
                found[pair, 1] += weight * facts_with[middle]
            tries_middle = min(high_middle - low_middle, width)
            weight *= (high_middle - low_middle) / tries_middle
            for second in range(tries_middle):
                link = low_middle + second
                if tries_middle < high_middle - low_middle:
                    link = low_middle + rng.integers(0, high_middle - low_middle)
                entity = adjacent.tails[link]
                if mark[entity] == pair + 1 and entity != other and entity != one:
                    degree = adjacent.offsets[entity + 1] - adjacent.offsets[entity]
                    found[pair, 2] += weight * facts_with[entity] / np.log(1.0 + degree)
    return found


@njit(cache=True, nogil=True)
def turned(relation: int, num_relations: int) -> int:
    """The inverse of a relation."""
    return relation + num_relations if relation < num_relations else relation - num_relations


@njit(cache=True, nogil=True)
def stride(total: int) -> int:
    """A step coprime to `total`, so that multiples of it visit everything in a scattered order."""
    step = max(int(total * 0.6180339887), 1)
    while True:
        a, b = step, total
        while b:
            a, b = b, a % b
        if a == 1:
            return step
        step += 1
