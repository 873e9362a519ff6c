"""Pre-trained models side by side on graphs that none of them was trained on.

Every cell is a model, a graph, a kind of question and a protocol. Cells are kept by the content of the model's weights,
so that the same command goes on where it was stopped, and new weights are run without running the others again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anykg.answers.calibration import digest_of
from anykg.core.atomic import write_json, write_text
from anykg.core.contract import LinkPredictor
from anykg.core.errors import CheckpointError
from anykg.core.provenance import provenance
from anykg.data.catalog import load_task
from anykg.evaluation.evaluate import evaluate
from anykg.evaluation.metrics import standard_errors, summarise
from anykg.evaluation.protocol import PROTOCOLS, Task

NAME = "zero-shot"
GRAPHS = (
    *("EN-FR", "FR-EN", "EN-DE", "DE-EN", "DB-WD", "WD-DB", "DB-YG", "YG-DB"),
    *(f"wikitopics:{topic}" for topic in ("art", "award", "edu", "health")),
)
"""Inference graphs that `anykg-small` was not trained on."""
LIMITS: dict[Task, int] = {"node": 1000, "relation": 300}
"""Test triplets drawn from each graph."""
KINDS: tuple[tuple[Task, str], ...] = (("node", "full"), ("node", "paper"), ("relation", "full"), ("relation", "paper"))

Tell = Callable[[str], None]


class Cell(NamedTuple):
    """One figure of the table."""

    model: str
    graph: str
    task: Task
    protocol: str


def run(
    models: Mapping[str, LinkPredictor],
    graphs: Sequence[str],
    *,
    results: Path,
    limits: Mapping[Task, int] = LIMITS,
    data_dir: Path | None = None,
    tell: Tell = lambda text: None,
) -> Path:
    """Fill in the cells that are missing and write the table; returns where it is."""
    folder = results / NAME
    kept = _read(folder / "cells.json")
    digests = {name: digest_of(model) for name, model in models.items()}
    for graph in graphs:
        task = None
        for kind, protocol in KINDS:
            for name, model in models.items():
                key = f"{digests[name]} {graph} {kind} {protocol} {limits[kind]}"
                if key not in kept:
                    task = task or load_task(graph, data_dir)
                    result = evaluate(
                        model,
                        task.observed,
                        task.test,
                        task=kind,
                        protocol=PROTOCOLS[protocol],
                        limit=limits[kind],
                        also_known=task.valid if task.valid.entities == task.observed.entities else None,
                    )
                    ranks = result.ranks.by(result.protocol.ties)
                    kept[key] = {
                        "metrics": summarise(ranks),
                        "standard_errors": standard_errors(ranks),
                        "ranked": len(ranks),
                        "made_with": provenance(),
                    }
                    write_json(folder / "cells.json", kept)
                tell(f"{graph} {kind} {protocol} {name}: MRR {100 * kept[key]['metrics']['mrr']:.1f}")
    values = {
        Cell(name, graph, kind, protocol): kept[f"{digests[name]} {graph} {kind} {protocol} {limits[kind]}"]
        for name in models
        for graph in graphs
        for kind, protocol in KINDS
    }
    write_text(folder / "table.md", markdown(list(models), list(graphs), values, limits))
    return folder / "table.md"


def markdown(
    models: list[str], graphs: list[str], values: Mapping[Cell, Mapping[str, Any]], limits: Mapping[Task, int]
) -> str:
    """A table for each kind of question: a row a graph, a column a model, and the ratio of the first to the others."""
    lines = [
        "# Zero-shot",
        "",
        f"Made by `anykg reproduce {NAME} --models {','.join(models)}`. MRR in percent ± standard error, on at most "
        f"{limits['node']:,} (node) and {limits['relation']:,} (relation) test triplets drawn from each graph.",
    ]
    for kind, protocol in KINDS:
        lines += ["", f"## {kind} task, {protocol} protocol", ""]
        lines += ["| graph | " + " | ".join(models) + " |", "|---|" + "---|" * len(models)]
        columns: dict[str, list[float]] = {name: [] for name in models}
        for graph in graphs:
            cells = []
            for name in models:
                value = values[Cell(name, graph, kind, protocol)]
                columns[name].append(100 * value["metrics"]["mrr"])
                cells.append(f"{columns[name][-1]:.1f} ± {100 * value['standard_errors']['mrr']:.1f}")
            lines.append(f"| {graph} | " + " | ".join(cells) + " |")
        means = {name: float(np.mean(column)) for name, column in columns.items()}
        lines.append("| **mean** | " + " | ".join(f"**{means[name]:.2f}**" for name in models) + " |")
        first = models[0]
        lines += [f"\n{first} is {means[first] / means[other] - 1:+.1%} relative to {other}." for other in models[1:]]
    return "\n".join(lines) + "\n"


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise CheckpointError(f"{path}: cannot be read as JSON ({error}); remove it to start anew.") from error
