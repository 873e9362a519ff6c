"""Shortest distances between entities, over observed facts.

A fact (head, relation, tail) is an edge head -> tail, or an edge both ways where `directed` is False. Distances count
edges; -1 means that there is no path, or none within `limit`. The distance of a triplet never uses the triplet itself.

An all-pairs table, cached with the graph, answers most lookups if it fits in `TABLE_BYTES`. Larger graphs are searched
from the entities of the batch; after as many searches as a table would need, they also get a table if memory allows.
Only an adjacent pair can lose its shortest path together with its own edge: for these few pairs a detour is searched,
which is cached as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import psutil

from anykg.errors import ConfigError, DataError
from anykg.graph.bfs import NO_LIMIT, NO_PATH, detours, multi_source_bfs, unreached
from anykg.graph.graph import KnowledgeGraph

TABLE_BYTES = 512 * 2**20
"""All-pairs distances are cached up to this many bytes: N * N, twice as many if a distance exceeds 254."""
LARGE_TABLE_BYTES = 5 * 2**30
"""Upper bound on a table made after many searches, which may also take at most a quarter of the free memory."""
BLOCK_BYTES = 64 * 2**20
"""Searches that are not cached run in blocks of about this many bytes."""
_NOT_YET = -2
"""Marks a detour that is not computed yet."""

Direction = Literal["out", "in", "both"]


@dataclass(frozen=True, eq=False)
class Adjacency:
    """Distinct neighbours of each entity: `neighbours[offsets[i]:offsets[i + 1]]`, ascending, self-loops left out."""

    offsets: np.ndarray  # [N + 1], int64
    neighbours: np.ndarray  # int32, one for each edge
    counts: np.ndarray  # triplets behind each edge
    keys: np.ndarray  # entity * N + neighbour, ascending

    def find(self, entities: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
        """The positions of edges that exist."""
        at: np.ndarray = np.searchsorted(self.keys, entities * (len(self.offsets) - 1) + neighbours)
        return at


def adjacency(graph: KnowledgeGraph, direction: Direction) -> Adjacency:
    """Successors ("out"), predecessors ("in") or all neighbours of each entity; computed once for a graph."""
    return graph.derive(_adjacency, direction)


def triplet_distances(
    graph: KnowledgeGraph,
    triplets: np.ndarray,
    *,
    directed: bool,
    leave_out: Literal["triplet", "pair"],
    limit: int | None = None,
) -> np.ndarray:
    """d(head, tail) and d(tail, head) for each triplet [B, 3], int32 [B, 2], with some facts masked.

    "triplet" masks the triplet itself (relation r + R refers to (tail, r, head)); its edge stays if another fact
    supports it. "pair" masks every fact between the two entities, in both directions.
    """
    triplets = np.asarray(triplets, np.int64)
    if triplets.ndim != 2 or triplets.shape[1] != 3:
        raise DataError(f"Expected triplets of shape [B, 3], found {list(triplets.shape)}.")
    bound = _checked_limit(limit)
    heads, relations, tails = triplets.T
    _check_entities(graph, triplets[:, [0, 2]])
    inverse = relations >= graph.num_relations
    there, back = _plain_distances(graph, heads, tails, directed)
    for distances, starts, ends, along in ((there, heads, tails, ~inverse), (back, tails, heads, inverse)):
        # Its own edge is part of a shortest path from start to end only where it is that path.
        rows = np.flatnonzero(distances == 1)
        if leave_out == "triplet":
            if directed:
                rows = rows[along[rows]]
            rows = rows[graph.contains(triplets[rows])]
        distances[rows] = _without_own_edge(
            graph, starts[rows], ends[rows], directed, bound, alone=leave_out == "triplet"
        )
        if not directed:
            back = there
            break
    both_ways = np.stack([there, back], axis=1)  # [B, 2]
    both_ways[both_ways > bound] = -1
    return both_ways


def _adjacency(graph: KnowledgeGraph, direction: Direction) -> Adjacency:
    heads, _, tails = graph.triplets[graph.triplets[:, 0] != graph.triplets[:, 2]].T.astype(np.int64)
    n = graph.num_entities
    ways = {"out": [heads * n + tails], "in": [tails * n + heads], "both": [heads * n + tails, tails * n + heads]}
    keys, counts = np.unique(np.concatenate(ways[direction]), return_counts=True)
    offsets = np.searchsorted(keys, np.arange(n + 1) * n)
    return Adjacency(offsets, (keys % max(n, 1)).astype(np.int32), counts, keys)


def _direction(directed: bool, reverse: bool) -> Direction:
    if not directed:
        return "both"
    return "in" if reverse else "out"


def _plain_distances(
    graph: KnowledgeGraph, heads: np.ndarray, tails: np.ndarray, directed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Distances head -> tail [B] and tail -> head [B], without masking."""
    table = distance_table(graph, directed)
    if table is not None:
        there = _signed(table[heads, tails])
        return there, _signed(table[tails, heads]) if directed else there
    # Either end can be the source: take the side with fewer distinct entities.
    if len(np.unique(tails)) < len(np.unique(heads)):
        back, there = _searched(graph, tails, heads, directed)
    else:
        there, back = _searched(graph, heads, tails, directed)
    return there, back


def distance_table(graph: KnowledgeGraph, directed: bool) -> np.ndarray | None:
    """Distances [N, N] of all pairs, without masking, as returned by `multi_source_bfs`; None if there is no table."""
    size = graph.num_entities**2
    if size <= TABLE_BYTES:
        return graph.derive(_table, directed)
    if size > LARGE_TABLE_BYTES or graph.derive(_searches, directed)[0] < graph.num_entities:
        return None
    return graph.derive(_table_if_it_fits, directed)


def _table(graph: KnowledgeGraph, directed: bool) -> np.ndarray:
    edges = adjacency(graph, _direction(directed, reverse=False))
    return multi_source_bfs(edges.offsets, edges.neighbours, np.arange(graph.num_entities))


def _table_if_it_fits(graph: KnowledgeGraph, directed: bool) -> np.ndarray | None:
    return _table(graph, directed) if graph.num_entities**2 <= psutil.virtual_memory().available / 4 else None


def _searches(graph: KnowledgeGraph, directed: bool) -> np.ndarray:
    """The number of searches run on the graph, int64 [1]; updated in place."""
    del graph, directed  # each direction is counted by itself
    return np.zeros(1, np.int64)


def _searched(
    graph: KnowledgeGraph, roots: np.ndarray, others: np.ndarray, directed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Distances root -> other [B] and other -> root [B], by searches from the distinct roots in bounded blocks."""
    sources, row_source = np.unique(roots, return_inverse=True)
    order = np.argsort(row_source, kind="stable")
    graph.derive(_searches, directed)[0] += len(sources) * (2 if directed else 1)
    size = max(BLOCK_BYTES // graph.num_entities, 1)
    distances = np.empty((2, len(roots)), np.int32)
    for side, reverse in enumerate((False, True) if directed else (False,)):
        edges = adjacency(graph, _direction(directed, reverse))
        for first in range(0, len(sources), size):
            rows = order[slice(*np.searchsorted(row_source[order], [first, first + size]))]
            block = multi_source_bfs(edges.offsets, edges.neighbours, sources[first : first + size])
            distances[side, rows] = _signed(block[row_source[rows] - first, others[rows]])
    return distances[0], distances[1] if directed else distances[0]


def _without_own_edge(
    graph: KnowledgeGraph, starts: np.ndarray, ends: np.ndarray, directed: bool, limit: int, *, alone: bool
) -> np.ndarray:
    """Distances [B] of adjacent pairs without their edge; with `alone`, only if a single fact supports the edge."""
    if not directed:
        starts, ends = np.minimum(starts, ends), np.maximum(starts, ends)
    edges = adjacency(graph, _direction(directed, reverse=False))
    at = edges.find(starts, ends)
    known = graph.derive(_detours, directed, limit)
    kept = (edges.counts[at] > 1) & alone
    missing = np.unique(at[(known[at] == _NOT_YET) & ~kept])
    if len(missing):
        n = graph.num_entities
        turned = adjacency(graph, _direction(directed, reverse=True))
        known[missing] = detours(
            edges.offsets,
            edges.neighbours,
            turned.offsets,
            turned.neighbours,
            edges.keys[missing] // n,
            edges.keys[missing] % n,
            limit,
        )
    return np.where(kept, 1, known[at])


def _detours(graph: KnowledgeGraph, directed: bool, limit: int) -> np.ndarray:
    """The detour around each edge of the graph, filled in on demand."""
    del limit  # detours of one limit are kept apart from those of another
    return np.full(len(adjacency(graph, _direction(directed, reverse=False)).keys), _NOT_YET, np.int32)


def _signed(distances: np.ndarray) -> np.ndarray:
    """Unsigned distances as int32, -1 where not reached."""
    return np.where(distances == unreached(distances), np.int32(NO_PATH), distances.astype(np.int32))


def _checked_limit(limit: int | None) -> int:
    if limit is None:
        return NO_LIMIT
    if limit < 0:
        raise ConfigError(f"Expected a distance limit of 0 or more, found {limit}; None sets no limit.")
    return limit


def _check_entities(graph: KnowledgeGraph, ids: np.ndarray) -> None:
    if ids.size and (ids.min() < 0 or ids.max() >= graph.num_entities):
        bad = ids.min() if ids.min() < 0 else ids.max()
        raise DataError(f"Expected entity ids from 0 to {graph.num_entities - 1}, found {bad}.")
