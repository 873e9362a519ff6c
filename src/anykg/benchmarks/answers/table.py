"""The table of all cells of `anykg reproduce answers`, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from anykg.atomic import write_text
from anykg.benchmarks.answers.links import FIT, LIMIT, TRAINED_ON, ZERO_SHOT
from anykg.benchmarks.answers.probabilities import FEWEST
from anykg.benchmarks.answers.run import CELLS_FILE, NAME, USES
from anykg.benchmarks.cells import Cell, read_cells
from anykg.benchmarks.pykeen_baselines import NAMES as BASELINES

CALIBRATIONS = {
    (ZERO_SHOT, "calibration"): "before: zero-shot, one curve for all relations",
    (ZERO_SHOT, "calibration_by_relation"): "zero-shot, by relation",
    (FIT, "calibration"): "fitted",
    (FIT, "calibration_suggested"): "fitted, missing share suggested by the graph",
}
"""The calibrations shown, by system and key of a cell."""
CLOSE = 0.005
"""MRR by which the mix may be below its best component."""

Figures = Mapping[str, Mapping[str, float]]
"""Metrics of a graph by system."""


def write_table(results: Path, limit: int = LIMIT) -> Path:
    """Write the table of all cells; returns its path."""
    cells = [cell for cell in read_cells(results / NAME / CELLS_FILE) if cell.get("limit", limit) == limit]
    path = results / NAME / "table.md"
    write_text(path, markdown(cells, limit))
    return path


def markdown(cells: list[Cell], limit: int) -> str:
    """A table of MRR and one of Hits@10 for each number of minutes, calibration, and the uses of answers."""
    lines = [
        "# Answers",
        "",
        f"Made by `anykg reproduce {NAME}`: test figures in percent on at most {limit:,} test facts of each graph, "
        "both ends, all entities ranked, known facts filtered. `fit` and PyKEEN had the minutes named, on the same "
        f"machine. The training facts of graphs with a star ({', '.join(TRAINED_ON)}) were among those of the network, "
        "so that zero-shot is not what it says there.",
    ]
    predicted = [cell for cell in cells if cell["system"] not in USES]
    graphs = list(dict.fromkeys(cell["graph"] for cell in predicted))
    for minutes in sorted({cell["minutes"] for cell in predicted if cell["minutes"]}):
        by_graph = {graph: _row(predicted, graph, minutes) for graph in graphs}
        columns = list(dict.fromkeys(name for row in by_graph.values() for name in row))
        for metric, called in (("mrr", "MRR"), ("hits@10", "Hits@10")):
            lines += ["", f"## {called} after {_minutes(minutes)}", "", f"| graph | {' | '.join(columns)} |"]
            lines.append("|---" * (len(columns) + 1) + "|")
            for graph, row in by_graph.items():
                shown = [f"{100 * row[name][metric]:.1f}" if name in row else "" for name in columns]
                lines.append(f"| {_starred(graph)} | {' | '.join(shown)} |")
            if metric == "mrr":
                lines += _comparisons(by_graph)
    lines += _calibration_lines(predicted, graphs)
    for name, use in USES.items():
        mine = [cell for cell in cells if cell["system"] == name]
        lines += use.lines(mine) if mine else []
    return "\n".join(lines) + "\n"


def _minutes(count: float) -> str:
    return "1 minute" if count == 1 else f"{count:g} minutes"


def _starred(graph: str) -> str:
    return f"{graph} *" if graph in TRAINED_ON else graph


def _row(cells: list[Cell], graph: str, minutes: float) -> dict[str, dict[str, float]]:
    """The figures of all systems on a graph, zero-shot first."""
    mine = [cell for cell in cells if cell["graph"] == graph and cell["minutes"] in (0.0, minutes)]
    return {name: part for cell in sorted(mine, key=lambda c: c["minutes"]) for name, part in cell["figures"].items()}


def _comparisons(by_graph: Mapping[str, Figures]) -> list[str]:
    """What the mix gains over zero-shot, its best component and PyKEEN, in a line each."""
    mixed = {graph: row for graph, row in by_graph.items() if "mixed" in row}
    if not mixed:
        return []
    components = [name for row in mixed.values() for name in row if name not in ("mixed", *BASELINES)]
    lines = [""]
    for what, others in ((ZERO_SHOT, [ZERO_SHOT]), ("its best component", components), ("PyKEEN", BASELINES)):
        gains = {graph: _gain(row, others) for graph, row in mixed.items() if any(name in row for name in others)}
        if not gains:
            continue
        values = np.array(list(gains.values()))
        behind = [graph for graph, gain in gains.items() if gain < (-CLOSE if others is components else 0)]
        text = f"- The mix is above {what} by {100 * values.mean():.1f} points on average over {len(gains)} graphs"
        unseen = [gain for graph, gain in gains.items() if graph not in TRAINED_ON]
        if what == ZERO_SHOT and unseen:
            text += f", by {100 * np.mean(unseen):.1f} on the {len(unseen)} without a star"
        below = f"more than {100 * CLOSE:g} points below it" if others is components else "below it"
        where = ", ".join(f"{graph} ({100 * gains[graph]:.1f})" for graph in behind) or "none"
        lines.append(f"{text}; {below} on {where}.")
    return lines


def _gain(row: Figures, others: Sequence[str]) -> float:
    return row["mixed"]["mrr"] - max(row[name]["mrr"] for name in others if name in row)


def _calibration_lines(cells: list[Cell], graphs: list[str]) -> list[str]:
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
    means: dict[str, list[float]] = {}
    for graph in graphs:
        for cell in (cell for cell in cells if cell["graph"] == graph):
            for (system, key), called in CALIBRATIONS.items():
                found = cell.get(key) if cell["system"] == system else None
                if found and found.get("error") is not None:
                    chance = f"{found['chance']:.3f}" if "chance" in found else ""
                    shown = f"{found['groups']} | {found['error']:.3f} | {chance} | {found['worst']:.3f}"
                    lines.append(f"| {graph} | {cell['minutes']:g} | {called} | {shown} |")
                    means.setdefault(called, []).append(found["error"])
    averages = [f"{called} {np.mean(errors):.3f} ({len(errors)} cells)" for called, errors in means.items()]
    return [*lines, *(["", f"Means over cells: {'; '.join(averages)}."] if averages else [])]
