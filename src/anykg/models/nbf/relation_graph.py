"""The graph of relations: which relations meet in an entity, and with which ends.

Its nodes are the 2R relations, inverses included. An edge r1 -> r2 of type head-tail exists iff some entity is the head
of an r1 triplet and the tail of an r2 triplet; the other types alike. Unweighted; a relation is joined to itself where
that holds. The four types are one sparse product of the N x 2R incidence
matrix of heads, since a tail is the head of the inverse.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from anykg.graph.graph import KnowledgeGraph
from anykg.models.nbf.edges import RelationalEdges
from anykg.models.nbf.reference import HEAD_HEAD, HEAD_TAIL, TAIL_HEAD, TAIL_TAIL

NUM_TYPES = 4


def relation_graph(graph: KnowledgeGraph) -> RelationalEdges:
    """Edges (r1, type, r2), sorted; messages go from r2 to r1. Ask for it by `graph.derive(relation_graph)`."""
    heads, count = _incidence(graph), graph.num_relations
    pairs = (heads.T @ heads).tocoo()
    parts = []
    # The tail of a triplet is the head of its inverse: one product holds all four types.
    for kind, from_tail, to_tail in (
        (HEAD_HEAD, False, False),
        (TAIL_TAIL, True, True),
        (HEAD_TAIL, False, True),
        (TAIL_HEAD, True, False),
    ):
        first = (pairs.row + count * from_tail) % max(2 * count, 1)
        second = (pairs.col + count * to_tail) % max(2 * count, 1)
        parts.append(np.stack([first, np.full(pairs.nnz, kind), second], axis=1).astype(np.int32))
    edges = np.concatenate(parts)
    edges = edges[np.lexsort(edges.T[::-1])]
    return RelationalEdges(edges, 2 * graph.num_relations, NUM_TYPES)


def entity_graph(graph: KnowledgeGraph) -> RelationalEdges:
    """The facts and their inverses, as `graph.with_inverses()` orders them; messages go from tail to head."""
    return RelationalEdges(graph.with_inverses(), graph.num_entities, 2 * graph.num_relations, with_inverses=True)


def _incidence(graph: KnowledgeGraph) -> sp.csr_array:
    """[N, 2R]: 1 where the entity is the head of a triplet of the relation, inverses included."""
    entities = np.concatenate([graph.triplets[:, 0], graph.triplets[:, 2]])
    relations = np.concatenate([graph.triplets[:, 1], graph.triplets[:, 1] + graph.num_relations])
    ones = np.ones(len(entities), np.int32)
    matrix = sp.csr_array((ones, (entities, relations)), shape=(graph.num_entities, 2 * graph.num_relations))
    matrix.data[:] = 1  # duplicates were added up
    return matrix
