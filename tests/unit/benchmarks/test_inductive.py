"""Splits share what they say they share, and the report tells the rest."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from anykg.benchmarks.inductive import split_by_kind
from anykg.benchmarks.leakage import inverse_duplicates, leakage_of
from anykg.errors import ConfigError, DataError
from anykg.graph.task import Task
from anykg.io.catalog import load_task
from graphs import graphs, named, random_graph


def rows(graph):
    return set(graph.to_polars().iter_rows())


def names(graph):
    facts = rows(graph)
    return {end for h, _, t in facts for end in (h, t)}, {r for _, r, _ in facts}


@given(
    graphs(max_entities=40, max_relations=6, min_triplets=40),
    st.sampled_from(["transductive", "inductive", "fully-inductive"]),
    st.floats(0.1, 0.9),
    st.integers(0, 99),
)
@settings(max_examples=80, deadline=None)
def test_a_split_shares_what_its_kind_says(graph, kind, share, seed):
    try:
        task, dropped = split_by_kind(graph, "g", kind, seed=seed, share=share)
    except DataError:
        assume(False)
    parts = [rows(g) for g in (task.train, task.valid, task.observed, task.test)]
    assert not parts[0] & parts[1]
    assert not parts[2] & parts[3]
    assert set.union(*parts) <= rows(graph)
    (entities, relations), (their_entities, their_relations) = (
        names(a.union(b)) for a, b in ((task.train, task.valid), (task.observed, task.test))
    )
    for asked, known in ((task.valid, task.train), (task.test, task.observed)):
        assert names(asked)[0] <= names(known)[0]
        assert names(asked)[1] <= names(known)[1]
    leakage = leakage_of(task)
    assert (leakage.unobserved_entities, leakage.unobserved_relations) == (0, 0)
    if kind == "transductive":
        assert set.union(*parts) == rows(graph)
        return
    assert not entities & their_entities
    assert leakage.shared_entities == leakage.shared_triplets == 0
    assert leakage.shared_relations == len(relations & their_relations)
    assert their_relations <= relations if kind == "inductive" else not their_relations & relations
    missing = rows(graph) - set.union(*parts)
    assert dropped.between + dropped.other_relations == len(missing)
    assert set(dropped.entities) == names(graph)[0] - entities - their_entities
    assert set(dropped.relations) == names(graph)[1] - relations - their_relations


def test_splits_follow_the_seed():
    graph = random_graph(60, 6, 400)
    first, again, other = (split_by_kind(graph, "g", "fully-inductive", seed=s)[0] for s in (0, 0, 1))
    assert rows(first.test) == rows(again.test) != rows(other.test)


def test_a_graph_that_cannot_be_split_says_so():
    with pytest.raises(DataError, match="no fact is left for inference"):
        split_by_kind(named("a r b", "b r c", "c r d", "d r a"), "g", "fully-inductive")
    with pytest.raises(ConfigError, match="share: expected"):
        split_by_kind(named("a r b"), "g", "inductive", share=1.0)


def test_inverse_duplicates_are_found_and_counted():
    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f")]
    graph = named(
        *(f"{x} parent {y}" for x, y in pairs),
        *(f"{y} child {x}" for x, y in pairs[:4]),
        "a knows c",
        "a knows a",
    )
    assert inverse_duplicates(graph) == [("parent", "child", 0.8), ("child", "parent", 1.0)]
    asked = [row[:3] == ("b", "child", "a") or row[1] == "knows" for row in graph.to_polars().iter_rows()]
    task = Task("g", *(2 * [graph.subset([not a for a in asked]), graph.subset(asked)]))
    leakage = leakage_of(task)
    assert (leakage.asked, leakage.asked_with_fact_back, leakage.asked_with_inverse) == (3, 1, 1)
    assert leakage.unobserved_relations == 1


def test_symmetric_relations_are_their_own_inverse():
    graph = named("a spouse b", "b spouse a", "c spouse d", "d spouse c")
    assert inverse_duplicates(graph) == [("spouse", "spouse", 1.0)]


def test_fb15k_237_splits_into_two_graphs_with_nothing_in_common(data_dir):
    parts = load_task("FB15k-237", data_dir)
    whole = parts.train.union(parts.valid).union(parts.test)
    task, dropped = split_by_kind(whole, "fb", "fully-inductive")
    leakage = leakage_of(task)
    assert (leakage.shared_entities, leakage.shared_relations, leakage.shared_triplets) == (0, 0, 0)
    kept = len(task.train) + len(task.valid) + len(task.observed) + len(task.test)
    assert kept + dropped.between + dropped.other_relations == len(whole)
    assert kept > len(whole) / 2
