"""The most plausible new facts of a whole graph.

Each relation is asked about from the end with fewer entities, which takes the fewest questions and has the most known
answers to each: (?, r, t) for every known tail, or (h, r, ?) for every known head. A fact neither of whose ends is
known with its relation is never proposed. If heads are given, (h, r, ?) is asked for each of them and every relation.

A fact's score is the model's score plus a log prior: of the entities that have c facts of this relation, what share has
one more? Models answer "who is the capital of France" with a second capital; the prior says that nobody has two. The
smaller of the head's and the tail's prior counts. Of a symmetric relation, a fact stands for its mirror image as well.

Questions are asked in a fixed order, a slice at a time, and only the best facts are kept: an interrupted run resumes at
the last slice and ends with the same facts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from anykg.answers.calibration import digest_of
from anykg.answers.inputs import ModelLike, Name, graph_of, look_up, model_of
from anykg.answers.table import Answers, table_of
from anykg.atomic import atomic_path
from anykg.errors import ConfigError, DataError, Interrupted, SettingError
from anykg.evaluation.ranking import Limits, allowed_answers, encode, known_answers, scored, top
from anykg.graph.graph import HEAD, RELATION, TAIL, KnowledgeGraph
from anykg.graph.keys import find
from anykg.graph.schema import symmetric_relations
from anykg.io.catalog import GraphLike
from anykg.models.base import LinkPredictor
from anykg.models.store import DEFAULT_MODEL
from anykg.progress import Progress, ignore

SLICE = 64
"""Questions between two points at which a run can be resumed."""
SAVE_SECONDS = 20.0
PROBE = 8
"""Questions that are timed for the estimate."""


class Estimate(NamedTuple):
    """How much work there is."""

    questions: int
    """In all."""
    done: int
    """By an earlier run that was interrupted."""
    seconds: float
    """Estimate for the rest."""


@dataclass(frozen=True, eq=False)
class _Found:
    """The best facts so far, best first."""

    facts: np.ndarray  # int64 [K, 3]
    scores: np.ndarray  # float64 [K]
    done: int


def complete(
    graph: GraphLike,
    *,
    model: ModelLike = DEFAULT_MODEL,
    count: int = 1000,
    relations: Iterable[Name] | None = None,
    heads: Iterable[Name] | None = None,
    state: Path | str | None = None,
    announce: Callable[[Estimate], None] | None = None,
    progress: Progress = ignore,
) -> Answers:
    """Return the `count` most plausible facts that the graph does not have: head, relation, tail, score, rank.

    Args:
        graph: A graph, file, dataset name, DataFrame, NetworkX graph or list of triples.
        model: A model, the name of a shipped one, a folder, or a hub id.
        count: Number of facts.
        relations: Only these relations; None for all.
        heads: Ask every relation of these entities as heads; None for the whole graph.
        state: A file that keeps what was found, so that an interrupted run can be resumed.
        announce: Called with an estimate of the work before it starts.
        progress: Called with (done, total) questions.
    """
    if count < 1:
        raise SettingError("count", f"expected at least 1, found {count}")
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
        raise DataError("There is nothing to ask: none of the relations has a fact.")
    found = _search(loaded, scorer, asked, count, path, announce, progress)
    ranks = np.arange(1, len(found.facts) + 1)
    columns = {"score": found.scores.astype(np.float32), "rank": ranks}
    extra = {"questions": len(asked)}
    return table_of(loaded, found.facts, columns, command="complete", info=info, model=name, extra=extra)


def _search(
    graph: KnowledgeGraph,
    model: LinkPredictor,
    asked: np.ndarray,
    count: int,
    state: Path | None,
    announce: Callable[[Estimate], None] | None,
    progress: Progress,
) -> _Found:
    """Ask all questions and keep the best facts; resumes from `state`, and saves there."""
    made_for = _digest(graph, model, count, asked)
    found = _load(state, made_for) or _Found(np.zeros((0, 3), np.int64), np.zeros(0), 0)
    encoded = encode(model, graph)
    if announce:
        announce(Estimate(len(asked), found.done, _seconds(model, graph, asked[found.done :], encoded)))
    mirrored = graph.derive(symmetric_relations)
    more = graph.derive(log_one_more)
    saved = time.monotonic()
    try:
        while found.done < len(asked):
            part = asked[found.done : found.done + SLICE]
            facts, scores = _best_of(model, graph, part, encoded, more, count)
            found = _merged(found, facts, scores, mirrored, count, found.done + len(part))
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


def log_one_more(graph: KnowledgeGraph) -> tuple[np.ndarray, np.ndarray]:
    """[2E'], sorted keys and values: for (entity, relation or inverse), the log share of its like that have one more.

    Of the entities with at least c facts of the relation, those with more than c, a half added to either side.
    """
    triplets = graph.with_inverses().astype(np.int64)
    keys, counts = np.unique(triplets[:, HEAD] * 2 * graph.num_relations + triplets[:, RELATION], return_counts=True)
    kinds = keys % max(2 * graph.num_relations, 1)
    order = np.lexsort((counts, kinds))
    by_kind = kinds[order] * (counts.max(initial=0) + 2) + counts[order]
    first = kinds * (counts.max(initial=0) + 2)
    last = np.searchsorted(kinds[order], kinds, side="right")
    at_least = last - np.searchsorted(by_kind, first + counts)
    beyond = last - np.searchsorted(by_kind, first + counts + 1)
    return keys, np.log((beyond + 0.5) / (at_least + 1))


def _best_of(
    model: LinkPredictor,
    graph: KnowledgeGraph,
    asked: np.ndarray,
    encoded: Any,
    more: tuple[np.ndarray, np.ndarray],
    count: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The best new facts [A, 3] among the answers to some questions, and their scores [A]."""
    facts, values = [], []
    for chunk in scored(model, graph, asked, encoded):
        questions, model_scores = asked[chunk.rows], chunk.scores.float().cpu().numpy()
        allowed = allowed_answers(graph, asked, chunk, Limits())
        known = known_answers(graph, questions, chunk.column)
        everyone = np.arange(graph.num_entities)
        for index, question in enumerate(questions):
            usable = allowed[index]
            usable[known[index]] = False
            candidates = np.tile(question, (graph.num_entities, 1))
            candidates[:, chunk.column] = everyone
            of_heads = _look_up(more, candidates[:, HEAD], candidates[:, RELATION], graph)
            of_tails = _look_up(more, candidates[:, TAIL], candidates[:, RELATION] + graph.num_relations, graph)
            unseen = np.isnan(of_heads) & np.isnan(of_tails)
            scores = model_scores[index] + np.nan_to_num(np.fmin(of_heads, of_tails))
            best = top(scores, usable & ~unseen, count)
            facts.append(candidates[best])
            values.append(scores[best])
    return np.concatenate(facts), np.concatenate(values)


def _look_up(
    table: tuple[np.ndarray, np.ndarray], entities: np.ndarray, relations: np.ndarray, graph: KnowledgeGraph
) -> np.ndarray:
    """Values of (entity, relation), NaN where the entity has no fact of it."""
    keys, values = table
    wanted = entities * 2 * graph.num_relations + relations
    at = find(keys, wanted)
    return np.where(at >= 0, values[at], np.nan)


def _merged(
    found: _Found, facts: np.ndarray, scores: np.ndarray, mirrored: np.ndarray, count: int, done: int
) -> _Found:
    """The best `count` of old and new facts, one of each mirrored pair."""
    facts, scores = np.concatenate([found.facts, facts]), np.concatenate([found.scores, scores])
    order = np.lexsort((facts[:, TAIL], facts[:, RELATION], facts[:, HEAD], -scores))
    facts, scores = facts[order], scores[order]
    turn = mirrored[facts[:, RELATION]] & (facts[:, HEAD] > facts[:, TAIL])
    named = np.where(turn[:, None], facts[:, ::-1], facts)
    _, first = np.unique(named, axis=0, return_index=True)
    keep = np.sort(first)[:count]
    return _Found(facts[keep], scores[keep], done)


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


def _digest(graph: KnowledgeGraph, model: LinkPredictor, count: int, asked: np.ndarray) -> str:
    text = f"{graph.digest} {digest_of(model)} {count} {SLICE}"
    return blake2b(text.encode() + asked.tobytes(), digest_size=16).hexdigest()


def _save(path: Path, found: _Found, made_for: str) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.savez(file, facts=found.facts, scores=found.scores, done=found.done, made_for=made_for)


def _load(path: Path | None, made_for: str) -> _Found | None:
    """What was found before, if it was for the same work."""
    if path is None or not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as kept:
            if str(kept["made_for"]) != made_for:
                return None
            return _Found(kept["facts"], kept["scores"], int(kept["done"]))
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):
        return None
