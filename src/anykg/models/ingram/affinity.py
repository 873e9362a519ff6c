"""The affinity of relations, by shared entities, and the graph of relations built from it (InGram).

With inverses there are 2R relations. E[v, r] counts the triplets of r whose head is v, D[v] is its row sum. The
affinity A = E' D^-2 E + F' D^-2 F adds the same for tails, F; as every triplet has an inverse, F is E with each
relation and its inverse swapped, so one product serves both. All nonzero affinities, the diagonal included, are edges
i -> j.

Edges ranked by descending affinity are divided into equal bins. The public implementation breaks ties by ids; here
equal affinities share the bin of the first of them, so relabelling a graph relabels its bins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph

TIE = 1e-9
"""Affinities within this relative tolerance are equal: the order of summation depends on the labels."""


class RelationGraph(NamedTuple):
    """Edges i -> j over 2R relations, sorted by i, then j."""

    sources: np.ndarray  # [A] int32: i
    targets: np.ndarray  # [A] int32: j
    affinities: np.ndarray  # [A] float64
    bins: np.ndarray  # [A] int32, 0 the strongest


def relation_graph(graph: KnowledgeGraph, num_bins: int) -> RelationGraph:
    """The relations of `graph` and their inverses, linked by affinity."""
    matrix = affinities(graph)
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr))
    return RelationGraph(rows, matrix.indices.astype(np.int32), matrix.data, affinity_bins(matrix.data, num_bins))


def affinities(graph: KnowledgeGraph) -> sp.csr_array:
    """The affinity matrix [2R, 2R]."""
    heads, relations, tails = graph.triplets.T
    r = graph.num_relations
    entities = np.concatenate([heads, tails])  # a triplet's inverse has its tail as head
    kinds = np.concatenate([relations, relations + r])
    degrees = np.bincount(entities, minlength=graph.num_entities)
    shares = sp.csr_array((1 / degrees[entities], (entities, kinds)), shape=(graph.num_entities, 2 * r))  # D^-1 E
    by_heads = (shares.T @ shares).tocoo()
    rows, columns = by_heads.coords
    inverse = np.roll(np.arange(2 * r), r)
    both = sp.csr_array(
        (
            np.concatenate([by_heads.data, by_heads.data]),
            (np.concatenate([rows, inverse[rows]]), np.concatenate([columns, inverse[columns]])),
        ),
        shape=(2 * r, 2 * r),
    )
    both.sort_indices()
    return both


def affinity_bins(values: np.ndarray, num_bins: int) -> np.ndarray:
    """Bin of each value [A]: ceil(rank * bins / A) - 1 by descending value; ties share the bin of the first."""
    if num_bins < 1:
        raise ConfigError(f"Expected at least 1 bin, found {num_bins}.")
    order = np.argsort(-values, kind="stable")
    falling = values[order]
    starts = np.ones(len(values), bool)
    starts[1:] = falling[1:] < falling[:-1] * (1 - TIE)
    ranks = np.maximum.accumulate(np.where(starts, np.arange(1, len(values) + 1), 0))  # of the first of each tie
    bins = np.empty(len(values), np.int32)
    bins[order] = -(-ranks * num_bins // max(len(values), 1)) - 1  # -(-a // b) is ceil(a / b)
    return bins
