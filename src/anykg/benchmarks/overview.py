"""Generate the page of all results, docs/results.md, from `results/` alone.

`notes.md` beside an experiment's figures is copied to the page; `reasons.toml` says why figures differ.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from anykg.benchmarks import statistics_table, zero_shot
from anykg.benchmarks.consistency import impossible
from anykg.benchmarks.experiment import Experiment, load_experiment
from anykg.benchmarks.reasons import Reason, read_reasons
from anykg.benchmarks.report import LABELS, Figure, figures, lines_of, load_published
from anykg.benchmarks.runs import KINDS

EXPERIMENTS = ("pediatypes", "negative-transfer", "large", "wikitopics", "scaling")
TOLERANCE = 5.0
"""A figure is called reproduced if it is at most this many percentage points from the paper's."""
TABLES = (
    ("Table 1, Hits@10", "pediatypes", "hits@10"),
    ("Table 3, MRR", "pediatypes", "mrr"),
    ("Table 4, Hits@1", "pediatypes", "hits@1"),
    ("Table 5, Hits@5", "pediatypes", "hits@5"),
    ("Table 2, negative transfer", "negative-transfer", "hits@1"),
    ("Table 8, large graphs", "large", "hits@1"),
)
"""The paper's tables of results: name, experiment, metric."""
LARGE = ("fb15k-237", "nell-995")
"""The large graphs that are available."""
COUNTS = ("within 5 points", "above", "below")


def results_page(results: Path) -> str:
    """The page, with links that hold from a folder beside `results`."""
    found = {name: figures(load_experiment(name), results) for name in EXPERIMENTS}
    lines = [
        "# Results",
        "",
        "Made by `anykg reproduce report` from the figures in `results/`; edits are lost. Every number of the paper's",
        "tables is beside ours in the tables linked here. [paper.md](paper.md) maps each statement and table of the",
        "paper to code and tests.",
        *_counts(found),
        *_impossible(),
        *_statistics(results),
    ]
    for name in EXPERIMENTS:
        lines += _section(load_experiment(name), found[name], results)
    if (results / zero_shot.NAME / "table.md").exists():
        lines += ["", "## Zero-shot, shipped and published weights", ""]
        lines += [f"[Table](../{results.name}/{zero_shot.NAME}/table.md), `anykg reproduce {zero_shot.NAME}`."]
    return "\n".join(lines) + "\n"


def _counts(found: dict[str, list[Figure]]) -> list[str]:
    """How many figures of each of the paper's tables we have, and how far they are from the paper's."""
    lines = [
        "",
        "## The paper's tables",
        "",
        "A cell is a number the paper prints: a model, a task, a kind of question and a metric. It is missing here",
        "until the model was run, with one seed at least, by the protocol of its row. Where several rows stand for a",
        "model of the paper (`isdea+` and `isdea+ mixed`), the first that was run counts.",
        "",
        "| table | cells | with our figure | " + " | ".join(COUNTS) + " | missing |",
        "|---|---|---|---|---|---|---|",
    ]
    printed = {name: _of_the_paper(load_experiment(name), part) for name, part in found.items()}
    for title, name, metric in TABLES:
        lines.append(_count_line(title, [f for f in printed[name] if f.metric == metric]))
    lines.append(_count_line("Tables 1 and 3 to 5 together", printed["pediatypes"]))
    lines += ["", "The heatmaps (Figures 5 and 6) print no numbers. Squares that we have, of 110 for a model:", ""]
    lines += _squares(load_experiment("wikitopics"), found["wikitopics"])
    lines += [
        "",
        "Table 8 prints means over three graphs; YAGO3-10 is not available. By graph, of 32:",
        "",
    ]
    by_graph = [f.model for f in found["large"] if f.column in LARGE and f.ours is not None]
    return lines + [f"- {model}: {by_graph.count(model)}." for model in dict.fromkeys(by_graph)]


def _impossible() -> list[str]:
    """Figures of the paper that contradict each other."""
    rows = impossible(load_published("pediatypes"))
    lines = [
        "",
        "## Figures of the paper that contradict each other",
        "",
        "Hits@1, Hits@5 and Hits@10 bound the MRR. These rows of the paper are outside those bounds, so their MRR and",
        "their Hits@k cannot come from the same ranks: no run can reproduce both.",
        "",
        "| model | task | question | MRR | least possible | largest possible |",
        "|---|---|---|---|---|---|",
    ]
    return lines + [
        f"| {r.model} | {r.dataset} | {r.task} | {r.mrr:.1f} | {r.least:.1f} | {r.most:.1f} |" for r in rows
    ]


def _squares(experiment: Experiment, found: list[Figure]) -> list[str]:
    """How much of each heatmap is done, by the protocol of the paper's row."""
    lines = []
    for model in experiment.models:
        mine = [f for f in found if (f.model, f.protocol) == (model.name, experiment.protocols(model)[0])]
        squares = {(f.dataset, f.column) for f in mine if f.ours is not None}
        lines.append(f"- {model.name}: {len(squares)}.")
    return lines


def _of_the_paper(experiment: Experiment, found: list[Figure]) -> list[Figure]:
    """Figures that the paper prints, each once: of the first row for a model of the paper that was run."""
    published = {model.name: model.published for model in experiment.models}
    chosen: dict[tuple[str, ...], Figure] = {}
    for figure in found:
        if figure.paper is not None:
            key = (published[figure.model], figure.dataset, figure.column, figure.task, figure.metric)
            if key not in chosen or chosen[key].ours is None:
                chosen[key] = figure
    return list(chosen.values())


def _count_line(title: str, part: list[Figure]) -> str:
    compared = [f.difference for f in part if f.difference is not None]
    above, below = (sum(sign * difference > TOLERANCE for difference in compared) for sign in (1, -1))
    numbers = (len(part), len(compared), len(compared) - above - below, above, below, len(part) - len(compared))
    return f"| {title} | " + " | ".join(map(str, numbers)) + " |"


def _statistics(results: Path) -> list[str]:
    lines = ["", f"## {statistics_table.TITLE}", "", f"[Table](../{results.name}/{statistics_table.NAME}/table.md)."]
    counted = statistics_table.read(results)
    absent = [row["graph"] for row in statistics_table.published() if row["graph"] not in counted]
    lines += [
        "",
        f"Counted: {len(counted)} graphs." + (f" Not available: {', '.join(absent)}." if absent else ""),
    ]
    wrong = statistics_table.differences(results)
    return [*lines, *(["", "Not as the paper says:", "", *(f"- {line}" for line in wrong)] if wrong else [])]


def _section(experiment: Experiment, found: list[Figure], results: Path) -> list[str]:
    folder = results / experiment.name
    path = f"../{results.name}/{experiment.name}"
    lines = ["", f"## {experiment.title}", "", f"[Table]({path}/table.md), `anykg reproduce {experiment.name}`."]
    lines += [f"\n![{plot.stem}]({path}/{plot.name})" for plot in sorted(folder.glob("*.svg"))]
    if (folder / "notes.md").exists():
        lines += ["", (folder / "notes.md").read_text(encoding="utf-8").strip()]
    lines += [
        "",
        "| model | protocol | cells | with our figure | " + " | ".join(COUNTS) + " | median difference | missing |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    missing = []
    for line in lines_of(experiment):
        part = [f for f in found if (f.model, f.protocol) == (line.model.name, line.protocol)]
        lines.append(_model_line(line.model.name, line.protocol, part))
        missing += _missing(line.label(experiment), part, experiment.seeds)
    lines += ["", *_differences(found, read_reasons(folder))]
    return [*lines, "", "Missing:", "", *missing] if missing else lines


def _model_line(model: str, protocol: str, part: list[Figure]) -> str:
    ran = [f for f in part if f.ours is not None]
    compared = [f.difference for f in part if f.difference is not None]
    above, below = (sum(sign * difference > TOLERANCE for difference in compared) for sign in (1, -1))
    counts = [len(compared) - above - below, above, below, f"{np.median(compared):+.1f}"] if compared else [""] * 4
    row = [model, protocol, len(part), len(ran), *counts, len(part) - len(ran)]
    return "| " + " | ".join(map(str, row)) + " |"


def _differences(found: list[Figure], reasons: list[Reason]) -> list[str]:
    """Figures that differ from the paper's, grouped by reason."""
    if all(f.paper is None for f in found):
        return ["The paper prints no numbers to compare with."]
    compared = [f for f in found if f.difference is not None]
    if not compared:
        return ["Nothing that can be compared was run."]
    off = [f for f in compared if abs(f.difference or 0) > TOLERANCE]
    if not off:
        return ["All that can be compared is reproduced."]
    lines = [f"More than {TOLERANCE:g} points from the paper, ours (the paper's), by the reason for it:"]
    left = off
    for reason in reasons:
        mine = [f for f in left if reason.fits(f)]
        left = [f for f in left if not reason.fits(f)]
        if mine:
            verdict = "Tested" if reason.tested else "Unexplained"
            lines += ["", f"**{verdict}.** {' '.join(reason.text.split())}", "", *_listed(mine)]
    return [*lines, "", "**Unexplained, and nothing was tried.**", "", *_listed(left)] if left else lines


def _listed(off: list[Figure]) -> list[str]:
    lines = []
    for model in dict.fromkeys(f.model for f in off):
        for kind in KINDS:
            for metric in LABELS:
                asked = [f for f in off if (f.model, f.task, f.metric) == (model, kind, metric)]
                for word, sign in (("below", -1), ("above", 1)):
                    far = [_beside(f) for f in asked if sign * (f.difference or 0) > 0]
                    if far:
                        lines.append(f"- {model}, {kind} {LABELS[metric]}, {word}: {', '.join(far)}.")
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
