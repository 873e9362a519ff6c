"""What an epoch draws: from which graphs, in batches of which size, the same again from the same seed."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from anykg.errors import SettingError
from anykg.models.recipe import Recipe
from anykg.training.epoch import draw_epoch, facts_between
from graphs import random_graph

GRAPHS = [random_graph(30, 2, 400, 0), random_graph(60, 2, 100, 1)]
RECIPE = Recipe(batch_size=4, negative_entities=2, sides="halves", steps_per_epoch=400)


def counted(recipe: Recipe, epoch: int = 0) -> Counter[int]:
    return Counter(draw().graph.num_entities for draw in draw_epoch(GRAPHS, recipe, 0, epoch))


@pytest.mark.parametrize(("mixture", "share"), [("sqrt", 2 / 3), ("even", 1 / 2)])
def test_graphs_are_learnt_from_as_often_as_asked(mixture: str, share: float) -> None:
    found = counted(replace(RECIPE, mixture=mixture))
    assert found.total() == 400  # the small graph has 25 batches and comes around again
    assert found[30] / 400 == pytest.approx(share, abs=0.08)


def test_by_size_every_target_comes_once() -> None:
    found = counted(replace(RECIPE, steps_per_epoch=0))
    assert found == {30: len(GRAPHS[0]) // 4, 60: -(-len(GRAPHS[1]) // 4)}


def test_the_same_epoch_is_drawn_again() -> None:
    recipe = replace(RECIPE, mixture="sqrt", steps_per_epoch=20)
    first, again = ([draw().rows for draw in draw_epoch(GRAPHS, recipe, 3, 1)] for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    other = [draw().rows for draw in draw_epoch(GRAPHS, recipe, 3, 2)]
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_large_graphs_have_smaller_batches() -> None:
    recipe = replace(RECIPE, batch_nodes=90, steps_per_epoch=0)
    sizes = {(d.graph.num_entities, len(d.rows)) for d in (draw() for draw in draw_epoch(GRAPHS, recipe, 0, 0))}
    assert max(size for nodes, size in sizes if nodes == 30) == 3
    assert max(size for nodes, size in sizes if nodes == 60) == 1


def test_large_graphs_are_learned_from_in_parts() -> None:
    """Parts are drawn anew every epoch, hold all facts between their entities, and keep the relations' ids."""
    recipe = replace(RECIPE, part_facts=150, steps_per_epoch=0)
    large, small = (random_graph(200, 3, 600, 0), GRAPHS[1])
    by_epoch = [[draw().graph for draw in draw_epoch([large, small], recipe, 0, epoch)] for epoch in (0, 0, 1)]
    first, again, other = ([graph for graph in graphs if graph.num_relations == 3] for graphs in by_epoch)
    assert sum(graph is small for graph in by_epoch[0]) == -(-len(small) // 4)
    assert len({id(graph) for graph in first}) == 1  # one part in an epoch
    assert first[0].digest == again[0].digest != other[0].digest
    part = first[0]
    assert 75 <= len(part) <= 150
    names = set(part.entities)
    between = [row for row in large.to_polars().rows() if row[0] in names and row[2] in names]
    assert sorted(part.to_polars().rows()) == sorted(between)


def test_some_epochs_learn_from_whole_graphs() -> None:
    """As many as asked for, and the parts of the others are those that would have been drawn anyway."""
    recipe = replace(RECIPE, part_facts=150, whole_share=0.4, steps_per_epoch=0)
    large = random_graph(200, 3, 600, 0)
    some, never = (
        [draw_epoch([large], asked, 0, epoch)[0]().graph for epoch in range(100)]
        for asked in (recipe, replace(recipe, whole_share=0.0))
    )
    assert 0.25 < np.mean([graph is large for graph in some]) < 0.55
    assert all(a is large or a.digest == b.digest for a, b in zip(some, never, strict=True))


def test_parts_need_all_facts_as_targets() -> None:
    with pytest.raises(SettingError, match=r"part_facts.*expected 0 with targets held-out, found 9"):
        Recipe(part_facts=9, targets="held-out", target_share=0.5)
    with pytest.raises(SettingError, match=r"whole_share.*expected 0 to 1, found 2"):
        Recipe(part_facts=9, whole_share=2)


def test_batches_of_one_corrupt_both_sides() -> None:
    recipe = replace(RECIPE, batch_size=1, sides="halves", negative_entities=4, strict=False, steps_per_epoch=0)
    rows = np.stack([draw().rows[0] for draw in draw_epoch(GRAPHS[:1], recipe, 0, 0)])  # [B, 1 + K, 3]
    of_heads = (rows[:, 1:, 0] != rows[:, :1, 0]).any(1)
    of_tails = (rows[:, 1:, 2] != rows[:, :1, 2]).any(1)
    assert not (of_heads & of_tails).any()
    assert 0.3 < of_tails.mean() < 0.7


def test_facts_between_the_ends_of_targets() -> None:
    graph = random_graph(6, 3, 60, 0)
    targets = np.concatenate([graph.triplets[:4], graph.inverted(graph.triplets[4:8])]).astype(np.int64)
    found = {tuple(row) for row in facts_between(graph, targets).tolist()}
    pairs = {frozenset((h, t)) for h, _, t in targets.tolist()}
    expected = {tuple(row) for row in graph.triplets.tolist() if frozenset((row[0], row[2])) in pairs}
    assert found == expected | {tuple(row) for row in targets.tolist()}
    assert len(expected) > 8


@pytest.mark.parametrize("fixed", [True, False])
def test_batches_of_one_relation(fixed: bool) -> None:
    """Every row of the epoch once, targets and negatives, in batches that share their relation and have its size."""
    graph = random_graph(30, 4, 120, 0)
    recipe = Recipe(
        batches="relation",
        batch_size=3,
        inverses=True,
        negative_entities=2,
        negative_relations=2,
        fixed_negatives=fixed,
    )
    epochs = [[draw() for draw in draw_epoch([graph], recipe, 0, epoch)] for epoch in (0, 0, 1)]
    for batch in epochs[0]:
        assert len(np.unique(batch.rows[..., 1])) == 1
        assert batch.rows.shape[1:] == (1, 3)
        assert len(batch.rows) <= 15
        assert graph.contains(batch.targets).all()
        assert not graph.contains(batch.rows[~batch.labels, 0]).any()
    mixed = draw_epoch([graph], replace(recipe, batches="mixed"), 0, 0)
    expected = np.concatenate([draw().rows.reshape(-1, 3) for draw in mixed])
    found = [np.concatenate([batch.rows[:, 0] for batch in batches]) for batches in epochs]
    assert np.array_equal(np.unique(found[0], axis=0), np.unique(expected, axis=0))
    assert len(found[0]) == len(expected) == 5 * 2 * len(graph)
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    same = np.array_equal(np.unique(found[0], axis=0), np.unique(found[2], axis=0))
    assert same == fixed
    assert sum(int(batch.labels.sum()) for batch in epochs[0]) == 2 * len(graph)
    order = [int(batch.rows[0, 0, 1]) for batch in epochs[0]]
    assert order != sorted(order)
