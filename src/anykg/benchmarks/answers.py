"""Benchmark of fitting: `anykg fit` against the zero-shot model, its components and PyKEEN, by minutes.

A cell is a graph, a number of minutes and a system, written as one line as soon as it is done, so that the same command
resumes an interrupted run. PyKEEN is trained once for the longest of the minutes, and measured at each. Figures are
for both ends of the same seeded sample of test facts, ranked among all entities, all known facts filtered.

Calibration compares the stated probability of first answers with how many are right, for relations and directions with
50 test facts or more. A first answer is right if it is any fact of the benchmark, and the benchmark's share of facts
outside the graph is what probabilities take to be missing. The same with the share that the graph itself suggests is
kept beside it: that counts true facts which the benchmark does not have.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from anykg.answers.calibrated import calibration_of
from anykg.answers.calibration import Calibration, Evidence, evidence_of
from anykg.answers.check import check
from anykg.answers.fit import fit
from anykg.answers.fitted import calibrated
from anykg.answers.mixing import ask, both_ways
from anykg.atomic import write_text
from anykg.benchmarks import pykeen_baselines
from anykg.benchmarks.cells import read_cells, write_cells
from anykg.benchmarks.runs import claimed
from anykg.evaluation.metrics import standard_errors, summarise
from anykg.evaluation.ranking import Best, best_answers
from anykg.evaluation.ranks import Ties, rank
from anykg.evaluation.scoring import questions_about
from anykg.graph.graph import HEAD, TAIL, KnowledgeGraph
from anykg.graph.task import Task
from anykg.io.catalog import load_task
from anykg.models.base import LinkPredictor
from anykg.models.store import FOUNDATION, load_model
from anykg.provenance import provenance
from anykg.seeds import generator

NAME = "answers"
CELLS_FILE = "cells.json"
GRAPHS = (
    *("Kinship", "UMLS", "Nations"),
    *("EN-FR", "FR-EN", "EN-DE", "DE-EN", "DB-WD", "WD-DB", "DB-YG", "YG-DB"),
    *(f"wikitopics:{topic}" for topic in ("art", "award", "edu", "health")),
    *("CoDEx-S", "CoDEx-M", "WN18RR", "FB15k-237"),
)
MINUTES = (2.0, 1.0, 5.0)
SYSTEMS = ("zero-shot", "fit", *pykeen_baselines.NAMES)
LIMIT = 1000
"""Upper bound on test facts; a sample if there are more."""
FEWEST = 50
"""Test facts of a relation and direction whose calibration is reported."""

Tell = Callable[[str], None]
Stated = Callable[[Evidence], np.ndarray]
"""The probabilities [A] of answers."""


def run(
    graphs: Sequence[str] = GRAPHS,
    minutes: Sequence[float] = MINUTES,
    systems: Sequence[str] = SYSTEMS,
    *,
    results: Path,
    limit: int = LIMIT,
    data_dir: Path | None = None,
    tell: Tell = lambda text: None,
) -> None:
    """Fill in the cells that are missing."""
    path = results / NAME / CELLS_FILE
    combinations = [(length, name, system) for length in minutes for name in graphs for system in systems]
    for number, (length, name, system) in enumerate(combinations, 1):
        key = _key(name, length, system, limit)
        if _find(read_cells(path), key) is None:
            tell(f"{number} of {len(combinations)}: {name} {key['minutes']:g} min {system} ...")
            others = minutes if system in pykeen_baselines.NAMES else [length]
            keys = [_key(name, other, system, limit) for other in sorted(set(others))]
            keys = [part for part in keys if _find(read_cells(path), part) is None]
            cells = _cells(system, load_task(name, data_dir), [part["minutes"] for part in keys], limit, tell)
            for part, figures in zip(keys, cells, strict=True):
                with claimed(path.parent, wait=True):  # other processes may have added cells
                    write_cells(path, [*read_cells(path), part | figures], experiment=NAME)
        done = _find(read_cells(path), key)
        assert done is not None
        tell(f"{name} {key['minutes']:g} min {system}: MRR {100 * done['figures'][_first(system)]['mrr']:.1f}")


def _key(name: str, minutes: float, system: str, limit: int) -> dict[str, Any]:
    """The key of a cell; zero-shot does not depend on the minutes."""
    return {"graph": name, "minutes": 0.0 if system == "zero-shot" else minutes, "system": system, "limit": limit}


def _find(cells: list[dict[str, Any]], key: dict[str, Any]) -> dict[str, Any] | None:
    return next((cell for cell in cells if all(cell.get(name) == value for name, value in key.items())), None)


def _first(system: str) -> str:
    return "mixed" if system == "fit" else system


def _cells(system: str, task: Task, minutes: Sequence[float], limit: int, tell: Tell) -> Iterator[dict[str, Any]]:
    """The figures of a system on a task after each of some minutes, which are rising."""
    graph = task.observed
    same = task.valid.entities == graph.entities
    whole = graph.union(task.test).union(task.valid) if same else graph.union(task.test)
    missing = 1 - len(graph) / len(whole)
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
        elif system == "zero-shot":
            model = load_model(FOUNDATION)
            stated = check(graph, model=model, missing=missing, floors=False).calibration
            took = time.monotonic() - started
            ranks = _ranks([model], ["zero-shot"], graph, whole, facts)
            ways = {"calibration": one_curve(stated), "calibration_by_relation": by_relation(stated, graph)}
            extra = {**calibration_errors(model, ways, graph, whole, facts)}
        else:
            mixture = fit(graph, minutes=length, tell=lambda text: tell(f"  {text}"))
            took = time.monotonic() - started
            ranks = _ranks([*mixture.models, mixture], [*mixture.names, "mixed"], graph, whole, facts)
            stated, suggested = calibrated(mixture, graph, "node", missing), calibration_of(mixture, graph, "node")
            ways = {"calibration": by_relation(stated, graph), "calibration_suggested": by_relation(suggested, graph)}
            measured = calibration_errors(mixture, ways, graph, whole, facts)
            measured["calibration_suggested"]["missing"] = suggested.missing
            extra = measured | {
                "missing": missing,
                "hidden": {row["component"]: row["mrr"] for row in mixture.config.table},
            }
        figures = {name: _figures(part) for name, part in ranks.items()}
        yield {"figures": figures, "seconds": took, "facts": len(facts), "made_with": provenance()} | extra


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


def calibration_errors(
    model: LinkPredictor, stated: Mapping[str, Stated], graph: KnowledgeGraph, whole: KnowledgeGraph, facts: np.ndarray
) -> dict[str, dict[str, Any]]:
    """How far stated probabilities of first answers are from the truth, by relation and direction.

    The questions are asked once, for all of `stated`. `chance` is the mean error that probabilities which hold would
    have on as many questions: facts that share a question share its first answer, so that some groups of many facts
    are a few questions only.
    """
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in stated}
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
                    gap = abs(float(given[mine].mean()) - float(right[mine].mean()))
                    rows[name].append((gap, chance_error(given[mine], same[mine])))
    return {name: _summary(part) for name, part in rows.items()}


def chance_error(probabilities: np.ndarray, questions: np.ndarray) -> float:
    """The expected |mean stated - share right| of facts [F] if the probabilities hold; `questions` [F] share an answer.

    >>> float(round(chance_error(np.full(50, 0.5), np.arange(50)), 3))
    0.056
    >>> float(round(chance_error(np.full(50, 0.5), np.zeros(50, int)), 3))
    0.399
    """
    _, first, counts = np.unique(questions, return_index=True, return_counts=True)
    chances = probabilities[first].astype(float)
    variance = (counts**2 * chances * (1 - chances)).sum() / counts.sum() ** 2
    return float(np.sqrt(2 / np.pi * variance))


def _summary(rows: list[tuple[float, float]]) -> dict[str, Any]:
    if not rows:
        return {"groups": 0, "error": None, "worst": None, "chance": None}
    gaps, chances = np.array(rows).T
    return {"groups": len(rows), "error": gaps.mean(), "worst": gaps.max(), "chance": chances.mean()}


def by_relation(calibration: Calibration, graph: KnowledgeGraph) -> Stated:
    """The probabilities that a calibration states."""
    return lambda evidence: calibration.probabilities(evidence, list(graph.relations))


def one_curve(calibration: Calibration) -> Stated:
    """The probabilities that one curve of all scores states."""
    return lambda evidence: calibration(evidence.scores)


def write_table(results: Path, limit: int = LIMIT) -> Path:
    """Write the table of all cells; returns its path."""
    cells = [cell for cell in read_cells(results / NAME / CELLS_FILE) if cell["limit"] == limit]
    path = results / NAME / "table.md"
    write_text(path, markdown(cells, limit))
    return path


def markdown(cells: list[dict[str, Any]], limit: int) -> str:
    """A table of MRR and one of Hits@10 for each number of minutes, and the calibration of first answers."""
    lines = [
        "# Answers",
        "",
        f"Made by `anykg reproduce {NAME}`: test figures in percent on at most {limit:,} test facts of each graph, "
        "both ends, all entities ranked, known facts filtered. `fit` and PyKEEN had the minutes named, on the same "
        "machine.",
    ]
    graphs = list(dict.fromkeys(cell["graph"] for cell in cells))
    for minutes in sorted({cell["minutes"] for cell in cells if cell["minutes"]}):
        by_graph = {graph: _row(cells, graph, minutes) for graph in graphs}
        columns = list(dict.fromkeys(name for row in by_graph.values() for name in row))
        for metric, called in (("mrr", "MRR"), ("hits@10", "Hits@10")):
            lines += ["", f"## {called} after {minutes:g} minutes", "", f"| graph | {' | '.join(columns)} |"]
            lines.append("|---" * (len(columns) + 1) + "|")
            for graph, row in by_graph.items():
                shown = [f"{100 * row[name][metric]:.1f}" if name in row else "" for name in columns]
                lines.append(f"| {graph} | {' | '.join(shown)} |")
    return "\n".join([*lines, *_calibration_lines(cells, graphs)]) + "\n"


def _row(cells: list[dict[str, Any]], graph: str, minutes: float) -> dict[str, dict[str, float]]:
    """The figures of all systems on a graph, zero-shot first."""
    mine = [cell for cell in cells if cell["graph"] == graph and cell["minutes"] in (0.0, minutes)]
    return {name: part for cell in sorted(mine, key=lambda c: c["minutes"]) for name, part in cell["figures"].items()}


CALIBRATIONS = {
    ("zero-shot", "calibration"): "before: zero-shot, one curve for all relations",
    ("zero-shot", "calibration_by_relation"): "zero-shot, by relation",
    ("fit", "calibration"): "fitted",
    ("fit", "calibration_suggested"): "fitted, missing share suggested by the graph",
}
"""The calibrations shown, by system and key of a cell."""


def _calibration_lines(cells: list[dict[str, Any]], graphs: list[str]) -> list[str]:
    lines = [
        "",
        "## Calibration of first answers",
        "",
        f"|stated - right| over relations and directions with {FEWEST} test facts or more. Right are facts of the "
        "benchmark, and the share of them outside the graph is what probabilities take to be missing; the share "
        "that the graph suggests counts true facts that the benchmark does not have. By chance is the mean that "
        "probabilities which hold would have on as many questions.",
        "",
    ]
    columns = ("graph", "minutes", "probabilities", "groups", "mean", "by chance", "worst")
    lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for graph in graphs:
        for cell in (cell for cell in cells if cell["graph"] == graph):
            for (system, key), called in CALIBRATIONS.items():
                found = cell.get(key) if cell["system"] == system else None
                if found and found.get("error") is not None:
                    chance = f"{found['chance']:.3f}" if "chance" in found else ""
                    shown = f"{found['groups']} | {found['error']:.3f} | {chance} | {found['worst']:.3f}"
                    lines.append(f"| {graph} | {cell['minutes']:g} | {called} | {shown} |")
    return lines
