"""The graph of relations: which relations meet in an entity, and with which ends.

Its nodes are the 2R relations, inverses included. An edge r1 -> r2 of type head-tail exists iff some entity is the head
of an r1 triplet and the tail of an r2 triplet; the other types are analogous. Edges are unweighted and include loops.
All four types come from one sparse product of the N x 2R incidence matrix of heads, since a tail is the head of the
inverse.
"""

from __future__ import annotations

import numpy as np

from anykg.graph.graph import KnowledgeGraph
from anykg.models.nbf.edges import Order, RelationalEdges
from anykg.models.nbf.reference import HEAD_HEAD, HEAD_TAIL, TAIL_HEAD, TAIL_TAIL

NUM_TYPES = 4
DENSE = 1 << 18
"""Up to this many entries the incidence matrix is dense, and multiplied by numpy."""
RECEIVER, RELATION_GRAPH = "nbf.by_receiver", "nbf.relation_graph"
"""Names of arrays in packed graphs."""


def to_arrays(graph: KnowledgeGraph) -> dict[str, np.ndarray]:
    """The arrays that `relation_graph` and `entity_graph` read from a packed graph instead of computing them."""
    order = graph.derive(entity_graph).by_receiver
    arrays = {f"{RECEIVER}.{name}": part for name, part in zip(Order._fields, order, strict=True)}
    return arrays | {RELATION_GRAPH: graph.derive(relation_graph).triplets}


def relation_graph(graph: KnowledgeGraph) -> RelationalEdges:
    """Edges (r1, type, r2), sorted; messages go from r2 to r1. Call as `graph.derive(relation_graph)`."""
    if RELATION_GRAPH in graph.arrays:
        return RelationalEdges(graph.arrays[RELATION_GRAPH], 2 * graph.num_relations, NUM_TYPES)
    count, (rows, columns) = graph.num_relations, _meeting(graph)
    parts = []
    # The tail of a triplet is the head of its inverse: one product holds all four types.
    for kind, from_tail, to_tail in (
        (HEAD_HEAD, False, False),
        (TAIL_TAIL, True, True),
        (HEAD_TAIL, False, True),
        (TAIL_HEAD, True, False),
    ):
        first = (rows + count * from_tail) % max(2 * count, 1)
        second = (columns + count * to_tail) % max(2 * count, 1)
        parts.append(np.stack([first, np.full(len(rows), kind), second], axis=1).astype(np.int32))
    edges = np.concatenate(parts)
    edges = edges[np.lexsort(edges.T[::-1])]
    return RelationalEdges(edges, 2 * graph.num_relations, NUM_TYPES)


def entity_graph(graph: KnowledgeGraph) -> RelationalEdges:
    """The facts and their inverses, as `graph.with_inverses()` orders them; messages go from tail to head."""
    edges = RelationalEdges(graph.with_inverses(), graph.num_entities, 2 * graph.num_relations, with_inverses=True)
    stored = [graph.arrays.get(f"{RECEIVER}.{name}") for name in Order._fields]
    parts = [part for part in stored if part is not None]
    if len(parts) == len(stored):
        vars(edges)["by_receiver"] = Order(*parts)
    return edges


def _meeting(graph: KnowledgeGraph) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of relations [P], inverses included, that have a head in common: from the product of incidences.

    The incidence matrix [N, 2R] is 1 where the entity is the head of a triplet of the relation. A small one is dense:
    scipy takes longer to import.
    """
    entities = np.concatenate([graph.triplets[:, 0], graph.triplets[:, 2]])
    relations = np.concatenate([graph.triplets[:, 1], graph.triplets[:, 1] + graph.num_relations])
    shape = (graph.num_entities, 2 * graph.num_relations)
    if shape[0] * shape[1] <= DENSE:
        dense = np.zeros(shape, np.float32)
        dense[entities, relations] = 1
        rows, columns = np.nonzero(dense.T @ dense)
        return rows, columns
    import scipy.sparse as sp

    matrix = sp.csr_array((np.ones(len(entities), np.int32), (entities, relations)), shape=shape)
    matrix.data[:] = 1  # duplicates were added up
    pairs = (matrix.T @ matrix).tocoo()
    return pairs.row, pairs.col
