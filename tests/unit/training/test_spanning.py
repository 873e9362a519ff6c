"""The split that is redrawn every epoch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from anykg.errors import ConfigError, DataError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.seeds import generator
from anykg.training.spanning import resplit


def _graph(triplets, entities, relations):
    names = (Vocabulary(kind, map(str, range(n))) for kind, n in (("entity", entities), ("relation", relations)))
    return KnowledgeGraph(np.asarray(triplets), *names)


def _random_graph(seed, entities=15, relations=4, triplets=60):
    draw = generator(seed, "graph")
    rows = np.stack([draw.integers(high, size=triplets) for high in (entities, relations, entities)], axis=1)
    return _graph(rows, entities, relations)


def _parts(graph):
    heads, _, tails = graph.triplets.T
    links = coo_array((np.ones(len(heads)), (heads, tails)), shape=(graph.num_entities,) * 2)
    return connected_components(links, directed=False)[1].tolist()


@given(seed=st.integers(0, 2**31), epoch=st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_messages_keep_the_graph_connected_and_every_relation(seed, epoch):
    graph = _random_graph(seed)
    messages, targets = resplit(graph, 0.25, seed, epoch)
    assert _parts(messages) == _parts(graph)
    assert set(messages.triplets[:, 1]) == set(graph.triplets[:, 1])
    assert not messages.contains(targets).any()
    assert messages.union(graph.with_triplets(targets)) == graph
    assert len(messages) + len(targets) == len(graph)
    assert len(messages) == int(0.75 * len(graph))


def test_epochs_differ_and_are_drawn_again_alike():
    graph = _random_graph(3)
    assert resplit(graph, 0.25, 0, 1)[0] == resplit(graph, 0.25, 0, 1)[0]
    assert resplit(graph, 0.25, 0, 1)[0] != resplit(graph, 0.25, 0, 2)[0]
    assert resplit(graph, 0.25, 0, 1)[0] != resplit(graph, 0.25, 1, 1)[0]


def test_parallel_relations_take_turns_for_an_edge_of_the_tree():
    triplets = [(0, 0, 1), (0, 1, 1), (1, 2, 0), (1, 0, 2), (1, 1, 2), (1, 2, 2)]
    graph = _graph(triplets, 3, 3)
    seen = {tuple(t) for epoch in range(60) for t in resplit(graph, 0.4, 0, epoch)[1].tolist()}
    assert seen == set(triplets)


def test_a_tree_cannot_be_split_and_a_share_is_a_share():
    with pytest.raises(DataError, match="None of the 2 facts"):
        resplit(_graph([(0, 0, 1), (1, 0, 2)], 3, 1), 0.25, 0, 0)
    with pytest.raises(ConfigError, match="between 0 and 1"):
        resplit(_random_graph(0), 1.0, 0, 0)
