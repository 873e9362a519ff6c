"""RMPI against its definition, triplet by triplet, and what follows from it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from anykg.errors import ConfigError
from anykg.evaluation.symmetry import verify
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import Symmetry
from anykg.models.rmpi import fast, reference
from anykg.models.rmpi.around import entries_within_reach, triplets_around
from anykg.models.rmpi.kernels import enclose
from anykg.models.rmpi.rmpi import RMPI, RMPIConfig, _names_digest
from graphs import named, random_graph


def model_for(graph, seed=0, **settings):
    torch.manual_seed(seed)
    return RMPI.build(RMPIConfig(**settings), graph).eval()


@pytest.mark.parametrize("seed", range(4))
def test_scores_are_those_of_the_definition(seed):
    graph = random_graph(9, 3, 24, seed)
    model = model_for(graph, seed)
    random = np.random.default_rng(seed)
    rows = np.stack([random.integers(size, size=25) for size in (9, 3, 9)], axis=1)
    rows = np.concatenate([graph.triplets[:10], rows, rows[:5, [0, 1, 0]]]).astype(np.int64)
    with torch.no_grad():
        scores = model.score_triplets(model.encode(graph), torch.from_numpy(rows))
        expected = reference.scores(model, graph, model.vectors, rows)
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=1e-5)


def test_a_fact_scores_as_if_it_were_not_known():
    """What is asked about is part of its own subgraph either way, so that it cannot be read off."""
    graph = random_graph(15, 3, 60, 1)
    model = model_for(graph)
    with torch.no_grad():
        for edge in range(0, 60, 7):
            row = torch.from_numpy(graph.triplets[edge : edge + 1].astype(np.int64))
            without = graph.subset(np.arange(len(graph)) != edge)
            scores = [model.score_triplets(model.encode(g), row) for g in (graph, without)]
            torch.testing.assert_close(*scores)


def test_an_empty_subgraph_scores():
    """The public code fails on these, which is why the paper has no figure for DB-WD."""
    graph = named("a r b", "c s d", "e t f")
    model = model_for(graph)
    lonely = KnowledgeGraph(np.empty((0, 3), int), graph.entities, graph.relations)
    rows = torch.tensor([[0, 1, 3], [0, 0, 0], [4, 2, 1]])
    for observed in (graph, lonely):
        with torch.no_grad():
            assert torch.isfinite(model.score_triplets(model.encode(observed), rows)).all()
        assert torch.isfinite(model.train().training_scores(observed, rows[:, None], seed=0)).all()


def test_relabelling_entities_changes_nothing_and_renaming_relations_does():
    graph = random_graph(30, 5, 120, 0)
    model = model_for(graph)
    assert model.symmetry is Symmetry.ENTITIES_ONLY
    assert verify(model, graph, count=150).holds
    turned = graph.triplets.copy()
    turned[:, 1] = (turned[:, 1] + 1) % 5
    rows = torch.from_numpy(graph.triplets.astype(np.int64))
    with torch.no_grad():
        before = model.score_triplets(model.encode(graph), rows)
        rows[:, 1] = (rows[:, 1] + 1) % 5
        after = model.score_triplets(model.encode(graph.with_triplets(turned)), rows)
    assert not torch.allclose(before, after, atol=1e-2)


def test_new_relations_are_scored_equivariantly_in_expectation():
    graph, model = random_graph(30, 5, 120, 0), model_for(random_graph(10, 3, 20))
    assert verify(model, graph, count=150).holds
    model.symmetry = Symmetry.EXACT
    assert not verify(model, graph, count=150).holds
    model.symmetry = Symmetry.IN_EXPECTATION
    assert verify(model, graph, count=150).holds


def test_learned_vectors_follow_the_names_of_relations():
    """The order in which a file mentions relations says nothing."""
    graph = random_graph(12, 4, 40)
    model = model_for(graph)
    order = np.array([2, 0, 3, 1])
    turned = graph.relabel(np.arange(12), order)
    rows = torch.from_numpy(graph.triplets.astype(np.int64))
    moved = rows.clone()
    moved[:, 1] = torch.from_numpy(order)[rows[:, 1]]
    with torch.no_grad():
        scores = [model.score_triplets(model.encode(g), r) for g, r in ((graph, rows), (turned, moved))]
    torch.testing.assert_close(*scores)
    old = RMPI(replace(model.config, relations=_names_digest(graph)))  # as version 0.1 saved it
    assert old.encode(graph).vectors is old.vectors
    assert old.encode(turned).vectors.shape == old.vectors.shape


def test_vectors_are_learnt_ones_for_the_training_relations_and_drawn_for_others():
    graph, other = random_graph(10, 3, 30), named("a x b", "b y c", "c z a")
    model = model_for(graph)
    assert model.encode(graph, 0).vectors is model.vectors
    drawn = [model.encode(other, seed).vectors for seed in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert drawn[0].shape == (3, model.width)
    with torch.no_grad():
        model.vectors.mul_(0.01)
    torch.testing.assert_close(model.encode(other, 0).vectors, 0.01 * drawn[0])


def test_dropout_follows_its_seed_and_is_for_training_alone():
    graph = random_graph(20, 3, 100)
    model = model_for(graph).train()
    rows = torch.from_numpy(graph.triplets[:10].astype(np.int64))[:, None]
    first, again, other = (model.training_scores(graph, rows, seed) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    plain = model_for(graph, edge_dropout=0.0).train()
    torch.testing.assert_close(
        plain.training_scores(graph, rows, 0).flatten(), plain.score_triplets(plain.encode(graph), rows[:, 0])
    )


def test_candidates_are_scored_in_parts_that_fit(monkeypatch):
    graph = random_graph(20, 3, 100)
    model = model_for(graph)
    rows = torch.cartesian_prod(torch.arange(20), torch.arange(3), torch.arange(20))
    with torch.no_grad():
        encoded = model.encode(graph)
        whole = model.score_triplets(encoded, rows)
        monkeypatch.setattr("anykg.models.rmpi.fast.ENTRIES", 3_000)
        monkeypatch.setattr("anykg.models.rmpi.fast.CANDIDATES", 50)
        parts = fast.blocks(graph, rows.numpy())
        torch.testing.assert_close(model.score_triplets(encoded, rows), whole)
    assert sum(map(len, parts)) == len(rows)
    assert 1 < max(map(len, parts)) <= 51
    for part in parts:
        found = enclose(graph.derive(triplets_around), part)
        assert len(found.columns) <= 3_000 + 2 * graph.derive(entries_within_reach).max() + 2 * len(part)


def test_every_parameter_learns():
    graph = random_graph(20, 3, 120)
    model = model_for(graph).train()
    rows = torch.from_numpy(graph.triplets[:40].astype(np.int64))[:, None]
    model.training_scores(graph, rows, 0).pow(2).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in model.parameters())


@pytest.mark.parametrize("wrong", [{"width": 0}, {"edge_dropout": 1.0}])
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(ConfigError, match="must be"):
        RMPIConfig(**wrong)
