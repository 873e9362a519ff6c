"""Collect the results of an experiment and compare them with the paper's.

`results/HOME/MODEL.json` keeps every cell (see `cells`), HOME being the experiment the cells belong to; tables average
over seeds: mean and standard deviation in percent.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anykg.atomic import write_text
from anykg.benchmarks.cells import read_cells, write_cells
from anykg.benchmarks.experiment import Cell, Experiment, ModelRow
from anykg.benchmarks.runs import KINDS, folder_of, read_cell
from anykg.evaluation.protocol import PROTOCOLS

LABELS = {"hits@10": "Hits@10", "hits@5": "Hits@5", "hits@1": "Hits@1", "mrr": "MRR"}
KEPT = ("protocol", "seed", "counts", "metrics", "standard_errors", "score_errors", "expert", "made_with")
"""Keys of an evaluation that are stored in a results file; the rest stays in the run's folder."""
KEPT_OF_OWN = (*KEPT, "ties", "by_stratum")
"""Further keys kept for the task's own graph."""
ZERO_SHOT = "zero-shot"

Published = dict[tuple[str, str, str, str, str], tuple[float, float | None]]


class Figure(NamedTuple):
    """One number of a table, in percent."""

    model: str
    protocol: str
    dataset: str
    """The training set."""
    column: str
    """The test set."""
    task: str
    """The kind of question."""
    metric: str
    ours: float | None
    std: float | None
    seeds: int
    paper: float | None
    paper_std: float | None
    difference: float | None


class Line(NamedTuple):
    """A model under a protocol."""

    model: ModelRow
    protocol: str
    order: int
    """Index of the protocol among the model's; 0 is the one of the paper's row."""

    def label(self, experiment: Experiment) -> str:
        """Its name in a table."""
        return self.model.name if self.protocol == experiment.protocol else f"{self.model.name} ({self.protocol})"


def collect(experiment: Experiment, runs: Path, results: Path) -> None:
    """Collect results into `results/HOME/MODEL.json`, keeping cells of earlier runs whose folders are missing."""
    for model in experiment.models:
        rows = [row for cell in experiment.cells() if cell.model is model for row in _rows(experiment, cell, runs)]
        if rows:
            before = read_rows(experiment, model, results)
            merged = {(row["task"], row["seed"], graph_of(row)): row for row in (*before, *rows)}
            cells = [merged[key] for key in sorted(merged)]
            write_cells(_path(experiment, model, results), cells, experiment=experiment.home, model=model.name)


def read_rows(experiment: Experiment, model: ModelRow, results: Path) -> list[dict[str, Any]]:
    """The cells of a model in its results file."""
    return read_cells(_path(experiment, model, results))


def _path(experiment: Experiment, model: ModelRow, results: Path) -> Path:
    return results / experiment.home / f"{model.name}.json"


def graph_of(row: dict[str, Any]) -> str:
    """The graph a row was tested on: the task's own unless it names another."""
    return str(row.get("graph", row["task"]))


def _rows(experiment: Experiment, cell: Cell, runs: Path) -> Iterator[dict[str, Any]]:
    tests, seconds = read_cell(folder_of(runs, experiment, cell), cell)
    for graph, found in tests.items():
        own = graph == cell.task
        kept = KEPT_OF_OWN if own else KEPT
        row = {"task": cell.task} | ({} if own else {"graph": graph}) | {"seed": cell.seed, "seconds": seconds}
        row |= {"settings": settings_of(cell.model)} | _kept(found, kept)
        yield row | {"also": {name: _kept(part, kept) for name, part in found.get("also", {}).items()}}


def settings_of(model: ModelRow) -> dict[str, Any]:
    """The settings of a row that are not the model's defaults."""
    trained = model.weights_of or model
    return {"recipe": dict(trained.recipe), "config": {**trained.config, **model.config}, "limits": dict(model.limits)}


def _kept(found: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {kind: _without_equal_ties({key: found[kind].get(key) for key in keys}) for kind in KINDS}


def _without_equal_ties(part: dict[str, Any]) -> dict[str, Any]:
    """The metrics under other tie-breaking rules, if they differ."""
    ties = {rule: values for rule, values in (part.get("ties") or {}).items() if values != part["metrics"]}
    return part | {"ties": ties}


def load_published(name: str) -> Published:
    """The paper's figures in percent: (model, dataset, column, task, metric) -> (mean, standard deviation)."""
    file = files("anykg.benchmarks").joinpath("published", f"{name}.csv")
    rows = csv.DictReader(file.read_text(encoding="utf-8").splitlines()) if file.is_file() else ()
    return {
        (row["model"], row["dataset"], row.get("column", ZERO_SHOT), row["task"], row["metric"]): (
            float(row["mean"]),
            float(row["std"]) if row["std"] else None,
        )
        for row in rows
    }


def lines_of(experiment: Experiment) -> list[Line]:
    """The lines of a table: models by protocol, the one of the paper's row first."""
    return [Line(m, name, order) for m in experiment.models for order, name in enumerate(experiment.protocols(m))]


def figures(experiment: Experiment, results: Path) -> list[Figure]:
    """Every number of the experiment's tables, including missing ones.

    Cells that were measured under an earlier definition of their protocol count as missing.
    """
    published = load_published(experiment.name)
    result = []
    for line in lines_of(experiment):
        rows = {(row["task"], row["seed"], graph_of(row)): row for row in read_rows(experiment, line.model, results)}
        for cells in _by_task(experiment, line.model):
            for column in experiment.columns:
                asked = [[(c.task, c.seed, graph) for graph in experiment.averaged(c, column)] for c in cells]
                if not asked[0]:
                    continue
                whole = [[rows[key] for key in keys] for keys in asked if all(key in rows for key in keys)]
                for kind in KINDS:
                    parts = [[_evaluation(row, line, kind) for row in seed] for seed in whole]
                    complete = [[part for part in seed if part] for seed in parts if all(seed)]
                    for metric in experiment.metrics:
                        values = [100 * float(np.mean([part["metrics"][metric] for part in seed])) for seed in complete]
                        key = (line.model.published, cells[0].task, column, kind, metric)
                        paper = published.get(key) if line.order == 0 else None
                        result.append(_figure(line.model.name, line.protocol, *key[1:], values, paper))
    return result


def _evaluation(row: dict[str, Any], line: Line, kind: str) -> dict[str, Any] | None:
    """The evaluation of a row for a kind of question, if it used the current definition of the protocol."""
    found = row if line.order == 0 else row.get("also", {}).get(line.protocol)
    if found is None or not _is_current(found[kind], kind, line.protocol):
        return None
    part: dict[str, Any] = found[kind]
    return part


def _is_current(part: dict[str, Any], kind: str, name: str) -> bool:
    """Whether an evaluation used the current definition of the protocol; unknown counts as yes."""
    was, now = part.get("protocol"), PROTOCOLS[name]
    if was is None:
        return True
    if was["negatives"] != now.negatives or (kind == "node" and was["sides"] != now.sides):
        return False
    enough = part["counts"]["relations"] - 1 >= now.negatives  # else relations are drawn with replacement anyway
    replaced = was["relations"] == now.relations or not enough
    return kind == "node" or (was["count_once"] == now.count_once and replaced)


def _by_task(experiment: Experiment, model: ModelRow) -> list[list[Cell]]:
    cells = [cell for cell in experiment.cells() if cell.model is model]
    by_task = [[cell for cell in cells if cell.task == task] for task in experiment.tasks]
    return [part for part in by_task if part]


def _figure(
    model: str,
    protocol: str,
    dataset: str,
    column: str,
    kind: str,
    metric: str,
    values: list[float],
    paper: tuple[float, float | None] | None,
) -> Figure:
    mean = round(float(np.mean(values)), 2) if values else None
    std = round(float(np.std(values, ddof=1)), 2) if len(values) > 1 else None
    difference = round(mean - paper[0], 2) if paper and mean is not None else None
    published, spread = paper or (None, None)
    return Figure(model, protocol, dataset, column, kind, metric, mean, std, len(values), published, spread, difference)


def write_tables(experiment: Experiment, results: Path) -> list[Figure]:
    """Write `results/NAME/table.md` and `table.csv`; returns the figures in them."""
    all_figures = figures(experiment, results)
    out = results / experiment.name / "table"
    lines = [",".join(Figure._fields)]
    lines += [",".join("" if value is None else str(value) for value in figure) for figure in all_figures]
    write_text(out.with_suffix(".csv"), "\n".join(lines) + "\n")
    write_text(out.with_suffix(".md"), _markdown(experiment, all_figures, results))
    return all_figures


def _markdown(experiment: Experiment, found: list[Figure], results: Path) -> str:
    lines = [
        f"# {experiment.title}",
        "",
        f"Made by `anykg reproduce {experiment.name}`; protocol `{experiment.protocol}` unless a row names another.",
        "Each cell: our mean over the seeds ± standard deviation, and in brackets the paper's mean. Percent. Alone in",
        f"brackets, or empty: not run. Every run, with its protocol and versions, is in `results/{experiment.home}/`.",
        *_notes(experiment, results),
    ]
    write = _models_by_tasks if len(experiment.columns) == 1 else _tasks_by_columns
    for kind in KINDS:
        for metric in experiment.metrics:
            part = [f for f in found if (f.task, f.metric) == (kind, metric)]
            lines += ["", f"## {LABELS[metric]}, {kind} task", "", *write(experiment, part)]
            if experiment.pairs:
                lines += ["", *_compared(experiment, part)]
    return "\n".join(lines) + "\n"


def _notes(experiment: Experiment, results: Path) -> list[str]:
    notes = []
    for model in experiment.models:
        rows = read_rows(experiment, model, results)
        for kind, limit in model.limits.items():
            # Describe the cells as they were run, not the current settings.
            size = max((row[kind]["counts"]["ranked"] for row in rows if row[kind].get("counts")), default=limit)
            notes.append(f"{model.name}: {kind} task on a seeded sample of at most {size} test triplets a graph.")
        if model.graphs == "experts":
            notes.append(
                f"{model.name}: a model for each training graph and one for all merged; the one that is best at "
                "hidden facts of a graph answers about it."
            )
        if model.graphs == "apart":
            turns = model.recipe.get("mixture", "size")
            notes.append(
                f"{model.name}: training graphs kept apart, drawn by `{turns}`; the others merge them into one."
            )
    return ["", *notes] if notes else []


def _models_by_tasks(experiment: Experiment, part: list[Figure]) -> list[str]:
    """One table: a row per model, a column per task."""
    lines = ["| model | seeds | " + " | ".join(experiment.tasks) + " |", "|---|---|" + "---|" * len(experiment.tasks)]
    for line in lines_of(experiment):
        picked = {f.dataset: f for f in _of(part, line)}
        cells = [_cell(picked.get(task)) for task in experiment.tasks]
        lines.append(f"| {line.label(experiment)} | {_seeds(list(picked.values()))} | " + " | ".join(cells) + " |")
    return lines


def _tasks_by_columns(experiment: Experiment, part: list[Figure]) -> list[str]:
    """A table for each model with figures, ours or the paper's: a row per task, a column per tested set."""
    lines: list[str] = []
    for line in lines_of(experiment):
        picked = {(f.dataset, f.column): f for f in _of(part, line)}
        if all(f.ours is None and f.paper is None for f in picked.values()):
            continue
        lines += ["", f"### {line.label(experiment)}", ""] if lines else [f"### {line.label(experiment)}", ""]
        lines += ["| trained on | seeds | " + " | ".join(experiment.columns) + " |"]
        lines += ["|---|---|" + "---|" * len(experiment.columns)]
        for task in dict.fromkeys(dataset for dataset, _ in picked):
            row = [picked.get((task, column)) for column in experiment.columns]
            lines.append(f"| {task} | {_seeds([f for f in row if f])} | " + " | ".join(map(_cell, row)) + " |")
    return lines or ["Nothing was run."]


def _compared(experiment: Experiment, part: list[Figure]) -> list[str]:
    """A table of pairs of tasks: what the second is relative to the first."""
    every = lines_of(experiment)
    lines = [
        "### Relative change from the first training set to the second",
        "",
        "| from | to | tested | " + " | ".join(line.label(experiment) for line in every) + " |",
        "|---|---|---|" + "---|" * len(every),
    ]
    for first, second in experiment.pairs:
        for column in experiment.columns:
            cells = []
            for line in every:
                ours = change(_of(part, line), first, second, column, lambda f: f.ours)
                paper = change(_of(part, line), first, second, column, lambda f: f.paper)
                shown = [f"{ours:+.1f}%" if ours is not None else "", f"({paper:+.1f}%)" if paper is not None else ""]
                cells.append(" ".join(shown).strip())
            lines.append(f"| {first} | {second} | {column} | " + " | ".join(cells) + " |")
    return lines


def change(
    part: list[Figure], first: str, second: str, column: str, value: Callable[[Figure], float | None]
) -> float | None:
    """The relative difference in percent between two training sets; None unless both are known."""
    known = {f.dataset: value(f) for f in part if f.column == column}
    before, after = known.get(first), known.get(second)
    return None if before is None or after is None else 100 * (after - before) / before


def _of(part: list[Figure], line: Line) -> list[Figure]:
    return [f for f in part if (f.model, f.protocol) == (line.model.name, line.protocol)]


def _seeds(picked: list[Figure]) -> str:
    seeds = sorted({f.seeds for f in picked}) or [0]
    return str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]}-{seeds[-1]}"


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return ""
    if figure.ours is None:
        return f"({figure.paper})" if figure.paper is not None else ""
    spread = f" ± {figure.std:.1f}" if figure.std is not None else ""
    paper = f" ({figure.paper:.1f})" if figure.paper is not None else ""
    return f"{figure.ours:.1f}{spread}{paper}"
