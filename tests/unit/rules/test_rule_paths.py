"""The kernel that counts paths against sets of triplets."""

import numpy as np
from hypothesis import given, settings

from anykg.graph.graph import KnowledgeGraph
from anykg.rules.kernels.matching import fact_index
from anykg.rules.kernels.paths import count_paths, count_paths_reference
from graphs import graphs


@settings(max_examples=40, deadline=None)
@given(graphs(max_entities=9, max_relations=4, min_triplets=8))
def test_counts_are_those_of_the_reference(graph: KnowledgeGraph) -> None:
    sizes = (graph.num_entities, graph.num_relations)
    index, starts = fact_index(graph.triplets, *sizes), np.arange(0, graph.num_entities, 2)
    for length in (1, 2, 3):
        np.testing.assert_array_equal(
            count_paths(index, sizes, length, starts), count_paths_reference(index, sizes, length, starts)
        )
