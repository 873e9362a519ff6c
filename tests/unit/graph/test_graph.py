"""KnowledgeGraph and Vocabulary against brute force over sets of triplets."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anykg.errors import DataError, UnknownName
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.io import exchange
from anykg.io.rdf import from_store, to_store

Facts = set[tuple[int, int, int]]


def build(triplets: Any, entities: int, relations: int) -> KnowledgeGraph:
    return KnowledgeGraph(
        np.array(sorted(triplets), dtype=np.int64).reshape(-1, 3),
        Vocabulary("entity", [f"e{i}" for i in range(entities)]),
        Vocabulary("relation", [f"r{k}" for k in range(relations)]),
    )


@st.composite
def graphs(draw: st.DrawFn) -> tuple[KnowledgeGraph, Facts]:
    n, r = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    facts = draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, r - 1), st.integers(0, n - 1)), max_size=25))
    return build(facts, n, r), facts


def names_of(graph: KnowledgeGraph) -> set[tuple[str, ...]]:
    return set(graph.to_polars().iter_rows())


# -- content ----------------------------------------------------------------------------------------------------


@given(graphs())
def test_triplets_are_distinct_and_sorted(pair: tuple[KnowledgeGraph, Facts]) -> None:
    graph, facts = pair
    assert list(map(tuple, graph.triplets.tolist())) == sorted(facts)
    assert graph.triplets.dtype == np.int32
    assert len(graph) == graph.num_triplets == len(facts)


def test_repeated_triplets_count_once_in_any_order() -> None:
    rows = np.array([[1, 0, 2], [0, 0, 1], [1, 0, 2], [0, 0, 1]])
    vocabularies = Vocabulary("entity", ["a", "b", "c"]), Vocabulary("relation", ["r"])
    graph = KnowledgeGraph(rows, *vocabularies)
    assert graph.triplets.tolist() == [[0, 0, 1], [1, 0, 2]]
    assert graph == KnowledgeGraph(rows[::-1], *vocabularies)
    assert hash(graph) == hash(KnowledgeGraph(rows[::-1], *vocabularies))


def test_ids_follow_first_appearance_heads_before_tails() -> None:
    graph = KnowledgeGraph.from_names(["b", "a", "b"], ["s", "r", "s"], ["c", "b", "a"])
    assert list(graph.entities) == ["b", "a", "c"]
    assert list(graph.relations) == ["s", "r"]
    assert names_of(graph) == {("b", "s", "c"), ("a", "r", "b"), ("b", "s", "a")}


@given(st.lists(st.tuples(*[st.text("abé ", max_size=3)] * 3), max_size=12))
def test_names_come_back(rows: list[tuple[str, str, str]]) -> None:
    graph = KnowledgeGraph.from_names(*([row[i] for row in rows] for i in range(3)))
    assert names_of(graph) == set(rows)


def test_an_empty_graph_answers_everything() -> None:
    graph = build([], 0, 0)
    assert len(graph) == 0
    assert graph.triplets.shape == (0, 3)
    assert graph.with_inverses().shape == (0, 3)
    empty = build([], 2, 1)
    assert not empty.contains(np.array([[0, 0, 1]])).any()
    assert not len(empty.answers(np.array([0, 1]), np.array([0, 1])).values)
    assert not len(empty.relations_between(np.array([0]), np.array([1])).values)


# -- lookups ----------------------------------------------------------------------------------------------------


@given(graphs())
def test_contains(pair: tuple[KnowledgeGraph, Facts]) -> None:
    graph, facts = pair
    n, r = graph.num_entities, graph.num_relations
    everything = np.stack(np.meshgrid(range(n), range(2 * r), range(n), indexing="ij"), axis=-1)  # [N, 2R, N, 3]
    for h, k, t in np.ndindex(n, 2 * r, n):
        expected = (h, k, t) in facts if k < r else (t, k - r, h) in facts
        assert graph.contains(everything)[h, k, t] == expected
        assert graph.contains(np.array([h, k, t])) == expected


@given(graphs())
def test_answers_of_facts_and_inverses_in_one_batch(pair: tuple[KnowledgeGraph, Facts]) -> None:
    graph, facts = pair
    n, r = graph.num_entities, graph.num_relations
    queries = np.array(list(np.ndindex(n, 2 * r)))[::-1]
    ragged = graph.answers(queries[:, 0], queries[:, 1])
    for index, (entity, k) in enumerate(queries.tolist()):
        tails = [t for h, q, t in facts if (h, q) == (entity, k)]
        heads = [h for h, q, t in facts if (t, q + r) == (entity, k)]
        assert ragged[index].tolist() == sorted(tails + heads)
    assert ragged.rows.tolist() == [i for i in range(len(queries)) for _ in ragged[i]]


@given(graphs())
def test_relations_between(pair: tuple[KnowledgeGraph, Facts]) -> None:
    graph, facts = pair
    pairs = np.array(list(np.ndindex(graph.num_entities, graph.num_entities)))
    ragged = graph.relations_between(pairs[:, 0], pairs[:, 1])
    for index, (head, tail) in enumerate(pairs.tolist()):
        assert ragged[index].tolist() == sorted(k for h, k, t in facts if (h, t) == (head, tail))


@given(graphs())
def test_inverses(pair: tuple[KnowledgeGraph, Facts]) -> None:
    graph, facts = pair
    both = graph.with_inverses()
    r, count = graph.num_relations, len(graph)
    assert both.shape == (2 * count, 3)
    assert [(t, k + r, h) for h, k, t in both[:count].tolist()] == list(map(tuple, both[count:].tolist()))
    assert np.array_equal(graph.inverted(graph.inverted(both)), both)
    assert graph.contains(both).all()
    assert len(facts) == count


def test_derived_things_are_built_once() -> None:
    graph, calls = build([(0, 0, 1)], 2, 1), []

    def count(graph: KnowledgeGraph, more: int) -> int:
        calls.append(more)
        return len(graph) + more

    assert [graph.derive(count, 1), graph.derive(count, 1), graph.derive(count, 2)] == [2, 2, 3]
    assert calls == [1, 2]


# -- new graphs from old ----------------------------------------------------------------------------------------


@given(graphs(), st.data())
def test_subset(pair: tuple[KnowledgeGraph, Facts], data: st.DataObject) -> None:
    graph, facts = pair
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(graph), max_size=len(graph))), bool)
    kept = graph.subset(mask)
    assert list(map(tuple, kept.triplets.tolist())) == [f for f, m in zip(sorted(facts), mask, strict=True) if m]
    assert kept == graph.subset(np.flatnonzero(mask))
    assert kept.entities == graph.entities
    assert kept.relations == graph.relations


@given(graphs(), graphs())
def test_union_joins_by_name(one: tuple[KnowledgeGraph, Facts], two: tuple[KnowledgeGraph, Facts]) -> None:
    mine, theirs = one[0], two[0]
    shifted = KnowledgeGraph(
        theirs.triplets, Vocabulary("entity", [f"e{i + 2}" for i in range(theirs.num_entities)]), theirs.relations
    )
    for other in (theirs, shifted):
        both = mine.union(other)
        assert names_of(both) == names_of(mine) | names_of(other)
        assert set(both.entities) == set(mine.entities) | set(other.entities)
        assert list(both.entities)[: len(mine.entities)] == list(mine.entities)


def test_union_keeps_labels() -> None:
    one = KnowledgeGraph.from_names(["a"], ["r"], ["b"])
    one = KnowledgeGraph(one.triplets, one.entities.with_labels({"a": "mine"}), one.relations)
    two = KnowledgeGraph.from_names(["a"], ["r"], ["c"])
    two = KnowledgeGraph(two.triplets, two.entities.with_labels({"a": "theirs", "c": "see"}), two.relations)
    joined = one.union(two).entities
    assert [joined.label(joined.index(name)) for name in "abc"] == ["mine", "b", "see"]


@given(graphs(), st.randoms(use_true_random=False))
def test_relabel_moves_ids_and_names_together(pair: tuple[KnowledgeGraph, Facts], random: Any) -> None:
    graph, facts = pair
    orders = [np.array(random.sample(range(n), n)) for n in (graph.num_entities, graph.num_relations)]
    moved = graph.relabel(*orders)
    assert names_of(moved) == names_of(graph)
    assert set(map(tuple, moved.triplets.tolist())) == {(orders[0][h], orders[1][k], orders[0][t]) for h, k, t in facts}
    assert moved.relabel(*(np.argsort(order) for order in orders)) == graph


@given(graphs(), graphs())
def test_equal_digests_mean_equal_content(one: tuple[KnowledgeGraph, Facts], two: tuple[KnowledgeGraph, Facts]) -> None:
    (first, facts), (second, others) = one, two
    same = facts == others and first.entities == second.entities and first.relations == second.relations
    assert (first.digest == second.digest) == same
    assert build(facts, first.num_entities, first.num_relations).digest == first.digest


def test_digest_tells_where_names_end_and_what_kind_they_are() -> None:
    digests = {
        KnowledgeGraph(np.empty((0, 3), int), Vocabulary("entity", e), Vocabulary("relation", r)).digest
        for e, r in [(["ab", "c"], []), (["a", "bc"], []), (["a"], ["bc"]), (["abc"], []), ([], ["abc"])]
    }
    assert len(digests) == 5


def test_nothing_can_be_changed() -> None:
    graph = build([(0, 0, 1)], 2, 1)
    with pytest.raises(ValueError, match="read-only"):
        graph.triplets[0, 0] = 1
    rows = np.array([[0, 0, 1]], dtype=np.int32)
    kept = graph.with_triplets(rows)
    rows[0, 0] = 1
    assert kept.triplets.tolist() == [[0, 0, 1]]


@pytest.mark.parametrize("entities", [300, 100_000])
def test_at_most_forty_bytes_a_triplet_with_all_lookups(entities: int) -> None:
    draw = np.random.default_rng(0)
    rows = np.stack([draw.integers(0, n, 20_000) for n in (entities, 20, entities)], axis=1)
    graph = build(set(map(tuple, rows.tolist())), entities, 20)
    before = graph.nbytes
    graph.answers(np.array([0]), np.array([20]))
    graph.relations_between(np.array([0]), np.array([0]))
    assert before < graph.nbytes <= 40 * len(graph)


# -- exchange ---------------------------------------------------------------------------------------------------


@given(graphs())
def test_polars_round_trip(pair: tuple[KnowledgeGraph, Facts]) -> None:
    graph, _ = pair
    assert names_of(KnowledgeGraph.from_polars(graph.to_polars())) == names_of(graph)
    renamed = graph.to_polars().rename({"head": "x", "relation": "y", "tail": "z"})
    assert names_of(KnowledgeGraph.from_polars(renamed)) == names_of(graph)
    turned = graph.to_polars().select("tail", "relation", "head", score=1.0)
    assert names_of(KnowledgeGraph.from_polars(turned)) == names_of(graph)


def exchanged() -> KnowledgeGraph:
    return build([(0, 0, 1), (1, 1, 2), (2, 0, 2), (0, 1, 1)], 4, 3)


def test_pyg_round_trip() -> None:
    pytest.importorskip("torch_geometric")
    graph = exchanged()
    data = exchange.to_pyg(graph)
    assert data.edge_index.shape == (2, 4)
    assert data.num_nodes == 4
    assert exchange.from_pyg(data) == graph
    del data.entity_names, data.relation_names
    nameless = exchange.from_pyg(data)
    assert np.array_equal(nameless.triplets, graph.triplets)
    assert list(nameless.entities) == ["0", "1", "2", "3"]


def test_pykeen_round_trip() -> None:
    pytest.importorskip("pykeen")
    graph = exchanged()
    factory = exchange.to_pykeen(graph)
    assert (factory.num_entities, factory.num_relations, factory.num_triples) == (4, 3, 4)
    assert exchange.from_pykeen(factory) == graph


def test_oxigraph_round_trip() -> None:
    graph = exchanged()
    store = to_store(graph)
    assert len(store) == 4
    assert names_of(from_store(store)) == names_of(graph)


# -- errors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("triplets", "message"),
    [
        ([[0, 0]], r"shape \[E, 3\], found \[1, 2\]"),
        ([0, 0, 0], r"shape \[E, 3\], found \[3\]"),
        ([[0, 0, 2]], "tail ids from 0 to 1, found 2"),
        ([[-1, 0, 0]], "head ids from 0 to 1, found -1"),
        ([[0, 1, 0]], "relation ids from 0 to 0, found 1"),
    ],
)
def test_refuses_triplets_that_do_not_fit(triplets: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        KnowledgeGraph(np.array(triplets), Vocabulary("entity", ["a", "b"]), Vocabulary("relation", ["r"]))


def test_refuses_tables_that_do_not_fit() -> None:
    with pytest.raises(DataError, match="Expected columns head, relation, tail; found a, b"):
        KnowledgeGraph.from_polars(pl.DataFrame({"a": ["x"], "b": ["y"]}))
    with pytest.raises(DataError, match="found a missing one"):
        KnowledgeGraph.from_polars(pl.DataFrame({"head": ["x"], "relation": [None], "tail": ["y"]}))
    with pytest.raises(DataError, match=r"as many heads as relations and tails, found \[1, 2, 1\]"):
        KnowledgeGraph.from_names(["a"], ["r", "r"], ["b"])


# -- vocabulary -------------------------------------------------------------------------------------------------


@given(st.lists(st.text("abcé", max_size=3), unique=True))
def test_positions_are_ids(names: list[str]) -> None:
    vocabulary = Vocabulary("entity", names)
    assert list(vocabulary) == names
    assert [vocabulary.index(name) for name in names] == list(range(len(names)))
    assert vocabulary.ids(names[::-1]).tolist() == list(range(len(names)))[::-1]
    assert vocabulary.take(np.arange(len(names))) == vocabulary


def test_labels_stand_for_names_unless_two_share_one() -> None:
    vocabulary = Vocabulary("entity", ["Q1", "Q2", "Q3", "Q4"], ["France", "Paris", "Paris", None])
    assert vocabulary.index("France") == vocabulary.index("Q1") == 0
    assert vocabulary.ids(["Q3", "France"]).tolist() == [2, 0]
    assert [vocabulary.label(i) for i in range(4)] == ["France", "Paris", "Paris", "Q4"]
    assert "Q2" in vocabulary
    assert "France" in vocabulary
    assert "Paris" not in vocabulary
    assert vocabulary.take(np.array([3, 0])).label(1) == "France"


def test_a_name_comes_before_a_label() -> None:
    assert Vocabulary("entity", ["a", "b"], ["b", None]).index("b") == 1


def test_unknown_names_come_with_near_ones() -> None:
    vocabulary = Vocabulary("relation", ["P37", "P36"], ["official language", "capital"])
    with pytest.raises(UnknownName, match=r"no relation named 'Offical language'\. Did you mean 'official language'\?"):
        vocabulary.index("Offical language")
    with pytest.raises(UnknownName) as caught:
        vocabulary.ids(["P37", "zzzzzz"])
    assert caught.value.near == []
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("many", [1, 200_000])
def test_the_same_words_in_another_order_are_near(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    monkeypatch.setattr("anykg.graph.vocabulary.MANY", many)
    vocabulary = Vocabulary("entity", ["Ingrid Wegener", "Wagner, Ingrid", "Wagner, Hanna"])
    assert vocabulary.nearest("ingrid Wagner")[0] == "Wagner, Ingrid"


def test_a_search_for_near_names_that_was_limited_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anykg.graph.vocabulary.MANY", 1)
    vocabulary = Vocabulary("entity", ["http://a.example/Marie_Curie", "http://a.example/Paul"])
    with pytest.raises(UnknownName, match=r"Did you mean 'http://a.example/Marie_Curie'\?$"):
        vocabulary.index("Marie Curie")
    with pytest.raises(
        UnknownName, match="Of 2 names, only those that contain it or its words or share its prefix were searched"
    ):
        vocabulary.index("Pierre Curie")


def test_refuses_names_and_labels_that_do_not_fit() -> None:
    with pytest.raises(DataError, match="must be distinct, but 'a' occurs more than once"):
        Vocabulary("entity", ["a", "b", "a"])
    with pytest.raises(DataError, match="Expected 2 entity labels, found 1"):
        Vocabulary("entity", ["a", "b"], ["x"])


def test_labels_of_several_names_and_accents_written_otherwise() -> None:
    names = Vocabulary("entity", ["a", "b", "c", "Z\u00fcrich"], labels=["Paula", "Paula", "Carl", None])
    assert names.index("Carl") == 2
    assert names.index("Zu\u0308rich") == 3
    with pytest.raises(DataError, match="'Paula' is the label of 2 entity names: 'a', 'b'; give the name"):
        names.index("Paula")


def test_iris_are_suggested_by_their_last_part() -> None:
    relations = Vocabulary("relation", ["http://ex.org/supplied_by", "http://ex.org/terms#member_of"])
    assert relations.nearest("supplied by") == ["http://ex.org/supplied_by"]
    assert relations.nearest("membr_of") == ["http://ex.org/terms#member_of"]
    assert relations.nearest("xyz") == []
