"""Which half of a test triplet occurs elsewhere in the inference graph.

Models depend on such half-links, which overall averages hide.
"""

from __future__ import annotations

import numpy as np

from anykg.graph.graph import KnowledgeGraph

STRATA = ("neither", "head-relation", "relation-tail", "both")


def half_links(observed: KnowledgeGraph, triplets: np.ndarray) -> np.ndarray:
    """Return the stratum [Q] of triplets [Q, 3], an index into STRATA.

    `head-relation`: (h, r) is observed with another tail; `relation-tail`: (r, t) with another head.
    """
    heads, relations, tails = triplets[:, 0], triplets[:, 1], triplets[:, 2]
    itself = observed.contains(triplets)
    tails_seen = np.diff(observed.answers(heads, relations).offsets) - itself > 0
    heads_seen = np.diff(observed.answers(tails, relations + observed.num_relations).offsets) - itself > 0
    strata: np.ndarray = tails_seen + 2 * heads_seen
    return strata
