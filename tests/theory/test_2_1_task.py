"""Section 2.1: the task of fully inductive link prediction."""

import numpy as np
import pytest
import torch

from anykg.io.catalog import find, get_dataset, load_task
from anykg.models.registry import MODELS
from graphs import random_graph
from theory.actions import build, triplets_of

PEDIATYPES = ("EN-FR", "DB-WD", "DB-YG")


@pytest.mark.parametrize("name", list(MODELS))
def test_definition_2_1_a_model_applies_to_new_entities_and_relations(name: str) -> None:
    """Trained on one graph, a model scores every triplet of another with other numbers of both, given nothing else."""
    model = build(name, random_graph(12, 3, 30, seed=0))
    other = random_graph(9, 5, 25, seed=1)
    with torch.no_grad():
        found = model.score_triplets(model.encode(other), torch.from_numpy(triplets_of(other)))
    assert found.shape == (9 * 5 * 9,)
    assert torch.isfinite(found).all()


@pytest.mark.parametrize("name", PEDIATYPES)
def test_definition_2_1_holds_for_pediatypes(name: str) -> None:
    """The inference graph has entities that the training graph has not. Relations: the paper treats equal names of two
    languages as different, and only where the vocabularies differ (DB-WD, DB-YG) do the files show it."""
    if find(get_dataset(name)) is None:
        pytest.skip(f"{name} is not here")
    task = load_task(name)
    assert not set(task.observed.entities) <= set(task.train.entities)
    assert not set(task.observed.relations) <= set(task.train.relations)
    known = task.train.union(task.valid)
    shared = np.isin(np.array(list(task.test.entities)), np.array(list(known.entities)))
    assert not shared.any()


def test_definition_2_1_holds_between_topics_not_within_one() -> None:
    """WikiTopics: graphs of different topics have disjoint relations; those of one topic share them, so zero-shot means
    another topic."""
    if any(find(get_dataset(f"wikitopics:{topic}")) is None for topic in ("infra", "art")):
        pytest.skip("WikiTopics is not here")
    infra, art = load_task("wikitopics:infra"), load_task("wikitopics:art")
    assert not set(infra.train.relations) & set(art.observed.relations)
    assert set(infra.train.relations) & set(infra.observed.relations)
