import numpy as np
import pytest

from anykg.training.negatives import corrupt
from graphs import random_graph


@pytest.mark.parametrize("inverses", [False, True])
def test_one_column_changes_and_facts_are_avoided(inverses: bool) -> None:
    graph = random_graph(40, 4, 200, 0)
    targets = graph.triplets.astype(np.int64)
    if inverses:
        targets = np.concatenate([targets, graph.inverted(targets)])
    drawn = corrupt(graph, targets, entities=3, relations=2, inverses=inverses, random=np.random.default_rng(0))
    assert drawn.shape == (len(targets), 5, 3)
    assert not graph.contains(drawn).any()
    assert (drawn[:, :3, :2] == targets[:, None, :2]).all()
    assert (drawn[:, 3:, [0, 2]] == targets[:, None, [0, 2]]).all()
    assert drawn[:, 3:, 1].max() == (7 if inverses else 3)


def test_sides() -> None:
    graph = random_graph(40, 4, 200, 0)
    targets = graph.triplets[:100].astype(np.int64)
    halves = corrupt(graph, targets, entities=4, sides="halves", random=np.random.default_rng(0))
    assert (halves[:50, :, 0] == targets[:50, None, 0]).all()
    assert (halves[50:, :, 2] == targets[50:, None, 2]).all()
    either = corrupt(graph, targets, entities=4, sides="either", random=np.random.default_rng(0))
    heads = (either[..., 0] != targets[:, None, 0]).mean()
    assert 0.4 < heads < 0.6


def test_where_everything_is_a_fact_it_ends() -> None:
    graph = random_graph(2, 1, 200, 0)
    assert len(graph) == 4
    drawn = corrupt(graph, graph.triplets.astype(np.int64), entities=2, random=np.random.default_rng(0))
    assert drawn.shape == (4, 2, 3)


def test_unfiltered_negatives_may_be_facts() -> None:
    graph = random_graph(6, 1, 25, 0)
    targets = graph.triplets.astype(np.int64)
    drawn = corrupt(graph, targets, entities=10, strict=False, random=np.random.default_rng(0))
    assert graph.contains(drawn).any()
