"""Hold out different triplets in every epoch, such that the graph stays equally connected and keeps every relation.

The spanning forest (one tree per connected component of the undirected graph) is computed once per graph. Each epoch
draws which of the parallel triplets represents each edge of the forest, one triplet for every relation still missing,
and further triplets until only the requested share is left as targets.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import minimum_spanning_tree

from anykg.errors import ConfigError, DataError
from anykg.graph.graph import KnowledgeGraph, Ragged
from anykg.seeds import generator


def resplit(graph: KnowledgeGraph, share: float, seed: int, epoch: int) -> tuple[KnowledgeGraph, np.ndarray]:
    """The message graph and the targets [T, 3] of an epoch; fewer than `share` are targets if more must stay."""
    if not 0 < share < 1:
        raise ConfigError(f"Expected a share of targets between 0 and 1, found {share}.")
    random = generator(seed, "resplit", epoch)
    stays = np.zeros(graph.num_triplets, bool)
    stays[_one_of_each(graph.derive(forest_triplets), random)] = True
    by_relation = graph.derive(triplets_by_relation)
    of_relation = _one_of_each(by_relation, random)
    present = np.zeros(graph.num_relations, bool)
    present[graph.triplets[stays, 1]] = True
    stays[of_relation[~present[graph.triplets[of_relation, 1]]]] = True
    movable = random.permutation(np.flatnonzero(~stays))
    if not len(movable):
        raise DataError(
            f"None of the {graph.num_triplets} facts can be held out without disconnecting the graph or losing a "
            "relation; train on a graph with more of them."
        )
    joining = max(int(graph.num_triplets * (1 - share)) - int(stays.sum()), 0)
    stays[movable[: min(joining, len(movable) - 1)]] = True
    return graph.subset(stays), graph.triplets[~stays]


def forest_triplets(graph: KnowledgeGraph) -> Ragged:
    """For each edge of a spanning forest, the triplets between its two entities, in either direction."""
    heads, _, tails = graph.triplets.T.astype(np.int64)
    n = max(graph.num_entities, 1)
    pairs = np.minimum(heads, tails) * n + np.maximum(heads, tails)
    edges = sp.csr_array((np.ones(len(pairs)), (pairs // n, pairs % n)), shape=(n, n))
    edges.data[:] = 1.0  # any spanning tree will do
    ends = minimum_spanning_tree(edges).tocoo()
    return _positions(pairs, np.sort(np.minimum(*ends.coords) * n + np.maximum(*ends.coords)))


def triplets_by_relation(graph: KnowledgeGraph) -> Ragged:
    """For each relation that occurs, its triplets."""
    relations = graph.triplets[:, 1]
    return _positions(relations, np.unique(relations))


def _positions(keys: np.ndarray, wanted: np.ndarray) -> Ragged:
    """The position of each wanted key in `keys`."""
    order = np.argsort(keys, kind="stable")
    first = np.searchsorted(keys[order], wanted)
    counts = np.searchsorted(keys[order], wanted, side="right") - first
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return Ragged(offsets, order[np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], counts)])


def _one_of_each(lists: Ragged, random: np.random.Generator) -> np.ndarray:
    """One uniformly drawn value of each list; no list may be empty."""
    picks = random.integers(np.diff(lists.offsets)) if len(lists.offsets) > 1 else np.zeros(0, np.int64)
    chosen: np.ndarray = lists.values[lists.offsets[:-1] + picks]
    return chosen
