"""Link prediction: `anykg fit` against the zero-shot model, its components and PyKEEN, by minutes.

Figures are for both ends of the same seeded sample of test facts, ranked among all entities, all known facts filtered.
PyKEEN is trained once for the longest of the minutes, and measured at each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from anykg.answers.calibrating.lookup import calibration_of
from anykg.answers.check import check
from anykg.answers.fit import fit
from anykg.answers.fitting.asked_before import calibrated
from anykg.answers.fitting.mixing import ask, both_ways
from anykg.benchmarks import pykeen_baselines
from anykg.benchmarks.answers.probabilities import by_relation, calibration_errors, one_curve
from anykg.evaluation.metrics import standard_errors, summarise
from anykg.evaluation.ranks import Ties, rank
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.task import Task
from anykg.models.base import LinkPredictor
from anykg.models.folders import FOUNDATION
from anykg.models.mixture import Mixture
from anykg.models.store import load_model
from anykg.seeds import generator

GRAPHS = (
    *("Kinship", "UMLS", "Nations"),
    *("EN-FR", "FR-EN", "EN-DE", "DE-EN", "DB-WD", "WD-DB", "DB-YG", "YG-DB"),
    *(f"wikitopics:{topic}" for topic in ("art", "award", "edu", "health")),
    *("CoDEx-S", "CoDEx-M", "WN18RR", "FB15k-237"),
)
TRAINED_ON = ("Kinship", "UMLS", "Nations", "CoDEx-S", "CoDEx-M", "WN18RR", "FB15k-237")
"""Graphs whose training facts were among those of the shipped network."""
MINUTES = (2.0, 1.0, 5.0)
ZERO_SHOT, FIT = "zero-shot", "fit"
SYSTEMS = (ZERO_SHOT, FIT, *pykeen_baselines.NAMES)
LIMIT = 1000
"""Upper bound on test facts; a sample if there are more."""

Tell = Callable[[str], None]


def measure(system: str, task: Task, minutes: Sequence[float], limit: int, tell: Tell) -> Iterator[dict[str, Any]]:
    """The figures of a system on a task after each of some increasing numbers of minutes."""
    graph, whole = task.observed, task.known
    facts = task.test.triplets.astype(np.int64)
    if len(facts) > limit:
        facts = facts[np.sort(generator(0, "answers", "test").choice(len(facts), limit, replace=False))]
    scores: Iterator[pykeen_baselines.ScoreTails] = iter(())
    if system in pykeen_baselines.NAMES:
        scores = pykeen_baselines.train(system, graph, [60 * length for length in minutes])
    for length in minutes:
        started = time.monotonic()
        if system in pykeen_baselines.NAMES:
            score, took = next(scores), 60 * length
            ranks = {system: _ranks_of(score, whole, both_ways(facts, graph.num_relations))}
            extra: dict[str, Any] = {}
        elif system == ZERO_SHOT:
            model = load_model(FOUNDATION)
            ranks = _ranks([model], [ZERO_SHOT], graph, whole, facts)
            took = time.monotonic() - started
            extra = _zero_shot_probabilities(model, graph, whole, facts)
        else:
            mixture = fit(graph, minutes=length, tell=lambda text: tell(f"  {text}"))
            took = time.monotonic() - started
            ranks = _ranks([*mixture.models, mixture], [*mixture.names, "mixed"], graph, whole, facts)
            extra = _fitted_probabilities(mixture, graph, whole, facts)
        figures = {name: _figures(part) for name, part in ranks.items()}
        yield {"figures": figures, "seconds": took, "facts": len(facts)} | extra


def _zero_shot_probabilities(
    model: LinkPredictor, graph: KnowledgeGraph, whole: KnowledgeGraph, facts: np.ndarray
) -> dict[str, Any]:
    stated = check(graph, model=model, missing=_missing(graph, whole), floors=False).calibration
    ways = {"calibration": one_curve(stated), "calibration_by_relation": by_relation(stated, graph)}
    return {**calibration_errors(model, ways, graph, whole, facts)}


def _fitted_probabilities(
    mixture: Mixture, graph: KnowledgeGraph, whole: KnowledgeGraph, facts: np.ndarray
) -> dict[str, Any]:
    missing = _missing(graph, whole)
    stated, suggested = calibrated(mixture, graph, "node", missing), calibration_of(mixture, graph, "node")
    ways = {"calibration": by_relation(stated, graph), "calibration_suggested": by_relation(suggested, graph)}
    measured = calibration_errors(mixture, ways, graph, whole, facts)
    measured["calibration_suggested"]["missing"] = suggested.missing
    return measured | {"missing": missing, "hidden": {row["component"]: row["mrr"] for row in mixture.config.table}}


def _missing(graph: KnowledgeGraph, whole: KnowledgeGraph) -> float:
    """The share of the benchmark's facts that are not in the graph."""
    return 1 - len(graph) / len(whole)


def _figures(ranks: np.ndarray) -> dict[str, float]:
    metrics, errors = summarise(ranks), standard_errors(ranks)
    return {"mrr": metrics["mrr"], "hits@10": metrics["hits@10"], "mrr_error": errors["mrr"]}


@torch.no_grad()
def _ranks(
    models: Sequence[LinkPredictor],
    names: Sequence[str],
    graph: KnowledgeGraph,
    whole: KnowledgeGraph,
    facts: np.ndarray,
) -> dict[str, np.ndarray]:
    """Ranks [2F] of both ends of facts under each model."""
    encoded = [model.eval().encode(graph) for model in models]
    ranks = ask(models, encoded, graph, whole, both_ways(facts, graph.num_relations)).ranks
    return {name: ranks[:, index] for index, name in enumerate(names)}


def _ranks_of(score: pykeen_baselines.ScoreTails, whole: KnowledgeGraph, questions: np.ndarray) -> np.ndarray:
    """Ranks [Q] of the answers under scores of all entities."""
    parts = []
    for start in range(0, len(questions), 64):
        heads, relations, answers = questions[start : start + 64].T
        scores = score(torch.from_numpy(heads.copy()), torch.from_numpy(relations.copy()))
        known = whole.answers(heads, relations)
        taken = torch.zeros(scores.shape, dtype=torch.bool)
        taken[torch.from_numpy(known.rows), torch.from_numpy(known.values.astype(np.int64))] = True
        parts.append(rank(scores, torch.from_numpy(answers.copy()), taken).by(Ties.REALISTIC))
    return np.concatenate(parts)
