"""What an experiment found, beside what the paper says.

`results/NAME/MODEL.json` keeps every cell; tables average over seeds: mean and standard deviation in percent.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from anykg.core.atomic import write_json, write_text
from anykg.experiments.recipe import Experiment, ModelRow
from anykg.experiments.runs import KINDS, read_results

METRICS = {"hits@10": "Hits@10", "hits@5": "Hits@5", "hits@1": "Hits@1", "mrr": "MRR"}
KEPT = ("protocol", "seed", "counts", "metrics", "standard_errors", "ties", "by_stratum", "score_errors", "made_with")
"""What a results file keeps of each evaluation; the rest stays in the run's folder."""

Published = dict[tuple[str, str, str, str], tuple[float, float]]


def collect(experiment: Experiment, runs: Path, results: Path) -> None:
    """Gather finished cells into `results/NAME/MODEL.json`, keeping cells of earlier runs that are not here."""
    found: dict[str, list[dict[str, Any]]] = {}
    for cell, result in read_results(experiment, runs):
        row = {"task": cell.task, "seed": cell.seed, "seconds": result["seconds"]}
        row |= _kept(result) | {"also": {name: _kept(part) for name, part in result.get("also", {}).items()}}
        found.setdefault(cell.model.name, []).append(row)
    for model, rows in found.items():
        path = results / experiment.name / f"{model}.json"
        before = json.loads(path.read_text(encoding="utf-8"))["cells"] if path.exists() else []
        merged = {(row["task"], row["seed"]): row for row in (*before, *rows)}
        cells = [merged[key] for key in sorted(merged)]
        write_json(path, {"experiment": experiment.name, "model": model, "cells": cells})


def _kept(result: dict[str, Any]) -> dict[str, Any]:
    return {kind: {key: result[kind].get(key) for key in KEPT} for kind in KINDS}


def load_published(name: str) -> Published:
    """The paper's figures in percent: (model, dataset, task, metric) -> (mean, standard deviation)."""
    text = files("anykg.experiments").joinpath("published", f"{name}.csv").read_text(encoding="utf-8")
    return {
        (row["model"], row["dataset"], row["task"], row["metric"]): (float(row["mean"]), float(row["std"]))
        for row in csv.DictReader(text.splitlines())
    }


def write_tables(experiment: Experiment, results: Path, out: Path) -> None:
    """`out`.md for people and `out`.csv for programs: ours, the paper's, the difference."""
    published = load_published(experiment.name)
    rows = list(_rows(experiment, results, published))
    lines = ["model,protocol,dataset,task,metric,ours,std,seeds,paper,paper_std,difference"]
    lines += [",".join("" if value is None else str(value) for value in row.values()) for row in rows]
    write_text(out.with_suffix(".csv"), "\n".join(lines) + "\n")
    write_text(out.with_suffix(".md"), _markdown(experiment, rows))


def _rows(experiment: Experiment, results: Path, published: Published) -> Iterable[dict[str, Any]]:
    for model, place, protocol in _lines(experiment):
        path = results / experiment.name / f"{model.name}.json"
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"] if path.exists() else []
        for kind in KINDS:
            for metric in METRICS:
                for task in experiment.tasks:
                    found = [c if place == 0 else c["also"][protocol] for c in cells if c["task"] == task]
                    values = [100 * part[kind]["metrics"][metric] for part in found]
                    paper = published.get((model.published, task, kind, metric)) if place == 0 else None
                    mean = round(float(np.mean(values)), 2) if values else None
                    yield {
                        "model": model.name,
                        "protocol": protocol,
                        "dataset": task,
                        "task": kind,
                        "metric": metric,
                        "ours": mean,
                        "std": round(float(np.std(values, ddof=1)), 2) if len(values) > 1 else None,
                        "seeds": len(values),
                        "paper": paper[0] if paper else None,
                        "paper_std": paper[1] if paper else None,
                        "difference": round(mean - paper[0], 2) if paper and mean is not None else None,
                    }


def _lines(experiment: Experiment) -> list[tuple[ModelRow, int, str]]:
    """The lines of a table: models by protocol, the one of the paper's row first."""
    return [(m, place, name) for m in experiment.models for place, name in enumerate(experiment.protocols(m))]


def _markdown(experiment: Experiment, rows: list[dict[str, Any]]) -> str:
    lines = [
        f"# {experiment.title}",
        "",
        f"Made by `anykg reproduce {experiment.name}`; protocol `{experiment.protocol}` unless a row names another.",
        "Each cell: our mean over the seeds ± standard deviation, and in brackets the paper's mean. Percent. Alone in",
        "brackets, or empty: not run.",
        *_samples(experiment),
    ]
    for kind in KINDS:
        for metric, label in METRICS.items():
            lines += ["", f"## {label}, {kind} task", ""]
            lines += [
                "| model | seeds | " + " | ".join(experiment.tasks) + " |",
                "|---|---|" + "---|" * len(experiment.tasks),
            ]
            for model, _, protocol in _lines(experiment):
                asked = (model.name, protocol, kind, metric)
                picked = [r for r in rows if (r["model"], r["protocol"], r["task"], r["metric"]) == asked]
                seeds = sorted({r["seeds"] for r in picked})
                counted = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]}-{seeds[-1]}"
                name = model.name if protocol == experiment.protocol else f"{model.name} ({protocol})"
                lines.append(f"| {name} | {counted} | " + " | ".join(map(_cell, picked)) + " |")
    return "\n".join(lines) + "\n"


def _samples(experiment: Experiment) -> list[str]:
    limited = [(m.name, kind, size) for m in experiment.models for kind, size in m.limits.items()]
    return ["", *(f"{name}: {kind} task on a seeded sample of {size} test triplets." for name, kind, size in limited)]


def _cell(row: dict[str, Any]) -> str:
    if row["ours"] is None:
        return f"({row['paper']})" if row["paper"] is not None else ""
    spread = f" ± {row['std']:.1f}" if row["std"] is not None else ""
    paper = f" ({row['paper']:.1f})" if row["paper"] is not None else ""
    return f"{row['ours']:.1f}{spread}{paper}"
