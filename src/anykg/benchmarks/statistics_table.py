"""Reproduce the paper's tables of graph sizes."""

from __future__ import annotations

import csv
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from anykg.atomic import write_json, write_text
from anykg.benchmarks.statistics import task_statistics
from anykg.io.catalog import find, get_dataset, load_task
from anykg.provenance import provenance

NAME = "statistics"
TITLE = "Sizes of the graphs"
MEASURES = {
    "nodes": "entities",
    "relations": "relations",
    "observed_triplets": "observed_facts",
    "query_triplets": "asked_facts",
    "average_degree": "average_degree",
}
"""The paper's names of the measures, and ours."""
FIGURES_FILE = "statistics.json"
ROUNDING = 0.01
"""The paper rounds some degrees up."""


def run(results: Path, data_dir: Path | None = None) -> None:
    """Write the sizes of the available graphs to `results/statistics`, keeping earlier counts of the others."""
    path = results / NAME / FIGURES_FILE
    counts = read(results)
    for row in published():
        dataset = row["dataset"]
        if find(get_dataset(dataset), data_dir) is not None:
            graphs = task_statistics(load_task(dataset, data_dir))
            found = graphs[0] if row["side"] == "train" else graphs[-1]
            counts[row["graph"]] = {measure: getattr(found, own) for measure, own in MEASURES.items()}
    write_json(path, {"experiment": NAME, "graphs": counts, "made_with": provenance()})


def read(results: Path) -> dict[str, dict[str, Any]]:
    """The counts, by the paper's name of the graph."""
    path = results / NAME / FIGURES_FILE
    return dict(json.loads(path.read_text(encoding="utf-8"))["graphs"]) if path.exists() else {}


def published() -> list[dict[str, str]]:
    """The paper's rows."""
    file = files("anykg.benchmarks").joinpath("published", f"{NAME}.csv")
    return list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))


def differences(results: Path) -> list[str]:
    """Sentences about counts that differ from the paper's by more than rounding."""
    counts = read(results)
    return [
        f"{row['graph']}: {_shown(counts[row['graph']][measure])} {measure.replace('_', ' ')}, paper {row[measure]}."
        for row in published()
        for measure in MEASURES
        if row["graph"] in counts and row[measure]
        if abs(counts[row["graph"]][measure] - float(row[measure])) > ROUNDING
    ]


def write_tables(results: Path) -> None:
    """`results/statistics/table.md` and `table.csv`: ours, and the paper's in brackets where they differ."""
    counts = read(results)
    names = [measure.replace("_", " ") for measure in MEASURES]
    lines = [
        f"# {TITLE}",
        "",
        f"Made by `anykg reproduce {NAME}`: our counts; in brackets the paper's where they differ, or where the graph",
        "was not here to be counted. Nodes and relations are those of observed and asked triplets.",
        "",
        "| graph | dataset | " + " | ".join(names) + " |",
        "|---|---|" + "---|" * len(names),
    ]
    table = ["graph,dataset,side,measure,ours,paper"]
    for row in published():
        ours = counts.get(row["graph"])
        cells = []
        for measure in MEASURES:
            own, expected = _shown(ours[measure]) if ours else "", row[measure]
            cells.append(own if own == expected or not expected else f"{own} ({expected})".strip())
            table.append(",".join([row["graph"], row["dataset"], row["side"], measure, own, expected]))
        lines.append(f"| {row['graph']} | {row['dataset']}, {row['side']} | " + " | ".join(cells) + " |")
    write_text(results / NAME / "table.csv", "\n".join(table) + "\n")
    write_text(results / NAME / "table.md", "\n".join(lines) + "\n")


def _shown(value: float) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
