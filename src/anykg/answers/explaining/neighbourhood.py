"""Extract the facts around a triplet as a small graph.

Explaining needs a number for every edge and layer, and many scores on slightly different graphs. On a large graph both
are computed on the part that matters most: facts on the shortest walks from head to tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from anykg.graph.graph import KnowledgeGraph

FAR = 8
"""Larger distances are clipped to this one."""


class Neighbourhood(NamedTuple):
    """A part of a graph; its relations keep their ids, its entities do not."""

    graph: KnowledgeGraph
    triplet: np.ndarray  # int64 [3], with the ids of `graph`
    entities: np.ndarray  # [n] the id in the whole graph of each entity
    lengths: np.ndarray  # [E] of the shortest walk from head to tail through each fact

    def in_whole(self, facts: np.ndarray) -> np.ndarray:
        """Facts [F, 3] with the ids of the whole graph, int64."""
        return np.stack([self.entities[facts[:, 0]], facts[:, 1], self.entities[facts[:, 2]]], axis=1).astype(np.int64)


def neighbourhood(graph: KnowledgeGraph, triplet: np.ndarray, most: int, also: Sequence[int] = ()) -> Neighbourhood:
    """The `most` facts on the shortest walks between the two ends; the whole graph if it has no more.

    Walks to the entities in `also` count like those to the tail.
    """
    head, relation, tail = (int(part) for part in triplet)
    lengths = _walk_lengths(graph, head, (tail, *also))
    if len(graph) <= most:
        return Neighbourhood(graph, np.array([head, relation, tail]), np.arange(graph.num_entities), lengths)
    facts = graph.triplets[np.sort(np.argpartition(lengths, most)[:most])]
    kept = [head, tail, *also]
    entities, ids = np.unique(np.concatenate([kept, facts[:, 0], facts[:, 2]]), return_inverse=True)
    heads, tails = np.split(ids[len(kept) :], 2)
    small = KnowledgeGraph(
        np.stack([heads, facts[:, 1], tails], axis=1), graph.entities.take(entities), graph.relations
    )
    moved = np.array([ids[0], relation, ids[1]])
    return Neighbourhood(small, moved, entities, _walk_lengths(small, int(ids[0]), ids[1 : len(kept)].tolist()))


def _walk_lengths(graph: KnowledgeGraph, head: int, tails: Sequence[int]) -> np.ndarray:
    """The length [E] of the shortest walk from head to one of the tails through each fact, in either direction."""
    starts, _, ends = graph.triplets.T
    from_head = _distances(graph, head)
    from_tail = np.min([_distances(graph, tail) for tail in tails], axis=0)
    lengths: np.ndarray = 1 + np.minimum(from_head[starts] + from_tail[ends], from_head[ends] + from_tail[starts])
    return lengths


def _distances(graph: KnowledgeGraph, root: int) -> np.ndarray:
    """Distances [N] from an entity over facts in both directions, clipped to FAR."""
    starts, _, ends = graph.triplets.T
    distances = np.full(graph.num_entities, FAR)
    distances[root] = 0
    for step in range(1, FAR):
        last = distances == step - 1
        reached = np.zeros(graph.num_entities, bool)
        reached[ends[last[starts]]] = reached[starts[last[ends]]] = True
        new = reached & (distances == FAR)
        if not new.any():
            break
        distances[new] = step
    return distances
