"""The default of `training_scores` never shows a model its targets, and recipes a model cannot follow are refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import EncodedGraph, LinkPredictor, Symmetry
from anykg.models.registry import MODELS
from anykg.training.loop import TrainingGraph, train
from graphs import graphs, random_graph


class LookUp(LinkPredictor):
    """1 for a fact of the graph, 0 for anything else: perfect, if it may see what it is asked about."""

    symmetry = Symmetry.EXACT

    def score_triplets(self, encoded: EncodedGraph, triplets: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(encoded.graph.contains(triplets.numpy())).float()


def test_a_look_up_model_does_not_find_its_targets() -> None:
    graph = random_graph(20, 3, 60)
    rows = torch.from_numpy(np.stack([graph.triplets, graph.triplets], axis=1).astype(np.int64))[:10]
    rows[:, 1] = torch.from_numpy(graph.triplets[20:30].astype(np.int64))  # facts that are no targets stay
    rows[5:, 0] = torch.from_numpy(graph.inverted(rows[5:, 0].numpy()))  # in the opposite direction
    scores = LookUp().training_scores(graph, rows, seed=0)
    assert scores.tolist() == [[0.0, 1.0]] * 10
    more = torch.from_numpy(graph.triplets[:30].astype(np.int64))
    assert LookUp().training_scores(graph, rows, 0, targets=more).tolist() == [[0.0, 0.0]] * 10


@given(graph=graphs(min_triplets=1), seed=st.integers(0, 999))
def test_without_drops_facts_from_either_end(graph: KnowledgeGraph, seed: int) -> None:
    random = np.random.default_rng(seed)
    facts = graph.triplets[random.random(len(graph)) < 0.3]
    others = np.stack([random.integers(n, size=3) for n in (graph.num_entities, 2 * graph.num_relations)] * 2, 1)[:, :3]
    asked = np.concatenate([facts[::2], graph.inverted(facts[1::2]), others])
    left = graph.without(asked)
    assert not left.contains(asked).any()
    assert len(left) == len(graph) - len(np.unique(_direct(graph, asked[graph.contains(asked)]), axis=0))
    assert graph.contains(left.triplets).all()
    nothing = others[~graph.contains(others)]
    assert graph.without(nothing) is graph


def _direct(graph: KnowledgeGraph, triplets: np.ndarray) -> np.ndarray:
    return np.where(triplets[:, 1:2] < graph.num_relations, triplets, graph.inverted(triplets))


@pytest.mark.parametrize(("name", "setting"), [("gin", "hide_pairs"), ("rmpi", "hide_pairs"), ("gin", "relations")])
def test_a_recipe_that_a_model_would_ignore_is_refused(name: str, setting: str, tmp_path: Path) -> None:
    graph = random_graph(20, 3, 60)
    model = MODELS.load(name).build(MODELS.load(name).Config(), graph)
    change = {"hide_pairs": 0.5} if setting == "hide_pairs" else {"negative_relations": 1}
    recipe = replace(model.recipe, epochs=1, **change)
    with pytest.raises(ConfigError, match=f"{next(iter(change))} must be 0 for {name}"):
        train(name, model, [TrainingGraph("g", graph, graph)], recipe, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
