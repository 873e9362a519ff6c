"""Score questions and rank their answers: the one ranker behind predict, score, complete, check and evaluate.

Questions are int64 [Q, 3]: triplets with -1 in the column that is asked for. Distinct questions are scored once, in
chunks that fit in memory; a chunk is then used to rank true answers (`rank_facts`) or to take the best ones
(`best_answers`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from anykg.evaluation.ranks import Ranks, rank
from anykg.graph.graph import HEAD, RELATION, TAIL, KnowledgeGraph, Ragged
from anykg.models.base import LinkPredictor
from anykg.progress import Progress, ignore

SCORES_AT_ONCE = 1 << 22
"""Scores held at a time when all candidates are scored: a few MB, and a step of the progress bar often enough."""
MEMORY = 1 << 30
"""Bytes for the candidates that are scored at once. A fixed number: other batches round differently, and the same
question is to have the same score on every machine."""
BYTES_PER_SCORE = 2048
"""Upper bound on the memory for one candidate: a few hundred floats in models that build a row for each."""


class Distinct(NamedTuple):
    """Questions without repetitions."""

    questions: np.ndarray  # int64 [D, 3]
    first: np.ndarray  # int64 [D], the row where each occurs first
    which: np.ndarray  # int64 [Q], the distinct question of each row


@dataclass(frozen=True, eq=False)
class Limits:
    """Which candidates may be answers."""

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
    """A answers, question by question, best first."""

    questions: np.ndarray  # int64 [A], the row of the question
    triplets: np.ndarray  # int64 [A, 3]
    scores: np.ndarray  # float32 [A]
    ranks: np.ndarray  # int64 [A], from 1
    known: np.ndarray  # bool [A]
    following: np.ndarray  # float32 [A], score of the next answer to the same question, or a tied one; -inf without one
    totals: np.ndarray  # float32 [A], log of the summed exponentials of the scores of all answers that are not known
    answered: np.ndarray  # int64 [A], known answers to the question


class Standing(NamedTuple):
    """Facts [F] as answers to their questions, among all answers that are not facts of the graph they are scored on."""

    leading: np.ndarray  # float32 [F], score of the first answer
    following: np.ndarray  # float32 [F], score of the next answer; -inf without one
    totals: np.ndarray  # float32 [F], log of the summed exponentials of the scores of all answers
    first_following: np.ndarray  # float32 [F], score of the second answer; -inf without one
    answered: np.ndarray  # int64 [F], known answers to the question


class Ranked(NamedTuple):
    """Where the facts [F] stand among their candidates, and the best answers if they were asked for."""

    ranks: Ranks  # [F]
    scores: np.ndarray  # float32 [F]
    questions: np.ndarray  # int64 [F], equal for facts that ask the same question
    best: Best | None
    """Its `questions` are numbered like those of the facts, and in no particular order."""
    standing: Standing | None
    """Where the facts [F] stand in the lists of answers, if that was asked for."""


class Chunk(NamedTuple):
    """Some distinct questions about one column, with the scores of all candidates."""

    rows: np.ndarray  # int64 [B], rows of the questions
    column: int
    """What is asked for: HEAD, RELATION or TAIL."""
    scores: Tensor  # [B, C], on the model's device


def questions_about(facts: np.ndarray, column: int) -> np.ndarray:
    """The questions [F, 3] that ask for one column of facts [F, 3]."""
    questions = facts.astype(np.int64)
    questions[:, column] = -1
    return questions


def deduplicate(questions: np.ndarray) -> Distinct:
    """Each question once."""
    distinct, first, which = np.unique(questions, axis=0, return_index=True, return_inverse=True)
    return Distinct(distinct, first, which.reshape(-1))


def known_answers(graph: KnowledgeGraph, questions: np.ndarray, column: int) -> Ragged:
    """The answers to each question that are facts of the graph."""
    first, second = given(graph, questions, column)
    return graph.relations_between(first, second) if column == RELATION else graph.answers(first, second)


def given(graph: KnowledgeGraph, questions: np.ndarray, column: int) -> tuple[np.ndarray, np.ndarray]:
    """What a model is given: (head, relation), (tail, relation + R) for heads, or (head, tail) for relations."""
    heads, relations, tails = questions.T
    if column == RELATION:
        return heads, tails
    return (heads, relations) if column == TAIL else (tails, relations + graph.num_relations)


def encode(model: LinkPredictor, graph: KnowledgeGraph, seed: int = 0) -> Any:
    """The model's encoding of a graph, in evaluation mode and without gradients."""
    model.eval()
    with torch.no_grad():  # not inference_mode: what is derived here is kept on the graph and may be trained on
        return model.encode(graph, seed)


def scored(model: LinkPredictor, graph: KnowledgeGraph, questions: np.ndarray, encoded: Any = None) -> Iterator[Chunk]:
    """Score all candidates of distinct questions [Q, 3], a chunk at a time, in a fixed order.

    `encoded` is the model's encoding of the graph, if there is one already.
    """
    if encoded is None:
        encoded = encode(model, graph)
    model.eval()
    for column in (TAIL, HEAD, RELATION):
        rows = np.flatnonzero(questions[:, column] < 0)
        rows = rows[
            np.lexsort((questions[rows, HEAD], questions[rows, RELATION]))
        ]  # a relation's vectors are made once
        size = _chunk_size(graph, column)
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            yield Chunk(part, column, _scores(model, encoded, graph, questions[part], column))


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

    An answer of -1 is none of the candidates: all of them are better, and its score is -inf. With `best`, also return
    the best answers to each distinct question that are not facts of `graph`, within `limits`; with `standing`, where
    the facts stand among these.
    """
    distinct = deduplicate(questions_about(facts, column))
    by_question = np.argsort(distinct.which, kind="stable")
    starts = np.searchsorted(distinct.which[by_question], np.arange(len(distinct.questions) + 1))
    ranks, scores = np.zeros((len(facts), 3), np.int64), np.zeros(len(facts), np.float32)
    tops: list[Best] = []
    stand = np.zeros((len(facts), len(Standing._fields)), np.float32)
    done = 0
    for chunk in scored(model, graph, distinct.questions, encoded):
        taken = _mask(known_answers(known, distinct.questions[chunk.rows], column), chunk.scores)
        sizes = starts[chunk.rows + 1] - starts[chunk.rows]
        mine = np.concatenate([by_question[starts[row] : starts[row + 1]] for row in chunk.rows])
        row_of = np.repeat(np.arange(len(chunk.rows)), sizes)
        step = max(1, SCORES_AT_ONCE // chunk.scores.shape[1])
        for start in range(0, len(mine), step):  # questions with many answers take a row for each
            part, rows = mine[start : start + step], torch.from_numpy(row_of[start : start + step])
            answers = torch.from_numpy(facts[part, column].astype(np.int64)).to(chunk.scores.device)
            found = rank(chunk.scores[rows], answers.clamp(min=0), taken[rows])
            ranks[part] = np.stack([found.better, found.ties, found.candidates], axis=1)
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

    Facts that ask the same question should follow each other: a model scores them together.
    """
    questions = questions_about(facts, column)
    parts = []
    done = 0
    for rows in _runs(*given(graph, questions, column), negatives.shape[1]):
        answers = facts[rows, column].astype(np.int64)[:, None]
        columns = np.concatenate([answers, negatives[rows]], axis=1)  # [B, 1 + C]
        missing = columns < 0
        columns = np.where(missing, answers, columns)
        scores = _scores(model, encoded, graph, questions[rows], column, columns)
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
    """The k best answers to each question; facts of the graph are among them only if `known`.

    Ties go to the lower id. `encoded` is the model's encoding of the graph, if there is one already.
    """
    distinct = deduplicate(questions)
    parts, done = [], 0
    for chunk in scored(model, graph, distinct.questions, encoded):
        parts.append(_best_of(chunk, graph, distinct.questions, k, known=known, limits=limits))
        done += len(chunk.rows)
        progress(done, len(distinct.questions))
    return in_order(parts, distinct)


def in_order(parts: list[Best], distinct: Distinct) -> Best:
    """The answers to distinct questions, as answers to all questions in their order."""
    found = joined(parts)
    order = np.argsort(found.questions, kind="stable")
    starts = np.searchsorted(found.questions[order], np.arange(len(distinct.questions) + 1))
    counts = (starts[1:] - starts[:-1])[distinct.which]
    rows = np.repeat(np.arange(len(distinct.which)), counts)
    at = order[np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + starts[distinct.which][rows]]
    return Best(rows, *(column[at] for column in found[1:]))


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

    The entity that a question starts from is one only if the relation has facts from an entity to itself.
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
    """Bool [R]: relations that join some entity to itself."""
    loops = np.zeros(graph.num_relations, bool)
    loops[graph.triplets[graph.triplets[:, HEAD] == graph.triplets[:, TAIL], RELATION]] = True
    return loops


def device_of(model: LinkPredictor) -> torch.device:
    """The device of a model's parameters; the CPU if it has none."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


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
    found = [part[:k] for part in longer]
    counts = np.array([len(part) for part in found], np.int64)
    rows, answers = np.repeat(np.arange(len(scores)), counts), np.concatenate([*found, np.zeros(0, np.int64)])
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
    """The next score of each of some falling scores; tied ones have their own."""
    found = np.append(scores[1:], -np.inf)
    tied = np.flatnonzero(scores[1:] == scores[:-1]) + 1
    found[tied] = scores[tied]
    return found


def _standing(
    chunk: Chunk, graph: KnowledgeGraph, questions: np.ndarray, rows: np.ndarray, answers: np.ndarray, limits: Limits
) -> np.ndarray:
    """The columns of `Standing` [M, 5] of answers [M] to the questions at `rows` [M] of a chunk."""
    facts = known_answers(graph, questions[chunk.rows], chunk.column)
    allowed = allowed_answers(graph, questions, chunk, limits)
    allowed[facts.rows, facts.values] = False
    answered = np.diff(facts.offsets)
    scores = chunk.scores.float().cpu().numpy()
    found = np.empty((len(rows), 5), np.float32)
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
        found[index] = two[1], lower.max(initial=-np.inf), total, two[0], answered[row]
    return found


def joined(parts: list[Best]) -> Best:
    """All parts as one."""
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


@torch.no_grad()
def _scores(
    model: LinkPredictor,
    encoded: Any,
    graph: KnowledgeGraph,
    questions: np.ndarray,
    column: int,
    candidates: np.ndarray | None = None,
) -> Tensor:
    """Scores of all candidates, or of the candidates [B, C]; NaN is refused."""
    device = device_of(model)
    ends = [torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in given(graph, questions, column)]
    if candidates is not None:
        ends.append(torch.from_numpy(candidates).to(device))
    scores = (model.score_relations if column == RELATION else model.score_tails)(encoded, *ends)
    if bool(torch.isnan(scores).any()):
        raise FloatingPointError(
            f"{int(torch.isnan(scores).sum())} of {scores.numel()} scores are NaN; refusing to rank."
        )
    return scores


def _mask(lists: Ragged, scores: Tensor) -> Tensor:
    """Bool, of the shape of scores [B, C]: what the lists hold."""
    mask = torch.zeros(scores.shape, dtype=torch.bool)
    mask[torch.from_numpy(lists.rows), torch.from_numpy(lists.values.astype(np.int64))] = True
    return mask.to(scores.device)


def _chunk_size(graph: KnowledgeGraph, column: int) -> int:
    """How many questions to score at once among all candidates."""
    width = graph.num_relations if column == RELATION else graph.num_entities
    cost = graph.num_entities * width if column == RELATION else width  # a relation is scored by a pass of its own
    return int(np.clip(min(SCORES_AT_ONCE // max(cost, 1), _fitting(width)), 1, 1024))


def _fitting(width: int) -> int:
    """How many rows of so many scores fit in `MEMORY`."""
    return max(1, MEMORY // BYTES_PER_SCORE // max(width, 1))


def _runs(first: np.ndarray, second: np.ndarray, width: int) -> Iterator[np.ndarray]:
    """Consecutive questions that fit in memory; equal ones that follow each other stay together."""
    size = min(4096, _fitting(width))
    new = (np.diff(first) != 0) | (np.diff(second) != 0)
    ends = np.append(np.flatnonzero(new) + 1, len(first))  # of each run of equal questions
    start = 0
    while start < len(first):
        next_run = np.searchsorted(ends, start, side="right")
        last_fitting = np.searchsorted(ends, start + size, side="right") - 1
        end = int(ends[max(next_run, last_fitting)])
        yield np.arange(start, end)
        start = end
