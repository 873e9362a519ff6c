"""Named rules and the facts of a graph, in the form used by the kernels.

Rules are sorted once (`sort_rules`); binding them to a graph, or to a part of it with the same ids, is fast
(`rule_index`): explanations do it for every fact they remove.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anykg.graph.graph import KnowledgeGraph
from anykg.rules.kernels.items import Items, item_index
from anykg.rules.kernels.joins import NONE, Adjacency, adjacency
from anykg.rules.kernels.named_queries import PathOrder, Rules
from anykg.rules.named import NamedRules

Index = tuple[Adjacency, Items, Rules]
"""The facts of a graph and the rules that apply to it."""


class SortedRules(NamedTuple):
    """Rules in the order used by the kernels, which is the same for a graph and its parts."""

    path_offsets: np.ndarray  # int64 [2R + 1]: path rules by head relation
    bodies: np.ndarray  # int32 [P, 3], sorted within a head relation
    path_support: np.ndarray  # float32 [P]
    path_partial: np.ndarray  # float32 [P]
    attributes: np.ndarray  # int64 [U, 2]: relation and tail of those in constant rules; any tail (NONE) last
    heads: np.ndarray  # int64 [Q]: attribute of the head of a constant rule
    constant_bodies: np.ndarray  # int64 [Q]: and of its body; rules are sorted by body, then head
    support: np.ndarray  # float32 [Q]
    order: np.ndarray  # int64 [Q]: their order by head, then body


def sort_rules(found: NamedRules, num_relations: int) -> SortedRules:
    """Sort rules over R relations."""
    heads, bodies, counts = found.paths[:, 0], found.paths[:, 1:], found.path_counts.astype(np.float32)
    order = np.lexsort((bodies[:, 2], bodies[:, 1], bodies[:, 0], heads))
    relations, tails = found.constants.reshape(-1, 2).astype(np.int64).T  # of head and body of each rule in turn
    span = tails.max(initial=0) + 1
    named = 2 * num_relations * span  # attributes with any tail come last, as `item_index` has it
    keys, number = np.unique(np.where(tails == NONE, named + relations, relations * span + tails), return_inverse=True)
    head, body = number.reshape(-1, 2).T
    attributes = np.where(keys < named, [keys // span, keys % span], [keys - named, np.full_like(keys, NONE)]).T
    rising = np.lexsort((head, body))
    return SortedRules(
        path_offsets=np.searchsorted(heads[order], np.arange(2 * num_relations + 1)),
        bodies=np.ascontiguousarray(bodies[order]).astype(np.int32),
        path_support=np.ascontiguousarray(counts[order, 0]),
        path_partial=np.ascontiguousarray(counts[order, 2]),
        attributes=attributes,
        heads=head[rising],
        constant_bodies=body[rising],
        support=found.constant_counts[rising, 0].astype(np.float32),
        order=np.argsort(head[rising], kind="stable"),
    )


def rule_index(graph: KnowledgeGraph, rules: SortedRules, prior: float) -> Index:
    """The facts of a graph, and the rules without those about attributes that no entity of it has."""
    adjacent = adjacency(graph)
    items = item_index(graph, adjacent)
    number = _numbers(items, rules.attributes, graph)
    head, body, support, order = number[rules.heads], number[rules.constant_bodies], rules.support, rules.order
    keep = (head != NONE) & (body != NONE)
    if not keep.all():
        order = (np.cumsum(keep) - 1)[order[keep[order]]]
        head, body, support = head[keep], body[keep], support[keep]
    everything = np.arange(len(items.relation) + 1)
    bound = Rules(
        path_offsets=rules.path_offsets,
        bodies=rules.bodies,
        path_support=rules.path_support,
        path_partial=rules.path_partial,
        by_body=np.searchsorted(body, everything),
        heads=head.astype(np.int32),
        support=support,
        by_head=np.searchsorted(head[order], everything),
        order=order,
        body_of=body[order].astype(np.int32),
        prior=float(prior),
    )
    return adjacent, items, bound


def _numbers(items: Items, attributes: np.ndarray, graph: KnowledgeGraph) -> np.ndarray:
    """The number [U] of the item that each attribute [U, 2] is, increasing; NONE if no entity has it."""
    n = max(graph.num_entities, 1)
    named = len(items.relation) - 2 * graph.num_relations
    keys = items.relation[:named].astype(np.int64) * n + items.tail[:named]
    relations, tails = attributes.T
    wanted = relations * n + tails
    index = np.minimum(np.searchsorted(keys, wanted), max(named - 1, 0))
    there = keys[index] == wanted if named else np.zeros(len(wanted), bool)
    result: np.ndarray = np.where(tails == NONE, named + relations, np.where(there, index, NONE))
    return result


def path_order(rules: Rules) -> PathOrder:
    """Sort the path rules by body, for questions about relations."""
    num_relations = (len(rules.path_offsets) - 1) // 2
    offsets = rules.path_offsets[: num_relations + 1]
    bodies = rules.bodies[: offsets[-1]]
    order = np.lexsort((bodies[:, 2], bodies[:, 1], bodies[:, 0]))
    return PathOrder(order, np.repeat(np.arange(num_relations), np.diff(offsets))[order])
