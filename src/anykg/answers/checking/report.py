"""The report of a check, with bootstrap intervals, and the comparison of checks on the same facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from anykg.answers.calibrating import calibration
from anykg.answers.results import GraphInfo, Result
from anykg.evaluation.protocol import Target
from anykg.graph.graph import COLUMNS
from anykg.printable import printable
from anykg.seeds import generator

if TYPE_CHECKING:
    from rich.console import RenderableType

RESAMPLES = 2000
SHOWN_RELATIONS = 10
SHOWN_GROUPS, SHOWN_ERROR = 5, 0.005
"""Maximum number of relations listed as poorly calibrated, and the minimum error of a listed one."""
CAVEAT = "True facts that are missing from the graph count as errors here, so the true figures are probably better."


@dataclass(frozen=True)
class Estimate:
    """A measure and its 95% interval, as fractions."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Part:
    """Metrics over some of the questions."""

    name: str
    facts: int
    measures: dict[str, Estimate]


@dataclass(frozen=True)
class Fitting:
    """The effect of fitting: metrics of two models on the same facts, which are not those of the rest of a report.

    They are hidden all at once, more than a check hides at a time, so both models find fewer of them.
    """

    minutes: float
    before: Part
    """The model as it is."""
    after: Part
    """A model fitted to the graph without these facts."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Report(Result):
    """The results of a check."""

    shows_warnings: ClassVar[bool] = True
    graph: GraphInfo
    model: str
    task: Target
    overall: Part
    chance: float
    """Hits@10 of random guesses."""
    floors: tuple[Part, ...]
    """Metrics of popularity and PageRank on the same facts."""
    fitting: Fitting | None = None
    """The effect of fitting, if requested."""
    by_stratum: tuple[Part, ...]
    by_relation: tuple[Part, ...]
    """By relation, those with the most hidden facts first."""
    not_given_away: Part | None
    """The facts that do not follow from a duplicate, inverse or symmetric fact; None if that is all of them, or
    none."""
    calibration: calibration.Calibration
    questions: pl.DataFrame
    """Every question: the hidden fact (head, relation, tail), the column to predict, the rank of the right answer, the
    model's first answer, and whether it follows from another fact."""
    per_fact: np.ndarray
    """MRR [H] of each hidden fact, in an order that does not depend on the model."""

    @property
    def comparison(self) -> str:
        """A sentence that compares the model with the baselines, and with a fitted model."""
        mrr = self.overall.measures["mrr"].value
        baselines = {part.name: part.measures["mrr"].value for part in self._others}
        reached = " and ".join(f"{name} {value:.2f}" for name, value in baselines.items())
        text = f"MRR for comparison: {reached}." if baselines else ""
        unbeaten = [name for name, value in baselines.items() if mrr <= value]
        if unbeaten:
            kind = "baseline" if len(unbeaten) == 1 else "baselines"
            text += f" {self.model} does not beat the {kind} {' and '.join(unbeaten)}."
        if self.fitting is not None:
            before, after = (
                f"MRR {part.measures['mrr'].value:.2f} and Hits@10 {part.measures['hits@10'].value:.0%}"
                for part in (self.fitting.before, self.fitting.after)
            )
            text += (
                f" On {self.fitting.after.facts:,} facts that were hidden all at once, {self.model} has {before}; "
                f"fitted for {self.fitting.minutes:g} min, {after}."
            )
        return text.strip()

    @property
    def _others(self) -> list[Part]:
        """The baselines that are not the model itself."""
        return [part for part in self.floors if part.name != self.model]

    @property
    def sentence(self) -> str:
        """A sentence that summarises the check."""
        hits = {k: self.overall.measures[f"hits@{k}"] for k in (1, 10)}
        mrr = self.overall.measures["mrr"]
        asked = "both ends of" if self.task == "node" else "the relation of"
        of = f"{self.graph.entities:,} entities" if self.task == "node" else f"{self.graph.relations:,} relations"
        return (
            f"Asked for {asked} {self.overall.facts:,} hidden facts, {self.model} ranked the right one of {of} "
            f"first in {hits[1].value:.0%} of cases and in the top 10 in {hits[10].value:.0%} "
            f"(random guesses: {self.chance:.1%}). MRR {mrr.value:.2f}, 95% interval {mrr.low:.2f} to {mrr.high:.2f}."
        )

    def examples(self, count: int = 10, seed: int = 0) -> pl.DataFrame:
        """Return some of the questions, drawn at random from those that do not follow from another fact."""
        fair = self.questions.filter(~pl.col("given_away"))
        drawn = generator(seed, "examples").permutation(fair.height)[:count]
        chosen: pl.DataFrame = fair[np.sort(drawn).tolist()]
        return chosen

    def example_renderables(self, count: int = 10, seed: int = 0) -> list[RenderableType]:
        """Return a table of examples for a terminal, right and wrong ones as drawn, and how many were right."""
        from rich.table import Table
        from rich.text import Text

        shown = self.examples(count, seed)
        table = Table(box=None, pad_edge=False)
        for name in ("hidden fact", "first answer", "rank"):
            table.add_column(name, justify="right" if name == "rank" else "left", overflow="fold")
        for row in shown.iter_rows(named=True):
            parts = [f"[{row[column]}]" if column == row["asked"] else row[column] for column in COLUMNS]
            answer = "no answer" if row["answer"] is None else row["answer"]
            right = "right" if row["rank"] == 1 else f"wrong: {answer}"
            table.add_row(*(Text(printable(text)) for text in (", ".join(parts), right, f"{row['rank']:g}")))
        fair = self.questions.filter(~pl.col("given_away"))
        first, in_top_10 = (int((fair["rank"] <= k).sum()) for k in (1, 10))
        of = f"all {fair.height:,}"
        if fair.height < self.questions.height:
            of = f"the {fair.height:,} of all {self.questions.height:,} that do not follow from another fact"
        note = (
            f"{shown.height:,} questions about hidden facts, drawn at random from {of}; the predicted part is "
            f"in [brackets], and `rank` is the rank of the right answer. Of these {fair.height:,}, {first:,} have the "
            f"right answer first, {in_top_10:,} in the top 10."
        )
        return [table, Text(f"\n{note}")]

    def to_polars(self) -> pl.DataFrame:
        """Return a row for all facts, each stratum and each relation, with every measure and its interval."""
        parts = [("all", self.overall)]
        parts += [("half-links", part) for part in self.by_stratum] + [("relation", part) for part in self.by_relation]
        parts += [("floor", part) for part in self.floors]
        if self.fitting:
            parts += [("not fitted", self.fitting.before), ("fitted", self.fitting.after)]
        if self.not_given_away:
            parts.append(("not given away", self.not_given_away))
        return pl.DataFrame([{"group": group} | _row(part) for group, part in parts])

    def summary(self) -> dict[str, Any]:
        """Return the sentence, the overall figures, the calibration curve and some of the questions."""
        overall = {name: vars(value) for name, value in self.overall.measures.items()}
        return {
            "sentence": self.sentence,
            "task": self.task,
            "hidden_facts": self.overall.facts,
            "overall": overall,
            "random_hits@10": self.chance,
            "comparison": self.comparison,
            "caveat": CAVEAT,
            "calibration": self.calibration.to_dict(),
            "examples": self.examples().to_dicts(),
        }

    def renderables(self, relations: int = SHOWN_RELATIONS) -> list[RenderableType]:
        """Return the table, the conclusion and the warnings."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False)
        table.add_column("hidden facts", overflow="fold")
        for name in ("count", "MRR", "95% interval", "Hits@1", "Hits@10"):
            table.add_column(name, justify="right")
        table.add_row("all", *_cells(self.overall))
        for part in self._others:
            table.add_row(f"  {part.name}", *_cells(part))
        if self.fitting:
            for part in (self.fitting.before, self.fitting.after):
                table.add_row(part.name, *_cells(part))
        for part in self.by_stratum:
            table.add_row(f"half-links seen: {part.name}", *_cells(part))
        for part in self.by_relation[:relations]:
            table.add_row(Text(printable(part.name)), *_cells(part))
        left = len(self.by_relation) - relations
        if left > 0:
            table.add_row(f"({left:,} more relation{'s' if left > 1 else ''})", *[""] * 5)
        lines = [self.sentence, self.comparison, CAVEAT, *(f"Warning: {warning}" for warning in self.warnings)]
        worst = [group for group in self.calibration.worst(SHOWN_GROUPS) if group.error >= SHOWN_ERROR]
        if self.calibration.error is not None:
            lines.append(
                "Calibrated probabilities, as given by `anykg predict --calibrated`, assume that "
                f"{self.calibration.missing:.0%} of all true facts are missing from the graph; they are off by "
                f"{100 * self.calibration.error:.1f} points on average{'; the worst relations:' if worst else '.'}"
            )
        lines += [
            f"  {group.relation or 'relations'} ({group.asked}s, {group.questions:,} questions): first answers had "
            f"a mean probability of {group.stated:.2f} and were right in {group.right:.0%} of cases"
            for group in worst
        ]
        return [table, "", *(Text(printable(line)) for line in lines if line)]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Comparison(Result):
    """Which of several models to use on a graph."""

    shows_warnings: ClassVar[bool] = True
    reports: tuple[Report, ...]
    best: str
    differences: dict[str, Estimate]
    """MRR of the best minus that of each other model, with its interval; paired where the hidden facts are the same."""

    @property
    def sentence(self) -> str:
        """A sentence that summarises the comparison."""
        close = [name for name, gap in self.differences.items() if gap.low <= 0]
        if not close:
            return f"Use {self.best}: it is significantly better than the others."
        return f"{self.best} did best, but the difference to {' and '.join(close)} is not significant."

    def to_polars(self) -> pl.DataFrame:
        """Return the rows of every report, with the model's name."""
        return pl.concat(
            [report.to_polars().insert_column(0, pl.lit(report.model).alias("model")) for report in self.reports]
        )

    def summary(self) -> dict[str, Any]:
        """Return the best model, the differences in MRR, and the summary of every report."""
        return {
            "sentence": self.sentence,
            "best": self.best,
            "differences": {name: vars(gap) for name, gap in self.differences.items()},
            "models": {report.model: report.summary() for report in self.reports},
        }

    def renderables(self) -> list[RenderableType]:
        """Return every report and the conclusion."""
        from rich.text import Text

        return [*(part for report in self.reports for part in report.renderables()), Text(printable(self.sentence))]


def compare(reports: Sequence[Report], seed: int = 0) -> Comparison:
    """Compare models; paired by fact if they were tested on the same hidden facts."""
    best = max(reports, key=lambda report: report.overall.measures["mrr"].value)
    others = [report for report in reports if report is not best]
    differences = {report.model: _difference(best, report, seed) for report in others}
    apart = [report.model for report in others if not _same_facts(best, report)]
    warnings = [f"{report.model}: {text}" for report in reports for text in report.warnings]
    if apart:
        warnings.append(
            f"{best.model} and {' and '.join(apart)} were tested on different facts, so small differences are not "
            "meaningful: a model made by `fit` is evaluated on the facts that were held out while it was fitted."
        )
    return Comparison(
        command="check",
        graph=best.graph,
        reports=tuple(reports),
        best=best.model,
        differences=differences,
        warnings=tuple(dict.fromkeys(warnings)),
    )


def estimate(values: np.ndarray, seed: int) -> Estimate:
    """The mean of values [H] and its prediction interval for H other values; 0 to 1 for a single value."""
    if len(values) < 2:
        return Estimate(float(values.mean()), 0.0, 1.0)
    errors = _resampled(values, seed, "this") - _resampled(values, seed, "other")
    low, high = np.clip(values.mean() + np.quantile(errors, [0.025, 0.975]), 0.0, 1.0)
    return Estimate(float(values.mean()), float(low), float(high))


def _same_facts(one: Report, other: Report) -> bool:
    """Whether both models were tested on the same facts."""
    first, second = (report.questions.select(COLUMNS).unique().sort(COLUMNS) for report in (one, other))
    return first.equals(second)


def _difference(best: Report, other: Report, seed: int) -> Estimate:
    """The MRR of the best minus that of another model, and its interval."""
    if _same_facts(best, other):
        means = _resampled(best.per_fact - other.per_fact, seed, "this")
    else:
        means = _resampled(best.per_fact, seed, "this") - _resampled(other.per_fact, seed, "other")
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(float(best.per_fact.mean() - other.per_fact.mean()), float(low), float(high))


def _resampled(values: np.ndarray, seed: int, which: str) -> np.ndarray:
    """Means [RESAMPLES] of values [H] drawn with replacement."""
    random = generator(seed, "bootstrap", which)
    sizes = [len(part) for part in np.array_split(np.arange(RESAMPLES), 20)]  # in blocks, to bound memory
    return np.concatenate([values[random.integers(len(values), size=(size, len(values)))].mean(1) for size in sizes])


def _row(part: Part) -> dict[str, Any]:
    row: dict[str, Any] = {"name": part.name, "facts": part.facts}
    for name, value in part.measures.items():
        row |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
    return row


def _cells(part: Part) -> list[str]:
    mrr = part.measures["mrr"]
    known = part.facts > 1 and math.isfinite(mrr.low)
    interval = f"{mrr.low:.2f} to {mrr.high:.2f}" if known else ""
    hits = (f"{part.measures[f'hits@{k}'].value:.0%}" for k in (1, 10))
    return [f"{part.facts:,}", f"{mrr.value:.2f}", interval, *hits]
