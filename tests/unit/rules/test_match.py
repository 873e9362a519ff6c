"""The matcher against the definition: every assignment of distinct values tried."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.graph.graph import KnowledgeGraph
from anykg.rules import match
from anykg.rules.clause import Clause, ClauseError, parse
from anykg.rules.match import groundings, implied, implied_reference, is_implied
from clauses import clauses
from graphs import graphs, named, random_graph

CLASSMATES = named(
    "Ann Classmate_Of Bob", "Bob Studies_In Paris", "Cid Classmate_Of Dan", "Eve Studies_In Rome", "Dan Friend_Of Eve"
)
FAMILY = named(
    "Ada Sister_Of Ben", "Ben Father_Of Cleo", "Ada Aunt_Of Cleo", "Dora Sister_Of Emil", "Emil Father_Of Fay",
    "Gus Brother_Of Hal", "Hal Father_Of Ida",
)  # fmt: skip
REPEATED = (
    "(E1, C2, E3) & (E3, C3, E2) & (E4, C2, E5) & (E5, C3, E6) & (E4, C1, E6) => (E1, C1, E2)"  # as it was elsewhere
)


def everything(graph: KnowledgeGraph) -> np.ndarray:
    n, r = graph.num_entities, graph.num_relations
    return np.stack(np.meshgrid(np.arange(n), np.arange(r), np.arange(n), indexing="ij"), -1).reshape(-1, 3)


def by_name(graph: KnowledgeGraph, triplets: np.ndarray) -> set[tuple[str, str, str]]:
    return {(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in triplets}


@settings(max_examples=150, deadline=None)
@given(clauses(max_entities=4, max_relations=3, max_atoms=4), graphs(max_entities=5, max_relations=3, min_triplets=2))
def test_matcher_is_the_definition(clause: Clause, graph: KnowledgeGraph) -> None:
    expected = implied_reference(clause, graph)
    np.testing.assert_array_equal(implied(clause, graph), expected)
    asked = everything(graph)
    np.testing.assert_array_equal(asked[is_implied(clause, graph, asked)], expected)


@settings(max_examples=100, deadline=None)
@given(
    clauses(max_entities=4, max_relations=3, max_atoms=4),
    graphs(max_entities=5, max_relations=4, min_triplets=2),
    st.data(),
)
def test_fixed_relations_are_those_of_the_definition(
    clause: Clause, graph: KnowledgeGraph, data: st.DataObject
) -> None:
    ids = data.draw(st.permutations(range(graph.num_relations)))
    kinds = data.draw(st.sets(st.sampled_from(range(clause.num_relations)), min_size=1, max_size=graph.num_relations))
    fixed = dict(zip(sorted(kinds), ids, strict=False))
    found = implied(clause, graph, fixed)
    np.testing.assert_array_equal(found, implied_reference(clause, graph, fixed))
    for triplet in found[:5] if clause.body else ():
        (one,) = groundings(clause, graph, tuple(triplet.tolist()), 1, fixed)
        assert all(one.relations[kind] == relation for kind, relation in fixed.items())
        assert graph.contains(one.facts(clause)).all()


def test_groundings_have_the_fixed_relations() -> None:
    graph = named("Ann knows Bob", "Ann likes Bob", "Ann meets Bob")
    clause, triplet = parse("(E1, C2, E2) => (E1, C1, E2)"), (0, graph.relations.index("knows"), 1)
    for other in ("likes", "meets"):
        found = groundings(clause, graph, triplet, relations={1: graph.relations.index(other)})
        assert [graph.relations[one.relations[1]] for one in found] == [other]


def test_relations_of_parts_apart_differ() -> None:
    graph = named("Ann knows Bob", "Cid knows Cid")
    clause = parse("(E2, C1, E1) & (E3, C2, E3) => (E1, C1, E2)")
    assert len(implied(clause, graph)) == len(implied_reference(clause, graph)) == 0
    more = named("Ann knows Bob", "Cid likes Cid")
    assert by_name(more, implied(clause, more)) == {("Bob", "knows", "Ann")}


@settings(max_examples=60, deadline=None)
@given(clauses(), graphs(min_triplets=3), st.integers(0, 2**31))
def test_relabelling_changes_nothing(clause: Clause, graph: KnowledgeGraph, seed: int) -> None:
    random = np.random.default_rng(seed)
    entities, relations = random.permutation(graph.num_entities), random.permutation(graph.num_relations)
    renamed = graph.relabel(entities, relations)
    asked = np.stack(
        [random.integers(size, size=40) for size in (graph.num_entities, graph.num_relations, graph.num_entities)], 1
    )
    moved = np.stack([entities[asked[:, 0]], relations[asked[:, 1]], entities[asked[:, 2]]], 1)
    before = is_implied(clause, graph, asked)
    np.testing.assert_array_equal(before, is_implied(clause, renamed, moved))
    np.testing.assert_array_equal(before, is_implied(clause.canonical(), graph, asked))


@settings(max_examples=60, deadline=None)
@given(clauses(max_atoms=3), graphs(min_triplets=6))
def test_groundings_are_facts(clause: Clause, graph: KnowledgeGraph) -> None:
    for triplet in graph.triplets.tolist():
        found = groundings(clause, graph, tuple(triplet), limit=3)
        assert bool(found) == (bool(is_implied(clause, graph, np.array([triplet]))[0]) and bool(clause.body))
        for grounding in found:
            assert graph.contains(grounding.facts(clause)).all()
            assert len(set(grounding.entities)) == clause.num_entities
            assert len(set(grounding.relations)) == clause.num_relations
            assert (grounding.entities[0], grounding.relations[0]) == (triplet[0], triplet[1])


def test_a_classmate_studies_in_the_same_place() -> None:
    clause = parse("(E1, C2, E3) & (E3, C1, E2) => (E1, C1, E2)")
    assert ("Ann", "Studies_In", "Paris") in by_name(CLASSMATES, implied(clause, CLASSMATES))
    assert ("Cid", "Studies_In", "Rome") not in by_name(CLASSMATES, implied(clause, CLASSMATES))


def test_an_aunt_as_an_uncle() -> None:
    """The chain is repeated where it was completed elsewhere, whatever its relations are called."""
    clause = parse(REPEATED)
    assert by_name(FAMILY, implied(clause, FAMILY)) == {("Dora", "Aunt_Of", "Fay")}
    uncles = named(*(line.replace("Sister", "Brother").replace("Aunt", "Uncle") for line in _lines(FAMILY)))
    assert ("Dora", "Uncle_Of", "Fay") in by_name(uncles, implied(clause, uncles))


def test_inverse_relations_ask_from_the_other_end() -> None:
    graph, clause = random_graph(10, 3, 40), parse("(E1, C2, E3) & (E3, C1, E2) => (E1, C1, E2)")
    asked = everything(graph)
    np.testing.assert_array_equal(is_implied(clause, graph, graph.inverted(asked)), is_implied(clause, graph, asked))


def test_a_fact_is_never_implied_by_itself() -> None:
    graph = named("a r b")
    for text in ("(E2, C1, E1) => (E1, C1, E2)", "(E1, C2, E2) => (E1, C1, E2)", "(E1, C1, E3) => (E1, C1, E2)"):
        assert not is_implied(parse(text), graph, graph.triplets).any()
    assert is_implied(parse("(E1, C1, E2) => (E1, C1, E2)"), graph, graph.triplets).all()


def test_too_many_to_list_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match, "MOST_IMPLIED", 100)
    with pytest.raises(ClauseError, match="implies too many triplets to list"):
        implied(parse("=> (E1, C1, E2)"), random_graph(20, 3, 30))


def test_long_answers_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, clause = random_graph(15, 3, 90), parse("(E1, C2, E3) & (E3, C1, E2) => (E1, C1, E2)")
    whole = implied(clause, graph)
    monkeypatch.setattr(match, "CHUNK", 7)
    np.testing.assert_array_equal(implied(clause, graph), whole)


def _lines(graph: KnowledgeGraph) -> list[str]:
    return [" ".join(triplet) for triplet in by_name(graph, graph.triplets)]
