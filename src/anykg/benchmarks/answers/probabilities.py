"""Measure the calibration of probabilities of first answers, by relation and direction.

A first answer is right if it is any fact of the benchmark, and the probabilities assume the benchmark's share of facts
outside the graph to be missing. The results with the share estimated from the graph itself are reported as well; that
share includes true facts that the benchmark does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from anykg.answers.calibrating.calibration import Calibration, Evidence, evidence_of
from anykg.evaluation.ranking import Best, best_answers
from anykg.evaluation.scoring import questions_about
from anykg.graph.graph import HEAD, TAIL, KnowledgeGraph
from anykg.models.base import LinkPredictor

FEWEST = 50
"""Minimum number of test facts for the calibration of a relation and direction to be reported."""

Stated = Callable[[Evidence], np.ndarray]
"""The probabilities [A] of answers."""


def calibration_errors(
    model: LinkPredictor, stated: Mapping[str, Stated], graph: KnowledgeGraph, whole: KnowledgeGraph, facts: np.ndarray
) -> dict[str, dict[str, Any]]:
    """How far stated probabilities of first answers are from the truth, by relation and direction.

    The questions are answered once, for all of `stated`. `chance` is the expected error of perfectly calibrated
    probabilities on the same number of questions: facts with the same question share its first answer, so that some
    groups of many facts have only a few questions. `error` counts a question once for each of its facts, `by_question`
    once.
    """
    rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in stated}
    for column in (TAIL, HEAD):
        questions = questions_about(facts, column)
        best: Best = best_answers(model, graph, questions, k=1)
        evidence, right = evidence_of(best, column, graph.num_relations), whole.contains(best.triplets)
        same = np.unique(questions, axis=0, return_inverse=True)[1].reshape(-1)[best.questions]
        for name, state in stated.items():
            given = state(evidence)
            for group in np.unique(evidence.groups):
                mine = evidence.groups == group
                if mine.sum() >= FEWEST:
                    once = np.flatnonzero(mine)[np.unique(same[mine], return_index=True)[1]]
                    gaps = (abs(float(given[part].mean()) - float(right[part].mean())) for part in (mine, once))
                    rows[name].append((*gaps, chance_error(given[mine], same[mine])))
    return {name: _summary(part) for name, part in rows.items()}


def chance_error(probabilities: np.ndarray, questions: np.ndarray) -> float:
    """The expected |mean stated - share right| of facts [F] if calibrated; `questions` [F] share an answer.

    >>> float(round(chance_error(np.full(50, 0.5), np.arange(50)), 3))
    0.056
    >>> float(round(chance_error(np.full(50, 0.5), np.zeros(50, int)), 3))
    0.399
    """
    _, first, counts = np.unique(questions, return_index=True, return_counts=True)
    chances = probabilities[first].astype(float)
    variance = (counts**2 * chances * (1 - chances)).sum() / counts.sum() ** 2
    return float(np.sqrt(2 / np.pi * variance))


def _summary(rows: list[tuple[float, ...]]) -> dict[str, Any]:
    if not rows:
        return {"groups": 0, "error": None, "worst": None, "by_question": None, "chance": None}
    gaps, once, chances = np.array(rows).T
    figures = {"error": gaps.mean(), "worst": gaps.max(), "by_question": once.mean(), "chance": chances.mean()}
    return {"groups": len(rows)} | figures


def by_relation(calibration: Calibration, graph: KnowledgeGraph) -> Stated:
    """The probabilities of a calibration."""
    return lambda evidence: calibration.probabilities(evidence, list(graph.relations))


def one_curve(calibration: Calibration) -> Stated:
    """The probabilities of a single curve for all scores."""
    return lambda evidence: calibration(evidence.scores)
