"""The graph of relations and its bins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.models.ingram.affinity import affinities, affinity_bins, relation_graph
from anykg.seeds import generator


def _random_graph(seed, entities=12, relations=5, triplets=40):
    draw = generator(seed, "graph")
    rows = np.stack([draw.integers(high, size=triplets) for high in (entities, relations, entities)], axis=1)
    names = (Vocabulary(kind, map(str, range(n))) for kind, n in (("entity", entities), ("relation", relations)))
    return KnowledgeGraph(rows, *names)


def _by_definition(graph):
    triplets = graph.with_inverses()
    total = np.zeros((2 * graph.num_relations,) * 2)
    for side in (0, 2):
        counts = np.zeros((graph.num_entities, 2 * graph.num_relations))
        np.add.at(counts, (triplets[:, side], triplets[:, 1]), 1)
        degrees = counts.sum(1, keepdims=True)
        total += counts.T @ (counts / np.maximum(degrees, 1) ** 2)
    return total


@given(seed=st.integers(0, 2**31), triplets=st.integers(0, 60))
@settings(max_examples=30, deadline=None)
def test_affinities_follow_their_definition(seed, triplets):
    graph = _random_graph(seed, triplets=triplets)
    np.testing.assert_allclose(affinities(graph).toarray(), _by_definition(graph), rtol=1e-12)
    links = relation_graph(graph, 10)
    assert len(links.sources) == np.count_nonzero(_by_definition(graph))
    assert (np.diff(links.sources.astype(int) * 2 * graph.num_relations + links.targets) > 0).all()


@given(seed=st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_relabelling_relabels_bins(seed):
    graph = _random_graph(seed)
    draw = generator(seed, "labels")
    order = draw.permutation(graph.num_relations)
    moved = relation_graph(graph.relabel(draw.permutation(graph.num_entities), order), 10)
    links = relation_graph(graph, 10)
    both = np.concatenate([order, order + graph.num_relations])
    bins = {(i, j): b for i, j, b in zip(moved.sources, moved.targets, moved.bins, strict=True)}
    assert bins == {(both[i], both[j]): b for i, j, b in zip(links.sources, links.targets, links.bins, strict=True)}


def test_bins_of_distinct_values_are_the_public_ones():
    values = np.array([5.0, 1.0, 3.0, 4.0, 2.0, 0.5, 0.25])
    ranks = np.array([1, 5, 3, 2, 4, 6, 7])
    for bins in (1, 3, 10):
        assert affinity_bins(values, bins).tolist() == (np.ceil(ranks * bins / 7) - 1).tolist()


def test_equal_values_share_the_bin_of_the_first():
    values = np.array([1.0, 2.0, 1.0 + 1e-12, 1.0 - 1e-12])
    assert affinity_bins(values, 4).tolist() == [1, 0, 1, 1]
    assert affinity_bins(np.array([1.0, 2.0, 1.0 + 1e-6, 1.0]), 4).tolist() == [2, 0, 1, 2]


def test_no_bins_are_refused():
    with pytest.raises(ConfigError, match="at least 1 bin"):
        affinity_bins(np.ones(3), 0)
