"""Compare pre-trained models on graphs that none of them was trained on.

Every cell is a model, a graph, a kind of question and a protocol. Cells keep the content of the model's weights as a
digest, so that the same command resumes, and new weights are evaluated without repeating the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anykg.atomic import write_text
from anykg.benchmarks.cells import read_cells, write_cells
from anykg.benchmarks.runs import claimed
from anykg.evaluation.evaluate import Evaluation, evaluate
from anykg.evaluation.metrics import standard_errors, summarise
from anykg.evaluation.protocol import PROTOCOLS, Target
from anykg.evaluation.strata import STRATA
from anykg.graph.task import Task
from anykg.io.catalog import load_task
from anykg.models.base import LinkPredictor
from anykg.models.store import digest_of
from anykg.provenance import provenance

NAME = "zero-shot"
CELLS_FILE = "cells.json"
GRAPHS = (
    *("EN-FR", "FR-EN", "EN-DE", "DE-EN", "DB-WD", "WD-DB", "DB-YG", "YG-DB"),
    *(f"wikitopics:{topic}" for topic in ("art", "award", "edu", "health")),
)
"""Inference graphs that the shipped models were not trained on."""
LIMITS: dict[Target, int] = {"node": 1000, "relation": 500}
"""Test triplets drawn from each graph."""
KINDS: tuple[tuple[Target, str], ...] = (
    ("node", "full"),
    ("node", "paper"),
    ("relation", "full"),
    ("relation", "paper"),
)

Tell = Callable[[str], None]


Cells = dict[str, dict[str, Any]]
"""The cells by `key_of`."""


def key_of(model: str, graph: str, task: Target, protocol: str, limit: int) -> str:
    """The key of a cell in the file."""
    return f"{model} {graph} {task} {protocol} {limit}"


def run(
    models: Mapping[str, LinkPredictor],
    graphs: Sequence[str],
    *,
    results: Path,
    limits: Mapping[Target, int] = LIMITS,
    data_dir: Path | None = None,
    tell: Tell = lambda text: None,
) -> None:
    """Compute the cells that are missing or were made with other weights."""
    folder = results / NAME
    digests = {name: digest_of(model) for name, model in models.items()}
    for source in graphs:
        task, graph = None, Path(source).name
        for kind, protocol in KINDS:
            for name, model in models.items():
                key = key_of(name, graph, kind, protocol, limits[kind])
                cell = _read(folder).get(key)
                if cell is None or cell["weights"] != digests[name]:
                    task = task or load_task(source, data_dir)
                    cell = {"weights": digests[name]} | _asked(model, task, kind, protocol, limits[kind])
                    with claimed(folder, wait=True):  # other processes may have added cells
                        _write(folder, _read(folder) | {key: cell})
                tell(f"{graph} {kind} {protocol} {name}: MRR {100 * cell['metrics']['mrr']:.1f}")


def _asked(model: LinkPredictor, task: Task, kind: Target, protocol: str, limit: int) -> dict[str, Any]:
    started = time.process_time()
    result = evaluate(
        model,
        task.observed,
        task.test,
        task=kind,
        protocol=PROTOCOLS[protocol],
        limit=limit,
        also_known=task.known,
    )
    took = time.process_time() - started
    ranks = result.ranks.by(result.protocol.ties)
    cell: dict[str, Any] = {
        "metrics": summarise(ranks),
        "standard_errors": standard_errors(ranks),
        "ranked": len(ranks),
        "milliseconds": 1000 * took / max(len(ranks), 1),
        "made_with": provenance(),
    }
    if kind == "node":
        seen = answer_seen(result)
        cell["strata"] = {
            name: {"mrr": summarise(ranks[mine])["mrr"], "ranked": int(mine.sum())}
            for name, mine in (("seen", seen), ("unseen", ~seen))
            if mine.any()
        }
    return cell


def answer_seen(result: Evaluation) -> np.ndarray:
    """Whether the answer [Q] to each question about an entity has another fact of the relation, at the same end."""
    bit = np.where(result.sides == "tail", STRATA.index("relation-tail"), STRATA.index("head-relation"))
    seen: np.ndarray = result.strata & bit > 0
    return seen


def write_table(results: Path, limits: Mapping[Target, int] = LIMITS) -> Path:
    """The table of all cells with these limits; returns where it is."""
    cells = {key: cell for key, cell in _read(results / NAME).items() if int(key.split()[-1]) in limits.values()}
    path = results / NAME / "table.md"
    write_text(path, markdown(cells, limits))
    return path


def markdown(cells: Cells, limits: Mapping[Target, int]) -> str:
    """Tables by kind of question, for the twelve graphs and for any others; then strata and cost."""
    models, graphs = (list(dict.fromkeys(key.split()[part] for key in cells)) for part in (0, 1))
    lines = [
        "# Zero-shot",
        "",
        f"Made by `anykg reproduce {NAME} --models {','.join(models)}`. MRR in percent ± standard error, on at most "
        f"{limits['node']:,} (node) and {limits['relation']:,} (relation) test triplets drawn from each graph.",
    ]
    unseen, others = ([graph for graph in graphs if (graph in GRAPHS) == chosen] for chosen in (True, False))
    for title, chosen in (("", unseen), (" on other graphs", others)):
        for kind, protocol in KINDS if chosen else ():
            table = _table(cells, models, chosen, kind, protocol, limits[kind])
            if table:
                lines += ["", f"## {kind} task, {protocol} protocol{title}", "", *table]
        lines += _strata_lines(cells, models, chosen, limits, title)
    return "\n".join([*lines, *_cost_lines(cells, models)]) + "\n"


def _table(cells: Cells, models: list[str], graphs: list[str], kind: Target, protocol: str, limit: int) -> list[str]:
    """A row per graph, the mean over the graphs that all models have, and the ratio of the first model to each."""
    lines = ["| graph | " + " | ".join(models) + " |", "|---|" + "---|" * len(models)]
    columns: dict[str, list[float]] = {name: [] for name in models}
    asked = False
    for graph in graphs:
        row = [cells.get(key_of(name, graph, kind, protocol, limit)) for name in models]
        asked = asked or any(row)
        lines.append(f"| {graph} | " + " | ".join(map(_shown, row)) + " |")
        if all(row):
            for name, cell in zip(models, row, strict=True):
                columns[name].append(100 * cell["metrics"]["mrr"] if cell else 0.0)
    if columns[models[0]]:
        means = {name: float(np.mean(column)) for name, column in columns.items()}
        lines.append("| **mean** | " + " | ".join(f"**{means[name]:.2f}**" for name in models) + " |")
        first = models[0]
        lines += [f"\n{first} is {means[first] / means[other] - 1:+.1%} relative to {other}." for other in models[1:]]
    return lines if asked else []


def _strata_lines(
    cells: Cells, models: list[str], graphs: list[str], limits: Mapping[Target, int], title: str
) -> list[str]:
    """MRR of the node task by whether the answer has another fact of the asked relation, mean over the graphs."""
    lines: list[str] = []
    for name in models:
        asked_of = [cells.get(key_of(name, graph, "node", "full", limits["node"]), {}) for graph in graphs]
        mine = [cell.get("strata", {}) for cell in asked_of]
        both = [part for part in mine if len(part) == 2]
        if both:
            means = {part: 100 * float(np.mean([one[part]["mrr"] for one in both])) for part in ("seen", "unseen")}
            asked = [sum(one[part]["ranked"] for one in both) for part in ("seen", "unseen")]
            share = asked[1] / sum(asked)
            lines.append(f"| {name} | {len(both)} | {means['seen']:.1f} | {means['unseen']:.1f} | {share:.0%} |")
    if not lines:
        return []
    return [
        *("", f"## By stratum{title}", ""),
        "MRR of the node task, full protocol, where the answer has another fact of the asked relation on its side, and "
        "where it has none; means over graphs.",
        *("", "| model | graphs | seen | unseen | share of unseen |", "|---|---|---|---|---|", *lines),
    ]


def _cost_lines(cells: Cells, models: list[str]) -> list[str]:
    """CPU milliseconds per question, answered in batches, as the median over graphs."""
    kinds = [(kind, protocol) for kind, protocol in KINDS if protocol == "full"]
    lines: list[str] = []
    for name in models:
        row = []
        for kind, protocol in kinds:
            took = [
                cell["milliseconds"]
                for key, cell in cells.items()
                if key.split()[0] == name and key.split()[2:4] == [kind, protocol] and "milliseconds" in cell
            ]
            row.append(f"{np.median(took):.1f}" if took else "")
        if any(row):
            lines.append(f"| {name} | " + " | ".join(row) + " |")
    if not lines:
        return []
    heads = " | ".join(f"{kind} question" for kind, _ in kinds)
    return [
        *("", "## Cost", "", "Processor milliseconds for a question in batches, median over graphs.", ""),
        *(f"| model | {heads} |", "|---|" + "---|" * len(kinds), *lines),
    ]


def _shown(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return ""
    return f"{100 * cell['metrics']['mrr']:.1f} ± {100 * cell['standard_errors']['mrr']:.1f}"


def _read(folder: Path) -> Cells:
    return {cell.pop("cell"): cell for cell in read_cells(folder / CELLS_FILE)}


def _write(folder: Path, cells: Cells) -> None:
    write_cells(folder / CELLS_FILE, ({"cell": key} | cell for key, cell in cells.items()), experiment=NAME)
