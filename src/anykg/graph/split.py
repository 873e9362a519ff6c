"""Hold out facts of a graph such that every entity and relation keeps at least one.

graph [E, 3] -> (rest, held out), both over the names of the graph. Every entity and relation that had a fact keeps
one in the rest; if that leaves too few facts, fewer are held out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.task import Task
from anykg.seeds import generator


def hold_out(graph: KnowledgeGraph, share: float, seed: int, name: str) -> tuple[KnowledgeGraph, KnowledgeGraph]:
    """Split off `share` of the facts, drawn by the generator `name` of `seed`.

    The facts are shuffled. The first one of each entity and relation is kept, and the last of the others are held out.
    """
    if not 0 <= share <= 1:
        raise ConfigError(f"Expected a share to hold out from 0 to 1, found {share}.")
    order = generator(seed, "hold out", name).permutation(graph.num_triplets)  # [E]
    heads, relations, tails = graph.triplets[order].T
    stays = np.zeros(graph.num_triplets, bool)
    stays[_first_uses(np.stack([heads, tails], axis=1), graph.num_entities)] = True
    stays[_first_uses(relations[:, None], graph.num_relations)] = True
    movable = np.flatnonzero(~stays)
    count = min(round(share * graph.num_triplets), len(movable))
    held = np.zeros(graph.num_triplets, bool)
    held[order[movable[len(movable) - count :]]] = True
    return graph.subset(~held), graph.subset(held)


def _first_uses(ids: np.ndarray, count: int) -> np.ndarray:
    """The first row of ids [E, K] in which each of the `count` ids occurs, for those that do."""
    rows = np.repeat(np.arange(len(ids)), ids.shape[1])
    first = np.full(count, -1)
    first[ids.ravel()[::-1]] = rows[::-1]  # the last of several assignments wins, which is the first use here
    return first[first >= 0]


def shares(count: int, parts: Sequence[float], random: np.random.Generator) -> list[np.ndarray]:
    """The numbers 0 to count - 1, shuffled and split into parts of these shares, which sum to 1."""
    ends = np.round(np.cumsum(parts)[:-1] * count).astype(np.int64)
    return np.split(random.permutation(count), ends)


def trimmed(graph: KnowledgeGraph) -> KnowledgeGraph:
    """The same facts over only the names that occur in them."""
    heads, relations, tails = graph.triplets.T
    entities, ends = np.unique(np.concatenate([heads, tails]), return_inverse=True)
    kinds, of_kind = np.unique(relations, return_inverse=True)
    head_ids, tail_ids = np.split(ends, 2)
    return KnowledgeGraph(
        np.stack([head_ids, of_kind, tail_ids], axis=1), graph.entities.take(entities), graph.relations.take(kinds)
    )


def split_task(graph: KnowledgeGraph, name: str, seed: int = 0) -> Task:
    """A transductive task from one graph: a tenth of its facts for validation, a tenth for testing."""
    known, test = hold_out(graph, 0.1, seed, "test")
    train, valid = hold_out(known, 1 / 9, seed, "valid")
    return Task(name, train=train, valid=valid, observed=train, test=test)
