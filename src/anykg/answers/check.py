"""How far to trust a model on a graph: hide some of its facts, ask for them, and report how well that went.

Intervals are 95% prediction intervals: the range for the same figure on as many other facts like these. They come
from resampling the hidden facts twice, once for this check and once for the other; the questions about one fact stay
together. A true fact that is missing from the graph counts as a wrong answer, so a check errs on the strict side.

Beside the model, popularity and PageRank are asked for the same facts: a model that does not beat them is of no use on
this graph. A model that was fitted to the graph is judged by what it was asked while it was made.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
import torch

from anykg.answers import calibration
from anykg.answers.fitted import asked_before, fitted_to, has_seen
from anykg.answers.hidden import Recovery, ask_back, hide, hide_together
from anykg.answers.inputs import ModelLike, graph_of, model_of
from anykg.answers.results import GraphInfo, Result
from anykg.answers.training_data import trained_on
from anykg.errors import DataError, InputError, SettingError
from anykg.evaluation.metrics import HITS
from anykg.evaluation.protocol import Target
from anykg.evaluation.ranking import best_answers
from anykg.evaluation.strata import STRATA
from anykg.graph.graph import COLUMNS, RELATION, TAIL, KnowledgeGraph
from anykg.graph.schema import redundant_relations
from anykg.io.catalog import GraphLike
from anykg.models.base import LinkPredictor
from anykg.models.mixture import Mixture
from anykg.models.store import DEFAULT_MODEL, load_model
from anykg.printable import printable
from anykg.progress import Progress, ignore
from anykg.seeds import generator

if TYPE_CHECKING:
    from rich.console import RenderableType

logger = logging.getLogger("anykg")

FACTS = {"node": 500, "relation": 100}
"""Facts to hide by default: a question about a relation takes a pass over the graph for each relation."""
RESAMPLES = 2000
MEASURES = ("mrr", *(f"hits@{k}" for k in HITS))
FEW_FACTS = 200
"""Number of hidden facts below which the figures are uncertain."""
DOMINANT = 0.5
"""Share of the facts in one relation above which it dominates the figures."""
SHOWN_RELATIONS = 10
SHOWN_GROUPS = 5
"""Relations whose probabilities are farthest off."""
CAVEAT = "True facts that are missing from the graph count as errors here: real answers are better than these figures."
FLOORS = ("popularity", "pagerank")
MOST_HIDDEN = 0.2
"""Share of the facts hidden at once, at most, to see what fitting brings."""


@dataclass(frozen=True)
class Estimate:
    """A measure and its 95% interval, as fractions."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Part:
    """How some of the questions were answered."""

    name: str
    facts: int
    measures: dict[str, Estimate]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Report(Result):
    """The findings of a check."""

    shows_warnings: ClassVar[bool] = True
    graph: GraphInfo
    model: str
    task: Target
    overall: Part
    chance: float
    """Hits@10 of random guesses."""
    floors: tuple[Part, ...]
    """How popularity and PageRank did on the same facts."""
    fitted: Part | None = None
    """How a model did that was fitted to the graph without the hidden facts, if that was asked for."""
    by_stratum: tuple[Part, ...]
    by_relation: tuple[Part, ...]
    """Most hidden facts first."""
    not_given_away: Part | None
    """The facts that no duplicate, inverse or symmetric fact gives away; None if that is all of them, or none."""
    calibration: calibration.Calibration
    questions: pl.DataFrame
    """Every question: the hidden fact (head, relation, tail), what was asked, the rank of the right answer, the model's
    first answer, and whether another fact gave it away."""
    per_fact: np.ndarray
    """MRR [H] of each hidden fact, in an order that does not depend on the model."""

    @property
    def comparison(self) -> str:
        """How the model compares with the floors, and with a fitted one, in plain words."""
        mrr = self.overall.measures["mrr"].value
        floors = " and ".join(f"{part.name} {part.measures['mrr'].value:.2f}" for part in self.floors)
        best = max((part.measures["mrr"].value for part in self.floors), default=0.0)
        text = f"Beside its MRR of {mrr:.2f}: {floors}." if floors else ""
        if floors and mrr <= best:
            text += f" {self.model} does not beat these floors."
        if self.fitted is not None:
            text += (
                f" {self.fitted.name.capitalize()}, MRR {self.fitted.measures['mrr'].value:.2f} and Hits@10 "
                f"{self.fitted.measures['hits@10'].value:.0%} on the same hidden facts."
            )
        return text.strip()

    @property
    def sentence(self) -> str:
        """The finding in plain words."""
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
        """Return some of the questions, drawn at random from those that no other fact gives away."""
        fair = self.questions.filter(~pl.col("given_away"))
        drawn = generator(seed, "examples").permutation(fair.height)[:count]
        found: pl.DataFrame = fair[np.sort(drawn).tolist()]
        return found

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
        first, found = (int((fair["rank"] <= k).sum()) for k in (1, 10))
        note = (
            f"{shown.height:,} of {fair.height:,} questions about hidden facts, drawn at random; what was asked is in "
            f"[brackets], `rank` is that of the right answer. Of all {fair.height:,}, {first:,} were answered right at "
            f"once, {found:,} within 10 answers."
        )
        return [table, Text(f"\n{note}")]

    def to_polars(self) -> pl.DataFrame:
        """Return a row for all facts, each stratum and each relation, with every measure and its interval."""
        parts = [("all", self.overall)]
        parts += [("half-links", part) for part in self.by_stratum] + [("relation", part) for part in self.by_relation]
        parts += [("floor", part) for part in self.floors]
        parts += [("fitted", self.fitted)] if self.fitted else []
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
        """Return the table, the finding and the warnings."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False)
        table.add_column("hidden facts", overflow="fold")
        for name in ("count", "MRR", "95% interval", "Hits@1", "Hits@10"):
            table.add_column(name, justify="right")
        table.add_row("all", *_cells(self.overall))
        for part in (*self.floors, *([self.fitted] if self.fitted else [])):
            table.add_row(f"  {part.name}", *_cells(part))
        for part in self.by_stratum:
            table.add_row(f"half-links seen: {part.name}", *_cells(part))
        for part in self.by_relation[:relations]:
            table.add_row(Text(printable(part.name)), *_cells(part))
        left = len(self.by_relation) - relations
        if left > 0:
            table.add_row(f"({left:,} more relations)", *[""] * 5)
        lines = [self.sentence, self.comparison, CAVEAT, *(f"Warning: {warning}" for warning in self.warnings)]
        if self.calibration.error is not None:
            lines.append(
                "Calibrated probabilities (predict --calibrated) are off by "
                f"{100 * self.calibration.error:.1f} points on average; the worst relations:"
            )
        lines += [
            f"  {group.relation or 'relations'} ({group.asked}s, {group.questions:,} questions): first answers stated "
            f"{group.stated:.2f}, right {group.right:.2f}"
            for group in self.calibration.worst(SHOWN_GROUPS)
        ]
        return [table, "", *(Text(printable(line)) for line in lines if line)]


def check(
    graph: GraphLike,
    *,
    model: ModelLike = DEFAULT_MODEL,
    task: Target = "node",
    facts: int | None = None,
    seed: int = 0,
    name: str | None = None,
    floors: bool = True,
    fit: float | None = None,
    progress: Progress = ignore,
) -> Report:
    """Hide facts of a graph, ask a model for them, and keep the curve that turns its scores into probabilities.

    Args:
        graph: A graph, file, dataset name, DataFrame, NetworkX graph or list of triples.
        model: A model, the name of a shipped one, a folder, or a hub id.
        task: Ask for entities ("node") or for relations ("relation").
        facts: Number of facts to hide; by default 500 for entities and 100 for relations.
        seed: Draws the facts.
        name: What to call the model.
        floors: Ask popularity and PageRank too.
        fit: Also fit a model for so many minutes to the graph without the hidden facts, to see what that brings.
        progress: Called with (done, total) questions.
    """
    if task not in FACTS:
        raise SettingError("task", f"expected {' or '.join(FACTS)}, found {task!r}")
    if fit is not None and fit <= 0:
        raise SettingError("fit", f"expected more than 0 minutes, found {fit:g}")
    if facts is not None and facts < 1:
        raise SettingError("facts", f"expected at least 1, found {facts}")
    loaded, info = graph_of(graph)
    scorer, called = model_of(model, name)
    wanted = FACTS[task] if facts is None else facts
    alike = loaded.derive(redundant_relations)
    own = calibration.own(scorer, task)
    fitted = isinstance(scorer, Mixture) and fitted_to(scorer, loaded)
    if isinstance(scorer, Mixture) and fitted:
        found, others, after_fit = asked_before(scorer, loaded, task), _floors_of(scorer, task), None
        share = None
    elif has_seen(scorer, loaded):
        raise InputError(
            f"{called} was fitted to facts by name and may have seen those that a check would hide; check the model it "
            "was made from, with `fit` to see what fitting brings."
        )
    else:
        rounds = hide(loaded, wanted, seed) if fit is None else [_hide_once(loaded, wanted, seed)]
        found = ask_back(scorer, rounds, task, alike, progress)
        share = len(rounds[0][1]) / len(loaded)
        everything = np.ones(len(found.ranks), bool)
        others = tuple(
            _part(floor, ask_back(load_model(floor), rounds, task, alike), everything, seed)
            for floor in (FLOORS if floors else ())
        )
        after_fit = None if fit is None else _after_fitting(scorer, rounds, task, alike, fit, seed)
    evidence = found.evidence(loaded.num_relations)
    curve = own or calibration.fit(evidence, found.best_right, list(loaded.relations), share)
    path = calibration.place_of(loaded, scorer, task)
    kept = None if own else calibration.load(path)
    better_kept = facts is not None and kept is not None and kept.answers > curve.answers
    if not better_kept and own is None:
        calibration.save(curve, path, loaded)
    everything = np.ones(len(found.ranks), bool)
    plain = ~found.given_away
    relations = found.facts[:, 1]
    by_relation = [_part(loaded.relations.label(int(r)), found, relations == r, seed) for r in np.unique(relations)]
    report = Report(
        command="check",
        graph=info,
        model=called,
        task=task,
        overall=_part("all", found, everything, seed),
        chance=float(np.mean(np.minimum(10 / found.candidates, 1.0))),
        floors=others,
        fitted=after_fit,
        by_stratum=tuple(
            _part(stratum, found, found.strata == index, seed)
            for index, stratum in enumerate(STRATA)
            if (found.strata == index).any()
        ),
        by_relation=tuple(sorted(by_relation, key=lambda part: -part.facts)),
        not_given_away=_part("not given away", found, plain, seed) if plain.any() and not plain.all() else None,
        calibration=curve,
        questions=_questions(loaded, found),
        per_fact=_by_fact(found, everything)[0]["mrr"],
    )
    warnings = _warnings(loaded, report, alike, len(np.unique(found.facts, axis=0)) if fitted else wanted)
    seen = trained_on(scorer, loaded, info.name)
    warnings += [seen] if seen else []
    if better_kept and kept is not None:
        warnings.append(
            f"`predict --calibrated` keeps using the curve of an earlier check with {kept.answers:,} answers."
        )
    return replace(report, warnings=tuple(warnings))


def calibration_of(
    model: LinkPredictor, graph: KnowledgeGraph, task: Target, progress: Progress = ignore, *, announce: bool = True
) -> calibration.Calibration:
    """The calibration that the model brings, the one kept from an earlier check, or one made now."""
    kept = kept_calibration(model, graph, task)
    if kept is not None:
        return kept
    if announce:
        _announce(model, graph, task)
    return check(graph, model=model, task=task, floors=False, progress=progress).calibration


def kept_calibration(model: LinkPredictor, graph: KnowledgeGraph, task: Target) -> calibration.Calibration | None:
    """The calibration that the model brings or an earlier check has kept, of this graph or an earlier version of it."""
    own = calibration.own(model, task)
    if own is not None:
        return own
    kept = calibration.kept(graph, model, task)
    if kept is not None and kept.note is not None:
        logger.info("Probabilities are %s.", kept.note)
    return None if kept is None else kept.calibration


def _announce(model: LinkPredictor, graph: KnowledgeGraph, task: Target) -> None:
    """Say that a check comes first and about how long it takes, by the time that one question takes."""
    if not len(graph):
        return
    question = graph.triplets[:1].astype(np.int64)
    question[0, RELATION if task == "relation" else TAIL] = -1
    started = time.perf_counter()
    best_answers(model, graph, question, k=1)
    questions = FACTS[task] * (1 if task == "relation" else 2)
    seconds = questions * (time.perf_counter() - started)
    logger.info(
        "No calibration of this model on this graph is kept, so a check comes first: %s questions about hidden facts, "
        "at most about %s. It is kept for later.",
        f"{questions:,}",
        f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min",
    )


def _hide_once(graph: KnowledgeGraph, facts: int, seed: int) -> tuple[KnowledgeGraph, KnowledgeGraph]:
    """One round of (rest, hidden), so that one fit serves for all hidden facts."""
    rest, hidden = hide_together(graph, min(facts / len(graph), MOST_HIDDEN), seed)
    if not len(hidden):
        raise DataError(f"None of the {len(graph)} facts can be hidden; a check needs a graph with more facts.")
    return rest, hidden


def _after_fitting(
    model: LinkPredictor,
    rounds: list[tuple[KnowledgeGraph, KnowledgeGraph]],
    task: Target,
    alike: np.ndarray,
    minutes: float,
    seed: int,
) -> Part:
    """How a model fitted to the rest of the facts does on the hidden ones."""
    from anykg.answers.fit import fit

    [(rest, _)] = rounds
    found = ask_back(fit(rest, minutes=minutes, model=model, seed=seed), rounds, task, alike)
    return _part(f"fitted for {minutes:g} min", found, np.ones(len(found.ranks), bool), seed)


def _floors_of(model: Mixture, task: Target) -> tuple[Part, ...]:
    """How the floors did on the facts that were hidden while a model was fitted."""
    prefix, hidden = ("relation_", "hidden_relation") if task == "relation" else ("", "hidden")
    facts = len(torch.unique(getattr(model, f"{hidden}_questions"), dim=0)) // (1 if prefix else 2)
    rows = {row["component"]: row for row in model.config.table}
    return tuple(
        Part(
            name,
            facts,
            {key: Estimate(rows[name].get(f"{prefix}{key}", math.nan), math.nan, math.nan) for key in MEASURES},
        )
        for name in FLOORS
        if f"{prefix}mrr" in rows.get(name, {})
    )


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Comparison(Result):
    """Which of several models to use on a graph."""

    shows_warnings: ClassVar[bool] = True
    reports: tuple[Report, ...]
    best: str
    differences: dict[str, Estimate]
    """MRR of the best minus that of each other model, over the same hidden facts, with the interval of that mean."""

    @property
    def sentence(self) -> str:
        """The finding in plain words."""
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
        """Return every report and the finding."""
        from rich.text import Text

        return [*(part for report in self.reports for part in report.renderables()), Text(printable(self.sentence))]


def compare(reports: Sequence[Report], seed: int = 0) -> Comparison:
    """Compare models that were asked for the same hidden facts."""
    best = max(reports, key=lambda report: report.overall.measures["mrr"].value)
    others = [report for report in reports if report is not best]
    differences = {report.model: _mean(best.per_fact - report.per_fact, seed) for report in others}
    return Comparison(
        command="check",
        graph=best.graph,
        reports=tuple(reports),
        best=best.model,
        differences=differences,
        warnings=tuple(dict.fromkeys(f"{report.model}: {text}" for report in reports for text in report.warnings)),
    )


def _by_fact(found: Recovery, keep: np.ndarray) -> tuple[dict[str, np.ndarray], int]:
    """Every measure [H] averaged over the questions about one fact, and H."""
    _, which = np.unique(found.facts[keep], axis=0, return_inverse=True)
    which, ranks = which.reshape(-1), found.ranks[keep]
    counts = np.bincount(which)
    values = {"mrr": 1 / ranks} | {f"hits@{k}": (ranks <= k).astype(float) for k in HITS}
    return {name: np.bincount(which, column) / counts for name, column in values.items()}, len(counts)


def _part(name: str, found: Recovery, keep: np.ndarray, seed: int) -> Part:
    columns, count = _by_fact(found, keep)
    return Part(name, count, {measure: _estimate(columns[measure], seed) for measure in MEASURES})


def _estimate(values: np.ndarray, seed: int) -> Estimate:
    """The mean of values [H] and where that of H others would fall; one value says nothing about others."""
    if len(values) < 2:
        return Estimate(float(values.mean()), 0.0, 1.0)
    errors = _resampled(values, seed, "this") - _resampled(values, seed, "other")
    low, high = values.mean() + np.quantile(errors, [0.025, 0.975])
    return Estimate(float(values.mean()), float(low), float(high))


def _mean(values: np.ndarray, seed: int) -> Estimate:
    """The mean of values [H] and its interval."""
    low, high = np.quantile(_resampled(values, seed, "this"), [0.025, 0.975])
    return Estimate(float(values.mean()), float(low), float(high))


def _resampled(values: np.ndarray, seed: int, which: str) -> np.ndarray:
    """Means [RESAMPLES] of values [H] drawn with replacement."""
    random = generator(seed, "bootstrap", which)
    sizes = [len(part) for part in np.array_split(np.arange(RESAMPLES), 20)]  # not all at once: facts may be many
    return np.concatenate([values[random.integers(len(values), size=(size, len(values)))].mean(1) for size in sizes])


def _warnings(graph: KnowledgeGraph, report: Report, alike: np.ndarray, wanted: int) -> list[str]:
    found: list[str] = []
    hidden = report.overall.facts
    if hidden < FEW_FACTS:
        why = " (more would leave an entity or a relation without facts)" if hidden < wanted else ""
        found.append(f"only {hidden:,} facts were hidden{why}, so the figures are uncertain.")
    counts = np.bincount(graph.triplets[:, 1], minlength=graph.num_relations)
    if graph.num_relations > 1 and counts.max() > DOMINANT * len(graph):
        most = int(counts.argmax())
        found.append(
            f"{counts[most] / len(graph):.0%} of the facts are of one relation, {graph.relations.label(most)!r}, which "
            "dominates the figures; look at each relation."
        )
    if len(alike):
        shown = list(dict.fromkeys(_alike(graph, int(r), int(s)) for r, s in alike))
        more = f", and {len(shown) - 3} more" if len(shown) > 3 else ""
        rest = report.not_given_away
        without = f" Without the facts given away by these, MRR is {rest.measures['mrr'].value:.2f}." if rest else ""
        found.append(f"some relations duplicate or invert each other: {', '.join(shown[:3])}{more}.{without}")
    return found


def _alike(graph: KnowledgeGraph, first: int, second: int) -> str:
    label, other = graph.relations.label(first), graph.relations.label(second % graph.num_relations)
    if second == first + graph.num_relations:
        return f"{label!r} is symmetric"
    if second >= graph.num_relations:
        return f"{min(label, other)!r} and {max(label, other)!r} are inverses"
    return f"{min(label, other)!r} and {max(label, other)!r} duplicate each other"


def _questions(graph: KnowledgeGraph, found: Recovery) -> pl.DataFrame:
    """Every question by name."""
    entities, relations = graph.entities, graph.relations
    heads, kinds, tails = found.facts.T
    answers = [
        None if answer < 0 else (relations if column == RELATION else entities).label(int(answer))
        for answer, column in zip(found.answers, found.columns, strict=True)
    ]
    return pl.DataFrame(
        {
            "head": [entities.label(int(i)) for i in heads],
            "relation": [relations.label(int(i)) for i in kinds],
            "tail": [entities.label(int(i)) for i in tails],
            "asked": [COLUMNS[column] for column in found.columns],
            "rank": found.ranks,
            "answer": pl.Series(answers, dtype=pl.String),
            "given_away": found.given_away,
        }
    )


def _row(part: Part) -> dict[str, Any]:
    row: dict[str, Any] = {"name": part.name, "facts": part.facts}
    for name, value in part.measures.items():
        row |= {name: value.value, f"{name}_low": value.low, f"{name}_high": value.high}
    return row


def _cells(part: Part) -> list[str]:
    mrr = part.measures["mrr"]
    known = part.facts > 1 and math.isfinite(mrr.low)
    interval = f"{max(mrr.low, 0):.2f} to {min(mrr.high, 1):.2f}" if known else ""
    hits = (f"{part.measures[f'hits@{k}'].value:.0%}" for k in (1, 10))
    return [f"{part.facts:,}", f"{mrr.value:.2f}", interval, *hits]
