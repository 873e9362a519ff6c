"""How far to trust a model on a graph: hide some of its facts, ask for them, and say how that went.

Intervals are 95% prediction intervals: where the figure of as many other facts like these would fall. They come from
resampling the hidden facts twice, for this check and for the other; the questions about one fact stay together. What is
true but not in the graph counts as a wrong answer here, so that a check is rather too strict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from anykg.answers import calibration
from anykg.answers.hidden import Asked, ask_back, hide
from anykg.answers.ranking import Progress
from anykg.errors import ConfigError
from anykg.evaluation.metrics import HITS
from anykg.evaluation.protocol import Task
from anykg.evaluation.strata import STRATA
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.schema import redundant_relations
from anykg.io.catalog import load_graph
from anykg.models.base import LinkPredictor
from anykg.models.store import DEFAULT_MODEL, load_model
from anykg.seeds import stream

FACTS = {"node": 500, "relation": 100}
"""Facts that are hidden unless said otherwise: a question about a relation costs a pass for each of them."""
RESAMPLES = 2000
MEASURES = ("mrr", *(f"hits@{k}" for k in HITS))
FEW_FACTS = 200
"""Hidden facts below which the figures are shaky."""
DOMINANT = 0.5
"""Share of the facts in one relation above which it drowns the others."""


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


@dataclass(frozen=True)
class Report:
    """What a check found. Its text is for people, `as_json` for programs."""

    model: str
    task: Task
    entities: int
    relations: int
    facts: int
    overall: Part
    chance: float
    """Hits@10 of a guess."""
    by_stratum: tuple[Part, ...]
    by_relation: tuple[Part, ...]
    """Most hidden facts first."""
    given_away: Part | None
    """The facts that no near-duplicate, inverse or symmetric fact gives away, where some are."""
    warnings: tuple[str, ...]
    calibration: calibration.Curve
    per_fact: np.ndarray
    """MRR [H] of each hidden fact, in an order that does not depend on the model."""

    @property
    def sentence(self) -> str:
        """The finding in plain words."""
        hits = {k: self.overall.measures[f"hits@{k}"] for k in (1, 10)}
        mrr = self.overall.measures["mrr"]
        asked = "for either end of" if self.task == "node" else "for the relation of"
        of = f"{self.entities:,} entities" if self.task == "node" else f"{self.relations:,} relations"
        return (
            f"Asked {asked} {self.overall.facts:,} facts it could not see, {self.model} put the right one of {of} "
            f"first in {hits[1].value:.0%} and among its first 10 in {hits[10].value:.0%} "
            f"(by chance {self.chance:.1%}). MRR {mrr.value:.2f}; on as many other facts like these expect "
            f"{mrr.low:.2f} to {mrr.high:.2f}."
        )

    def as_json(self) -> dict[str, Any]:
        """Plain numbers and lists."""
        return {
            "model": self.model,
            "task": self.task,
            "entities": self.entities,
            "relations": self.relations,
            "facts": self.facts,
            "overall": _part_json(self.overall),
            "by_stratum": [_part_json(part) for part in self.by_stratum],
            "by_relation": [_part_json(part) for part in self.by_relation],
            "not_given_away": _part_json(self.given_away) if self.given_away else None,
            "warnings": list(self.warnings),
            "calibration": vars(self.calibration) | {},
            "sentence": self.sentence,
        }

    def __repr__(self) -> str:
        return "\n".join([self.sentence, *(f"Mind: {warning}" for warning in self.warnings)])


def check(
    graph: KnowledgeGraph | Path | str,
    *,
    model: LinkPredictor | Path | str = DEFAULT_MODEL,
    task: Task = "node",
    facts: int | None = None,
    seed: int = 0,
    name: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Hide facts of a graph, ask the model for them, and keep the curve that turns its scores into probabilities.

    Args:
        graph: A graph, a file of triples, or a dataset's name.
        model: A model, a folder, the name of a shipped one, or a hub id.
        task: Ask for entities (node) or for relations.
        facts: How many to hide; 500 for entities and 100 for relations unless said.
        seed: Chooses them.
        name: What to call the model.
        progress: Called with (done, total) questions.
    """
    if task not in FACTS:
        raise ConfigError(f"task: expected {' or '.join(FACTS)}, found {task!r}.")
    if facts is not None and facts < 1:
        raise ConfigError(f"facts: expected at least 1, found {facts}.")
    graph = graph if isinstance(graph, KnowledgeGraph) else load_graph(graph)
    called = name or ("the model" if isinstance(model, LinkPredictor) else str(model))
    model = model if isinstance(model, LinkPredictor) else load_model(model)
    alike = graph.derive(redundant_relations)
    asked = ask_back(model, hide(graph, FACTS[task] if facts is None else facts, seed), task, alike, progress)
    curve = calibration.fit(asked.best_questions, asked.best_scores, asked.best_right)
    place = calibration.place_of(graph, model, task)
    kept = calibration.load(place)
    better_kept = facts is not None and kept is not None and kept.answers > curve.answers
    if not better_kept:
        calibration.save(curve, place)
    everything = np.ones(len(asked.ranks), bool)
    plain = ~asked.given_away
    overall = _part("all", asked, everything, seed)
    relations = asked.facts[:, 1]
    by_relation = [_part(graph.relations.label(int(r)), asked, relations == r, seed) for r in np.unique(relations)]
    report = Report(
        model=called,
        task=task,
        entities=graph.num_entities,
        relations=graph.num_relations,
        facts=len(graph),
        overall=overall,
        chance=float(np.mean(np.minimum(10 / asked.candidates, 1.0))),
        by_stratum=tuple(
            _part(name, asked, asked.strata == index, seed)
            for index, name in enumerate(STRATA)
            if (asked.strata == index).any()
        ),
        by_relation=tuple(sorted(by_relation, key=lambda part: -part.facts)),
        given_away=_part("not given away", asked, plain, seed) if plain.any() and not plain.all() else None,
        warnings=(),
        calibration=curve,
        per_fact=_by_fact(asked, everything)[0]["mrr"],
    )
    warnings = _warnings(graph, report, alike, FACTS[task] if facts is None else facts)
    if better_kept and kept is not None:
        warnings.append(
            f"`predict --calibrated` goes on using the curve of an earlier check with {kept.answers:,} answers."
        )
    return replace(report, warnings=tuple(warnings))


@dataclass(frozen=True)
class Comparison:
    """Which of several models to use on a graph."""

    best: str
    differences: dict[str, Estimate]
    """MRR of the best minus that of each other one, over the same hidden facts, with the interval of that mean."""

    @property
    def sentence(self) -> str:
        """The finding in plain words."""
        close = [name for name, gap in self.differences.items() if gap.low <= 0]
        if not close:
            return f"Use {self.best}: it is better than the others beyond chance."
        return f"{self.best} did best, but {' and '.join(close)} may be as good: the difference is within chance."


def compare(reports: Sequence[Report], seed: int = 0) -> Comparison:
    """The best of several models that were asked for the same hidden facts."""
    best = max(reports, key=lambda report: report.overall.measures["mrr"].value)
    others = [report for report in reports if report is not best]
    differences = {report.model: _mean(best.per_fact - report.per_fact, seed) for report in others}
    return Comparison(best.model, differences)


def _by_fact(asked: Asked, keep: np.ndarray) -> tuple[dict[str, np.ndarray], int]:
    """Every measure [H] averaged over the questions about one fact, and H."""
    _, which = np.unique(asked.facts[keep], axis=0, return_inverse=True)
    which, ranks = which.reshape(-1), asked.ranks[keep]
    counts = np.bincount(which)
    values = {"mrr": 1 / ranks} | {f"hits@{k}": (ranks <= k).astype(float) for k in HITS}
    return {name: np.bincount(which, column) / counts for name, column in values.items()}, len(counts)


def _part(name: str, asked: Asked, keep: np.ndarray, seed: int) -> Part:
    columns, count = _by_fact(asked, keep)
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
    random = stream(seed, "bootstrap", which)
    sizes = [len(part) for part in np.array_split(np.arange(RESAMPLES), 20)]  # not all at once: facts may be many
    return np.concatenate([values[random.integers(len(values), size=(size, len(values)))].mean(1) for size in sizes])


def _warnings(graph: KnowledgeGraph, report: Report, alike: np.ndarray, wanted: int) -> list[str]:
    found = []
    hidden = report.overall.facts
    if hidden < FEW_FACTS:
        why = " (those that can go without leaving an entity unknown)" if hidden < wanted else ""
        found.append(f"only {hidden:,} facts were hidden{why}; the figures are rough.")
    counts = np.bincount(graph.triplets[:, 1], minlength=graph.num_relations)
    if graph.num_relations > 1 and counts.max() > DOMINANT * len(graph):
        most = int(counts.argmax())
        found.append(
            f"{counts[most] / len(graph):.0%} of the facts are of one relation, {graph.relations.label(most)!r}; the "
            "figures are mostly about it, so look at each relation."
        )
    if len(alike):
        shown = list(dict.fromkeys(_alike(graph, int(r), int(s)) for r, s in alike))
        more = f", and {len(shown) - 3} more" if len(shown) > 3 else ""
        rest = report.given_away
        without = f" Without facts that these give away, MRR is {rest.measures['mrr'].value:.2f}." if rest else ""
        found.append(f"some relations say the same: {', '.join(shown[:3])}{more}.{without}")
    return found


def _alike(graph: KnowledgeGraph, first: int, second: int) -> str:
    label, other = graph.relations.label(first), graph.relations.label(second % graph.num_relations)
    if second == first + graph.num_relations:
        return f"{label!r} goes both ways"
    if second >= graph.num_relations:
        return f"{min(label, other)!r} and {max(label, other)!r} are inverses"
    return f"{min(label, other)!r} and {max(label, other)!r} repeat each other"


def _part_json(part: Part) -> dict[str, Any]:
    return {"name": part.name, "facts": part.facts} | {name: vars(value) | {} for name, value in part.measures.items()}
