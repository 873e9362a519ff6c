"""Score queries by rules with named relations: the confidences of all rules that fire for a candidate, combined."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from anykg.rules.kernels.items import Items, find_item
from anykg.rules.kernels.joins import (
    NONE,
    Adjacency,
    Scratch,
    range_of,
    scratch,
    step_one,
    step_three,
    step_two,
    turned,
)

BEST = 5
"""Number of best rules of a candidate that are combined by noisy-or."""
SUREST = 0.9999
"""Upper bound on a rule's confidence, so that scores are finite even without a prior."""


class Rules(NamedTuple):
    """Rules in the order in which a query visits them; relations run over 2R."""

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


class PathOrder(NamedTuple):
    """The path rules with a head relation below R, sorted by body: questions for a relation try each body once."""

    rules: np.ndarray  # int64 [P']: positions in `Rules.bodies`
    relations: np.ndarray  # int64 [P']: their head relations


class Query(NamedTuple):
    """A question for the tails of (head, relation)."""

    head: int
    relation: int
    only: int
    """The only candidate for which rules are counted; NONE for all."""
    number: int
    """Among the queries of a call, from 1."""


class Tally(NamedTuple):
    """The rules that fired for every candidate of one query; candidates are entities, or relations."""

    best: np.ndarray  # float32 [N, BEST]: confidences, falling
    fired: np.ndarray  # int32 [N]: rules that fired
    rest: np.ndarray  # float32 [N]: -log(1 - confidence) summed over the others
    touched: np.ndarray  # int32 [N]
    size: np.ndarray  # int64 [1]
    known: np.ndarray  # int64 [N]: number of the last query that has the candidate as a known answer


@njit(cache=True, nogil=True)
def _fire(tally: Tally, candidate: int, support: float, body: float, prior: float, number: int, only: int) -> None:
    """Count one rule for a candidate, if it is the `only` one or that is NONE.

    A known answer is left out of the rule's own counts.
    """
    if only != NONE and only != candidate:
        return
    if tally.known[candidate] == number:
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
    slot = count
    if count >= BEST:
        low = min(best[BEST - 1], confidence)
        tally.rest[candidate] -= np.log1p(-low)
        if confidence <= best[BEST - 1]:
            return
        slot = BEST - 1
    while slot > 0 and best[slot - 1] < confidence:
        best[slot] = best[slot - 1]
        slot -= 1
    best[slot] = confidence


@njit(cache=True, nogil=True)
def _fire_paths(adjacent: Adjacency, rules: Rules, query: Query, buffers: Scratch, tally: Tally) -> None:
    head, relation, only, number = query
    low, high = rules.path_offsets[relation], rules.path_offsets[relation + 1]
    one, two = -2, -2
    count_one, count_two = 0, 0
    for rule in range(low, high):
        body = rules.bodies[rule]
        if body[0] != one:
            one, two = body[0], -2
            count_one = step_one(adjacent, head, one, buffers)
        if count_one == 0:
            continue
        count, reached = count_one, buffers.first
        if body[1] != NONE:
            if body[1] != two:
                two = body[1]
                count_two, _ = step_two(adjacent, head, count_one, two, buffers)
            count, reached = count_two, buffers.second
            if count == 0:
                continue
            if body[2] != NONE:
                count, _ = step_three(adjacent, head, count_two, body[2], buffers)
                reached = buffers.third
        for i in range(count):
            _fire(tally, reached[i], rules.path_support[rule], rules.path_partial[rule], rules.prior, number, only)


@njit(cache=True, nogil=True)
def _fire_items(items: Items, rules: Rules, query: Query, tally: Tally) -> None:
    head, relation, only, number = query
    kinds = len(rules.path_offsets) - 1
    # Attributes of the head imply (relation, candidate).
    for at in range(items.entity_offsets[head], items.entity_offsets[head + 1]):
        body = items.of_entity[at]
        size = items.item_offsets[body + 1] - items.item_offsets[body]
        for rule in range(rules.by_body[body], rules.by_body[body + 1]):
            item = rules.heads[rule]
            if items.relation[item] == relation:
                _fire(tally, items.tail[item], rules.support[rule], size, rules.prior, number, only)
    # Attributes of a candidate imply (inverse relation, head).
    item = find_item(items, turned(relation, kinds // 2), head, kinds)
    if item == NONE:
        return
    for position in range(rules.by_head[item], rules.by_head[item + 1]):
        rule, body = rules.order[position], rules.body_of[position]
        size = items.item_offsets[body + 1] - items.item_offsets[body]
        for at in range(items.item_offsets[body], items.item_offsets[body + 1]):
            _fire(tally, items.entities[at], rules.support[rule], size, rules.prior, number, only)


@njit(cache=True, nogil=True)
def _tally(num_entities: int) -> Tally:
    """Fresh counts."""
    return Tally(
        np.zeros((num_entities, BEST), np.float32),
        np.zeros(num_entities, np.int32),
        np.zeros(num_entities, np.float32),
        np.empty(num_entities, np.int32),
        np.zeros(1, np.int64),
        np.zeros(num_entities, np.int64),
    )


@njit(cache=True, nogil=True)
def _fire_all(adjacent: Adjacency, items: Items, rules: Rules, query: Query, buffers: Scratch, tally: Tally) -> None:
    """Mark the known answers of a query and count the rules that fire."""
    tally.size[0] = 0
    low, high = range_of(adjacent, query.head, query.relation)
    for at in range(low, high):
        tally.known[adjacent.tails[at]] = query.number
    _fire_paths(adjacent, rules, query, buffers, tally)
    _fire_items(items, rules, query, tally)


@njit(cache=True, nogil=True)
def _combined(tally: Tally, entity: int, decay: float, tiny: float) -> float:
    """-log P(no rule holds) for a candidate for which rules fired; its count is cleared."""
    weight, total = 1.0, 0.0
    for number in range(min(tally.fired[entity], BEST)):
        total -= weight * float(np.log1p(-tally.best[entity, number]))
        weight *= decay
    tally.fired[entity] = 0
    rest: float = tally.rest[entity]
    return total + tiny * rest / (1 + rest)


@njit(cache=True, nogil=True)
def score_queries(
    adjacent: Adjacency,
    items: Items,
    rules: Rules,
    queries: np.ndarray,
    settings: tuple[float, float, float],
    out: np.ndarray,
) -> None:
    """Fill out [B, N] with the scores of (head, relation, ?) for queries [B, 2]: -log P(no rule holds).

    settings: weight of the n-th best rule relative to the one before, of the rules after the best, of popularity.
    """
    decay, tiny, popular = settings
    num_entities, num_relations = out.shape[1], (len(rules.path_offsets) - 1) // 2
    buffers, tally = scratch(num_entities), _tally(num_entities)
    for row in range(len(queries)):
        relation, number = queries[row, 1], row + 1
        _fire_all(adjacent, items, rules, Query(queries[row, 0], relation, NONE, number), buffers, tally)
        # Popularity: the share of the relation's heads that have the candidate as a tail.
        inverse = turned(relation, num_relations)
        heads = adjacent.start_offsets[relation + 1] - adjacent.start_offsets[relation]
        for at in range(adjacent.start_offsets[inverse], adjacent.start_offsets[inverse + 1]):
            entity = adjacent.starts[at]
            known = 1 if tally.known[entity] == number else 0
            out[row, entity] = popular * (adjacent.degrees[at] - known) / (heads + rules.prior)
        for i in range(tally.size[0]):
            entity = tally.touched[i]
            out[row, entity] += _combined(tally, entity, decay, tiny)


@njit(cache=True, nogil=True)
def score_triplets(
    adjacent: Adjacency,
    items: Items,
    rules: Rules,
    triplets: np.ndarray,
    settings: tuple[float, float, float],
    out: np.ndarray,
) -> None:
    """Fill out [B] with the scores of triplets [B, 3], as `score_queries` for one candidate each."""
    decay, tiny, popular = settings
    num_entities, num_relations = len(adjacent.offsets) - 1, (len(rules.path_offsets) - 1) // 2
    buffers, tally = scratch(num_entities), _tally(num_entities)
    for row in range(len(triplets)):
        relation, tail, number = triplets[row, 1], triplets[row, 2], row + 1
        _fire_all(adjacent, items, rules, Query(triplets[row, 0], relation, tail, number), buffers, tally)
        first, last = range_of(adjacent, tail, turned(relation, num_relations))
        known = 1 if tally.known[tail] == number else 0
        heads = adjacent.start_offsets[relation + 1] - adjacent.start_offsets[relation]
        out[row] = popular * (last - first - known) / (heads + rules.prior) if last > first else 0.0
        if tally.size[0]:
            out[row] += _combined(tally, tail, decay, tiny)


# -- relations --------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _reaches(adjacent: Adjacency, tail: int, relation: int, tick: int, buffers: Scratch) -> bool:
    """Whether a third step of `relation` leads to the tail from an entity that `step_two` marked with `tick`."""
    low, high = range_of(adjacent, tail, turned(relation, (len(adjacent.start_offsets) - 1) // 2))
    for at in range(low, high):
        middle = adjacent.tails[at]
        if middle != tail and buffers.mark[middle] == tick and buffers.before[middle] != tail:
            return True
    return False


@njit(cache=True, nogil=True)
def _fire_relation_paths(
    adjacent: Adjacency,
    rules: Rules,
    paths: PathOrder,
    head: int,
    tail: int,
    buffers: Scratch,
    tally: Tally,
    number: int,
) -> None:
    one, two, three = -2, -2, -2
    count_one, hit, hit_one, hit_two = 0, False, False, False
    for position in range(len(paths.rules)):
        rule = paths.rules[position]
        body = rules.bodies[rule]
        if body[0] != one:
            one, two, three = body[0], -2, -2
            count_one, hit_one = step_one(adjacent, head, one, buffers), False
            for i in range(count_one):
                hit_one = hit_one or buffers.first[i] == tail
        if count_one == 0:
            continue
        if body[1] != two:
            two, three = body[1], -2
            if two != NONE:
                step_two(adjacent, head, count_one, two, buffers)
                hit_two = buffers.mark[tail] == buffers.tick[0]
        if body[2] != three:
            three = body[2]
            if two == NONE:
                hit = hit_one
            elif three == NONE:
                hit = hit_two
            else:
                hit = _reaches(adjacent, tail, three, buffers.tick[0], buffers)
        if hit:
            relation = paths.relations[position]
            _fire(tally, relation, rules.path_support[rule], rules.path_partial[rule], rules.prior, number, NONE)


@njit(cache=True, nogil=True)
def _fire_relation_items(items: Items, rules: Rules, head: int, tail: int, tally: Tally, number: int) -> None:
    kinds = len(rules.path_offsets) - 1
    # Attributes of the head imply (relation, tail).
    for at in range(items.entity_offsets[head], items.entity_offsets[head + 1]):
        body = items.of_entity[at]
        size = items.item_offsets[body + 1] - items.item_offsets[body]
        for rule in range(rules.by_body[body], rules.by_body[body + 1]):
            item = rules.heads[rule]
            if items.tail[item] == tail and items.relation[item] < kinds // 2:
                _fire(tally, items.relation[item], rules.support[rule], size, rules.prior, number, NONE)
    # Attributes of the tail imply (inverse relation, head).
    for at in range(items.entity_offsets[tail], items.entity_offsets[tail + 1]):
        body = items.of_entity[at]
        size = items.item_offsets[body + 1] - items.item_offsets[body]
        for rule in range(rules.by_body[body], rules.by_body[body + 1]):
            item = rules.heads[rule]
            if items.tail[item] == head and items.relation[item] >= kinds // 2:
                relation = items.relation[item] - kinds // 2
                _fire(tally, relation, rules.support[rule], size, rules.prior, number, NONE)


@njit(cache=True, nogil=True)
def score_pairs(
    adjacent: Adjacency,
    items: Items,
    rules: Rules,
    paths: PathOrder,
    pairs: np.ndarray,
    settings: tuple[float, float, float],
    out: np.ndarray,
) -> None:
    """Add the scores of (head, ?, tail) for pairs [B, 2] to out [B, R], zeros on entry; those of `score_triplets`."""
    decay, tiny, popular = settings
    num_entities, num_relations = len(adjacent.offsets) - 1, out.shape[1]
    buffers, tally = scratch(num_entities), _tally(num_relations)
    for row in range(len(pairs)):
        head, tail, number = pairs[row, 0], pairs[row, 1], row + 1
        tally.size[0] = 0
        for at in range(adjacent.offsets[tail], adjacent.offsets[tail + 1]):
            relation = adjacent.relations[at] - num_relations
            if relation >= 0:
                out[row, relation] += 1
                if adjacent.tails[at] == head:
                    tally.known[relation] = number
                    out[row, relation] -= 1
        for relation in range(num_relations):
            if out[row, relation]:
                heads = adjacent.start_offsets[relation + 1] - adjacent.start_offsets[relation]
                out[row, relation] *= popular / (heads + rules.prior)
        if head != tail:
            _fire_relation_paths(adjacent, rules, paths, head, tail, buffers, tally, number)
        _fire_relation_items(items, rules, head, tail, tally, number)
        for i in range(tally.size[0]):
            relation = tally.touched[i]
            out[row, relation] += _combined(tally, relation, decay, tiny)
