"""Proposed facts, judged from both ends."""

import numpy as np
import pytest

from anykg.answers.calibrating.calibration import Calibration, evidence_of, expit, log_odds
from anykg.answers.completing import both_ends
from anykg.answers.completing.both_ends import BothEnds, learn, other_end
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


def test_probabilities_are_those_of_both_ends_together() -> None:
    """Facts are true by the sum of two numbers, of which each end knows one; a third of the true ones are hidden."""
    generator = np.random.default_rng(0)
    one, other = generator.normal(-1, 1, (2, 4000))
    true = generator.random(4000) < expit(0.7 * (one + other))
    hidden = true & (generator.random(4000) < 1 / 3)
    found = learn(expit(one), other, hidden, 1 / 3)
    assert found is not None
    stated = found(expit(one), other)
    assert stated.sum() == pytest.approx(true.sum(), rel=0.1)
    assert found.slope == pytest.approx(0.7, rel=0.25)
    assert learn(expit(-one), -other, hidden, 1 / 3) is None, "what falls as facts get likelier tells nothing"


def test_both_ends_agree_with_their_sum() -> None:
    assert BothEnds(0.0, 1.0)(np.array([0.5]), np.array([0.3])) == pytest.approx(expit(np.array([0.3])))
