"""Get the calibration of a model on a graph: stored with the model, cached, or computed by a check."""

from __future__ import annotations

import logging
import time
from typing import Any

import numpy as np

from anykg.answers.calibrating import cache, calibration
from anykg.answers.calibrating.missing import MISSING
from anykg.answers.fitting.asked_before import calibrated, differing_facts, fitted_to
from anykg.cluster import Cluster
from anykg.errors import InputError, SettingError
from anykg.evaluation.protocol import Target
from anykg.evaluation.reading import best_answers, budget_of
from anykg.graph.graph import RELATION, TAIL, KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.models.mixture import Mixture
from anykg.progress import Progress, ignore

logger = logging.getLogger("anykg")
OTHER = 1.0
"""Facts that only one of two graphs has, as a share of the facts of the second; above this they are different
graphs."""


def calibration_of(
    model: LinkPredictor,
    graph: KnowledgeGraph,
    task: Target,
    progress: Progress = ignore,
    *,
    budget: int | None = None,
    announce: bool = True,
    cluster: Cluster | None = None,
) -> calibration.Calibration:
    """The calibration stored with the model, cached by an earlier check with this budget, or computed now.

    A model made by `fit` has one for the whole graph, which cannot be recomputed within a budget because the model has
    seen the hidden facts.
    """
    refuse_parts(model, graph, task, budget)
    kept = kept_calibration(model, graph, task, budget)
    if kept is not None:
        return kept
    if stored_with(model, task):
        raise InputError(
            "The model was fitted to another graph that shares less than half of its facts with this one, so its "
            "probabilities are not valid here; fit a model to this graph, or ask for scores."
        )
    if announce:
        _announce(model, graph, task, budget, 1 if cluster is None else cluster.slots)
    from anykg.answers.check import check  # rarely needed, slow to import

    return check(
        graph, model=model, task=task, floors=False, budget=budget, cluster=cluster, progress=progress
    ).calibration


def refuse_parts(model: LinkPredictor, graph: KnowledgeGraph, task: Target, budget: int | None) -> None:
    """Raise if the model's own calibration, which is for the whole graph, would be used on parts of it."""
    if stored_with(model, task) and budget_of(graph, budget, model) is not None:
        raise SettingError(
            "budget",
            "probabilities of a model made by fit are only valid for the whole graph; use 0, or ask for scores",
        )


def kept_calibration(
    model: LinkPredictor, graph: KnowledgeGraph, task: Target, budget: int | None = None
) -> calibration.Calibration | None:
    """The calibration stored with the model or cached by a check of this graph or an earlier version of it.

    None if the model has its own for the whole graph and only a part is read.
    """
    if stored_with(model, task):
        whole = budget_of(graph, budget, model) is None
        return own_calibration(model, graph, task) if whole and not _for_another(model, graph) else None
    kept = cache.kept(graph, model, task, budget)
    if kept is not None and kept.note is not None:
        logger.info("Probabilities are %s.", kept.note)
    return None if kept is None else kept.calibration


def stored_with(model: LinkPredictor, task: Target) -> dict[str, Any]:
    """The calibration data stored with a model made by `fit`; nothing for other models."""
    stored: dict[str, Any] = getattr(model.config, "calibration", {}).get(task) or {}
    return stored


def _for_another(model: LinkPredictor, graph: KnowledgeGraph) -> bool:
    """Whether a model was fitted to another graph; logs a note if it was an earlier version of this one."""
    differing = differing_facts(model, graph)
    if differing > OTHER * len(graph):
        return True
    if differing > cache.SIMILAR * len(graph):
        logger.info("Probabilities are those of an earlier version of this graph: %s facts differ.", f"{differing:,}")
    return False


def own_calibration(model: LinkPredictor, graph: KnowledgeGraph, task: Target) -> calibration.Calibration | None:
    """The calibration of a model made by `fit`; recomputed if another version of anykg stored it."""
    stored = stored_with(model, task)
    if not stored:
        return None
    try:
        return calibration.from_dict(stored)
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(model, Mixture) and fitted_to(model, graph):
            return calibrated(model, graph, task, float(stored.get("missing", MISSING)))
        raise InputError(
            "The probabilities of this fitted model were stored by another version of anykg, and the graph has changed "
            "since; fit the model again."
        ) from error


def _announce(model: LinkPredictor, graph: KnowledgeGraph, task: Target, budget: int | None, workers: int) -> None:
    """Announce the check and its approximate duration, estimated by timing one question."""
    if not len(graph):
        return
    from anykg.answers.check import FACTS

    question = graph.triplets[:1].astype(np.int64)
    question[0, RELATION if task == "relation" else TAIL] = -1
    started = time.perf_counter()
    best_answers(model, graph, question, k=1, budget=budget)
    questions = FACTS[task] * (1 if task == "relation" else 2)
    seconds = questions * (time.perf_counter() - started) / workers
    logger.info(
        "There is no stored calibration of this model for questions about %s of this graph, so a check runs first: %s "
        "questions about hidden facts, at most about %s. Its result is stored.",
        "relations" if task == "relation" else "entities",
        f"{questions:,}",
        f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min",
    )
