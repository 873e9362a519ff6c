"""A held-out part leaves something known of everything."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.split import hold_out, split_task
from anykg.graph.vocabulary import Vocabulary

ENTITIES, RELATIONS = 8, 4


def graph_of(triplets, entities=ENTITIES, relations=RELATIONS):
    return KnowledgeGraph(
        np.array(triplets, dtype=np.int64).reshape(-1, 3),
        Vocabulary("entity", [f"e{i}" for i in range(entities)]),
        Vocabulary("relation", [f"r{i}" for i in range(relations)]),
    )


def rows(graph):
    return {tuple(row) for row in graph.triplets.tolist()}


entity = st.integers(0, ENTITIES - 1)
graphs = st.lists(st.tuples(entity, st.integers(0, RELATIONS - 1), entity), max_size=40).map(graph_of)


@given(graphs, st.floats(0, 1), st.integers(0, 1000))
@settings(max_examples=200, deadline=None)
def test_hold_out_splits_and_leaves_a_fact_of_everything(graph, share, seed):
    rest, held = hold_out(graph, share, seed, "test")
    assert not rows(rest) & rows(held)
    assert rows(rest) | rows(held) == rows(graph)
    assert set(rest.triplets[:, [0, 2]].ravel()) == set(graph.triplets[:, [0, 2]].ravel())
    assert set(rest.triplets[:, 1]) == set(graph.triplets[:, 1])
    assert len(held) <= round(share * len(graph))
    assert rest.entities == held.entities == graph.entities


def test_hold_out_takes_the_share_where_it_can():
    complete = graph_of([(h, r, t) for h in range(ENTITIES) for r in range(RELATIONS) for t in range(ENTITIES)])
    for share in (0.0, 0.1, 0.5, 0.9):
        assert len(hold_out(complete, share, 0, "test")[1]) == round(share * len(complete))


def test_hold_out_follows_seed_and_name():
    complete = graph_of([(h, r, t) for h in range(ENTITIES) for r in range(RELATIONS) for t in range(ENTITIES)])
    held = hold_out(complete, 0.3, 1, "test")[1]
    assert held == hold_out(complete, 0.3, 1, "test")[1]
    assert held != hold_out(complete, 0.3, 2, "test")[1]
    assert held != hold_out(complete, 0.3, 1, "valid")[1]


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_hold_out_refuses_a_share_that_is_none(share):
    with pytest.raises(ConfigError, match="from 0 to 1"):
        hold_out(graph_of([(0, 0, 1)]), share, 0, "test")


def test_split_task_takes_a_tenth_twice():
    complete = graph_of([(h, r, t) for h in range(ENTITIES) for r in range(RELATIONS) for t in range(ENTITIES)])
    task = split_task(complete, "complete")
    assert task.observed is task.train
    assert abs(len(task.valid) - len(complete) / 10) <= 1
    assert abs(len(task.test) - len(complete) / 10) <= 1
    assert rows(task.train) | rows(task.valid) | rows(task.test) == rows(complete)
    assert len(task.train) + len(task.valid) + len(task.test) == len(complete)


@pytest.mark.slow
def test_hold_out_is_quick_on_a_million_triplets():
    random = np.random.default_rng(0)
    columns = [random.integers(size, size=1_000_000) for size in (100_000, 40, 100_000)]
    graph = graph_of(np.stack(columns, axis=1), 100_000, 40)
    begin = time.perf_counter()
    hold_out(graph, 0.1, 0, "test")
    assert (
        time.perf_counter() - begin < 20
    )  # about one second alone on a core; a loop over triplets with lookups, minutes
