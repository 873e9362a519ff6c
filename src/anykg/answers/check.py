"""Measure how far to trust a model on a graph: hide some of its facts, predict them, and report the results.

Intervals are 95% prediction intervals: the range for the same figure on an equally large sample of similar facts. They
are bootstrap intervals that resample the hidden facts twice, once for this check and once for the other; the questions
about one fact stay together. A true fact that is missing from the graph counts as a wrong answer, so a check is
conservative.

Popularity and PageRank predict the same facts as baselines: a model that does not beat them is useless on this graph. A
model that was fitted to the graph is evaluated on the facts that were held out while it was fitted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl
import torch

from anykg.answers.calibrating import cache, calibration
from anykg.answers.calibrating.lookup import own_calibration
from anykg.answers.calibrating.missing import missing_share, refuse_share
from anykg.answers.checking.report import Estimate, Fitting, Part, Report, estimate
from anykg.answers.checking.training_data import trained_on
from anykg.answers.fitting.asked_before import asked_before, fitted_to, has_seen
from anykg.answers.hiding import cache as answers_cache
from anykg.answers.hiding.recovery import Recovery, ask_back, hide, hide_together
from anykg.answers.inputs import ModelLike, graph_of, model_of
from anykg.answers.results import GraphInfo
from anykg.cluster import Cluster, connected
from anykg.errors import DataError, InputError, SettingError
from anykg.evaluation.metrics import HITS
from anykg.evaluation.protocol import Target
from anykg.evaluation.reading import budget_of, note_on
from anykg.evaluation.strata import STRATA
from anykg.graph.graph import COLUMNS, RELATION, KnowledgeGraph
from anykg.graph.schema import redundant_relations
from anykg.io.catalog import GraphLike
from anykg.models.base import LinkPredictor
from anykg.models.folders import DEFAULT_MODEL
from anykg.models.mixture import Mixture
from anykg.models.store import digest_of, load_model
from anykg.progress import Progress, ignore

FACTS = {"node": 500, "relation": 100}
"""Number of facts to hide by default; fewer for relations, because most models need one pass per relation."""
MEASURES = ("mrr", *(f"hits@{k}" for k in HITS))
BRIEF = 50
"""A check of fewer facts is not used for calibration, if more could be hidden."""
FEW_FACTS = 200
"""Number of hidden facts below which a warning says that the figures are uncertain, unless it is the default."""
DOMINANT = 0.5
"""Share of the facts in one relation above which it dominates the figures."""
FLOORS = ("popularity", "pagerank")
MOST_HIDDEN = 0.2
"""Upper bound on the share of the facts hidden at once to measure the effect of fitting."""


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
    budget: int | None = None,
    missing: float | None = None,
    again: bool = False,
    cluster: Cluster | str | None = None,
    progress: Progress = ignore,
) -> Report:
    """Hide facts of a graph, predict them with a model, and store the calibration of its scores.

    Args:
        graph: A graph, file, dataset name, DataFrame, NetworkX graph or list of triples.
        model: A model, the name of a shipped one, a folder, or a hub id.
        task: Predict entities ("node") or relations ("relation").
        facts: Number of facts to hide; by default 500 for entities and 100 for relations.
        seed: Seed for drawing the facts.
        name: The display name of the model.
        floors: Also evaluate popularity and PageRank.
        fit: Also fit a model for this many minutes to the graph without a share of its facts, and evaluate it and
            `model` on these, to see how much fitting helps. The rest of the report is the same without it.
        budget: Number of facts read near the entities of a question, as in `predict`.
        missing: Share of all true facts that probabilities assume to be missing from the graph; by default estimated
            from its most reliable rule, or a tenth.
        again: Repeat the check even if the answers of an earlier one are stored. Otherwise stored answers are reused,
            with a warning if the graph has changed since, by up to 5% of its facts.
        cluster: Address of a Ray cluster to run on: "auto", HOST:PORT, or "local" for all cores of this machine.
        progress: Called with (done, total) questions.
    """
    refuse_share(missing)
    if task not in FACTS:
        raise SettingError("task", f"expected {' or '.join(FACTS)}, found {task!r}")
    if fit is not None and fit <= 0:
        raise SettingError("fit", f"expected more than 0 minutes, found {fit:g}")
    if facts is not None and facts < 1:
        raise SettingError("facts", f"expected at least 1, found {facts}")
    loaded, info = graph_of(graph)
    scorer, called = model_of(model, name)
    num_facts = FACTS[task] if facts is None else facts
    fitted = isinstance(scorer, Mixture) and fitted_to(scorer, loaded)
    fitting: Fitting | None = None
    if isinstance(scorer, Mixture) and fitted:
        floors_then = _floors_of(scorer, task)
        answers = _Answers(asked_before(scorer, loaded, task), floors_then, scorer.config.hidden_share)
    elif has_seen(scorer, loaded):
        raise InputError(
            f"{called} was fitted to facts by name and may have seen those that a check would hide; check the model it "
            "was made from instead, with `fit` to see how much fitting helps."
        )
    else:
        asked = [scorer, *(load_model(floor) for floor in FLOORS if floors)]
        how = _How(task, num_facts, seed, budget)
        stored = None if again else _stored(loaded, asked, how)
        answers = stored or _ask(loaded, asked, how, cluster, progress)
        fitting = None if fit is None else _with_fitting(loaded, scorer, how, fit, cluster)
    found, differing = answers.found, answers.differing
    own = own_calibration(scorer, loaded, task) if missing is None else None
    lacks = loaded.derive(missing_share) if missing is None else missing
    evidence = found.evidence(loaded.num_relations)
    curve = own or calibration.fit(
        evidence, found.best_right, list(loaded.relations), hidden=answers.hidden_share, missing=lacks
    )
    path = cache.path_of(loaded, scorer, task, budget)
    kept = None if own else cache.load(path)
    better_kept = facts is not None and kept is not None and kept.answers > curve.answers
    brief = facts is not None and facts < min(BRIEF, len(loaded) // 20)
    if not (brief or better_kept or own or differing):
        cache.save(curve, path, loaded)
    report = replace(_report(loaded, info, called, task, answers, curve, seed), fitting=fitting)
    warnings = _warnings(loaded, report, task, len(np.unique(found.facts, axis=0)) if fitted else num_facts)
    if differing:
        warnings.append(
            f"the answers are from an earlier version of this graph, in which {differing:,} facts differ; repeat the "
            "check with `again` (--again on the command line)."
        )
    part_read = None if fitted else note_on(loaded, budget, "each question's entities", scorer)
    warnings += [note for note in (trained_on(scorer, loaded, info.name), part_read) if note]
    if better_kept and kept is not None:
        warnings.append(
            f"`predict --calibrated` keeps using the calibration of an earlier check with {kept.answers:,} answers."
        )
    return replace(report, warnings=tuple(warnings))


class _How(NamedTuple):
    """Settings of the questions about hidden facts."""

    task: Target
    facts: int
    seed: int
    budget: int | None


class _Answers(NamedTuple):
    """The answers about hidden facts."""

    found: Recovery
    floors: tuple[Part, ...]
    hidden_share: float
    """Share of the facts that was hidden at once."""
    differing: int = 0
    """Number of facts in which the graph differs from the one that was checked."""


def _stored(graph: KnowledgeGraph, asked: list[LinkPredictor], how: _How) -> _Answers | None:
    """The answers of the model and the baselines from an earlier check, if they are cached."""
    stored = answers_cache.recall(graph, asked, _keys(graph, asked, how))
    if stored is None:
        return None
    (found, *floors), share, differing = stored
    return _Answers(found, _parts(floors, how.seed), share, differing=differing)


def _ask(
    graph: KnowledgeGraph,
    asked: list[LinkPredictor],
    how: _How,
    cluster: Cluster | str | None,
    progress: Progress,
) -> _Answers:
    """Hide facts and predict them with the model and the baselines."""
    task, _, seed, budget = how
    alike = graph.derive(redundant_relations)
    rounds = hide(graph, how.facts, seed)
    share = len(rounds[0][1]) / len(graph)
    with connected(cluster) as workers:
        found, *floors = [
            ask_back(one, rounds, task, alike, shown, whole=graph, budget=budget, cluster=workers)
            for one, shown in zip(asked, (progress, ignore, ignore), strict=False)
        ]
    answers_cache.keep(graph, asked, _keys(graph, asked, how), [found, *floors], share)
    return _Answers(found, _parts(floors, seed), share)


def _keys(graph: KnowledgeGraph, asked: list[LinkPredictor], how: _How) -> list[str]:
    digests = [f"{digest_of(one)} {budget_of(graph, how.budget, one)}" for one in asked]
    return answers_cache.keys_of(digests, how.task, how.facts, how.seed)


def _report(
    graph: KnowledgeGraph,
    info: GraphInfo,
    model: str,
    task: Target,
    answers: _Answers,
    curve: calibration.Calibration,
    seed: int,
) -> Report:
    """The metrics overall, by stratum and by relation."""
    found = answers.found
    everything = np.ones(len(found.ranks), bool)
    plain = ~found.given_away
    relations = found.facts[:, RELATION]
    by_relation = [_part(graph.relations.label(int(r)), found, relations == r, seed) for r in np.unique(relations)]
    return Report(
        command="check",
        graph=info,
        model=model,
        task=task,
        overall=_part("all", found, everything, seed),
        chance=float(np.mean(np.minimum(10 / found.candidates, 1.0))),
        floors=answers.floors,
        by_stratum=tuple(
            _part(stratum, found, found.strata == index, seed)
            for index, stratum in enumerate(STRATA)
            if (found.strata == index).any()
        ),
        by_relation=tuple(sorted(by_relation, key=lambda part: -part.facts)),
        not_given_away=_part("not given away", found, plain, seed) if plain.any() and not plain.all() else None,
        calibration=curve,
        questions=_questions(graph, found),
        per_fact=_by_fact(found, everything)[0]["mrr"],
    )


def _with_fitting(
    graph: KnowledgeGraph, model: LinkPredictor, how: _How, minutes: float, cluster: Cluster | str | None
) -> Fitting:
    """Metrics of the model and of one that is fitted, on facts that are hidden all at once: one fit serves for all."""
    from anykg.answers.fit import fit

    rest, hidden = hide_together(graph, min(how.facts / len(graph), MOST_HIDDEN), how.seed)
    if not len(hidden):
        raise DataError(f"None of the {len(graph)} facts can be hidden; a check needs a graph with more facts.")
    foundation = model.models[0] if isinstance(model, Mixture) else model  # rules are what fit itself adds
    made = fit(rest, minutes=minutes, model=foundation, seed=how.seed)
    alike = graph.derive(redundant_relations)
    with connected(cluster) as workers:
        before = ask_back(model, [(rest, hidden)], how.task, alike, whole=graph, budget=how.budget, cluster=workers)
    after = ask_back(made, [(rest, hidden)], how.task, alike)
    everything = np.ones(len(before.ranks), bool)
    return Fitting(
        minutes,
        _part("hidden at once: not fitted", before, everything, how.seed),
        _part(f"hidden at once: fitted for {minutes:g} min", after, everything, how.seed),
    )


def _floors_of(model: Mixture, task: Target) -> tuple[Part, ...]:
    """The metrics of the baselines on the facts that were hidden while a model was fitted."""
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


def _parts(found: Sequence[Recovery], seed: int) -> tuple[Part, ...]:
    """The metrics of the baselines."""
    return tuple(
        _part(name, part, np.ones(len(part.ranks), bool), seed) for name, part in zip(FLOORS, found, strict=False)
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
    return Part(name, count, {measure: estimate(columns[measure], seed) for measure in MEASURES})


def _warnings(graph: KnowledgeGraph, report: Report, task: Target, wanted: int) -> list[str]:
    warnings: list[str] = []
    hidden = report.overall.facts
    if hidden < min(FEW_FACTS, FACTS[task]):
        why = " (more would leave an entity or a relation without facts)" if hidden < wanted else ""
        warnings.append(f"only {hidden:,} facts were hidden{why}, so the figures have a large uncertainty.")
    counts = np.bincount(graph.triplets[:, 1], minlength=graph.num_relations)
    if graph.num_relations > 1 and counts.max() > DOMINANT * len(graph):
        most = int(counts.argmax())
        warnings.append(
            f"{counts[most] / len(graph):.0%} of the facts are of one relation, {graph.relations.label(most)!r}, which "
            "dominates the figures; look at each relation."
        )
    alike = graph.derive(redundant_relations)
    if len(alike):
        shown = list(dict.fromkeys(_alike(graph, int(r), int(s)) for r, s in alike))
        more = f", and {len(shown) - 3} more" if len(shown) > 3 else ""
        rest = report.not_given_away
        without = f" Without the facts given away by these, MRR is {rest.measures['mrr'].value:.2f}." if rest else ""
        warnings.append(f"some relations duplicate or invert each other: {', '.join(shown[:3])}{more}.{without}")
    return warnings


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
