"""Score proposed facts from the other end as well.

Each relation is queried from one end, so that a fact is proposed as an answer to (?, r, t), for example. The best facts
are also scored from the other end, (h, r, ?). The log-odds of both are added, and a logistic regression turns the sum
into a probability; `proposals` learns it from hidden facts. A model that was fitted to the graph has seen these: its
proposals are ordered by the sum and keep their probabilities from one end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anykg.answers.asking import asking_order
from anykg.answers.calibrating.calibration import Calibration, evidence_of, expit, log_odds, logistic
from anykg.answers.work import SLICE, Arrays, Subject, results
from anykg.cluster import Cluster
from anykg.evaluation.reading import budget_of
from anykg.evaluation.scoring import deduplicate, questions_about
from anykg.progress import Progress, ignore

ANSWERS = 200
"""Number of answers to a question in which a fact is looked up."""
FEWEST = 10
"""Minimum number of hidden facts among the proposals to learn from."""


class Common(NamedTuple):
    """Settings shared by all parts of the work."""

    calibration: Calibration
    hidden: np.ndarray | None
    """Rows of the hidden facts."""


def other_end(
    subject: Subject,
    calibration: Calibration,
    facts: np.ndarray,
    columns: np.ndarray,
    *,
    hidden: np.ndarray | None = None,
    cluster: Cluster | None = None,
    progress: Progress = ignore,
) -> np.ndarray:
    """Log-odds [F] of facts [F, 3] as answers to the questions that leave `columns` [F] open, if one is missing.

    NaN where the model reads a part of the graph that does not contain the answer. The facts at rows `hidden` are
    masked.
    """
    distinct = deduplicate(questions_about(facts, columns))
    place = np.empty(len(distinct.questions), np.int64)
    place[asking_order(distinct.questions)] = np.arange(len(place))
    place = place[distinct.which]
    order = np.argsort(place, kind="stable")
    slices = np.split(order, np.searchsorted(place[order], np.arange(SLICE, place.max(initial=0) + 1, SLICE)))
    found = results(
        odds_of_slice,
        subject,
        [(facts[rows], columns[rows]) for rows in slices],
        common=Common(calibration, hidden),
        cluster=cluster,
    )
    values, done = np.zeros(len(facts)), 0
    for rows in slices:
        values[rows] = next(found)["values"]
        done += len(rows)
        progress(done, len(facts))
    return values


def odds_of_slice(subject: Subject, common: Common, facts: np.ndarray, columns: np.ndarray) -> Arrays:
    """Log-odds of one slice; a fact that is not among the best answers gets those of the last best answer."""
    seen = subject if common.hidden is None else subject.without(common.hidden)
    graph, rows = seen.graph, np.arange(len(facts))
    asked, _, number = deduplicate(questions_about(facts, columns))
    best = seen.best_answers(asked, k=ANSWERS)
    opened = np.argmin(asked, axis=1)[best.questions]  # -1 marks the open column
    evidence = evidence_of(best, opened, graph.num_relations)
    found = log_odds(common.calibration.probabilities(evidence, list(graph.relations)))
    last = np.full(len(asked), np.nan)
    if budget_of(graph, seen.budget, seen.model) is None:  # otherwise an entity may not have been among the candidates
        last[best.questions] = found  # in order of rank, so the last one stays
    values = last[number]
    if len(found):
        keys = best.questions * graph.num_entities + best.triplets[np.arange(len(opened)), opened]
        order = np.argsort(keys)
        wanted = number * graph.num_entities + facts[rows, columns]
        at = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
        values = np.where(keys[at] == wanted, found[at], values)
    return {"values": values}


class BothEnds(NamedTuple):
    """The log-odds of a fact as a function of the sum of those from both ends."""

    intercept: float
    slope: float
    least: float
    most: float
    """The range of sums that this was learnt from; facts outside keep their order by one end, beyond those inside."""

    def __call__(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Probabilities [F] from those of one end and log-odds of the other; if these are NaN, one end counts twice."""
        total = _sum(one, other)
        low, high = (self._of(np.array(end)) for end in (self.least, self.most))
        inside = np.where(total < self.least, np.minimum(one, low), self._of(total))
        return np.asarray(np.where(total > self.most, np.maximum(one, high), inside))

    def _of(self, total: np.ndarray) -> np.ndarray:
        return np.asarray(expit(self.intercept + self.slope * total))


def learn(one: np.ndarray, other: np.ndarray, right: np.ndarray, chance: float, shift: float) -> BothEnds | None:
    """From facts [F] judged from both ends, of which a true one is `right` with a chance.

    None if two ends are not more informative than one. `shift` is added to the learnt log-odds, and is already included
    in those from one end, because nothing is hidden when the graph is completed.
    """
    usable = np.isfinite(other)
    one, other, right = one[usable], other[usable], right[usable]
    if right.sum() < FEWEST:
        return None
    total = log_odds(one) + other
    half = np.arange(len(one)) % 2 == 0
    losses = np.zeros(2)
    for mine in (half, ~half):
        for index, values in enumerate((log_odds(one), total)):
            stated = expit(_line(values[~mine], right[~mine], chance) @ np.stack([np.ones(mine.sum()), values[mine]]))
            losses[index] -= np.log(np.where(right[mine], stated * chance, 1 - stated * chance)).sum()
    intercept, slope = _line(total, right, chance)
    if slope <= 0 or losses[1] >= losses[0]:
        return None
    return BothEnds(float(intercept + shift), float(slope), float(total.min()), float(total.max()))


def reordered(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The probabilities [F] from one end, reassigned to the facts in the order of the sums of both log-odds."""
    values = np.empty(len(one))
    values[np.argsort(-_sum(one, other), kind="stable")] = np.sort(one)[::-1]
    return values


def _sum(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    odds = log_odds(one)
    return np.asarray(odds + np.where(np.isnan(other), odds, other))


def _line(values: np.ndarray, right: np.ndarray, chance: float) -> np.ndarray:
    """Intercept and slope of the log-odds of being true as a function of values [F]."""
    columns, nothing = np.column_stack([np.ones(len(values)), values]), np.zeros(len(values))
    found, _ = logistic(columns, nothing, nothing.astype(np.int64), right, 1, 1.0, np.full(len(values), chance))
    return found
