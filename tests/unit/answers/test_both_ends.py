"""Proposed facts, judged from both ends."""

import numpy as np
import pytest

from anykg.answers.calibrating.calibration import Calibration, evidence_of, expit, log_odds
from anykg.answers.completing import both_ends
from anykg.answers.completing.both_ends import BothEnds, learn, other_end, reordered
from anykg.answers.work import Subject
from anykg.evaluation.ranking import best_answers
from anykg.graph.graph import HEAD, TAIL
from anykg.models.random import RandomScorer
from graphs import random_graph

CALIBRATION = Calibration((0.0, 0.3, 1.0, 0.1, 0.2, -0.1), {"r1": (0.5, 0.0, -0.5, 0.0)}, 1, None)
"""Any: what is stated depends on the relation, the direction and the scores."""


def test_a_fact_has_the_probability_of_an_answer_to_the_other_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(both_ends, "SLICE", 3)
    graph, model = random_graph(20, 3, 60, 0), RandomScorer()
    generator = np.random.default_rng(0)
    facts = generator.integers([20, 3, 20], size=(40, 3))
    facts = facts[~graph.contains(facts) & (facts[:, HEAD] != facts[:, TAIL])]
    columns = generator.choice([HEAD, TAIL], len(facts))
    found = other_end(Subject(graph, model), CALIBRATION, facts, columns)
    for fact, column, value in zip(facts, columns, found, strict=True):
        question = fact.copy()
        question[column] = -1
        best = best_answers(model, graph, question[None], k=20)
        stated = CALIBRATION.probabilities(evidence_of(best, int(column), 3), list(graph.relations))
        (place,) = np.flatnonzero((best.triplets == fact).all(1))
        assert value == pytest.approx(log_odds(stated[place : place + 1])[0], rel=1e-5)
    order = generator.permutation(len(facts))
    assert np.array_equal(other_end(Subject(graph, model), CALIBRATION, facts[order], columns[order]), found[order])


def test_a_fact_that_is_no_good_answer_is_as_likely_as_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, model = random_graph(30, 2, 40, 1), RandomScorer()
    every = best_answers(model, graph, np.array([[0, 0, -1]]), k=30)
    monkeypatch.setattr(both_ends, "ANSWERS", 5)
    facts = every.triplets[[4, 10, 20]]
    fifth, *others = other_end(Subject(graph, model), CALIBRATION, facts, np.full(3, TAIL))
    assert others == [fifth, fifth]


def test_hidden_facts_are_not_seen() -> None:
    graph = random_graph(20, 3, 60, 2)
    fact = graph.triplets[:1].astype(np.int64)
    known = other_end(Subject(graph, RandomScorer()), CALIBRATION, fact, np.array([TAIL]))
    hidden = other_end(Subject(graph, RandomScorer()), CALIBRATION, fact, np.array([TAIL]), hidden=np.array([0]))
    assert known != hidden, "a known fact is no answer"


def drawn(slope: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Log-odds from both ends, facts that are true by their sum, and the third of these to learn from."""
    generator = np.random.default_rng(0)
    one, other = generator.normal(-1, 1, (2, 4000))
    true = generator.random(4000) < expit(slope * (one + other))
    return one, other, true, true & (generator.random(4000) < 1 / 3)


def test_probabilities_are_those_of_both_ends_together() -> None:
    one, other, true, hidden = drawn(0.7)
    found = learn(expit(one), other, hidden, 1 / 3, 0.0)
    assert found is not None
    assert found(expit(one), other).sum() == pytest.approx(true.sum(), rel=0.1)
    assert found.slope == pytest.approx(0.7, rel=0.25)
    fewer = learn(expit(one), other, hidden, 1 / 3, -2.0)
    assert fewer is not None
    assert fewer.intercept == pytest.approx(found.intercept - 2), "nothing is hidden in completing"


def test_one_end_is_enough_where_the_other_tells_nothing() -> None:
    one, other, _, hidden = drawn(0.7)
    generator = np.random.default_rng(1)
    by_one = (generator.random(4000) < expit(one)) & (generator.random(4000) < 1 / 3)
    assert learn(expit(one), 3 * generator.normal(size=4000), by_one, 1 / 3, 0.0) is None
    assert learn(expit(-one), -other, hidden, 1 / 3, 0.0) is None, "less likely facts are not truer"
    assert learn(expit(one[:20]), other[:20], hidden[:20], 1 / 3, 0.0) is None, "too few"


def test_what_was_not_learnt_from_is_judged_from_one_end() -> None:
    judge = BothEnds(0.0, 0.5, -2.0, 2.0)
    inside, outside = expit(np.array([-1.0, 1.0])), np.array([1e-9, 0.999])
    assert judge(inside, np.array([0.0, 0.5])) == pytest.approx(expit(np.array([-0.5, 0.75])))
    assert judge(outside, np.array([0.0, 0.0])) == pytest.approx(outside)
    assert judge(np.array([0.5]), np.array([-9.0])) == pytest.approx(expit(np.array([-1.0]))), "not above those inside"
    assert judge(inside, np.full(2, np.nan)) == pytest.approx(inside), "an entity that was no candidate"


def test_a_fitted_model_keeps_its_probabilities_in_another_order() -> None:
    one, other = np.array([0.9, 0.8, 0.1]), log_odds(np.array([0.1, 0.9, np.nan]))
    assert reordered(one, other).tolist() == [0.8, 0.9, 0.1]
