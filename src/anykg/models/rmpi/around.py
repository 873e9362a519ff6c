"""The triplets around each entity of a graph, in the order `anykg.models.rmpi.kernels` reads them."""

from __future__ import annotations

import numpy as np

from anykg.graph.graph import KnowledgeGraph
from anykg.models.rmpi.kernels import Around


def triplets_around(graph: KnowledgeGraph) -> Around:
    """Every triplet listed at its tail (column r) and at its head (column R + r), by the entity at the other end."""
    heads, relations, tails = graph.triplets.T
    owner, other = np.concatenate([tails, heads]), np.concatenate([heads, tails])
    column = np.concatenate([relations, relations + graph.num_relations])
    edge = np.tile(np.arange(graph.num_triplets, dtype=np.int32), 2)
    order = np.lexsort((column, other, owner))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=graph.num_entities))])
    return Around(offsets, other[order], column[order].astype(np.int32), edge[order], graph.num_relations)


def entries_within_reach(graph: KnowledgeGraph) -> np.ndarray:
    """For each entity [N], its triplets and those of its neighbours, each as often as it is listed."""
    around = graph.derive(triplets_around)
    degrees = np.diff(around.offsets)
    owners = np.repeat(np.arange(graph.num_entities), degrees)
    nearby = np.bincount(owners, weights=degrees[around.other], minlength=graph.num_entities)
    reach: np.ndarray = degrees + nearby.astype(np.int64)
    return reach
