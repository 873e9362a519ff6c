"""The table of all cells of `anykg reproduce answers`, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from anykg.atomic import write_text
from anykg.benchmarks.answers.links import FIT, GRAPHS, LIMIT, TRAINED_ON, ZERO_SHOT
from anykg.benchmarks.answers.probabilities import FEWEST
from anykg.benchmarks.answers.run import CELLS_FILE, NAME, USES, network_digest
from anykg.benchmarks.cells import Cell, read_cells
from anykg.benchmarks.pykeen_baselines import NAMES as BASELINES

CALIBRATIONS = {
    (ZERO_SHOT, "calibration"): "zero-shot, one curve for all relations",
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
        "so their zero-shot figures are not truly zero-shot. 18% of art's and 21% of award's observed facts are also "
        "in wd50k, a training graph; no test fact is. Empty cells were not measured.",
    ]
    lines += _earlier_weights(cells)
    predicted = [cell for cell in cells if cell["system"] not in USES]
    graphs = sorted(dict.fromkeys(cell["graph"] for cell in predicted), key=_position)
    for minutes in sorted({cell["minutes"] for cell in predicted if cell["minutes"]}):
        by_graph = {graph: _row(predicted, graph, minutes) for graph in graphs}
        columns = sorted(dict.fromkeys(name for row in by_graph.values() for name in row), key=_column)
        for metric, called in (("mrr", "MRR"), ("hits@10", "Hits@10")):
            lines += ["", f"## {called} after {_minutes(minutes)}", "", f"| graph | {' | '.join(columns)} |"]
            lines.append("|---" * (len(columns) + 1) + "|")
            for graph, row in by_graph.items():
                shown = [f"{100 * row[name][metric]:.1f}" if name in row else "" for name in columns]
                lines.append(f"| {_starred(graph)} | {' | '.join(shown)} |")
            if metric == "mrr":
                lines += _comparisons(by_graph, [cell for cell in predicted if cell["minutes"] == minutes])
    lines += _calibration_lines(predicted, graphs)
    for name, use in USES.items():
        mine = [cell for cell in cells if cell["system"] == name]
        lines += use.lines(mine) if mine else []
    return "\n".join(lines) + "\n"


def _earlier_weights(cells: list[Cell]) -> list[str]:
    """Which cells were measured with other weights than the network is shipped with now."""
    earlier = [cell for cell in cells if cell.get("weights", network_digest()) != network_digest()]
    if not earlier:
        return []
    systems = ", ".join(f"`{name}`" for name in dict.fromkeys(cell["system"] for cell in earlier))
    now = sum("weights" in cell for cell in cells) - len(earlier)
    return [
        "",
        f"The network has been trained further since: {len(earlier)} cells ({systems}) were measured with its "
        f"earlier weights, {now} with those it has now.",
    ]


def _position(graph: str) -> int:
    """The row of a graph: the order of `GRAPHS`, other graphs last."""
    return GRAPHS.index(graph) if graph in GRAPHS else len(GRAPHS)


def _column(name: str) -> tuple[bool, bool]:
    """Sorts the components before their mix, and PyKEEN last."""
    return name in BASELINES, name == "mixed"


def _minutes(count: float) -> str:
    return "1 minute" if count == 1 else f"{count:g} minutes"


def _starred(graph: str) -> str:
    return f"{graph} *" if graph in TRAINED_ON else graph


def _row(cells: list[Cell], graph: str, minutes: float) -> dict[str, dict[str, float]]:
    """The figures of all systems on a graph, zero-shot first."""
    mine = [cell for cell in cells if cell["graph"] == graph and cell["minutes"] in (0.0, minutes)]
    return {name: part for cell in sorted(mine, key=lambda c: c["minutes"]) for name, part in cell["figures"].items()}


def _comparisons(by_graph: Mapping[str, Figures], cells: list[Cell]) -> list[str]:
    """What the mix gains over zero-shot, its best component and PyKEEN, in a line each."""
    fitted = [cell for cell in cells if cell["system"] == FIT]
    components = {cell["graph"]: [name for name in cell["figures"] if name != "mixed"] for cell in fitted}
    mixed = {cell["graph"]: by_graph[cell["graph"]] for cell in fitted}
    others: dict[str, Callable[[str], Sequence[str]]] = {
        ZERO_SHOT: lambda graph: [ZERO_SHOT],
        "its best component": lambda graph: components[graph],
        "the better of PyKEEN's": lambda graph: BASELINES,
    }
    lines = [""] if mixed else []
    for what, names in others.items():
        gains = {
            graph: row["mixed"]["mrr"] - max(row[name]["mrr"] for name in names(graph) if name in row)
            for graph, row in mixed.items()
            if any(name in row for name in names(graph))
        }
        if not gains:
            continue
        unseen = [gain for graph, gain in gains.items() if graph not in TRAINED_ON]
        mean = np.mean(list(gains.values()))
        text = f"- MRR of the mix minus that of {what}: {100 * mean:+.1f} on average ({len(gains)})"
        if unseen:
            text += f", {100 * np.mean(unseen):+.1f} without stars ({len(unseen)})"
        least = -CLOSE if "component" in what else 0.0
        behind = ", ".join(f"{graph} {100 * gain:+.1f}" for graph, gain in gains.items() if gain < least) or "none"
        lines.append(f"{text}; below {100 * least:g}: {behind}.")
    return lines


def _calibration_lines(cells: list[Cell], graphs: list[str]) -> list[str]:
    lines = [
        "",
        "## Calibration of first answers",
        "",
        f"|stated - right| over relations and directions with {FEWEST} test facts or more. An answer counts as right "
        "if it is a fact of the benchmark, and the missing share is set to the share of benchmark facts that are not "
        "in the graph; the share that the graph suggests counts true facts that the benchmark does not have. By chance "
        "is the mean that perfectly calibrated probabilities would have on as many questions. Test facts with the same "
        "question share its first answer, which counts once for each of them; in the last column it counts once.",
        "",
    ]
    columns = ("graph", "minutes", "probabilities", "groups", "mean", "by chance", "worst", "each question once")
    lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for graph in graphs:
        for cell in sorted((cell for cell in cells if cell["graph"] == graph), key=lambda cell: cell["minutes"]):
            for (system, key), called in CALIBRATIONS.items():
                found = cell.get(key) if cell["system"] == system else None
                if found and found.get("error") is not None:
                    chance = f"{found['chance']:.3f}" if "chance" in found else ""
                    once = f"{found['by_question']:.3f}" if "by_question" in found else ""
                    shown = f"{found['groups']} | {found['error']:.3f} | {chance} | {found['worst']:.3f} | {once}"
                    lines.append(f"| {_starred(graph)} | {cell['minutes']:g} | {called} | {shown} |")
    return [*lines, *_calibration_means(cells)]


def _calibration_means(cells: list[Cell]) -> list[str]:
    """For each number of minutes, the means over the graphs that have all calibrations."""
    lines = []
    for minutes in sorted({cell["minutes"] for cell in cells if cell["system"] == FIT}):
        found: dict[str, dict[str, float]] = {}
        for cell in (cell for cell in cells if cell["minutes"] in (0.0, minutes)):
            for (system, key), called in CALIBRATIONS.items():
                error = cell.get(key, {}).get("error") if cell["system"] == system else None
                if error is not None:
                    found.setdefault(cell["graph"], {})[called] = error
        whole = [errors for errors in found.values() if len(errors) == len(CALIBRATIONS)]
        if whole:
            means = (
                f"{called} {np.mean([errors[called] for errors in whole]):.3f}" for called in CALIBRATIONS.values()
            )
            lines += ["", f"Means over {len(whole)} graphs, {_minutes(minutes)}: {'; '.join(means)}."]
    return lines
