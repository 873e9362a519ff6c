"""Rank the answers to questions: the single ranker behind predict, score, complete, check and evaluate.

Questions are int64 [Q, 3] with -1 in the column to predict (see `scoring`). `rank_facts` ranks true answers
among all candidates, `rank_among` among drawn negatives, and `best_answers` returns the best candidates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from anykg.evaluation.ranks import Ranks, rank
from anykg.evaluation.scoring import (
    SCORES_AT_ONCE,
    Chunk,
    Distinct,
    consecutive_batches,
    deduplicate,
    known_answers,
    model_arguments,
    questions_about,
    score_candidates,
    scored_chunks,
)
from anykg.graph.graph import HEAD, RELATION, TAIL, KnowledgeGraph, Ragged
from anykg.models.base import LinkPredictor
from anykg.progress import Progress, ignore


@dataclass(frozen=True, eq=False)
class Limits:
    """Restricts the candidates that may be answers."""

    entities: np.ndarray | None = None
    """Ids of the only entities allowed; None allows all."""
    relations: np.ndarray | None = None
    """Ids of the only relations allowed; None allows all."""
    seen_only: bool = False
    """Only entities that the graph already has in this column of this relation."""
    seen: Mapping[tuple[int, int], np.ndarray] | None = None
    """Ids of those entities by relation and column; None looks them up in the graph that is scored."""
    loops: np.ndarray | None = None
    """Bool [R]: relations whose answer may be the entity itself; None for those with such facts in that graph."""


class Best(NamedTuple):
    """The A best answers, question by question, best first."""

    questions: np.ndarray  # int64 [A], the row of the question
    triplets: np.ndarray  # int64 [A, 3]
    scores: np.ndarray  # float32 [A]
    ranks: np.ndarray  # int64 [A], from 1
    known: np.ndarray  # bool [A]
    following: np.ndarray  # float32 [A], score of the next answer to the same question, or a tied one; -inf without one
    totals: np.ndarray  # float32 [A], logsumexp of the scores of all answers that are not known
    answered: np.ndarray  # int64 [A], known answers to the question


class Standing(NamedTuple):
    """The positions of facts [F] among all answers to their questions that the graph they are scored on lacks."""

    leading: np.ndarray  # float32 [F], score of the first answer
    following: np.ndarray  # float32 [F], score of the next answer; -inf without one
    totals: np.ndarray  # float32 [F], logsumexp of the scores of all answers
    first_following: np.ndarray  # float32 [F], score of the second answer; -inf without one
    answered: np.ndarray  # int64 [F], known answers to the question


class Ranked(NamedTuple):
    """The ranks of facts [F] among their candidates, and the best answers if they were requested."""

    ranks: Ranks  # [F]
    scores: np.ndarray  # float32 [F]
    questions: np.ndarray  # int64 [F], equal for facts that ask the same question
    best: Best | None
    """Its `questions` are numbered like those of the facts, in no particular order."""
    standing: Standing | None
    """The facts [F] within the lists of answers, if requested."""


def rank_facts(
    model: LinkPredictor,
    graph: KnowledgeGraph,
    facts: np.ndarray,
    column: int,
    *,
    known: KnowledgeGraph,
    encoded: Any = None,
    best: int = 0,
    standing: bool = False,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    progress: Progress = ignore,
) -> Ranked:
    """Rank one column of facts [F, 3] among all candidates, scored on `graph`; other facts of `known` do not count.

    An answer of -1 is not among the candidates: all of them rank above it, and its score is -inf. With `best`, also
    return the best answers to each distinct question that are not facts of `graph`, within `limits`; with `standing`,
    the position of the facts among these.
    """
    distinct = deduplicate(questions_about(facts, column))
    by_question = np.argsort(distinct.which, kind="stable")
    starts = np.searchsorted(distinct.which[by_question], np.arange(len(distinct.questions) + 1))
    ranks, scores = np.zeros((len(facts), 3), np.int64), np.zeros(len(facts), np.float32)
    tops: list[Best] = []
    stand = np.zeros((len(facts), len(Standing._fields)), np.float32)
    done = 0
    for chunk in scored_chunks(model, graph, distinct.questions, encoded):
        taken = _mask(known_answers(known, distinct.questions[chunk.rows], column), chunk.scores)
        sizes = starts[chunk.rows + 1] - starts[chunk.rows]
        mine = np.concatenate([by_question[starts[row] : starts[row + 1]] for row in chunk.rows])
        row_of = np.repeat(np.arange(len(chunk.rows)), sizes)
        step = max(1, SCORES_AT_ONCE // chunk.scores.shape[1])
        for start in range(0, len(mine), step):  # questions with many answers take a row for each
            part, rows = mine[start : start + step], torch.from_numpy(row_of[start : start + step])
            answers = torch.from_numpy(facts[part, column].astype(np.int64)).to(chunk.scores.device)
            ranked = rank(chunk.scores[rows], answers.clamp(min=0), taken[rows])
            ranks[part] = np.stack([ranked.better, ranked.ties, ranked.candidates], axis=1)
            scores[part] = chunk.scores[rows, answers.to(rows.device)].float().cpu().numpy()
            absent = np.flatnonzero(facts[part, column] < 0)
            if len(absent):
                better = (~taken[rows[absent]]).sum(1).cpu().numpy()
                ranks[part[absent]] = np.stack([better, np.zeros_like(better), better + 1], axis=1)
                scores[part[absent]] = -np.inf
        if standing:
            stand[mine] = _standing(chunk, graph, distinct.questions, row_of, facts[mine, column], limits)
        if best:
            tops.append(_best_of(chunk, graph, distinct.questions, best, known=False, limits=limits))
        done += len(mine)
        progress(done, len(facts))
    leading, following, totals, second, answered = stand.T
    where = Standing(leading, following, totals, second, answered.astype(np.int64)) if standing else None
    return Ranked(Ranks(*ranks.T), scores, distinct.which, joined(tops) if best else None, where)


def rank_among(
    model: LinkPredictor,
    graph: KnowledgeGraph,
    facts: np.ndarray,
    column: int,
    *,
    negatives: np.ndarray,
    encoded: Any,
    progress: Progress = ignore,
) -> Ranks:
    """Rank one column of facts [F, 3] among drawn negatives [F, C], -1 where a fact has fewer.

    Facts with the same question should be consecutive, so that a model scores them together.
    """
    questions = questions_about(facts, column)
    parts = []
    done = 0
    for rows in consecutive_batches(*model_arguments(graph, questions, column), negatives.shape[1]):
        answers = facts[rows, column].astype(np.int64)[:, None]
        columns = np.concatenate([answers, negatives[rows]], axis=1)  # [B, 1 + C]
        missing = columns < 0
        columns = np.where(missing, answers, columns)
        scores = score_candidates(model, encoded, graph, questions[rows], column, columns)
        first = torch.zeros(len(rows), dtype=torch.int64, device=scores.device)
        parts.append(rank(scores, first, torch.from_numpy(missing).to(scores.device)))
        done += len(rows)
        progress(done, len(facts))
    return Ranks.concatenate(parts)


def best_answers(
    model: LinkPredictor,
    graph: KnowledgeGraph,
    questions: np.ndarray,
    *,
    k: int = 10,
    known: bool = False,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    encoded: Any = None,
    progress: Progress = ignore,
) -> Best:
    """The k best answers to each question; facts of the graph are included only if `known`.

    Ties go to the lower id. `encoded` is the model's encoding of the graph, if there is one already.
    """
    distinct = deduplicate(questions)
    parts, done = [], 0
    for chunk in scored_chunks(model, graph, distinct.questions, encoded):
        parts.append(_best_of(chunk, graph, distinct.questions, k, known=known, limits=limits))
        done += len(chunk.rows)
        progress(done, len(distinct.questions))
    return in_order(parts, distinct)


def in_order(parts: list[Best], distinct: Distinct) -> Best:
    """Expand the answers to distinct questions to answers to all questions, in their order."""
    best = joined(parts)
    order = np.argsort(best.questions, kind="stable")
    starts = np.searchsorted(best.questions[order], np.arange(len(distinct.questions) + 1))
    counts = (starts[1:] - starts[:-1])[distinct.which]
    rows = np.repeat(np.arange(len(distinct.which)), counts)
    at = order[np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + starts[distinct.which][rows]]
    return Best(rows, *(column[at] for column in best[1:]))


def joined(parts: list[Best]) -> Best:
    """Concatenate the parts."""
    nothing = Best(
        np.zeros(0, np.int64),
        np.zeros((0, 3), np.int64),
        np.zeros(0, np.float32),
        np.zeros(0, np.int64),
        np.zeros(0, bool),
        np.zeros(0, np.float32),
        np.zeros(0, np.float32),
        np.zeros(0, np.int64),
    )
    return Best(*(np.concatenate(columns) for columns in zip(nothing, *parts, strict=True)))


def top(scores: np.ndarray, usable: np.ndarray, k: int) -> np.ndarray:
    """The positions of the k best usable scores of [C], best first; ties go to the lower position."""
    positions = np.flatnonzero(usable)
    values = scores[positions]
    if len(positions) > k:
        least = np.partition(values, len(values) - k)[len(values) - k]
        positions, values = positions[values >= least], values[values >= least]
    best: np.ndarray = positions[np.argsort(-values, kind="stable")[:k]]
    return best


def allowed_answers(graph: KnowledgeGraph, questions: np.ndarray, chunk: Chunk, limits: Limits) -> np.ndarray:
    """Bool [B, C]: the candidates that may be answers to the questions of a chunk.

    The entity of the question itself is allowed only if the relation has loops.
    """
    allowed = np.ones(tuple(chunk.scores.shape), bool)
    only = limits.relations if chunk.column == RELATION else limits.entities
    if only is not None:
        allowed[:] = False
        allowed[:, only] = True
    if chunk.column == RELATION:
        return allowed
    asked = questions[chunk.rows]
    relations, start = asked[:, RELATION], asked[:, HEAD if chunk.column == TAIL else TAIL]
    loops = graph.derive(relations_with_loops) if limits.loops is None else limits.loops
    without = np.flatnonzero(~loops[relations])
    allowed[without, start[without]] = False
    if limits.seen_only:
        for relation in np.unique(relations):
            seen = np.zeros(graph.num_entities, bool)
            if limits.seen is None:
                seen[graph.triplets[graph.triplets[:, RELATION] == relation, chunk.column]] = True
            else:
                seen[limits.seen[int(relation), chunk.column]] = True
            allowed[relations == relation] &= seen
    return allowed


def relations_with_loops(graph: KnowledgeGraph) -> np.ndarray:
    """Bool [R]: relations that link some entity to itself."""
    loops = np.zeros(graph.num_relations, bool)
    loops[graph.triplets[graph.triplets[:, HEAD] == graph.triplets[:, TAIL], RELATION]] = True
    return loops


def _best_of(
    chunk: Chunk, graph: KnowledgeGraph, questions: np.ndarray, k: int, *, known: bool, limits: Limits
) -> Best:
    """The best answers to the questions of a chunk."""
    allowed = allowed_answers(graph, questions, chunk, limits)
    facts = known_answers(graph, questions[chunk.rows], chunk.column)
    scores = chunk.scores.float().cpu().numpy()
    is_fact = np.zeros(scores.shape, bool)
    is_fact[facts.rows, facts.values] = True
    novel = torch.from_numpy(allowed & ~is_fact)
    totals = torch.from_numpy(scores).masked_fill(~novel, -torch.inf).logsumexp(1).numpy()
    if not known:
        allowed &= ~is_fact
    longer = [top(scores[index], allowed[index], k + 1) for index in range(len(scores))]
    chosen = [part[:k] for part in longer]
    counts = np.array([len(part) for part in chosen], np.int64)
    rows, answers = np.repeat(np.arange(len(scores)), counts), np.concatenate([*chosen, np.zeros(0, np.int64)])
    triplets = questions[chunk.rows[rows]]
    triplets[:, chunk.column] = answers
    ranks = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    following = [_following(scores[index, part])[:k] for index, part in enumerate(longer)]
    return Best(
        chunk.rows[rows],
        triplets,
        scores[rows, answers],
        ranks,
        is_fact[rows, answers],
        np.concatenate([*following, np.zeros(0, np.float32)]).astype(np.float32),
        totals[rows],
        np.diff(facts.offsets)[rows],
    )


def _following(scores: np.ndarray) -> np.ndarray:
    """The next lower score for each of some descending scores; tied scores keep their own."""
    following = np.append(scores[1:], -np.inf)
    tied = np.flatnonzero(scores[1:] == scores[:-1]) + 1
    following[tied] = scores[tied]
    return following


def _standing(
    chunk: Chunk, graph: KnowledgeGraph, questions: np.ndarray, rows: np.ndarray, answers: np.ndarray, limits: Limits
) -> np.ndarray:
    """The columns of `Standing` [M, 5] of answers [M] to the questions at `rows` [M] of a chunk."""
    facts = known_answers(graph, questions[chunk.rows], chunk.column)
    allowed = allowed_answers(graph, questions, chunk, limits)
    allowed[facts.rows, facts.values] = False
    answered = np.diff(facts.offsets)
    scores = chunk.scores.float().cpu().numpy()
    standing = np.empty((len(rows), 5), np.float32)
    for index, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        usable = allowed[row].copy()
        usable[answer] = True
        own = scores[row, answer]
        ordered = scores[row, usable]
        two = np.partition(ordered, len(ordered) - 2)[-2:] if len(ordered) > 1 else np.array([-np.inf, own])
        usable[answer] = False
        lower = scores[row, usable]
        lower = lower[lower <= own]
        total = np.logaddexp.reduce(ordered)
        standing[index] = two[1], lower.max(initial=-np.inf), total, two[0], answered[row]
    return standing


def _mask(lists: Ragged, scores: Tensor) -> Tensor:
    """A mask of the shape of scores [B, C]: True for the candidates in the lists."""
    mask = torch.zeros(scores.shape, dtype=torch.bool)
    mask[torch.from_numpy(lists.rows), torch.from_numpy(lists.values.astype(np.int64))] = True
    return mask.to(scores.device)
