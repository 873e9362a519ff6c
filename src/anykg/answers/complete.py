"""The most plausible new facts of a whole graph.

Each relation is asked about from the end with fewer entities, which takes the fewest questions and has the most known
answers to each: (?, r, t) for every known tail, or (h, r, ?) for every known head. A fact none of whose ends is known
for its relation is never proposed. Where heads are given, (h, r, ?) is asked for each of them and every relation.

A fact's score is the model's plus a logarithm: of the entities that have c facts of this relation, how many have one
more? Models answer who is the capital of France again and again; this says that nobody has two. The smaller one counts
of the head's and the tail's. Of a symmetric relation, a fact stands for its mirror image as well.

Questions are asked in a fixed order, a slice at a time, and only the best facts are kept: what was interrupted goes on
from the last slice and ends with the same facts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from anykg.answers.calibration import digest_of
from anykg.answers.ranking import HEAD, RELATION, TAIL, Limits, Progress, allowed_answers, scored, top
from anykg.answers.table import Answers, table_of
from anykg.atomic import atomic_path
from anykg.errors import DataError, Interrupted
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.schema import symmetric_relations
from anykg.models.base import LinkPredictor

SLICE = 64
"""Questions between two points from which to go on."""
SAVE_SECONDS = 20.0
PROBE = 8
"""Questions that are timed for the estimate."""


class Estimate(NamedTuple):
    """What is ahead."""

    questions: int
    """In all."""
    done: int
    """Of an earlier run that was interrupted."""
    seconds: float
    """For the rest, about."""


@dataclass(frozen=True, eq=False)
class _Found:
    """The best facts so far, best first."""

    facts: np.ndarray  # int64 [K, 3]
    scores: np.ndarray  # float64 [K]
    done: int


def complete(
    graph: KnowledgeGraph,
    model: LinkPredictor,
    *,
    count: int = 1000,
    relations: np.ndarray | None = None,
    heads: np.ndarray | None = None,
    state: Path | None = None,
    announce: Callable[[Estimate], None] | None = None,
    progress: Progress | None = None,
) -> Answers:
    """The `count` most plausible facts that the graph does not have: head, relation, tail, score, rank.

    Args:
        graph: The graph.
        model: The model.
        count: How many facts.
        relations: Ids of the only relations; None for all.
        heads: Ids of the only heads; None for all.
        state: A file to keep what was found until the end, and to go on from.
        announce: Told how much work there is before it starts.
        progress: Called with (done, total) questions.
    """
    asked = questions_of(graph, relations, heads)
    if not len(asked):
        raise DataError("There is nothing to ask: none of the relations has a fact.")
    made_for = _digest(graph, model, count, asked)
    found = _load(state, made_for) or _Found(np.zeros((0, 3), np.int64), np.zeros(0), 0)
    with torch.no_grad():
        encoded = model.eval().encode(graph)
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
            if progress:
                progress(found.done, len(asked))
            if state and time.monotonic() - saved > SAVE_SECONDS:
                _save(state, found, made_for)
                saved = time.monotonic()
    except KeyboardInterrupt as stop:
        share = f"Stopped after {found.done:,} of {len(asked):,} questions"
        if state is None:
            raise Interrupted(f"{share}; nothing was kept. With --out it could be resumed.") from stop
        _save(state, found, made_for)
        raise Interrupted(f"{share}; the same command goes on from there.") from stop
    ranks = np.arange(1, len(found.facts) + 1)
    return table_of(graph, found.facts, {"score": found.scores.astype(np.float32), "rank": ranks})


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
    for place in (HEAD, TAIL):
        open_facts = facts.copy()
        open_facts[:, place] = -1
        parts.append(np.unique(open_facts, axis=0))
    counts = [np.bincount(part[:, RELATION], minlength=graph.num_relations) for part in parts]
    heads_open = counts[0] <= counts[1]  # ask for heads where there are no more tails than heads
    kept = [part[heads_open[part[:, RELATION]] == (place == 0)] for place, part in enumerate(parts)]
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
        questions = asked[chunk.rows]
        allowed = allowed_answers(graph, questions, chunk, Limits())
        everyone = np.arange(graph.num_entities)
        for index, question in enumerate(questions):
            usable = allowed[index]
            usable[chunk.known[index]] = False
            candidates = np.tile(question, (graph.num_entities, 1))
            candidates[:, chunk.place] = everyone
            of_heads = _look_up(more, candidates[:, HEAD], candidates[:, RELATION], graph)
            of_tails = _look_up(more, candidates[:, TAIL], candidates[:, RELATION] + graph.num_relations, graph)
            unseen = np.isnan(of_heads) & np.isnan(of_tails)
            scores = chunk.scores[index] + np.nan_to_num(np.fmin(of_heads, of_tails))
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
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], np.nan)


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
    from hashlib import blake2b

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
    except (OSError, ValueError, KeyError):
        return None
