"""Weights learnt from hidden facts, on questions made so that the right weights are known."""

import numpy as np
import pytest
import torch

from anykg.answers.fitting.mixing import Scored, ask, both_ways, choose, fit_weights, mixed, ranks_of
from anykg.answers.fitting.weights import learn
from anykg.models.floors import PageRank, Popularity
from graphs import random_graph


def questions(weights: np.ndarray, count: int, seed: int = 0, candidates: int = 30) -> Scored:
    """Questions of G relations whose answers are drawn by softmax of the scores under weights [G, C]."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(len(weights), size=count)
    values = rng.normal(size=(count, candidates, weights.shape[1])).astype(np.float32)
    logits = np.einsum("qkc,qc->qk", values, weights[groups])
    answers = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    rows = np.arange(count)
    values[rows, 0], values[rows, answers] = values[rows, answers].copy(), values[rows, 0].copy()
    ids = torch.arange(candidates).expand(count, -1)
    ranks = 1 + (values > values[:, :1]).sum(1)
    nothing = torch.zeros(count, candidates)
    asked = np.stack([rows, groups, rows + count], axis=1)
    return Scored(asked, ids, torch.from_numpy(values), nothing, nothing.bool(), ranks.astype(float), groups * 0)


def test_weights_are_found() -> None:
    found = fit_weights(questions(np.array([[2.0, 0.0, -1.0]]), 3000), 1, None)
    np.testing.assert_allclose(found.general, [2.0, 0.0, -1.0], atol=0.15)


def test_answers_that_nothing_explains_count_little() -> None:
    asked = questions(np.array([[2.0, 0.0, -1.0]]), 3000)
    asked.values[:300, 0, 0] = -6.0  # every tenth answer is one that the best component ranks last
    plain = fit_weights(asked, 1, None).general
    robust = fit_weights(asked, 1, None, unexplained=0.003).general
    truth = np.array([2.0, 0.0, -1.0])
    assert np.abs(robust - truth).max() < 0.5 < np.abs(plain - truth).max()


def test_relations_get_weights_of_their_own_where_there_are_facts() -> None:
    truth = np.array([[2.0, 0.0], [0.0, 2.0]])
    mix = choose(questions(truth, 1500), 2)
    assert mix.strength is not None
    np.testing.assert_allclose(mix.weights.of(np.array([0, 1])), truth, atol=0.3)
    few = fit_weights(questions(truth, 12), 2, 30.0)
    assert np.abs(few.corrections).max() < 0.3  # a handful of facts is not enough to differ


def test_a_drawn_candidate_counts_for_all_it_stands_for() -> None:
    graph = random_graph(400, 3, 1500)
    models = [Popularity(), PageRank()]
    encoded = [model.encode(graph) for model in models]
    facts = random_graph(400, 3, 60, seed=1)
    whole = graph.union(facts)
    hidden = facts.subset(~graph.contains(facts.triplets)).triplets
    asked = ask(models, encoded, graph, whole, both_ways(hidden, 3))
    for component in range(2):
        one = fit_weights(asked.only([component]), 6, None)
        one.general[:] = 1.0
        approximate = ranks_of(asked.only([component]), mixed(asked.only([component]), one))
        exact = asked.ranks[:, component]
        assert np.abs(1 / approximate - 1 / exact).mean() < 0.01
        assert np.abs(approximate - exact).mean() < 15


def test_also_right_answers_do_not_count() -> None:
    one = questions(np.array([[1.0]]), 50)
    also = one.also_right.clone()
    also[:, 1] = True
    values = one.values.clone()
    values[:, 1] = 100.0  # another hidden answer, above everything
    other = Scored(one.questions, one.candidates, values, one.offsets, also, one.ranks, one.known)
    assert fit_weights(other, 1, None).general[0] == pytest.approx(fit_weights(one, 1, None).general[0], abs=0.2)


@pytest.mark.parametrize("seed", range(3))
def test_the_mix_is_not_below_its_best_component(seed: int) -> None:
    """Where the others only add noise, too few questions to see that must not cost anything."""
    asked = questions(np.array([[4.0, 0.0, 0.0, 0.0, 0.0]]), 12, seed)
    learnt = learn(list("abcde"), asked, 1)
    part = asked.only([list("abcde").index(name) for name in learnt.names])
    found = (1 / ranks_of(part, mixed(part, learnt.mix.weights))).mean()
    assert found >= (1 / asked.ranks).mean(0).max() - 1e-9


def test_a_mix_that_is_behind_by_chance_is_kept() -> None:
    """Answers are hard to find here, so a few questions do not tell the mix from its parts; many do."""
    truth = np.array([[0.7, 0.5]])
    kept = [len(learn(["a", "b"], questions(truth, 40, seed), 1).names) for seed in range(10)]
    behind = [
        choose(part, 1).mrr < (1 / part.ranks).mean(0).max() for part in (questions(truth, 40, s) for s in range(10))
    ]
    assert any(behind)
    assert kept.count(2) > behind.count(False)
