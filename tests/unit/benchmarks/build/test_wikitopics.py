"""Topics, fires and queries keep their promises on any graph."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.benchmarks.build.wikitopics import (
    FireSize,
    build_topic,
    by_topic,
    distinct_neighbours,
    forest_fire,
    has_topic,
    induced,
    read_topics,
    split_queries,
)
from anykg.errors import ConfigError, DataError
from anykg.seeds import generator
from graphs import graphs, named, random_graph


def rows(graph):
    return set(graph.to_polars().iter_rows())


def ends(graph):
    return set(graph.triplets[:, [0, 2]].ravel().tolist())


@given(graphs(max_entities=25, min_triplets=1), st.integers(1, 25), st.floats(0.05, 1), st.integers(0, 99))
@settings(max_examples=80, deadline=None)
def test_fire_burns_as_many_entities_as_asked(graph, nodes, burning, seed):
    burnt = forest_fire(distinct_neighbours(graph), FireSize(nodes, burning), generator(seed, "fire"))
    assert len(burnt) == min(nodes, len(ends(graph)))
    assert len(set(burnt.tolist())) == len(burnt)
    assert set(burnt.tolist()) <= ends(graph)


def test_fire_spreads_to_neighbours():
    """On a long path almost every burnt entity has a burnt neighbour; among as many drawn at random few would."""
    path = named(*(f"e{i} next e{i + 1}" for i in range(5_000)))
    burnt = forest_fire(distinct_neighbours(path), FireSize(200), generator(0, "fire"))
    assert np.mean(np.diff(burnt) == 1) > 0.9


def test_fire_follows_its_seed():
    lists = distinct_neighbours(random_graph(300, 3, 1_000))
    burnt = [forest_fire(lists, FireSize(50), generator(seed, "fire")).tolist() for seed in (0, 0, 1)]
    assert burnt[0] == burnt[1] != burnt[2]


@given(graphs(max_entities=20, min_triplets=1), st.floats(0, 0.99), st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_everything_asked_is_observed(graph, share, seed):
    observed, asked = split_queries(graph, share, generator(seed, "queries"))
    assert not rows(observed) & rows(asked)
    assert rows(observed) | rows(asked) == rows(graph)
    assert ends(asked) <= ends(observed)
    assert set(asked.triplets[:, 1]) <= set(observed.triplets[:, 1])
    assert len(asked) <= round(share * len(graph))


def test_the_share_is_reached_where_it_can_be():
    dense = random_graph(20, 3, 2_000)
    assert len(split_queries(dense, 0.1, generator(0, "q"))[1]) == round(0.1 * len(dense))
    tree = named(*(f"root to leaf{i}" for i in range(50)))
    assert len(split_queries(tree, 0.1, generator(0, "q"))[1]) == 0  # every triplet is the last of its leaf
    nearly = named(*(f"root to leaf{i}" for i in range(50)), "root too leaf0", "root too leaf1")
    assert len(split_queries(nearly, 0.1, generator(0, "q"))[1]) == 2  # one of the two about leaf0, one about leaf1


@given(graphs(max_entities=15, min_triplets=1), st.data())
@settings(max_examples=50, deadline=None)
def test_induced_graph_has_all_triplets_among_its_entities(graph, data):
    some = data.draw(st.sets(st.integers(0, graph.num_entities - 1)))
    names = {graph.entities[i] for i in some}
    expected = {row for row in rows(graph) if row[0] in names and row[2] in names}
    assert rows(induced(graph, np.array(sorted(some), int))) == expected


def test_topics_part_the_triplets_by_relation(tmp_path):
    path = tmp_path / "topics.tsv"
    path.write_text("relation\ttopic\nwon\taward\nborn in\tpeople\nmarried\tpeople\nunused\tart\n")
    topics = read_topics(path)
    assert topics == {"won": "award", "born in": "people", "married": "people", "unused": "art"}
    assert list(has_topic(topics)(named("a won b", "a other b").to_polars()["relation"])) == [True, False]
    graph = named("a won b", "a married c", "c won b")
    parts = dict(by_topic(graph, topics))
    assert list(parts) == ["award", "people"]
    assert rows(parts["award"]) == {("a", "won", "b"), ("c", "won", "b")}
    assert rows(parts["people"]) == {("a", "married", "c")}


def test_topics_must_do_as_folders(tmp_path):
    path = tmp_path / "topics.tsv"
    path.write_text("won\t../award\n")
    with pytest.raises(DataError, match="name of a folder"):
        read_topics(path)


def test_a_topic_has_two_samples_of_its_graph():
    graph = random_graph(400, 5, 3_000)
    topic = build_topic("x", graph, FireSize(100), 0)
    task = topic.task
    assert (topic.entities, topic.triplets) == (400, len(graph))
    assert task.train.num_entities <= 100
    assert rows(task.train) | rows(task.valid) != rows(task.observed) | rows(task.test)
    assert rows(task.train) | rows(task.valid) | rows(task.observed) | rows(task.test) <= rows(graph)
    again = build_topic("x", graph, FireSize(100), 0).task
    assert (again.train, again.test) == (task.train, task.test)


@pytest.mark.parametrize("wrong", [{"nodes": 0}, {"burning": 0.0}, {"burning": 1.5}, {"query": 1.0}])
def test_sizes_that_are_none_are_refused(wrong):
    with pytest.raises(ConfigError, match=f"^{next(iter(wrong))}: expected"):
        FireSize(**wrong)
