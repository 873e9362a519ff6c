"""Relations that say the same: near-duplicates, inverses, and symmetric relations.

Of two relations r and s, how much of the smaller one is in the larger: between the same heads and tails (s), or the
other way round (s + R, the inverse). r with r + R says how symmetric r is.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from anykg.graph.graph import KnowledgeGraph

ALIKE = 0.8
"""Share of the smaller relation's facts that must be in the larger."""
FEWEST = 10
"""Facts a relation needs before a resemblance counts."""


def overlaps(graph: KnowledgeGraph) -> sp.csr_array:
    """[R, 2R]: |pairs of r that are pairs of s| / min(|r|, |s|); zero for relations of few facts and r with itself."""
    heads, relations, tails = graph.triplets.T.astype(np.int64)
    pairs = np.concatenate([heads * graph.num_entities + tails, tails * graph.num_entities + heads])
    kinds = np.concatenate([relations, relations + graph.num_relations])
    keys, rows = np.unique(pairs, return_inverse=True)
    counts = np.bincount(relations, minlength=graph.num_relations)
    matrix = sp.csr_array((np.ones(len(rows)), (rows.reshape(-1), kinds)), shape=(len(keys), 2 * graph.num_relations))
    shared = (matrix[:, : graph.num_relations].T @ matrix).tocoo()
    smaller = np.minimum(counts[shared.row], counts[shared.col % max(graph.num_relations, 1)])
    good = (smaller >= FEWEST) & (shared.row != shared.col)
    values = shared.data[good] / smaller[good]
    return sp.csr_array((values, (shared.row[good], shared.col[good])), shape=shared.shape)


def twins(graph: KnowledgeGraph) -> np.ndarray:
    """Pairs [T, 2], sorted: a relation r, and s (or s + R) whose facts give those of r away."""
    alike = overlaps(graph).tocoo()
    keep = alike.data >= ALIKE
    found = np.stack([alike.row[keep], alike.col[keep]], axis=1).astype(np.int64)
    return found[np.lexsort(found.T[::-1])]
