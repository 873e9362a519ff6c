"""The best answers to many questions, computed in slices, locally or on a cluster."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from anykg.answers.work import SLICE, Arrays, Store, Subject, results
from anykg.cluster import Cluster
from anykg.evaluation.ranking import Best, Limits, in_order
from anykg.evaluation.reading import budget_of
from anykg.evaluation.scoring import deduplicate
from anykg.graph.graph import HEAD, RELATION, TAIL
from anykg.models.store import digest_of
from anykg.progress import Progress, after, ignore


class Asked(NamedTuple):
    """Settings shared by all slices of the questions."""

    k: int
    known: bool
    limits: Limits
    hidden: np.ndarray | None
    """Rows of the hidden facts."""


def ask_many(
    subject: Subject,
    questions: np.ndarray,
    *,
    k: int,
    known: bool = False,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    hidden: np.ndarray | None = None,
    cluster: Cluster | None = None,
    progress: Progress = ignore,
) -> Best:
    """Like `best_answers` of the subject, without the facts at rows `hidden`, with slices of the questions as parts."""
    distinct = deduplicate(questions)
    order = asking_order(distinct.questions)
    if budget_of(subject.graph, subject.budget, subject.model) is not None:  # group by entity, which share what is read
        order = order[np.lexsort(np.sort(distinct.questions[order][:, [HEAD, TAIL]], axis=1).T[::-1])]
    slices = [order[start : start + SLICE] for start in range(0, len(order), SLICE)]
    parts = [(distinct.questions[rows],) for rows in slices]
    common = Asked(k, known, limits, hidden)
    store = None
    if cluster is not None:
        whom = subject.graph.digest, digest_of(subject.model), subject.budget
        store = Store("ask", *whom, k, known, *vars(limits).values(), hidden, questions)
    answers = results(best_part, subject, parts, common=common, cluster=cluster, store=store)
    renumbered, done = [], 0
    for rows in slices:
        subject.progress = after(progress, done, len(order))
        best = Best(**next(answers))
        renumbered.append(best._replace(questions=rows[best.questions]))
        done += len(rows)
        progress(done, len(order))
    if store is not None:
        store.clear()
    return in_order(renumbered, distinct)


def best_part(subject: Subject, asked: Asked, questions: np.ndarray) -> Arrays:
    """The best answers to a slice of questions."""
    progress = subject.progress
    if asked.hidden is not None:
        subject = subject.without(asked.hidden)
    return subject.best_answers(
        questions, k=asked.k, known=asked.known, limits=asked.limits, progress=progress
    )._asdict()


def asking_order(questions: np.ndarray) -> np.ndarray:
    """The order [Q] in which questions are scored: by the column to predict, then by relation."""
    column = np.array([1, 2, 0])[np.argmin(questions, axis=1)]  # TAIL, HEAD, RELATION
    return np.lexsort((questions[:, TAIL], questions[:, HEAD], questions[:, RELATION], column))
