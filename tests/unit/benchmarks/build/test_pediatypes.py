"""The sampler keeps its promises on any graph, and the split leaves nothing asked unobserved."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from anykg.benchmarks.build.pediatypes import (
    SampleSize,
    build,
    sample_breadth_first,
    split_observed,
    task_of_pair,
    triplets_of_entities,
    visits,
)
from anykg.errors import ConfigError
from graphs import graphs, named, random_graph

sizes = st.builds(SampleSize, nodes=st.integers(2, 12), edges=st.integers(1, 20), max_degree=st.integers(1, 5))


def rows(graph):
    return set(graph.to_polars().iter_rows())


@given(graphs(min_triplets=1), sizes, st.integers(0, 99))
@settings(max_examples=80, deadline=None)
def test_sample_is_connected_and_within_its_limits(graph, size, seed):
    sample = sample_breadth_first(graph, size, seed)
    assert rows(sample) <= rows(graph)
    assert sample.num_entities < size.nodes + size.max_degree
    assert len(sample) <= size.edges
    heads, _, tails = sample.triplets.T
    n = sample.num_entities
    links = coo_array((np.ones(len(heads)), (heads, tails)), shape=(n, n))
    assert connected_components(links, directed=False, return_labels=False) <= 1


@given(graphs(min_triplets=1), sizes, st.integers(0, 99))
@settings(max_examples=80, deadline=None)
def test_a_visit_adds_at_most_so_many_triplets_of_its_entity(graph, size, seed):
    seen, visited = set(), []
    degrees = np.diff(triplets_of_entities(graph).offsets)
    for visit in visits(graph, size, seed):
        assert len(seen) < size.nodes
        assert 0 < len(visit.triplets) <= size.max_degree
        assert len(set(visit.triplets.tolist())) == len(visit.triplets)
        ends = graph.triplets[visit.triplets][:, [0, 2]]
        assert (ends == visit.entity).any(axis=1).all()
        assert not visited or visit.entity in seen
        visited.append(visit.entity)
        seen |= set(ends.ravel().tolist())
    assert len(set(visited)) == len(visited)
    assert degrees[visited[0]] == degrees.max()


@given(graphs(max_entities=30, min_triplets=1), st.integers(0, 99))
@settings(max_examples=80, deadline=None)
def test_split_is_80_10_10_before_what_would_be_unobserved_moves(graph, seed):
    train, valid, test, moved = split_observed(graph, seed)
    assert not rows(train) & rows(valid)
    assert not rows(train) & rows(test)
    assert not rows(valid) & rows(test)
    assert rows(train) | rows(valid) | rows(test) == rows(graph)
    assert len(train) - moved == round(0.8 * len(graph))
    for part in (valid, test):
        assert len(part) <= np.ceil(0.1 * len(graph)) + 1
        assert set(part.triplets[:, [0, 2]].ravel()) <= set(train.triplets[:, [0, 2]].ravel())
        assert set(part.triplets[:, 1]) <= set(train.triplets[:, 1])


def test_only_what_must_moves():
    """In a dense graph everything is observed by 80% already."""
    graph = random_graph(10, 2, 5_000)
    train, valid, test, moved = split_observed(graph, 0)
    assert moved == 0
    assert (len(train), len(valid), len(test)) == (160, 20, 20)


def test_sample_starts_at_the_highest_degree_and_follows_the_seed():
    star = named(*(f"hub to leaf{i}" for i in range(30)), "leaf0 to leaf1")
    size = SampleSize(nodes=5, edges=100, max_degree=10)
    sample = sample_breadth_first(star, size, 0)
    assert "hub" in sample.entities
    assert sample.num_entities == 11  # one visit: fewer than N + D
    assert rows(sample) == rows(sample_breadth_first(star, size, 0))
    assert rows(sample) != rows(sample_breadth_first(star, size, 1))


def test_a_pair_learns_from_one_graph_and_asks_about_the_other():
    one, other = (build(name, random_graph(20, 3, 90, seed), SampleSize(), 0) for seed, name in enumerate("ab"))
    task = task_of_pair("a2b", one, other)
    assert (task.train, task.valid) == (one.train, one.valid)
    assert (task.observed, task.test) == (other.train, other.test)


def test_sizes_are_positive():
    with pytest.raises(ConfigError, match="max_degree: expected 1 or more, found 0"):
        SampleSize(max_degree=0)
