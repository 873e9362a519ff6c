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
from anykg.experiments.recipe import Experiment
from anykg.experiments.runs import read_results

METRICS = {"hits@10": "Hits@10", "hits@5": "Hits@5", "hits@1": "Hits@1", "mrr": "MRR"}
KEPT = ("protocol", "seed", "counts", "metrics", "standard_errors", "ties", "by_stratum", "made_with")
"""What a results file keeps of each evaluation; the rest stays in the run's folder."""

Published = dict[tuple[str, str, str, str], tuple[float, float]]


def collect(experiment: Experiment, runs: Path, results: Path) -> None:
    """Gather finished cells into `results/NAME/MODEL.json`, keeping cells of earlier runs that are not here."""
    found: dict[str, list[dict[str, Any]]] = {}
    for cell, result in read_results(experiment, runs):
        row = {"task": cell.task, "seed": cell.seed, "seconds": result["seconds"]}
        row |= {kind: {key: result[kind][key] for key in KEPT} for kind in ("node", "relation")}
        found.setdefault(cell.model.name, []).append(row)
    for model, rows in found.items():
        path = results / experiment.name / f"{model}.json"
        before = json.loads(path.read_text(encoding="utf-8"))["cells"] if path.exists() else []
        merged = {(row["task"], row["seed"]): row for row in (*before, *rows)}
        cells = [merged[key] for key in sorted(merged)]
        write_json(path, {"experiment": experiment.name, "model": model, "cells": cells})


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
    lines = ["model,dataset,task,metric,ours,std,seeds,paper,paper_std,difference"]
    lines += [",".join("" if value is None else str(value) for value in row.values()) for row in rows]
    write_text(out.with_suffix(".csv"), "\n".join(lines) + "\n")
    write_text(out.with_suffix(".md"), _markdown(experiment, rows))


def _rows(experiment: Experiment, results: Path, published: Published) -> Iterable[dict[str, Any]]:
    for model in experiment.models:
        path = results / experiment.name / f"{model.name}.json"
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"] if path.exists() else []
        for kind in ("node", "relation"):
            for metric in METRICS:
                for task in experiment.tasks:
                    values = [100 * c[kind]["metrics"][metric] for c in cells if c["task"] == task]
                    paper = published.get((model.published, task, kind, metric))
                    mean = round(float(np.mean(values)), 2) if values else None
                    yield {
                        "model": model.name,
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


def _markdown(experiment: Experiment, rows: list[dict[str, Any]]) -> str:
    lines = [
        f"# {experiment.title}",
        "",
        f"Made by `anykg reproduce {experiment.name}`; protocol `{experiment.protocol}`. Each cell: our mean over the",
        "seeds ± standard deviation, and in brackets the paper's mean. Percent. Empty: not run.",
    ]
    for kind in ("node", "relation"):
        for metric, label in METRICS.items():
            lines += ["", f"## {label}, {kind} task", ""]
            lines += [
                "| model | seeds | " + " | ".join(experiment.tasks) + " |",
                "|---|---|" + "---|" * len(experiment.tasks),
            ]
            for model in experiment.models:
                picked = [r for r in rows if (r["model"], r["task"], r["metric"]) == (model.name, kind, metric)]
                seeds = sorted({r["seeds"] for r in picked})
                counted = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]}-{seeds[-1]}"
                lines.append(f"| {model.name} | {counted} | " + " | ".join(map(_cell, picked)) + " |")
    return "\n".join(lines) + "\n"


def _cell(row: dict[str, Any]) -> str:
    if row["ours"] is None:
        return f"({row['paper']})" if row["paper"] is not None else ""
    spread = f" ± {row['std']:.1f}" if row["std"] is not None else ""
    paper = f" ({row['paper']:.1f})" if row["paper"] is not None else ""
    return f"{row['ours']:.1f}{spread}{paper}"
