"""The kernels that count paths against sets of triplets."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anykg.graph.graph import KnowledgeGraph
from anykg.rules.kernels.matching import fact_index
from anykg.rules.kernels.paths import count_paths, count_paths_reference
from anykg.rules.kernels.rows import run_index
from anykg.rules.kernels.three_steps import count_three_steps
from graphs import graphs, named, random_graph

DENSE = st.builds(random_graph, st.integers(2, 7), st.integers(1, 5), st.integers(10, 60), st.integers(0, 2**32 - 1))
"""Few entities, so that pairs have several relations in both directions and paths come back to where they have been."""


@settings(max_examples=40, deadline=None)
@given(graphs(max_entities=9, max_relations=4, min_triplets=8) | DENSE)
@example(named("a r a"))
@example(named("a r b", "b r a", "a s b", "b s b"))
@example(named("s a x", "x b m", "m c x", "m c y"))  # the only way to x leads over x
def test_counts_are_those_of_the_reference(graph: KnowledgeGraph) -> None:
    sizes = (graph.num_entities, graph.num_relations)
    index, starts = fact_index(graph.triplets, *sizes), np.arange(0, graph.num_entities, 2)
    found = [count_paths(index, sizes, length, starts) for length in (1, 2)]
    found.append(count_three_steps(run_index(index, sizes), sizes, index.facts[0], starts))
    for length, counts in enumerate(found, 1):
        np.testing.assert_array_equal(counts, count_paths_reference(index, sizes, length, starts))
