"""Joins for rules with named relations: paths from an entity, attributes shared by entities, and queries over both.

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
BEST = 5
"""Rules combined by noisy-or for one candidate."""
SUREST = 0.9999
"""No rule is more confident than this, so that scores are finite without a prior too."""


class Adjacency(NamedTuple):
    """Facts with their inverses by head, and the heads of every relation."""

    offsets: np.ndarray  # int64 [N + 1]: the facts of entity x are offsets[x]:offsets[x + 1]
    relations: np.ndarray  # int32 [2E], sorted within an entity
    tails: np.ndarray  # int32 [2E], sorted within an entity and relation
    start_offsets: np.ndarray  # int64 [2R + 1]
    starts: np.ndarray  # int32: the distinct heads of each relation


class Items(NamedTuple):
    """Attributes (relation, tail) of entities, and (relation, any tail), numbered together."""

    relation: np.ndarray  # int32 [I]
    tail: np.ndarray  # int32 [I]: NONE for any tail; those come last
    entity_offsets: np.ndarray  # int64 [N + 1]
    of_entity: np.ndarray  # int32: items of each entity, sorted
    item_offsets: np.ndarray  # int64 [I + 1]
    entities: np.ndarray  # int32: entities of each item


class Rules(NamedTuple):
    """Rules in the order a query visits them; relations run over 2R."""

    path_offsets: np.ndarray  # int64 [2R + 1]: rules of each head relation
    bodies: np.ndarray  # int32 [P, 3]: steps, NONE after the last; sorted within a head relation
    path_support: np.ndarray  # float32 [P]
    path_partial: np.ndarray  # float32 [P]
    by_body: np.ndarray  # int64 [I + 1]: rules whose body is item j are by_body[j]:by_body[j + 1]
    heads: np.ndarray  # int32 [Q]: the head item, sorted within a body
    support: np.ndarray  # float32 [Q]
    by_head: np.ndarray  # int64 [I + 1]: the same rules by head item
    order: np.ndarray  # int64 [Q]: position of a rule in the order by body
    body_of: np.ndarray  # int32 [Q]: its body item
    prior: float


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
    return Adjacency(offsets, relations, tails, start_offsets, pair_heads[by_relation])


def item_index(graph: KnowledgeGraph, adjacent: Adjacency) -> Items:
    """Number the attributes of a graph."""
    n, kinds = graph.num_entities, 2 * graph.num_relations
    heads = np.repeat(np.arange(n), np.diff(adjacent.offsets))
    keys = adjacent.relations.astype(np.int64) * n + adjacent.tails
    distinct, item = np.unique(keys, return_inverse=True)
    some = np.unique(heads * kinds + adjacent.relations)  # entities that have a relation at all
    entity = np.concatenate([heads, some // max(kinds, 1)])
    item = np.concatenate([item.reshape(-1), len(distinct) + some % max(kinds, 1)])
    relation = np.concatenate([distinct // max(n, 1), np.arange(kinds)])
    tail = np.concatenate([distinct % max(n, 1), np.full(kinds, NONE)])
    by_entity, by_item = np.lexsort((item, entity)), np.lexsort((entity, item))
    return Items(
        relation.astype(np.int32),
        tail.astype(np.int32),
        np.searchsorted(entity[by_entity], np.arange(n + 1)),
        item[by_entity].astype(np.int32),
        np.searchsorted(item[by_item], np.arange(len(relation) + 1)),
        entity[by_item].astype(np.int32),
    )


@njit(cache=True, nogil=True)
def _scratch(num_entities: int) -> Scratch:
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
def _range(adjacent: Adjacency, entity: int, relation: int) -> tuple[int, int]:
    """Where the tails of (entity, relation) are."""
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
def _step_one(adjacent: Adjacency, start: int, relation: int, buffers: Scratch) -> int:
    """Entities after one step from `start`."""
    low, high = _range(adjacent, start, relation)
    count = 0
    for at in range(low, high):
        if adjacent.tails[at] != start:
            buffers.first[count] = adjacent.tails[at]
            count += 1
    return count


@njit(cache=True, nogil=True)
def _step_two(adjacent: Adjacency, start: int, count: int, relation: int, buffers: Scratch) -> tuple[int, int]:
    """Entities after two steps, given `count` after one; and how many facts were read."""
    buffers.tick[0] += 1
    tick, found, work = buffers.tick[0], 0, 0
    for place in range(count):
        middle = buffers.first[place]
        low, high = _range(adjacent, middle, relation)
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
def _step_three(adjacent: Adjacency, start: int, count: int, relation: int, buffers: Scratch) -> tuple[int, int]:
    """Entities after three steps, given `count` after two. Keeps what `_step_two` found, all but its marks."""
    buffers.tick[0] += 1
    tick, found, work = buffers.tick[0], 0, 0
    for place in range(count):
        middle = buffers.second[place]
        before = buffers.before[middle]
        low, high = _range(adjacent, middle, relation)
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
    """Keys of the paths that join the ends of facts [F, 3], each once a fact.

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
                last = _turned(adjacent.relations[at], num_relations)
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
                    second = _turned(adjacent.relations[link], num_relations)
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
    """How well two entities are joined [B, 3], for pairs [B, 2]: facts between them, and paths of two and three facts.

    A path counts by the inverse of the logarithms of its inner entities' degrees. At most `width` facts of the second
    entity and of each of its neighbours are followed, drawn at random if there are more.
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
def _turned(relation: int, num_relations: int) -> int:
    return relation + num_relations if relation < num_relations else relation - num_relations


@njit(cache=True, nogil=True)
def count_bodies(
    adjacent: Adjacency, bodies: np.ndarray, most_starts: int, most_work: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Measure paths [B, 3]: the pairs each joins [B], rows [S, 4] of body, relation, support, partial; starts used [B].

    Partial counts the pairs whose first entity has the relation at all. A path that starts at more than `most_starts`
    entities, or reads more than `most_work` facts, is measured on a part of them; the counts are those of the part.
    """
    num_entities, kinds = len(adjacent.offsets) - 1, len(adjacent.start_offsets) - 1
    buffers = _scratch(num_entities)
    pairs, used = np.zeros(len(bodies), np.int64), np.zeros(len(bodies), np.int64)
    held, touched = np.zeros(kinds, np.int64), np.empty(kinds, np.int64)
    partial = np.zeros(kinds, np.int64)
    rows, size = np.empty((1 << 12, 4), np.int64), 0
    for body in range(len(bodies)):
        one, two, three = bodies[body, 0], bodies[body, 1], bodies[body, 2]
        low, high = adjacent.start_offsets[one], adjacent.start_offsets[one + 1]
        total = high - low
        stride = _stride(total)
        count, work = 0, 0
        for number in range(min(total, most_starts)):
            if work > most_work:
                break
            used[body] += 1
            start = adjacent.starts[low + (number * stride) % total]
            found = _step_one(adjacent, start, one, buffers)
            reached = buffers.first
            if two == NONE:
                buffers.tick[0] += 1
                for place in range(found):
                    buffers.mark[reached[place]] = buffers.tick[0]
            else:
                found, more = _step_two(adjacent, start, found, two, buffers)
                reached, work = buffers.second, work + more
                if three != NONE:
                    found, more = _step_three(adjacent, start, found, three, buffers)
                    reached, work = buffers.third, work + more
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
        for place in range(count):
            relation = touched[place]
            if held[relation]:
                rows[size, 0], rows[size, 1] = body, relation
                rows[size, 2], rows[size, 3] = held[relation], partial[relation]
                size += 1
            held[relation], partial[relation] = 0, 0
    return pairs, rows[:size].copy(), used


@njit(cache=True, nogil=True)
def joined_pairs(adjacent: Adjacency, body: np.ndarray, most: int) -> np.ndarray:
    """The pairs [P, 2] that a path of up to three steps [3] joins; `most` + 1 of them if there are more."""
    buffers = _scratch(len(adjacent.offsets) - 1)
    pairs, size = np.empty((1 << 10, 2), np.int64), 0
    for place in range(adjacent.start_offsets[body[0]], adjacent.start_offsets[body[0] + 1]):
        start = adjacent.starts[place]
        found, reached = _step_one(adjacent, start, body[0], buffers), buffers.first
        if body[1] != NONE:
            found, _ = _step_two(adjacent, start, found, body[1], buffers)
            reached = buffers.second
            if body[2] != NONE:
                found, _ = _step_three(adjacent, start, found, body[2], buffers)
                reached = buffers.third
        for number in range(found):
            if size > most:
                return pairs[:size].copy()
            if size == len(pairs):
                pairs = np.concatenate((pairs, np.empty_like(pairs)))
            pairs[size, 0], pairs[size, 1] = start, reached[number]
            size += 1
    return pairs[:size].copy()


@njit(cache=True, nogil=True)
def _stride(total: int) -> int:
    """A step coprime to `total`, so that multiples of it visit everything in a scattered order."""
    step = max(int(total * 0.6180339887), 1)
    while True:
        a, b = step, total
        while b:
            a, b = b, a % b
        if a == 1:
            return step
        step += 1


# -- constants --------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def item_rules(
    items: Items, wanted: np.ndarray, settings: tuple[int, int, float, float], most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rules whose head is one of the wanted items [W]: head, body, support [Q], at most `most` a head, best first.

    settings: smallest support, entities looked at for one head, prior, smallest confidence.
    """
    least, sampled, prior, least_confidence = settings
    together, touched = np.zeros(len(items.relation), np.int64), np.empty(len(items.relation), np.int64)
    heads, bodies = np.empty(1 << 12, np.int32), np.empty(1 << 12, np.int32)
    supports, size = np.empty(1 << 12, np.float32), 0
    for place in range(len(wanted)):
        head = wanted[place]
        low, high = items.item_offsets[head], items.item_offsets[head + 1]
        total, count = high - low, 0
        stride, looked = _stride(total), min(high - low, sampled)
        for number in range(looked):
            entity = items.entities[low + (number * stride) % total]
            for at in range(items.entity_offsets[entity], items.entity_offsets[entity + 1]):
                item = items.of_entity[at]
                if together[item] == 0:
                    touched[count] = item
                    count += 1
                together[item] += 1
        confidences, chosen, number = np.empty(count), np.empty(count, np.int64), 0
        scale = total / max(looked, 1)
        for at in range(count):
            item, both = touched[at], together[touched[at]]
            together[item] = 0
            if (
                item == head
                or both < least
                or (items.tail[item] == NONE and items.relation[item] == items.relation[head])
            ):
                continue
            confidence = both * scale / (items.item_offsets[item + 1] - items.item_offsets[item] + prior)
            if confidence >= least_confidence:
                confidences[number], chosen[number] = confidence, item
                number += 1
        kept = np.argsort(-confidences[:number])
        last = min(number, most)
        if number > most:  # equal ones at the border go together, whatever their numbers
            while last > 0 and confidences[kept[last - 1]] == confidences[kept[most]]:
                last -= 1
            if last == 0:
                last = most
        while size + last > len(heads):
            heads = np.concatenate((heads, np.empty_like(heads)))
            bodies = np.concatenate((bodies, np.empty_like(bodies)))
            supports = np.concatenate((supports, np.empty_like(supports)))
        for at in range(last):
            item = chosen[kept[at]]
            heads[size], bodies[size] = head, item
            total_body = items.item_offsets[item + 1] - items.item_offsets[item]
            supports[size] = min(confidences[kept[at]] * (total_body + prior), total_body)  # an estimate, if sampled
            size += 1
    return heads[:size].copy(), bodies[:size].copy(), supports[:size].copy()


# -- queries ----------------------------------------------------------------------------------------------------


class Tally(NamedTuple):
    """What the rules said of every candidate of one query."""

    best: np.ndarray  # float32 [N, BEST]: confidences, falling
    fired: np.ndarray  # int32 [N]: rules that fired
    rest: np.ndarray  # float32 [N]: -log(1 - confidence) summed over the others
    touched: np.ndarray  # int32 [N]
    size: np.ndarray  # int64 [1]
    known: np.ndarray  # int64 [N]: marks the known answers


@njit(cache=True, nogil=True)
def _fire(tally: Tally, candidate: int, support: float, body: float, prior: float, query: int) -> None:
    """Count one rule for a candidate; a known answer is left out of the rule's own counts."""
    if tally.known[candidate] == query:
        support, body = support - 1, body - 1
        if support <= 0:
            return
    confidence = np.float32(min(support / (body + prior), SUREST))
    count = tally.fired[candidate]
    if count == 0:
        tally.touched[tally.size[0]] = candidate
        tally.size[0] += 1
        tally.rest[candidate] = 0
    tally.fired[candidate] = count + 1
    best = tally.best[candidate]
    place = count
    if count >= BEST:
        low = min(best[BEST - 1], confidence)
        tally.rest[candidate] -= np.log1p(-low)
        if confidence <= best[BEST - 1]:
            return
        place = BEST - 1
    while place > 0 and best[place - 1] < confidence:
        best[place] = best[place - 1]
        place -= 1
    best[place] = confidence


@njit(cache=True, nogil=True)
def _fire_paths(
    adjacent: Adjacency, rules: Rules, head: int, relation: int, buffers: Scratch, tally: Tally, query: int
) -> None:
    low, high = rules.path_offsets[relation], rules.path_offsets[relation + 1]
    one, two = -2, -2
    count_one, count_two = 0, 0
    for rule in range(low, high):
        body = rules.bodies[rule]
        if body[0] != one:
            one, two = body[0], -2
            count_one = _step_one(adjacent, head, one, buffers)
        if count_one == 0:
            continue
        count, reached = count_one, buffers.first
        if body[1] != NONE:
            if body[1] != two:
                two = body[1]
                count_two, _ = _step_two(adjacent, head, count_one, two, buffers)
            count, reached = count_two, buffers.second
            if count == 0:
                continue
            if body[2] != NONE:
                count, _ = _step_three(adjacent, head, count_two, body[2], buffers)
                reached = buffers.third
        for place in range(count):
            _fire(tally, reached[place], rules.path_support[rule], rules.path_partial[rule], rules.prior, query)


@njit(cache=True, nogil=True)
def _fire_items(
    items: Items, rules: Rules, head: int, relation: int, num_relations: int, tally: Tally, query: int
) -> None:
    # Attributes of the head imply (relation, candidate).
    for at in range(items.entity_offsets[head], items.entity_offsets[head + 1]):
        body = items.of_entity[at]
        size = items.item_offsets[body + 1] - items.item_offsets[body]
        for rule in range(rules.by_body[body], rules.by_body[body + 1]):
            item = rules.heads[rule]
            if items.relation[item] == relation:
                _fire(tally, items.tail[item], rules.support[rule], size, rules.prior, query)
    # Attributes of a candidate imply (inverse relation, head).
    item = _find_item(items, _turned(relation, num_relations), head, len(rules.path_offsets) - 1)
    if item == NONE:
        return
    for place in range(rules.by_head[item], rules.by_head[item + 1]):
        rule, body = rules.order[place], rules.body_of[place]
        size = items.item_offsets[body + 1] - items.item_offsets[body]
        for at in range(items.item_offsets[body], items.item_offsets[body + 1]):
            _fire(tally, items.entities[at], rules.support[rule], size, rules.prior, query)


@njit(cache=True, nogil=True)
def _find_item(items: Items, relation: int, tail: int, kinds: int) -> int:
    low, high = 0, len(items.relation) - kinds
    while low < high:
        middle = (low + high) // 2
        if items.relation[middle] < relation or (items.relation[middle] == relation and items.tail[middle] < tail):
            low = middle + 1
        else:
            high = middle
    if low < len(items.relation) - kinds and items.relation[low] == relation and items.tail[low] == tail:
        return low
    return NONE


@njit(cache=True, nogil=True)
def score_queries(
    adjacent: Adjacency,
    items: Items,
    rules: Rules,
    queries: np.ndarray,
    settings: tuple[float, float, float],
    out: np.ndarray,
) -> None:
    """Fill out [B, N] with what the rules say of (head, relation, ?) for queries [B, 2]: -log of the chance of none.

    settings: weight of the n-th best rule relative to the one before, of the rules after the best, of popularity.
    """
    decay, tiny, popular = settings
    num_entities, kinds = out.shape[1], len(rules.path_offsets) - 1
    num_relations = kinds // 2
    buffers = _scratch(num_entities)
    tally = Tally(
        np.zeros((num_entities, BEST), np.float32),
        np.zeros(num_entities, np.int32),
        np.zeros(num_entities, np.float32),
        np.empty(num_entities, np.int32),
        np.zeros(1, np.int64),
        np.zeros(num_entities, np.int64),
    )
    for row in range(len(queries)):
        head, relation, query = queries[row, 0], queries[row, 1], row + 1
        tally.size[0] = 0
        low, high = _range(adjacent, head, relation)
        for at in range(low, high):
            tally.known[adjacent.tails[at]] = query
        _fire_paths(adjacent, rules, head, relation, buffers, tally, query)
        _fire_items(items, rules, head, relation, num_relations, tally, query)
        # Popularity: the share of the relation's heads that have the candidate as a tail.
        turned = _turned(relation, num_relations)
        heads = adjacent.start_offsets[relation + 1] - adjacent.start_offsets[relation]
        for at in range(adjacent.start_offsets[turned], adjacent.start_offsets[turned + 1]):
            entity = adjacent.starts[at]
            first, last = _range(adjacent, entity, turned)
            known = 1 if tally.known[entity] == query else 0
            out[row, entity] = popular * (last - first - known) / (heads + rules.prior)
        for place in range(tally.size[0]):
            entity = tally.touched[place]
            weight, total = 1.0, 0.0
            for number in range(min(tally.fired[entity], BEST)):
                total -= weight * np.log1p(-tally.best[entity, number])
                weight *= decay
            total += tiny * tally.rest[entity] / (1 + tally.rest[entity])
            out[row, entity] += total
            tally.fired[entity] = 0
