"""The page of all results, docs/results.md: made from `results/` alone, so that it says what is there and no more.

A `notes.md` beside an experiment's figures is taken over as it is: what the figures mean is for people to say.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anykg.benchmarks import statistics_table, zero_shot
from anykg.benchmarks.experiment import Experiment, load_experiment
from anykg.benchmarks.report import LABELS, Figure, figures, lines_of
from anykg.benchmarks.runs import KINDS

EXPERIMENTS = ("pediatypes", "negative-transfer", "large", "wikitopics", "scaling")
TOLERANCE = 5.0
"""A figure is called reproduced if it is at most so many percentage points from the paper's."""


def results_page(results: Path) -> str:
    """The page, with links that hold from a folder beside `results`."""
    lines = [
        "# Results",
        "",
        "Made by `anykg reproduce report` from the figures in `results/`; edits are lost. Every number of the paper's",
        f"tables is beside ours in the tables linked here. A figure counts as reproduced if at most {TOLERANCE:g}",
        "percentage points from the paper's; those that are further away, and those that were not run, are listed.",
        *_statistics(results),
    ]
    for name in EXPERIMENTS:
        lines += _section(load_experiment(name), results)
    if (results / zero_shot.NAME / "table.md").exists():
        lines += ["", "## Zero-shot, shipped and published weights", ""]
        lines += [f"[Table](../{results.name}/{zero_shot.NAME}/table.md), `anykg reproduce {zero_shot.NAME}`."]
    return "\n".join(lines) + "\n"


def _statistics(results: Path) -> list[str]:
    lines = ["", f"## {statistics_table.TITLE}", "", f"[Table](../{results.name}/{statistics_table.NAME}/table.md)."]
    counted = statistics_table.read(results)
    absent = [row["graph"] for row in statistics_table.published() if row["graph"] not in counted]
    lines += [
        "",
        f"Counted: {len(counted)} graphs." + (f" Not here to be counted: {', '.join(absent)}." if absent else ""),
    ]
    wrong = statistics_table.differences(results)
    return [*lines, *(["", "Not as the paper says:", "", *(f"- {line}" for line in wrong)] if wrong else [])]


def _section(experiment: Experiment, results: Path) -> list[str]:
    folder = results / experiment.name
    found = figures(experiment, results)
    place = f"../{results.name}/{experiment.name}"
    lines = ["", f"## {experiment.title}", "", f"[Table]({place}/table.md), `anykg reproduce {experiment.name}`."]
    lines += [f"\n![{path.stem}]({place}/{path.name})" for path in sorted(folder.glob("*.svg"))]
    if (folder / "notes.md").exists():
        lines += ["", (folder / "notes.md").read_text(encoding="utf-8").strip()]
    lines += [
        "",
        "| model | protocol | figures we have | reproduced | below the paper | above it | median difference | missing |",  # noqa: E501
        "|---|---|---|---|---|---|---|---|",
    ]
    off, missing = [], []
    for line in lines_of(experiment):
        part = [f for f in found if (f.model, f.protocol) == (line.model.name, line.protocol)]
        ran = [f for f in part if f.ours is not None]
        compared = [f.difference for f in part if f.difference is not None]
        below, above = (sum(sign * difference > TOLERANCE for difference in compared) for sign in (-1, 1))
        near = len(compared) - below - above
        counts = [str(near), str(below), str(above), f"{np.median(compared):+.1f}"] if compared else [""] * 4
        row = [line.model.name, line.protocol, f"{len(ran)} of {len(part)}", *counts, str(len(part) - len(ran))]
        lines.append("| " + " | ".join(row) + " |")
        off += _off(line.label(experiment), part)
        missing += _missing(line.label(experiment), part, experiment.seeds)
    lines += ["", _verdict(found), *(["", *off] if off else [])]
    return [*lines, "", "Missing:", "", *missing] if missing else lines


def _verdict(found: list[Figure]) -> str:
    if all(f.paper is None for f in found):
        return "The paper prints no numbers to compare with."
    compared = [abs(f.difference) for f in found if f.difference is not None]
    if not compared:
        return "Nothing that can be compared was run."
    reproduced = max(compared) <= TOLERANCE
    return "All that can be compared is reproduced." if reproduced else "Not reproduced, ours (the paper's):"


def _off(label: str, part: list[Figure]) -> list[str]:
    lines = []
    for kind in KINDS:
        for metric in dict.fromkeys(f.metric for f in part):
            asked = [f for f in part if (f.task, f.metric) == (kind, metric)]
            for word, sign in (("below", -1), ("above", 1)):
                far = [_beside(f) for f in asked if f.difference is not None and sign * f.difference > TOLERANCE]
                if far:
                    lines.append(f"- {label}, {kind} {LABELS[metric]}, {word}: {', '.join(far)}.")
    return lines


def _beside(figure: Figure) -> str:
    column = "" if figure.column == "zero-shot" else f" {figure.column}"
    return f"{figure.dataset}{column} {figure.ours:.1f} ({figure.paper:.1f})"


def _missing(label: str, part: list[Figure], wanted: int) -> list[str]:
    """Which columns were not run at all, and which training sets of the others for fewer seeds than wanted."""
    if all(f.ours is None for f in part):
        return [f"- {label}: not run."]
    absent = [c for c in dict.fromkeys(f.column for f in part) if all(f.seeds == 0 for f in part if f.column == c)]
    lines = [f"- {label}: {', '.join(absent)} not run."] if absent else []
    seeds: dict[str, int] = {}
    for f in part:
        if f.column not in absent:
            seeds[f.dataset] = min(f.seeds, seeds.get(f.dataset, wanted))
    for count in sorted({count for count in seeds.values() if count < wanted}):
        tasks = [task for task, has in seeds.items() if has == count]
        lines.append(f"- {label}: {count} of {wanted} seeds of {', '.join(tasks)}.")
    return lines
