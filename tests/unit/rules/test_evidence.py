"""Evidence against the matcher and against counts of rules."""

import numpy as np
import pytest
from hypothesis import given, settings

from anykg.graph.graph import KnowledgeGraph
from anykg.rules.clause import parse
from anykg.rules.evidence import ROLES, Feature, evidence, features
from anykg.rules.kernels.evidence import PRIOR
from anykg.rules.match import groundings, is_implied
from graphs import graphs, named, random_graph


def rows(graph: KnowledgeGraph, count: int = 40, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    sizes = (graph.num_entities, graph.num_relations, graph.num_entities)
    drawn = np.stack([random.integers(size, size=count) for size in sizes], 1)
    return np.concatenate([graph.triplets.astype(np.int64), drawn])


@settings(max_examples=6, deadline=None)
@given(graphs(max_entities=7, max_relations=3, min_triplets=12))
def test_clauses_count_their_groundings(graph: KnowledgeGraph) -> None:
    asked = rows(graph)[::3]
    graded, plain = evidence(graph, asked), evidence(graph, asked, graded=False)
    for column, feature in enumerate(features(3, graded=True)):
        if feature.measure == "groundings":
            counts = [len(groundings(feature.clause, graph, tuple(row), limit=300)) for row in asked.tolist()]
            np.testing.assert_allclose(graded[:, column], np.log1p(counts), rtol=1e-5)
    for column, feature in enumerate(features(3, graded=False)):
        np.testing.assert_array_equal(plain[:, column] > 0, is_implied(feature.clause, graph, asked))


@settings(max_examples=15, deadline=None)
@given(graphs(max_entities=8, max_relations=3, min_triplets=12))
def test_asking_from_the_other_end_changes_nothing(graph: KnowledgeGraph) -> None:
    asked = rows(graph)
    for graded in (True, False):
        np.testing.assert_allclose(
            evidence(graph, graph.inverted(asked), graded=graded), evidence(graph, asked, graded=graded), rtol=1e-6
        )


def test_length_only_leaves_columns_out() -> None:
    graph = random_graph(10, 3, 50, 1)
    asked, long = rows(graph), {f: c for c, f in enumerate(features(3, graded=True))}
    for length in (1, 2):
        columns = [long[feature] for feature in features(length, graded=True)]
        np.testing.assert_array_equal(evidence(graph, asked, length=length), evidence(graph, asked)[:, columns])


def test_share_is_how_often_the_rule_holds_elsewhere() -> None:
    graph = named(
        "a wed b", "b in x", "a in x", "c wed d", "d in y", "c in y", "e wed f", "f in x", "g wed h", "h in y", "h in x"
    )
    column = features(3, graded=True).index(
        Feature(
            parse("(E1, C2, E3) & (E3, C1, E2) & (E4, C2, E6) & (E6, C1, E5) & (E4, C1, E5) => (E1, C1, E2)"),
            "best share",
        )
    )
    entity, relation = graph.entities.index, graph.relations.index
    new, known = [entity("e"), relation("in"), entity("x")], [entity("a"), relation("in"), entity("x")]
    found = evidence(graph, np.array([new, known]))[:, column]
    # Of the pairs a-x, c-y, e-x, g-y, g-x that the path joins two have the relation; a known one leaves itself out.
    np.testing.assert_allclose(found, [2 / (5 + PRIOR), 1 / (4 + PRIOR)], rtol=1e-6)


def test_roles_tell_what_an_entity_can_have() -> None:
    graph = named("a wrote x", "a born p", "b wrote y", "b born q", "x printed_in r", "c wrote z")
    column = features(3, graded=True).index(Feature(ROLES[0], "best share"))
    entity, born = graph.entities.index, graph.relations.index("born")
    found = evidence(graph, np.array([[entity("c"), born, entity("p")], [entity("x"), born, entity("p")]]))[:, column]
    np.testing.assert_allclose(found, [2 / (3 + PRIOR), 0], rtol=1e-6)  # two of three who wrote were born


def test_attributes_have_their_own_clause() -> None:
    graph = named("a tall a", "b tall b", "c tall d")
    column = features(3, graded=False).index(Feature(parse("(E2, C1, E2) => (E1, C1, E1)"), "implied"))
    found = evidence(graph, np.array([[2, 0, 2], [2, 0, 3]]), graded=False)
    assert found[0, column] == 1
    assert found[1, column] == 0
    assert found[0].sum() == 1


@pytest.mark.parametrize("graded", [True, False])
def test_no_rows_no_evidence(graded: bool) -> None:
    graph = random_graph(5, 2, 8)
    assert evidence(graph, np.empty((0, 3), int), graded=graded).shape == (0, len(features(3, graded)))
