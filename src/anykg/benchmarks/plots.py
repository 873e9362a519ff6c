"""Plot the results of an experiment: heatmaps, pairs of training sets, lines.

Each plot is a reproducible SVG file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anykg.atomic import atomic_path
from anykg.benchmarks.experiment import Experiment
from anykg.benchmarks.report import LABELS, Figure, Line, lines_of
from anykg.benchmarks.runs import KINDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def draw(experiment: Experiment, found: list[Figure], results: Path) -> list[Path]:
    """Draw the plots of an experiment into `results/NAME`; returns the files, none if there is nothing to show."""
    ran = [f for f in found if f.ours is not None]
    if not experiment.plot or not ran:
        return []
    folder = results / experiment.name
    if experiment.plot == "heatmaps":
        drawn = {
            f"heatmap {line.label(experiment)}": _heatmaps(experiment, part) for line, part in _parts(experiment, ran)
        }
    else:
        drawn = {experiment.plot: (_pairs if experiment.plot == "pairs" else _lines)(experiment, ran)}
    return [_save(drawing, folder / f"{re.sub('[ ()]+', '-', name).strip('-')}.svg") for name, drawing in drawn.items()]


def _parts(experiment: Experiment, ran: list[Figure]) -> list[tuple[Line, list[Figure]]]:
    """The lines that have figures, with them."""
    parts = [
        (line, [f for f in ran if (f.model, f.protocol) == (line.model.name, line.protocol)])
        for line in lines_of(experiment)
    ]
    return [(line, part) for line, part in parts if part]


def _heatmaps(experiment: Experiment, part: list[Figure]) -> Drawing:
    """Heatmaps: one row of plots per kind of question, one column per metric; training graphs against test graphs."""
    drawing, axes = _canvas(len(KINDS), len(experiment.metrics), 4.2, 3.8)
    columns = list(experiment.columns)
    for down, kind in enumerate(KINDS):
        for across, metric in enumerate(experiment.metrics):
            values = np.full((len(experiment.tasks), len(columns)), np.nan)
            for f in part:
                if (f.task, f.metric) == (kind, metric):
                    values[experiment.tasks.index(f.dataset), columns.index(f.column)] = f.ours
            plot = axes[down][across]
            plot.imshow(values, cmap="Blues", vmin=0, vmax=100)
            for (y, x), value in np.ndenumerate(values):
                if not np.isnan(value):
                    color = "white" if value > 60 else "black"
                    plot.text(x, y, f"{value:.0f}", ha="center", va="center", fontsize=7, color=color)
            plot.set_xticks(range(len(columns)), columns, rotation=90)
            plot.set_yticks(range(len(experiment.tasks)), experiment.tasks)
            plot.set(title=f"{LABELS[metric]}, {kind}", xlabel="tested on", ylabel="trained on")
    return drawing


def _pairs(experiment: Experiment, ran: list[Figure]) -> Drawing:
    """One row of plots per kind of question, one column per model; bars for both training sets, dashes: the paper."""
    metric = experiment.metrics[0]
    column = [column for column in experiment.columns if any(f.column == column for f in ran)][-1]
    parts = _parts(experiment, ran)
    drawing, axes = _canvas(len(KINDS), len(parts), 0.9 * len(experiment.pairs), 3.6)
    for down, kind in enumerate(KINDS):
        for across, (line, part) in enumerate(parts):
            plot = axes[down][across]
            known = {f.dataset: f for f in part if (f.task, f.metric, f.column) == (kind, metric, column)}
            paper = []
            for side, (label, color) in enumerate((("first", "C0"), ("second", "C3"))):
                picked = [(x, known[pair[side]]) for x, pair in enumerate(experiment.pairs) if pair[side] in known]
                centres = [x + 0.4 * side - 0.2 for x, _ in picked]
                spread = [f.std or 0 for _, f in picked]
                plot.bar(centres, [f.ours for _, f in picked], 0.38, yerr=spread, color=color, label=label)
                paper += [(x, f.paper) for x, (_, f) in zip(centres, picked, strict=True) if f.paper is not None]
            if paper:
                plot.scatter(*zip(*paper, strict=True), marker="_", s=200, color="black", zorder=3, label="the paper's")
            plot.set_xticks(range(len(experiment.pairs)), ["\n".join(p) for p in experiment.pairs], fontsize=7)
            plot.tick_params("x", rotation=60)
            plot.set(title=f"{line.label(experiment)}, {kind}", ylabel=f"{column} {LABELS[metric]}")
            plot.set(ylim=(0, 112), xlim=(-0.5, len(experiment.pairs) - 0.5))
            plot.legend(fontsize=6, ncols=3, loc="upper center")  # room above 100 for the legend
    return drawing


def _lines(experiment: Experiment, ran: list[Figure]) -> Drawing:
    """A plot for each kind of question: one line per model over the number of training graphs."""
    metric = experiment.metrics[0]
    drawing, axes = _canvas(1, len(KINDS), 5, 3.6)
    for plot, kind in zip(axes[0], KINDS, strict=True):
        for line, part in _parts(experiment, ran):
            picked = [f for f in part if (f.task, f.metric) == (kind, metric)]
            counts = [len(experiment.trained_on(f.dataset)) for f in picked]
            spread = [f.std or 0 for f in picked]
            plot.errorbar(counts, [f.ours for f in picked], spread, marker="o", capsize=3, label=line.label(experiment))
        plot.set(title=f"{LABELS[metric]}, {kind} task", xlabel="training graphs", ylabel="zero-shot, percent")
        plot.legend(fontsize=8)
    return drawing


def _canvas(down: int, across: int, width: float, height: float) -> tuple[Drawing, Any]:
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(width * across, height * down), layout="constrained")
    return drawing, drawing.subplots(down, across, squeeze=False)


def _save(drawing: Drawing, path: Path) -> Path:
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "anykg", "svg.fonttype": "none"}), atomic_path(path) as temporary:
        drawing.savefig(temporary, format="svg", metadata={"Date": None})
    return path
