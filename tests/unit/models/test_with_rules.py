"""`NAME+rules`: a trained model mixed with rules that are mined on the graph it is asked about."""

from copy import copy
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
import torch
from torch import nn

from anykg.answers.explain import explain
from anykg.answers.predict import predict
from anykg.answers.work import _loaded, _saved
from anykg.errors import CheckpointError
from anykg.evaluation.reading import best_answers
from anykg.evaluation.symmetry import verify
from anykg.models import rulebook
from anykg.models.folders import folder_of
from anykg.models.mixture import Component, Mixture, MixtureConfig
from anykg.models.rulebook import Rulebook, RulebookConfig
from anykg.models.store import load_model
from anykg.rules.kept import kept_rules
from graphs import random_graph

GRAPH = random_graph(40, 4, 200)


@pytest.fixture(scope="module")
def model() -> Mixture:
    found = load_model("anykg-base+rules")
    assert isinstance(found, Mixture)
    return found


@torch.no_grad()
def test_scores_are_weighted_sums(model: Mixture) -> None:
    heads, relations = torch.tensor([0, 7, 7]), torch.tensor([0, 3, 6])
    parts = [
        part.score_tails(part.encode(GRAPH), heads, relations) for part in (load_model("anykg-base"), Rulebook().eval())
    ]
    weights = model.typical.tolist()
    expected = weights[0] * parts[0] + weights[1] * parts[1]
    torch.testing.assert_close(model.score_tails(model.encode(GRAPH), heads, relations), expected)


def test_renaming_only_renames_the_answers(model: Mixture) -> None:
    assert verify(model, GRAPH, count=60).holds


@torch.no_grad()
def test_fixed_to_a_graph_it_scores_it_as_before(model: Mixture) -> None:
    fixed = model.fixed_to(GRAPH)
    triplets = torch.from_numpy(GRAPH.triplets[:20].astype("int64"))
    torch.testing.assert_close(
        fixed.score_triplets(fixed.encode(GRAPH), triplets), model.score_triplets(model.encode(GRAPH), triplets)
    )
    assert fixed.fixed_to(random_graph(10, 2, 20)) is fixed, "its rules are those of the first graph"
    assert not any(part.fitted for part in model.models if isinstance(part, Rulebook)), "the model itself has no rules"


def test_explanations_mine_once(model: Mixture, monkeypatch: pytest.MonkeyPatch) -> None:
    mined = []
    monkeypatch.setattr(rulebook, "kept_rules", lambda *args: mined.append(1) or kept_rules(*args))
    found = explain("atlas", "Malta", "in subregion", "Southern Europe", model=model, paths=1, clauses=1, draws=1)
    assert found.explanation.rank == 1
    assert len(mined) == 1


@torch.no_grad()
def test_saved_for_a_cluster_it_scores_alike(model: Mixture) -> None:
    loaded = _loaded(_saved(model))
    triplets = torch.from_numpy(GRAPH.triplets[:20].astype("int64"))
    ours, theirs = (one.score_triplets(one.encode(GRAPH), triplets) for one in (model, loaded))
    assert torch.equal(ours, theirs)


def test_parts_of_a_graph_share_its_rules(model: Mixture, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, mined = random_graph(60, 4, 400), []
    monkeypatch.setattr(rulebook, "kept_rules", lambda *args: mined.append(1) or kept_rules(*args))
    questions = np.array([[head, 0, -1] for head in range(6)])
    best_answers(model, graph, questions, budget=50)
    best_answers(model, graph, questions, budget=50)
    assert len(mined) == 1


@torch.no_grad()
def test_a_very_large_graph_is_not_mined(model: Mixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rulebook, "kept_rules", None)
    rules = Rulebook(RulebookConfig(largest=len(GRAPH) - 1)).eval()
    assert not rules.mines(GRAPH)
    scores = rules.score_tails(rules.encode(GRAPH), torch.tensor([0]), torch.tensor([1]))
    assert len(scores.unique()) == 1
    assert not rules.fixed_to(GRAPH).mines(GRAPH.subset(np.arange(len(GRAPH)) < 10)), "nor are parts of it"
    smaller = copy(model)
    smaller._modules = {"components": nn.ModuleList([model.models[0], rules])}
    assert model.remark(GRAPH) is None
    found = predict(GRAPH, head=GRAPH.entities[0], relation=GRAPH.relations[0], model=smaller)
    assert any("not mined for rules" in warning for warning in found.warnings)


def test_renaming_many_relations_only_renames_the_answers() -> None:
    assert verify(Rulebook(), random_graph(60, 40, 400, 0), count=60).holds


def test_paths_come_from_the_network(model: Mixture) -> None:
    triplet = torch.tensor([0, 1, 2])
    relevance, alone = (one.edge_relevance(GRAPH, triplet) for one in (model, model.models[0]))
    assert relevance is not None
    assert alone is not None
    torch.testing.assert_close(relevance, model.typical[0] * alone)


def test_paths_come_from_all_networks_with_a_weight(model: Mixture) -> None:
    triplet = torch.tensor([0, 1, 2])
    networks = [model.models[0], load_model("anykg-small")]
    mix = Mixture(MixtureConfig(tuple(Component(name, name) for name in ("trix", "ultra"))))
    mix._modules = {"components": nn.ModuleList(networks)}
    one, two = (network.edge_relevance(GRAPH, triplet) for network in networks)
    assert one is not None
    assert two is not None
    assert len(one) < len(two), "they have different numbers of layers"
    one = torch.cat([one, torch.zeros(len(two) - len(one), two.shape[1])])
    for weights in ((0.0, 2.0), (1.0, 2.0)):
        mix.typical = torch.tensor(weights)
        found = mix.edge_relevance(GRAPH, triplet)
        assert found is not None
        torch.testing.assert_close(found, weights[0] * one + weights[1] * two)
    mix.typical = torch.zeros(2)
    assert mix.edge_relevance(GRAPH, triplet) is None


def test_a_folder_may_be_called_so(tmp_path: Path) -> None:
    folder = tmp_path / "mine+rules"
    copytree(folder_of("anykg-small"), folder)
    assert not isinstance(load_model(folder), Mixture)


def test_a_model_without_weights_for_rules_says_so() -> None:
    with pytest.raises(CheckpointError, match="no weights for mixing it with rules"):
        load_model("anykg-small+rules")
    with pytest.raises(CheckpointError, match="no weights for mixing it with rules"):
        load_model("popularity+rules")


def test_a_graph_is_mined_once_for_all_questions(model: Mixture, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, mined = random_graph(40, 4, 200), []
    monkeypatch.setattr(rulebook, "kept_rules", lambda *args: mined.append(1) or kept_rules(*args))
    for head in graph.entities.names[:3]:
        predict(graph, head=head, relation=graph.relations[0], model=model)
    assert len(mined) == 1
