"""Describe one entity: its facts by relation, and its neighbourhood as nodes and edges.

Hubs have thousands of facts, so every list is truncated and has the number of omitted facts. Within a relation,
neighbours with few facts come first because they are more specific than hubs.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary

Direction = Literal["out", "in"]


class Group(NamedTuple):
    """The facts of one entity with one relation in one direction."""

    relation: int
    direction: Direction
    others: np.ndarray  # int64 [F], the entities at the other end, most specific first

    @property
    def total(self) -> int:
        """F."""
        return len(self.others)


def named(vocabulary: Vocabulary, index: int) -> dict[str, str]:
    """A name and its label."""
    return {"name": vocabulary[index], "label": vocabulary.label(index)}


def degrees(graph: KnowledgeGraph) -> np.ndarray:
    """Facts [N] of each entity; for `graph.derive`."""
    return np.bincount(graph.triplets[:, [0, 2]].reshape(-1), minlength=graph.num_entities)


def groups_of(graph: KnowledgeGraph, entity: int) -> list[Group]:
    """The facts of an entity by relation and direction, outgoing ones first, then in the order of relations."""
    count, degree = graph.num_relations, graph.derive(degrees)
    tails = graph.answers(np.full(2 * count, entity), np.arange(2 * count))
    groups = []
    for relation in np.flatnonzero(np.diff(tails.offsets)):
        others = tails[int(relation)].astype(np.int64)
        others = others[np.argsort(degree[others], kind="stable")]
        direction: Direction = "out" if relation < count else "in"
        groups.append(Group(int(relation) % count, direction, others))
    return groups


def entity_view(graph: KnowledgeGraph, entity: int, cap: int) -> dict[str, Any]:
    """An entity with its facts by relation, `cap` of each."""
    groups = groups_of(graph, entity)
    return named(graph.entities, entity) | {
        "facts": int(graph.derive(degrees)[entity]),
        "groups": [facts_page(graph, group, 0, cap) for group in groups],
    }


def facts_page(graph: KnowledgeGraph, group: Group, offset: int, limit: int) -> dict[str, Any]:
    """Some of the facts of a group, and the number of facts after them."""
    shown = group.others[offset : offset + limit]
    return {
        "relation": named(graph.relations, group.relation),
        "direction": group.direction,
        "entities": [named(graph.entities, int(other)) for other in shown],
        "total": group.total,
        "more": max(group.total - offset - len(shown), 0),
    }


def neighbourhood(graph: KnowledgeGraph, entity: int, *, limit: int, per_relation: int) -> dict[str, Any]:
    """The facts around an entity as nodes and edges: `per_relation` of each relation, `limit` in all.

    Relations take turns, so that one with many facts does not crowd out the others.
    """
    groups = groups_of(graph, entity)
    taken: list[list[int]] = [[] for _ in groups]
    left = limit
    for turn in range(per_relation):
        for group, others in zip(groups, taken, strict=True):
            if left and turn < group.total:
                others.append(int(group.others[turn]))
                left -= 1
    degree = graph.derive(degrees)
    nodes = dict.fromkeys([entity, *(other for others in taken for other in others)])
    edges: dict[tuple[int, int, int], dict[str, Any]] = {}  # a loop is among the facts of both directions
    for group, others in zip(groups, taken, strict=True):
        for other in others:
            head, tail = (entity, other) if group.direction == "out" else (other, entity)
            edges[head, group.relation, tail] = {
                "head": graph.entities[head],
                "relation": named(graph.relations, group.relation),
                "tail": graph.entities[tail],
            }
    return {
        "centre": graph.entities[entity],
        "nodes": [named(graph.entities, node) | {"facts": int(degree[node])} for node in nodes],
        "edges": list(edges.values()),
        "more": [
            {"relation": named(graph.relations, group.relation), "direction": group.direction, "count": count}
            for group, others in zip(groups, taken, strict=True)
            if (count := group.total - len(others))
        ],
    }
