"""Judge proposed facts by what the question from their other end is answered, too.

Each relation is asked about from one end, so a fact is proposed as an answer to (?, r, t), say. The best facts are also
asked for from the other end, (h, r, ?). The log-odds of both are added, and a logistic regression makes a probability
of the sum; `proposals` learns it from hidden facts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anykg.answers.calibrating.calibration import Calibration, evidence_of, expit, log_odds, logistic
from anykg.answers.work import SLICE, Arrays, Subject, results
from anykg.cluster import Cluster
from anykg.graph.graph import HEAD, TAIL
from anykg.progress import Progress, ignore

ANSWERS = 200
"""Answers to a question among which a fact is looked for."""


class Judge(NamedTuple):
    """What all parts of the work share."""

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

    `hidden` are the rows of facts that the model does not see.
    """
    questions = facts.astype(np.int64)
    questions[np.arange(len(facts)), columns] = -1
    order = np.lexsort((questions[:, TAIL], questions[:, HEAD], questions[:, 1], columns))
    questions = questions[order]
    number = np.cumsum(np.append(False, (questions[1:] != questions[:-1]).any(1))[: len(facts)])
    bounds = np.searchsorted(number, np.arange(0, number.max(initial=-1) + 1, SLICE))
    slices = np.split(order, bounds[1:])
    found = results(
        odds_of_slice,
        subject,
        [(facts[rows], columns[rows]) for rows in slices],
        common=Judge(calibration, hidden),
        cluster=cluster,
    )
    values, done = np.zeros(len(facts)), 0
    for rows in slices:
        values[rows] = next(found)["values"]
        done += len(rows)
        progress(done, len(facts))
    return values


def odds_of_slice(subject: Subject, judge: Judge, facts: np.ndarray, columns: np.ndarray) -> Arrays:
    """Those of a slice of the facts; one that is not among the best answers has those of the last of these."""
    seen = subject if judge.hidden is None else subject.without(judge.hidden)
    rows = np.arange(len(facts))
    asked = facts.astype(np.int64)
    asked[rows, columns] = -1
    asked, number = np.unique(asked, axis=0, return_inverse=True)
    best = seen.best_answers(asked, k=ANSWERS)
    opened = np.argmin(asked, axis=1)[best.questions]  # -1 marks the open column
    graph = seen.graph
    probabilities = judge.calibration.probabilities(
        evidence_of(best, opened, graph.num_relations), list(graph.relations)
    )
    answers = best.triplets[np.arange(len(opened)), opened]
    last = np.zeros(len(asked))
    last[best.questions] = probabilities  # in order of rank, so the last one stays
    keys = best.questions * graph.num_entities + answers
    order = np.argsort(keys)
    wanted = number.reshape(-1) * graph.num_entities + facts[rows, columns]
    at = np.minimum(np.searchsorted(keys, wanted, sorter=order), max(len(keys) - 1, 0))
    values = last[number.reshape(-1)]
    if len(keys):
        among = keys[order[at]] == wanted
        values = np.where(among, probabilities[order[at]], values)
    return {"values": log_odds(values)}


class BothEnds(NamedTuple):
    """The log-odds of a fact by the sum of those from both ends."""

    intercept: float
    slope: float

    def __call__(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Probabilities [F] from one end [F] and log-odds from the other [F]."""
        return np.asarray(expit(self.intercept + self.slope * (log_odds(one) + other)))


def learn(one: np.ndarray, other: np.ndarray, right: np.ndarray, chance: float) -> BothEnds | None:
    """From facts judged from both ends, of which a true one is `right` with a chance; None if that tells nothing."""
    columns = np.column_stack([np.ones(len(one)), log_odds(one) + other])
    nothing = np.zeros(len(one))
    found, _ = logistic(columns, nothing, nothing.astype(np.int64), right, 1, 1.0, np.full(len(one), chance))
    return BothEnds(*found.tolist()) if found[1] > 0 else None
