"""The most plausible new facts of a whole graph, by probability.

Each relation is asked about from the end with fewer entities, which takes the fewest questions and has the most known
answers to each: (?, r, t) for every known tail, or (h, r, ?) for every known head. A fact neither of whose ends is
known with its relation is never proposed. If heads are given, (h, r, ?) is asked for each of them and every relation.

The probability of a fact is that of the answer, if one is missing (`answers.calibration`), times the chance that one is
missing from the question. Models answer "what is the capital of France" with a second capital; the chance says that
nobody has two. It follows from how many facts entities have at the end that is asked from, if a share `missing` of all
facts is not in the graph; an entity without any takes the chance of the answer's end. A relation that goes one way is
not answered backwards, and of a symmetric relation a fact stands for its mirror image as well.

Questions are asked in a fixed order, a slice at a time, and only the best facts are kept: an interrupted run resumes at
the last slice and ends with the same facts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from scipy.special import expit, gammaln, logsumexp

from anykg.answers.calibration import Calibration, digest_of, evidence_of
from anykg.answers.inputs import ModelLike, Name, graph_of, look_up, model_of
from anykg.answers.predict import calibration_of, kept_calibration
from anykg.answers.table import Answers, table_of
from anykg.atomic import atomic_path
from anykg.errors import ConfigError, DataError, Interrupted, SettingError
from anykg.evaluation.ranking import best_answers, encode, scored
from anykg.graph.graph import HEAD, RELATION, TAIL, KnowledgeGraph
from anykg.graph.keys import find
from anykg.graph.schema import one_way_relations, symmetric_relations
from anykg.io.catalog import GraphLike
from anykg.models.base import LinkPredictor
from anykg.models.store import DEFAULT_MODEL
from anykg.progress import Progress, ignore

SLICE = 64
"""Questions between two points at which a run can be resumed."""
SAVE_SECONDS = 20.0
PROBE = 8
"""Questions that are timed for the estimate."""
PER_QUESTION = 200
"""Answers to a question that are looked at."""
MISSING = 0.1
"""Share of all facts that is assumed to be missing."""
POOL = 20
"""Times as many facts are kept where limits by relation or entity will drop some."""
CHECKED = 1000
"""Questions of the check that calibrates a model that was not calibrated before."""


class Estimate(NamedTuple):
    """How much work there is."""

    questions: int
    """In all."""
    done: int
    """By an earlier run that was interrupted."""
    seconds: float
    """Estimate for the rest."""
    calibration_seconds: float = 0.0
    """Estimate for the check that makes probabilities of scores; 0 if there is one already."""


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
        """How many facts to keep until all are known."""
        return self.count if self.per_relation is None and self.per_entity is None else POOL * self.count

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
class _Found:
    """The best facts so far, best first."""

    facts: np.ndarray  # int64 [K, 3]
    values: np.ndarray  # float64 [K]: probabilities, or scores
    done: int


@dataclass(frozen=True, eq=False)
class _Search:
    """What answers are judged with."""

    graph: KnowledgeGraph
    model: LinkPredictor
    encoded: Any
    calibration: Calibration | None
    """None to rank by scores."""
    missing: tuple[np.ndarray, np.ndarray]
    mirrored: np.ndarray
    one_way: np.ndarray
    pool: int


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
    missing: float = MISSING,
    state: Path | str | None = None,
    announce: Callable[[Estimate], None] | None = None,
    progress: Progress = ignore,
) -> Answers:
    """Return the `count` most plausible facts that the graph does not have: head, relation, tail, probability, rank.

    The summary has `expected`, the number of true facts to expect among them.

    Args:
        graph: A graph, file, dataset name, DataFrame, NetworkX graph or list of triples.
        model: A model, the name of a shipped one, a folder, or a hub id.
        count: Number of facts.
        relations: Only these relations; None for all.
        heads: Ask every relation of these entities as heads; None for the whole graph.
        min_probability: Leave out facts below this.
        per_relation: At most this many facts of one relation.
        per_entity: At most this many facts about one entity, as head or as tail.
        calibrated: Rank by probability; a model that was not calibrated on this graph is checked first. Otherwise by
            the model's score plus the logarithm of the chance that a fact is missing, as column `score`.
        missing: Share of all facts that is assumed to be missing.
        state: A file that keeps what was found, so that an interrupted run can be resumed.
        announce: Called with an estimate of the work before it starts.
        progress: Called with (done, total) questions.
    """
    selection = Selection(count, min_probability if calibrated else 0.0, per_relation, per_entity)
    if not calibrated and min_probability:
        raise SettingError("min_probability", "needs probabilities, but calibrated is False")
    if not 0 < missing < 1:
        raise SettingError("missing", f"expected more than 0 and less than 1, found {missing}")
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
        raise DataError("Nothing to complete: none of the relations has a fact.")
    made_for = _digest(loaded, scorer, selection.pool, asked, f"{calibrated} {missing}")
    before = _load(path, made_for) or _Found(np.zeros((0, 3), np.int64), np.zeros(0), 0)
    search = _search(loaded, scorer, asked[before.done :], selection.pool, calibrated, missing, len(asked), announce)
    found = _ask(search, asked, before, path, made_for, progress)
    rows = selection.rows(found.facts, found.values)
    values = found.values[rows].astype(np.float32)
    columns = {"probability" if calibrated else "score": values, "rank": np.arange(1, len(rows) + 1)}
    extra: dict[str, Any] = {"questions": len(asked)}
    if calibrated:
        extra |= {"expected": float(values.sum()), "missing": missing}
    return table_of(loaded, found.facts[rows], columns, command="complete", info=info, model=name, extra=extra)


def _search(
    graph: KnowledgeGraph,
    model: LinkPredictor,
    asked: np.ndarray,
    pool: int,
    calibrated: bool,
    missing: float,
    total: int,
    announce: Callable[[Estimate], None] | None,
) -> _Search:
    """Encode the graph, say how long it will take, and calibrate the model if it is not."""
    encoded = encode(model, graph)
    kept = None
    if calibrated:
        kept = kept_calibration(model, graph, "node")
    if announce:
        seconds = _seconds(model, graph, asked, encoded)
        check = CHECKED * seconds / max(len(asked), 1) if calibrated and kept is None else 0.0
        announce(Estimate(total, total - len(asked), seconds, check))
    if calibrated and kept is None:
        kept = calibration_of(model, graph, "node")
    return _Search(
        graph,
        model,
        encoded,
        kept,
        graph.derive(chance_of_missing, missing),
        graph.derive(symmetric_relations),
        graph.derive(one_way_relations),
        pool,
    )


def _ask(
    search: _Search, asked: np.ndarray, found: _Found, state: Path | None, made_for: str, progress: Progress
) -> _Found:
    """Ask all questions that are not done and keep the best facts; saves to `state`."""
    saved = time.monotonic()
    try:
        while found.done < len(asked):
            part = asked[found.done : found.done + SLICE]
            facts, values = _best_of(search, part)
            found = _merged(found, facts, values, search.mirrored, search.pool, found.done + len(part))
            progress(found.done, len(asked))
            if state and time.monotonic() - saved > SAVE_SECONDS:
                _save(state, found, made_for)
                saved = time.monotonic()
    except KeyboardInterrupt as stop:
        share = f"Stopped after {found.done:,} of {len(asked):,} questions"
        if state is None:
            raise Interrupted(f"{share}; nothing was kept, because there is no state file to resume from.") from stop
        _save(state, found, made_for)
        raise Interrupted(f"{share}; run it again to resume.") from stop
    return found


def questions_of(graph: KnowledgeGraph, relations: np.ndarray | None, heads: np.ndarray | None) -> np.ndarray:
    """The questions [Q, 3] in the order they are asked."""
    facts = graph.triplets.astype(np.int64)
    if relations is not None:
        facts = facts[np.isin(facts[:, RELATION], relations)]
    if heads is not None:
        kinds = np.unique(facts[:, RELATION])
        pairs = np.stack(np.meshgrid(np.unique(heads), kinds, indexing="ij"), axis=-1).reshape(-1, 2)
        return np.column_stack([pairs, np.full(len(pairs), -1)])
    parts = []
    for column in (HEAD, TAIL):
        open_facts = facts.copy()
        open_facts[:, column] = -1
        parts.append(np.unique(open_facts, axis=0))
    counts = [np.bincount(part[:, RELATION], minlength=graph.num_relations) for part in parts]
    heads_open = counts[0] <= counts[1]  # ask for heads where there are no more tails than heads
    kept = [part[heads_open[part[:, RELATION]] == (index == 0)] for index, part in enumerate(parts)]
    asked = np.concatenate(kept)
    return asked[np.lexsort((asked[:, TAIL], asked[:, HEAD], asked[:, RELATION]))]


def chance_of_missing(graph: KnowledgeGraph, share: float) -> tuple[np.ndarray, np.ndarray]:
    """[2E'], sorted keys and values: for (entity, relation or inverse), the chance that it lacks a fact of it.

    Of the entities with c known facts at an end, as many are complete as have c in the graph, and those with k > c lack
    k - c with the binomial probability that a share of all facts is missing; half an entity with c + 1 is added.
    """
    triplets = graph.with_inverses().astype(np.int64)
    keys, counts = np.unique(triplets[:, HEAD] * 2 * graph.num_relations + triplets[:, RELATION], return_counts=True)
    kinds = keys % max(2 * graph.num_relations, 1)
    most = int(counts.max(initial=0)) + 1
    pairs, members = np.unique(kinds * most + counts, return_counts=True)
    ends, sizes = np.divmod(pairs, most)
    chances = np.empty(len(pairs))
    for low, high in pairwise(np.append(np.flatnonzero(np.diff(ends, prepend=-1)), len(ends))):
        known, entities = sizes[low:high].astype(float), members[low:high].astype(float)
        more = known[None, :] - known[:, None]  # [known, true]
        ways = gammaln(known + 1)[None, :] - gammaln(known + 1)[:, None] - gammaln(np.maximum(more, 0) + 1)
        lacking = np.where(more > 0, np.log(entities)[None, :] + ways + more * np.log(share), -np.inf)
        half = np.log(0.5 * (known + 1) * share)
        odds = np.logaddexp(logsumexp(lacking, axis=1), half) - np.log(entities)
        chances[low:high] = expit(odds)
    return keys, chances[np.searchsorted(pairs, kinds * most + counts)]


def _best_of(search: _Search, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best new facts [A, 3] among the answers to some questions, and their probabilities or scores [A]."""
    graph, r = search.graph, search.graph.num_relations
    best = best_answers(search.model, graph, asked, k=PER_QUESTION, encoded=search.encoded)
    heads, relations, tails = best.triplets.T
    of_heads = _look_up(search.missing, heads, relations, graph)
    of_tails = _look_up(search.missing, tails, relations + r, graph)
    columns = np.argmin(asked, axis=1)[best.questions]  # -1 is what is asked for
    from_head = columns == TAIL
    start, end = np.where(from_head, of_heads, of_tails), np.where(from_head, of_tails, of_heads)
    chance = np.where(np.isnan(start), end, start)  # NaN where neither end has a fact of the relation
    backwards = search.one_way[relations] & graph.contains(best.triplets[:, ::-1])
    if search.calibration is None:
        values = best.scores + np.log(chance)
    else:
        evidence = evidence_of(best, columns, r)
        values = search.calibration.probabilities(evidence, list(graph.relations)) * chance
    keep = ~np.isnan(chance) & ~backwards
    return best.triplets[keep], values[keep].astype(np.float64)


def _look_up(
    table: tuple[np.ndarray, np.ndarray], entities: np.ndarray, relations: np.ndarray, graph: KnowledgeGraph
) -> np.ndarray:
    """Values of (entity, relation), NaN where the entity has no fact of it."""
    keys, values = table
    at = find(keys, entities * 2 * graph.num_relations + relations)
    return np.where(at >= 0, values[at], np.nan)


def _merged(
    found: _Found, facts: np.ndarray, values: np.ndarray, mirrored: np.ndarray, count: int, done: int
) -> _Found:
    """The best `count` of old and new facts, one of each mirrored pair."""
    facts, values = np.concatenate([found.facts, facts]), np.concatenate([found.values, values])
    order = np.lexsort((facts[:, TAIL], facts[:, RELATION], facts[:, HEAD], -values))
    facts, values = facts[order], values[order]
    turn = mirrored[facts[:, RELATION]] & (facts[:, HEAD] > facts[:, TAIL])
    named = np.where(turn[:, None], facts[:, ::-1], facts)
    _, first = np.unique(named, axis=0, return_index=True)
    keep = np.sort(first)[:count]
    return _Found(facts[keep], values[keep], done)


def _seconds(model: LinkPredictor, graph: KnowledgeGraph, asked: np.ndarray, encoded: Any) -> float:
    """About how long the questions take, from timing a few of them."""
    if not len(asked):
        return 0.0
    some = asked[np.linspace(0, len(asked) - 1, min(PROBE, len(asked))).astype(int)]
    for _ in scored(model, graph, some[:1], encoded):  # kernels are loaded by the first
        pass
    started = time.monotonic()
    for _ in scored(model, graph, some, encoded):
        pass
    return (time.monotonic() - started) / len(some) * len(asked)


def _digest(graph: KnowledgeGraph, model: LinkPredictor, pool: int, asked: np.ndarray, settings: str) -> str:
    text = f"{graph.digest} {digest_of(model)} {pool} {SLICE} {settings}"
    return blake2b(text.encode() + asked.tobytes(), digest_size=16).hexdigest()


def _save(path: Path, found: _Found, made_for: str) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, facts=found.facts, values=found.values, done=found.done, made_for=made_for)


def _load(path: Path | None, made_for: str) -> _Found | None:
    """What was found before, if it was for the same work."""
    if path is None or not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as kept:
            if str(kept["made_for"]) != made_for:
                return None
            return _Found(kept["facts"], kept["values"], int(kept["done"]))
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
