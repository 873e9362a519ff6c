"""The most plausible new facts of a whole graph, by probability.

Each relation is queried from the end with fewer entities, which needs the fewest questions with the most known answers
each: (?, r, t) for every known tail, or (h, r, ?) for every known head. A fact is never proposed if neither of its ends
is known with its relation. If heads are given, (h, r, ?) is asked for each of them and every relation. The best facts
are then scored from their other end as well (`answers.completing.both_ends`).

Probabilities are learnt by hiding facts and proposing facts for the rest (`answers.completing.proposals`), assuming
that a share `missing` of all facts is not in the graph. Models answer "what is the capital of France" with a second
capital; the numbers of facts per entity show that no country has two (`answers.calibrating.missing`). Inverses of facts
of one-way relations are not proposed, and a fact of a symmetric relation also represents its mirror image.

Questions are processed in the order of their relations, one slice at a time, locally or on a cluster (`answers.work`),
and only the best facts are kept: an interrupted run resumes at the last slice and ends with the same facts. Only the
scoring from the other end starts over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from zipfile import BadZipFile

import numpy as np

from anykg.answers.calibrating.calibration import Calibration
from anykg.answers.calibrating.lookup import calibration_of, kept_calibration, refuse_parts
from anykg.answers.calibrating.missing import MISSING, refuse_share
from anykg.answers.completing.both_ends import other_end, reordered
from anykg.answers.completing.proposals import (
    Proposals,
    backwards,
    ends,
    judged,
    limited,
    mirrored,
    proposals_of,
    questions_of,
)
from anykg.answers.fitting.asked_before import has_seen
from anykg.answers.inputs import ModelLike, Name, graph_of, look_up, model_of
from anykg.answers.table import Answers, table_of
from anykg.answers.work import SLICE, Arrays, Subject, results
from anykg.atomic import atomic_path
from anykg.cluster import Cluster, connected
from anykg.errors import ConfigError, DataError, InputError, Interrupted, SettingError
from anykg.evaluation.reading import note_on
from anykg.graph.graph import HEAD, RELATION, TAIL, KnowledgeGraph
from anykg.graph.schema import symmetric_relations
from anykg.io.catalog import GraphLike
from anykg.models.base import LinkPredictor
from anykg.models.folders import DEFAULT_MODEL
from anykg.models.store import digest_of
from anykg.progress import Progress, ignore

SAVE_SECONDS = 20.0
PROBE = 8
"""Questions timed for the estimate."""
PER_QUESTION = 200
"""Number of answers considered per question."""
OTHER_END = 4
"""Ratio of the facts scored from their other end as well to the facts listed."""
POOL = 20
"""Ratio of the facts kept to the facts requested, since limits and mutually exclusive facts drop some."""
CHECKED = 3500
"""Approximate number of questions that calibrate a model: those of a check, and about hidden proposals."""


class Estimate(NamedTuple):
    """An estimate of the work."""

    questions: int
    """In all."""
    done: int
    """Questions done by an earlier, interrupted run."""
    seconds: float
    """Estimated time for the rest."""
    calibration_seconds: float = 0.0
    """Estimated time for the check that calibrates the model; 0 if it is calibrated."""


@dataclass(frozen=True)
class Selection:
    """Which of the best facts are listed."""

    count: int
    min_probability: float = 0.0
    per_relation: int | None = None
    per_entity: int | None = None

    def __post_init__(self) -> None:
        for name in ("count", "per_relation", "per_entity"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingError(name, f"expected at least 1, found {value}")
        if not 0 <= self.min_probability <= 1:
            raise SettingError("min_probability", f"expected 0 to 1, found {self.min_probability}")

    @property
    def pool(self) -> int:
        """Number of facts to keep until all are known."""
        return POOL * self.count

    def wider(self, times: int) -> Selection:
        """A selection of this many times as many facts, of any probability."""
        per_relation, per_entity = (
            None if most is None else times * most for most in (self.per_relation, self.per_entity)
        )
        return Selection(times * self.count, 0.0, per_relation, per_entity)

    def rows(self, facts: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The listed ones of facts [K, 3] with values [K], best first."""
        enough = values >= self.min_probability if self.min_probability else np.ones(len(facts), bool)
        if self.per_relation is None and self.per_entity is None:
            return np.flatnonzero(enough)[: self.count]
        chosen: list[int] = []
        relations: dict[int, int] = {}
        entities: dict[int, int] = {}
        for row in np.flatnonzero(enough).tolist():
            head, relation, tail = facts[row].tolist()
            ends = {head, tail}
            if self.per_relation is not None and relations.get(relation, 0) >= self.per_relation:
                continue
            if self.per_entity is not None and any(entities.get(end, 0) >= self.per_entity for end in ends):
                continue
            relations[relation] = relations.get(relation, 0) + 1
            entities |= {end: entities.get(end, 0) + 1 for end in ends}
            chosen.append(row)
            if len(chosen) == self.count:
                break
        return np.array(chosen, np.int64)


@dataclass(frozen=True, eq=False)
class _Proposals:
    """The best facts so far, best first."""

    facts: np.ndarray  # int64 [K, 3]
    values: np.ndarray  # float64 [K]: probabilities, or scores
    done: int


_NOTHING = _Proposals(np.zeros((0, 3), np.int64), np.zeros(0), 0)


class Judging(NamedTuple):
    """How answers are judged."""

    calibration: Calibration | None
    """None to rank by scores."""
    proposals: Proposals | None
    missing: float
    pool: int
    further: int
    """Upper bound on the questions that score proposals from their other end; 0 for none."""


def complete(
    graph: GraphLike,
    *,
    model: ModelLike = DEFAULT_MODEL,
    count: int = 1000,
    relations: Iterable[Name] | None = None,
    heads: Iterable[Name] | None = None,
    min_probability: float = 0.0,
    per_relation: int | None = None,
    per_entity: int | None = None,
    calibrated: bool = True,
    missing: float | None = None,
    budget: int | None = None,
    state: Path | str | None = None,
    cluster: Cluster | str | None = None,
    announce: Callable[[Estimate], None] | None = None,
    progress: Progress = ignore,
) -> Answers:
    """Return the `count` most plausible facts that the graph does not have: head, relation, tail, probability, rank.

    The summary has `expected`, the expected number of true facts among them.

    Args:
        graph: A graph, file, dataset name, DataFrame, NetworkX graph or list of triples.
        model: A model, the name of a shipped one, a folder, or a hub id.
        count: Number of facts.
        relations: Only these relations; None for all.
        heads: Query every relation with these entities as heads; None for the whole graph.
        min_probability: Leave out facts with a lower probability.
        per_relation: At most this many facts of one relation.
        per_entity: At most this many facts about one entity, as head or as tail.
        calibrated: Rank by probability; a model that was not calibrated on this graph is checked first. Otherwise by
            the model's score plus the logarithm of the chance that a fact is missing, as column `score`.
        missing: Assumed share of all facts that are missing; None estimates it, up to a tenth, by hiding facts and
            counting them among the most confident proposals.
        budget: Number of facts read near the entities of a question, as in `predict`.
        state: A checkpoint file, from which an interrupted run resumes.
        cluster: Address of a Ray cluster to run on: "auto", HOST:PORT, or "local" for all cores of this machine.
        announce: Called with an estimate of the work before it starts.
        progress: Called with (done, total) questions.
    """
    selection = Selection(count, min_probability if calibrated else 0.0, per_relation, per_entity)
    if not calibrated and min_probability:
        raise SettingError("min_probability", "needs probabilities, but calibrated is False")
    refuse_share(missing)
    loaded, info = graph_of(graph)
    scorer, name = model_of(model)
    path = None if state is None else Path(state)
    if path is not None and path.is_dir():
        raise ConfigError(f"{path}: expected a file to resume from, found a folder; move it or choose another output.")
    asked = questions_of(
        loaded,
        None if relations is None else look_up(loaded.relations, relations),
        None if heads is None else look_up(loaded.entities, heads),
    )
    if not len(asked):
        raise DataError("Nothing to complete: none of the relations has any facts.")
    made_for = _digest(loaded, scorer, selection.pool, asked, f"{calibrated} {missing} {budget}")
    before = _load(path, made_for) or _NOTHING
    subject = Subject(loaded, scorer, budget)
    with connected(cluster) as workers:
        try:
            judging = _judging(subject, asked, before.done, selection, calibrated, missing, workers, announce)
        except KeyboardInterrupt as stop:
            raise Interrupted(_before_asking(before.done, len(asked))) from stop
        proposals = _ask(subject, judging, asked, before, path, made_for, workers, progress)
        facts, values = proposals.facts, proposals.values
        if calibrated and len(facts):
            if path is not None:
                _save(path, proposals, made_for)
            try:
                values = _from_both_ends(subject, judging, asked, proposals, selection, workers, progress)
            except KeyboardInterrupt as stop:
                _stopped("Stopped while scoring from the other end", path, proposals, made_for, stop)
            values = limited(loaded, facts, values, judging.missing)
            order = np.argsort(-values, kind="stable")
            facts, values = facts[order], values[order]
    rows = selection.rows(facts, values)
    values = values[rows].astype(np.float32)
    columns = {"probability" if calibrated else "score": values, "rank": np.arange(1, len(rows) + 1)}
    extra: dict[str, Any] = {"questions": len(asked)}
    if calibrated:
        extra |= {"expected": float(values.sum()), "missing": judging.missing}
    note = note_on(loaded, budget, "each question's entities", scorer)
    warnings = () if note is None else (note,)
    return table_of(
        loaded, facts[rows], columns, command="complete", info=info, model=name, extra=extra, warnings=warnings
    )


def _judging(
    subject: Subject,
    asked: np.ndarray,
    done: int,
    selection: Selection,
    calibrated: bool,
    missing: float | None,
    cluster: Cluster | None,
    announce: Callable[[Estimate], None] | None,
) -> Judging:
    """Announce the estimated time, and calibrate the model if needed."""
    model, graph = subject.model, subject.graph
    further = min(OTHER_END * selection.count, graph.num_entities * len(np.unique(asked[:, RELATION])))
    kept = None
    if calibrated:
        refuse_parts(model, graph, "node", subject.budget)
        kept = kept_calibration(model, graph, "node", subject.budget)
        if kept is None and has_seen(model, graph):
            raise InputError(
                "The model was fitted to facts by name, so the probability of its answers cannot be measured by hiding "
                "facts; rank by scores instead (calibrated=False, or --scores on the command line)."
            )
    if announce:
        each = _seconds(subject, asked) / (1 if cluster is None else cluster.slots)
        seconds = (len(asked) - done) * each
        check = CHECKED * each if calibrated and kept is None else 0.0
        if calibrated:
            seconds += further * each
        announce(Estimate(len(asked), done, seconds, check))
    found = None
    if calibrated:
        how: dict[str, Any] = {"budget": subject.budget, "cluster": cluster}
        kept = kept or calibration_of(model, graph, "node", announce=False, **how)
        found = proposals_of(model, graph, kept, missing, **how)
        if missing is None:
            missing = kept.missing if found is None else found.missing
    if not calibrated or (found is not None and found.both_ends is None):
        further = 0
    return Judging(kept, found, MISSING if missing is None else missing, selection.pool, further)


def _ask(
    subject: Subject,
    judging: Judging,
    asked: np.ndarray,
    proposals: _Proposals,
    state: Path | None,
    made_for: str,
    cluster: Cluster | None,
    progress: Progress,
) -> _Proposals:
    """Answer all questions that are not done and keep the best facts; saves to `state`."""
    saved = time.monotonic()
    slices = [asked[start : start + SLICE] for start in range(proposals.done, len(asked), SLICE)]
    parts = results(propose, subject, [(part,) for part in slices], common=judging, cluster=cluster)
    either = subject.graph.derive(symmetric_relations)
    try:
        for part in slices:
            new = next(parts)
            proposals = _merged(
                proposals, new["facts"], new["values"], either, judging.pool, proposals.done + len(part)
            )
            progress(proposals.done, len(asked) + judging.further)
            if state and time.monotonic() - saved > SAVE_SECONDS:
                _save(state, proposals, made_for)
                saved = time.monotonic()
    except KeyboardInterrupt as stop:
        _stopped(f"Stopped after {proposals.done:,} of {len(asked):,} questions", state, proposals, made_for, stop)
    return proposals


def _before_asking(done: int, questions: int) -> str:
    """What is left of a run that was stopped while its probabilities were learnt."""
    if done:
        return f"Stopped before resuming; {done:,} of {questions:,} questions are kept. Run it again to resume."
    return "Stopped before the first question, while probabilities were learnt; run it again to start over."


def _stopped(when: str, state: Path | None, proposals: _Proposals, made_for: str, stop: KeyboardInterrupt) -> NoReturn:
    """Save the finished part, if there is a state file, and raise."""
    if state is None:
        raise Interrupted(f"{when}; nothing was kept: give `state` to be able to resume.") from stop
    _save(state, proposals, made_for)
    raise Interrupted(f"{when}; run it again to resume.") from stop


def _from_both_ends(
    subject: Subject,
    judging: Judging,
    asked: np.ndarray,
    proposals: _Proposals,
    selection: Selection,
    cluster: Cluster | None,
    progress: Progress,
) -> np.ndarray:
    """Probabilities [K] of the proposals, those of the best from both ends; none of the others is above these."""
    graph, facts, values = subject.graph, proposals.facts, proposals.values
    if judging.calibration is None or not judging.further:
        return values
    likely = limited(graph, facts, values, judging.missing)
    order = np.argsort(-likely, kind="stable")
    rows = order[selection.wider(OTHER_END).rows(facts[order], likely[order])]
    opened = np.full(graph.num_relations, TAIL)
    opened[asked[:, RELATION]] = np.argmin(asked, axis=1)  # -1 marks the open column
    columns = HEAD + TAIL - opened[facts[rows, RELATION]]

    def shown(done: int, total: int) -> None:
        progress(len(asked) + judging.further * done // max(total, 1), len(asked) + judging.further)

    other = other_end(subject, judging.calibration, facts[rows], columns, cluster=cluster, progress=shown)
    both_ends = reordered if judging.proposals is None else judging.proposals.both_ends
    assert both_ends is not None
    from_both = both_ends(values[rows], other)
    result = np.minimum(values, from_both.min(initial=1.0))
    result[rows] = from_both
    return np.asarray(result)


def propose(subject: Subject, judging: Judging, asked: np.ndarray) -> Arrays:
    """The best new facts [A, 3] among the answers to a slice of questions, and their probabilities or scores [A]."""
    graph = subject.graph
    best = subject.best_answers(asked, k=PER_QUESTION)
    columns = np.argmin(asked, axis=1)[best.questions]  # -1 marks the open column
    if judging.calibration is None:
        start, end = ends(graph, best, columns, judging.missing)
        chance = np.where(np.isnan(start), end, start)
        values = best.scores + np.log(np.where(np.isnan(chance) & mirrored(graph, best.triplets), 0.5, chance))
    else:
        values = judged(judging.proposals, judging.calibration, graph, best, columns, judging.missing)
    keep = ~np.isnan(values) & ~backwards(graph, best.triplets)
    either = graph.derive(symmetric_relations)
    best_new = _merged(_NOTHING, best.triplets[keep], values[keep].astype(np.float64), either, judging.pool, len(asked))
    return {"facts": best_new.facts, "values": best_new.values}


def _merged(
    proposals: _Proposals, facts: np.ndarray, values: np.ndarray, either: np.ndarray, count: int, done: int
) -> _Proposals:
    """The best `count` of old and new facts, one of each mirrored pair of symmetric relations, `either` [R]."""
    facts, values = np.concatenate([proposals.facts, facts]), np.concatenate([proposals.values, values])
    order = np.lexsort((facts[:, TAIL], facts[:, RELATION], facts[:, HEAD], -values))
    facts, values = facts[order], values[order]
    turn = either[facts[:, RELATION]] & (facts[:, HEAD] > facts[:, TAIL])
    named = np.where(turn[:, None], facts[:, ::-1], facts)
    _, first = np.unique(named, axis=0, return_index=True)
    keep = np.sort(first)[:count]
    return _Proposals(facts[keep], values[keep], done)


def _seconds(subject: Subject, asked: np.ndarray) -> float:
    """Estimate the time per question by timing a few of them."""
    some = asked[np.linspace(0, len(asked) - 1, min(PROBE, len(asked))).astype(int)]
    subject.best_answers(some[:1])  # the first call loads the kernels
    started = time.monotonic()
    subject.best_answers(some)
    return (time.monotonic() - started) / len(some)


def _digest(graph: KnowledgeGraph, model: LinkPredictor, pool: int, asked: np.ndarray, settings: str) -> str:
    text = f"{graph.digest} {digest_of(model)} {pool} {SLICE} {settings}"
    return blake2b(text.encode() + asked.tobytes(), digest_size=16).hexdigest()


def _save(path: Path, proposals: _Proposals, made_for: str) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, facts=proposals.facts, values=proposals.values, done=proposals.done, made_for=made_for)


def _load(path: Path | None, made_for: str) -> _Proposals | None:
    """The state of an earlier run, if it was for the same work."""
    if path is None or not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as kept:
            if str(kept["made_for"]) != made_for:
                return None
            return _Proposals(kept["facts"], kept["values"], int(kept["done"]))
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
