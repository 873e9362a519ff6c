"""Attributes (relation, tail) shared by entities, called items, and rules between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from anykg.graph.graph import KnowledgeGraph
from anykg.rules.kernels.joins import NONE, Adjacency, stride


class Items(NamedTuple):
    """Attributes (relation, tail) of entities, and (relation, any tail), numbered together."""

    relation: np.ndarray  # int32 [I]
    tail: np.ndarray  # int32 [I]: NONE for any tail; those come last
    entity_offsets: np.ndarray  # int64 [N + 1]
    of_entity: np.ndarray  # int32: items of each entity, sorted
    item_offsets: np.ndarray  # int64 [I + 1]
    entities: np.ndarray  # int32: entities of each item


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
def item_rules(
    items: Items, wanted: np.ndarray, settings: tuple[int, int, float, float], most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rules whose head is one of the wanted items [W]: head, body, support [Q], at most `most` per head, best first.

    settings: minimum support, entities sampled for one head, prior, minimum confidence.
    """
    least, sampled, prior, least_confidence = settings
    together, touched = np.zeros(len(items.relation), np.int64), np.empty(len(items.relation), np.int64)
    heads, bodies = np.empty(1 << 12, np.int32), np.empty(1 << 12, np.int32)
    supports, size = np.empty(1 << 12, np.float32), 0
    for i in range(len(wanted)):
        head = wanted[i]
        low, high = items.item_offsets[head], items.item_offsets[head + 1]
        total, count = high - low, 0
        step, looked = stride(total), min(high - low, sampled)
        for number in range(looked):
            entity = items.entities[low + (number * step) % total]
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
        if number > most:  # ties at the cut-off are all kept or all dropped, so that the numbering does not matter
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


@njit(cache=True, nogil=True)
def find_item(items: Items, relation: int, tail: int, kinds: int) -> int:
    """The number of the item (relation, tail), or NONE."""
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
