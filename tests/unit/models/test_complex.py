"""ComplEx: settings chosen by a judge, starts averaged, and a sampled softmax that learns what the full one learns."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from anykg.graph.graph import KnowledgeGraph
from anykg.models.complex import restarts
from anykg.models.complex.complex import ComplEx, ComplExConfig
from anykg.models.complex.fit import bound, fit_complex, fit_vectors
from anykg.models.complex.restarts import Restarts, fit_again, fit_restarts, settings_for
from anykg.models.complex.vectors import Vectors
from graphs import random_graph

GRAPH = random_graph(60, 3, 400)


def blocks(entities: int = 80) -> KnowledgeGraph:
    """Everyone knows the others of a group of ten."""
    rows = [(f"e{i}", "r", f"e{j}") for i in range(entities) for j in range(entities) if i // 10 == j // 10 and i != j]
    return KnowledgeGraph.from_names(*zip(*rows, strict=True))


def test_the_judge_chooses_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANKS": (4,), "TRIAL": 1, "EPOCHS": 2, "STARTS": 2}.items():
        monkeypatch.setattr(restarts, name, value)
    seen: list[ComplExConfig] = []

    def judge(model: ComplEx) -> float:
        seen.append(model.config)
        return -abs(model.config.regularisation - 0.003) + model.config.relation_loss / 1000

    found = fit_restarts(GRAPH, settings_for(GRAPH, 1e5).config, seconds=1e5, judge=judge)
    assert (found.config.regularisation, found.config.relation_loss) == (0.003, 0.5)
    assert len(seen) == 4  # three regularisations, one more relation loss
    assert found.epochs == len(found.vectors) == 2


def test_without_time_for_trials_no_judge_is_asked() -> None:
    def judge(model: ComplEx) -> float:
        raise AssertionError

    found = fit_restarts(GRAPH, settings_for(GRAPH, 1e-6).config, seconds=1e-6, judge=judge)
    assert len(found.vectors) == 1


def test_the_mean_of_fits_scores_as_the_mean_of_their_scores() -> None:
    config = ComplExConfig(rank=8, epochs=3)
    fits = tuple(fit_vectors(GRAPH, config, seed=seed) for seed in range(3))
    joined = Restarts(config, fits, 3).model(GRAPH)
    triplets = torch.from_numpy(GRAPH.triplets.astype(np.int64))
    apart = [bound(part, GRAPH, config) for part in fits]
    mean = torch.stack([model.score_triplets(model.encode(GRAPH), triplets) for model in apart]).mean(0)
    torch.testing.assert_close(joined.score_triplets(joined.encode(GRAPH), triplets), mean, rtol=1e-4, atol=1e-5)


def test_fitting_again_starts_anew_if_there_is_time_and_goes_on_otherwise() -> None:
    config = ComplExConfig(rank=8, epochs=4)

    def copies() -> tuple[Vectors, ...]:
        return (fit_vectors(GRAPH, config, seed=0),)

    anew = fit_again(GRAPH, Restarts(config, copies(), 4, pace=1e-3), seconds=60.0)
    torch.testing.assert_close(anew.vectors[0].entities, fit_vectors(GRAPH, config, seed=0).entities)
    further = fit_again(GRAPH, Restarts(config, copies(), 4, pace=100.0), seconds=60.0)
    assert (further.vectors[0].entity_squares >= anew.vectors[0].entity_squares - 1e-6).all()
    assert not torch.equal(further.vectors[0].entities, anew.vectors[0].entities)


def test_a_sampled_softmax_learns_what_the_full_one_learns() -> None:
    graph = blocks()
    hidden = np.arange(0, len(graph), 20)
    rest = graph.subset(np.setdiff1d(np.arange(len(graph)), hidden))
    config = ComplExConfig(rank=16, epochs=15, batch_size=32, regularisation=0.01)
    heads, relations, tails = torch.from_numpy(graph.triplets[hidden].astype(np.int64)).T
    for sample in (0, 20):
        model = fit_complex(rest, config=replace(config, sample=sample))
        scores = model.score_tails(model.encode(rest), heads, relations)
        known = rest.answers(heads.numpy(), relations.numpy())
        scores[torch.from_numpy(known.rows), torch.from_numpy(known.values.astype(np.int64))] = -torch.inf
        scores[torch.arange(len(heads)), heads] = -torch.inf
        assert (scores.argmax(1) // 10 == tails // 10).float().mean() > 0.9


def test_vectors_of_many_entities_are_small_enough_for_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_for(GRAPH, 1e5).config.rank == 400
    monkeypatch.setattr(restarts, "MOST_BYTES", GRAPH.num_entities * 2 * 60 * 4)
    assert settings_for(GRAPH, 1e5).config.rank == 50
    monkeypatch.setattr(restarts, "MOST_BYTES", 1)
    assert settings_for(GRAPH, 1e5).config.rank == 25
