"""The graph of relations against its definition, entity by entity."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.models.nbf.relation_graph import (
    HEAD_HEAD,
    HEAD_TAIL,
    TAIL_HEAD,
    TAIL_TAIL,
    entity_graph,
    relation_graph,
)


def graph_of(triplets, entities=8, relations=3):
    names = [Vocabulary(kind, map(str, range(n))) for kind, n in (("entity", entities), ("relation", relations))]
    return KnowledgeGraph(np.array(triplets, np.int32).reshape(-1, 3), *names)


def by_definition(graph):
    ends = {HEAD_HEAD: (0, 0), TAIL_TAIL: (2, 2), HEAD_TAIL: (0, 2), TAIL_HEAD: (2, 0)}
    facts = graph.with_inverses().tolist()
    return {
        (one[1], kind, two[1])
        for kind, (first, second) in ends.items()
        for one in facts
        for two in facts
        if one[first] == two[second]
    }


triplets = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 2), st.integers(0, 7)), max_size=12)


@settings(max_examples=60, deadline=None)
@given(triplets)
def test_edges_are_those_of_the_definition(rows):
    graph = graph_of(rows)
    edges = relation_graph(graph)
    assert edges.num_nodes == 6
    assert edges.num_relations == 4
    assert len({tuple(row) for row in edges.triplets.tolist()}) == edges.num_edges
    assert {tuple(row) for row in edges.triplets.tolist()} == by_definition(graph)


def test_relations_of_a_path_meet_in_its_middle():
    edges = {tuple(row) for row in relation_graph(graph_of([(0, 0, 1), (1, 1, 2)])).triplets.tolist()}
    assert (0, TAIL_HEAD, 1) in edges
    assert (1, HEAD_TAIL, 0) in edges
    assert (0, HEAD_TAIL, 1) not in edges
    assert (0, HEAD_HEAD, 1) not in edges


def test_it_is_derived_once():
    graph = graph_of([(0, 0, 1)])
    assert graph.derive(relation_graph) is graph.derive(relation_graph)


def test_entity_graph_keeps_the_order_of_the_facts():
    graph = graph_of([(0, 0, 1), (1, 2, 3)])
    assert entity_graph(graph).triplets.tolist() == [[0, 0, 1], [1, 2, 3], [1, 3, 0], [3, 5, 1]]


def test_large_graphs_are_multiplied_sparse(monkeypatch):
    triplets = np.random.default_rng(0).integers(6, size=(40, 3)) // [1, 2, 1]
    dense = relation_graph(graph_of(triplets)).triplets
    monkeypatch.setattr("anykg.models.nbf.relation_graph.DENSE", 0)
    assert np.array_equal(relation_graph(graph_of(triplets)).triplets, dense)
