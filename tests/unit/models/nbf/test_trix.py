"""TRIX: symmetry, ways of asking, training without leaks, gradients, settings."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.errors import CheckpointError, ConfigError
from anykg.models.nbf import fast, near, reference, trix
from anykg.models.nbf.published import import_trix_weights
from anykg.models.nbf.queries import as_queries
from anykg.models.nbf.trix import TRIX, TRIXConfig
from graphs import random_graph

SMALL = TRIXConfig(width=16, rounds=2)
VARIANTS = {
    "published": SMALL,
    "hybrid": replace(SMALL, first="network", first_layers=2, relation_steps=1),
    "entity": replace(SMALL, networks="entity"),
    "relation": replace(SMALL, networks="relation"),
}


def build(config=SMALL, seed=0):
    torch.manual_seed(seed)
    return TRIX(config).eval()


def graph_of(seed=0):
    return random_graph(40, 5, 150, seed)


def test_published_sizes():
    count = {
        name: sum(p.numel() for p in TRIX(TRIXConfig(networks=name)).parameters()) for name in ("entity", "relation")
    }
    assert count == {"entity": 87_138 - 4_225, "relation": 147_489}  # the early network's unused MLP is left out


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), variant=st.sampled_from(["published", "hybrid"]))
@torch.no_grad()
def test_exactly_double_equivariant(seed, variant):
    model, graph, random = build(VARIANTS[variant], seed), graph_of(seed), np.random.default_rng(seed)
    entities, kinds = (torch.from_numpy(random.permutation(count)) for count in (40, 5))
    other = graph.relabel(entities.numpy(), kinds.numpy())
    heads, relations, tails = torch.arange(8), torch.arange(8) % 5, torch.arange(8).flip(0)
    encoded, moved = model.encode(graph), model.encode(other)
    for shift in (0, 5):
        scores = model.score_tails(encoded, heads, relations + shift)
        renamed = model.score_tails(moved, entities[heads], kinds[relations] + shift)
        torch.testing.assert_close(renamed[:, entities], scores, atol=1e-4, rtol=1e-4)
        assert scores.std() > 1e-4
    scores = model.score_relations(encoded, heads, tails)
    renamed = model.score_relations(moved, entities[heads], entities[tails])
    torch.testing.assert_close(renamed[:, kinds], scores, atol=1e-4, rtol=1e-4)
    assert scores.std() > 1e-5


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_ways_of_asking_agree(variant, monkeypatch):
    model, graph = build(VARIANTS[variant]), graph_of()
    encoded = model.encode(graph)
    rows = torch.tensor([[3, 1, 5], [3, 1, 5], [7, 8, 7], [39, 0, 2], [2, 4, 2]])
    single = model.score_triplets(encoded, rows)
    tails = model.score_tails(encoded, rows[:, 0], rows[:, 1])
    torch.testing.assert_close(tails.gather(1, rows[:, 2:]).squeeze(1), single, atol=1e-5, rtol=1e-4)
    relations = model.score_relations(encoded, rows[:, 0], rows[:, 2])
    assert relations.shape == (5, 5)
    assert model.relations_apart == (variant != "entity")
    if variant in ("entity", "relation"):
        direct = rows[:, 1] < 5
        same = relations[direct].gather(1, rows[direct, 1:2]).squeeze(1)
        torch.testing.assert_close(same, single[direct], atol=1e-5, rtol=1e-4)
    some = torch.tensor([[1, 4]]).expand(5, -1)
    chosen = model.score_relations(encoded, rows[:, 0], rows[:, 2], some)
    torch.testing.assert_close(chosen, relations.gather(1, some), atol=1e-5, rtol=1e-4)
    monkeypatch.setattr("anykg.models.nbf.queries.BLOCK_BYTES", 1)  # one query at a time
    torch.testing.assert_close(model.score_relations(encoded, rows[:, 0], rows[:, 2]), relations, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(model.score_tails(encoded, rows[:, 0], rows[:, 1]), tails, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_the_ends_of_a_loop_and_graphs_without_facts_score():
    model = build()
    for count in (150, 0):
        encoded = model.encode(random_graph(40, 5, count, 0))
        ends = torch.tensor([4, 9])
        scores = model.score_relations(encoded, ends, ends)
        assert scores.isfinite().all()
        assert model.score_tails(encoded, ends, torch.tensor([2, 7])).isfinite().all()
        if count:
            assert not torch.allclose(scores[0], scores[1])  # a loop's end is marked


@pytest.mark.parametrize("rounds", [1, 2])
@torch.no_grad()
def test_entities_far_from_a_question_are_computed_once(rounds, monkeypatch):
    """The same scores as with all entities computed for each question, in compiled code and in torch."""
    model, graph = build(replace(SMALL, rounds=rounds)), random_graph(300, 5, 330, 3)
    heads, tails = torch.tensor([0, 7, 7, 150, 299, 31, 8]), torch.tensor([1, 7, 120, 2, 298, 30, 7])
    encoded = model.encode(graph)
    found = []
    monkeypatch.setattr(trix, "near_rows", lambda *given: found.append(near.near_rows(*given)) or found[-1])
    scores = model.score_relations(encoded, heads, tails)
    assert 13 <= len(found[0]) < 300
    monkeypatch.setattr(near, "FEW", 0.0)
    torch.testing.assert_close(model.score_relations(encoded, heads, tails), scores, atol=1e-5, rtol=1e-4)
    assert found[1] is None
    monkeypatch.setattr(fast, "kernels_apply", lambda states: False)
    monkeypatch.setattr(trix, "relation_messages", reference.relation_messages)
    monkeypatch.setattr(trix, "relation_update", reference.relation_update)
    torch.testing.assert_close(model.score_relations(encoded, heads, tails), scores, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_states_that_are_shared_do_not_outlive_a_mask():
    model, graph = build(replace(SMALL, networks="relation")), random_graph(300, 5, 330, 3)
    heads, tails = torch.tensor([0, 7]), torch.tensor([1, 120])
    keep = np.random.default_rng(0).random(2 * len(graph)) < 0.5
    encoded = model.encode(graph)
    many = torch.arange(20)
    model.score_relations(encoded, many, many + 100)
    assert encoded.common
    masked = model.score_relations(replace(encoded, keep=keep), heads, tails)
    torch.testing.assert_close(masked, model.score_relations(replace(model.encode(graph), keep=keep), heads, tails))


def targets_of(graph):
    rows = torch.from_numpy(graph.triplets[:6].astype(np.int64))
    queries = rows[:, :2].clone()
    queries[3:] = torch.stack([rows[3:, 2], rows[3:, 1] + 5], dim=1)
    return rows, queries


def losses(model, graph):
    rows, queries = targets_of(graph)
    negatives = rows[:, None].repeat(1, 4, 1)
    negatives[:3, 1:, 2] = torch.arange(9).view(3, 3)
    negatives[3:, 1:, 0] = torch.arange(9).view(3, 3)
    return [
        model.training_tail_scores(graph, queries, rows),
        model.training_relation_scores(graph, rows[:, [0, 2]], rows),
        model.training_scores(graph, negatives, 0),
    ]


@torch.no_grad()
def test_training_hides_facts_from_every_part():
    """Scores in training are those on a graph without the hidden facts, relation steps included."""
    model, graph = build(), graph_of()
    rows, queries = targets_of(graph)
    rest = model.encode(graph.without(rows.numpy()))
    tails, relations, scores = losses(model, graph)
    torch.testing.assert_close(tails, model.score_tails(rest, *queries.unbind(1)), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(relations, model.score_relations(rest, rows[:, 0], rows[:, 2]), atol=1e-5, rtol=1e-4)
    negatives = rows[:, None].repeat(1, 4, 1)
    negatives[:3, 1:, 2] = torch.arange(9).view(3, 3)
    negatives[3:, 1:, 0] = torch.arange(9).view(3, 3)
    expected = model.score_triplets(rest, as_queries(negatives, 5)).view(6, 4)
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("variant", ["published", "hybrid"])
def test_training_gradients_equal_the_reference(variant, monkeypatch):
    model, graph = build(VARIANTS[variant]), graph_of()

    def gradients():
        model.zero_grad()
        sum(scores.square().mean() for scores in losses(model, graph)).backward()
        return [p.grad.clone() for p in model.parameters()]

    ours, again = gradients(), gradients()
    assert all(torch.equal(a, b) for a, b in zip(ours, again, strict=True))
    monkeypatch.setattr(fast, "kernels_apply", lambda states: False)
    monkeypatch.setattr(trix, "relation_messages", reference.relation_messages)
    monkeypatch.setattr(trix, "relation_update", reference.relation_update)
    for mine, expected in zip(ours, gradients(), strict=True):
        torch.testing.assert_close(mine, expected, atol=1e-4, rtol=1e-3)


def test_edge_weights_attribute_a_score():
    model, graph = build(), graph_of()
    encoded = model.encode(graph)
    weights = torch.ones(SMALL.entity_layers, 2 * len(graph), requires_grad=True)
    rows = torch.from_numpy(graph.triplets[:2].astype(np.int64))
    scores = model.score_triplets(replace(encoded, edge_weights=weights), rows)
    torch.testing.assert_close(scores, model.score_triplets(encoded, rows), atol=1e-4, rtol=1e-4)
    (grad,) = torch.autograd.grad(scores[0], weights)
    assert grad.abs().sum() > 0


def test_networks_that_are_not_there_are_refused():
    graph = graph_of()
    rows, queries = targets_of(graph)
    with pytest.raises(ConfigError, match="no relation network"):
        build(VARIANTS["entity"]).training_relation_scores(graph, rows[:, [0, 2]], rows)
    with pytest.raises(ConfigError, match="no entity network"):
        build(VARIANTS["relation"]).training_tail_scores(graph, queries, rows)
    with pytest.raises(ConfigError, match="rounds of at least 1, found 0"):
        TRIXConfig(rounds=0)


def test_foreign_weights_are_refused():
    with pytest.raises(CheckpointError, match="published TRIX"):
        import_trix_weights({"some.weight": torch.zeros(1)})
