"""Questions as arrays, and the scores of their candidates.

Questions are int64 [Q, 3]: triplets with -1 in the column to predict. Distinct questions are scored once, in
chunks that fit in memory; `ranking` ranks true answers and selects the best ones from these chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from anykg.graph.graph import HEAD, RELATION, TAIL, KnowledgeGraph, Ragged
from anykg.models.base import LinkPredictor

SCORES_AT_ONCE = 1 << 22
"""Scores held at a time when all candidates are scored: a few MB, with frequent updates of the progress bar."""
MEMORY = 1 << 30
"""Bytes for the candidates that are scored at once. This is a constant because other batches round differently, and a
question must have the same score on every machine."""
BYTES_PER_SCORE = 2048
"""Upper bound on the memory for one candidate: a few hundred floats in models that build a row for each."""


class Distinct(NamedTuple):
    """Questions without repetitions."""

    questions: np.ndarray  # int64 [D, 3]
    first: np.ndarray  # int64 [D], the row where each occurs first
    which: np.ndarray  # int64 [Q], the distinct question of each row


class Chunk(NamedTuple):
    """Some distinct questions about one column, with the scores of all candidates."""

    rows: np.ndarray  # int64 [B], rows of the questions
    column: int
    """The column to predict: HEAD, RELATION or TAIL."""
    scores: Tensor  # [B, C], on the model's device


def questions_about(facts: np.ndarray, column: int | np.ndarray) -> np.ndarray:
    """The questions [F, 3] that predict a column of facts [F, 3], or a column [F] of each."""
    questions = facts.astype(np.int64)
    questions[np.arange(len(facts)), column] = -1
    return questions


def deduplicate(questions: np.ndarray) -> Distinct:
    """The distinct questions, and the one of each row."""
    distinct, first, which = np.unique(questions, axis=0, return_index=True, return_inverse=True)
    return Distinct(distinct, first, which.reshape(-1))


def model_arguments(graph: KnowledgeGraph, questions: np.ndarray, column: int) -> tuple[np.ndarray, np.ndarray]:
    """The arguments of a model: (head, relation), (tail, relation + R) for heads, or (head, tail) for relations."""
    heads, relations, tails = questions.T
    if column == RELATION:
        return heads, tails
    return (heads, relations) if column == TAIL else (tails, relations + graph.num_relations)


def known_answers(graph: KnowledgeGraph, questions: np.ndarray, column: int) -> Ragged:
    """The answers to each question that are facts of the graph."""
    first, second = model_arguments(graph, questions, column)
    return graph.relations_between(first, second) if column == RELATION else graph.answers(first, second)


def encode(model: LinkPredictor, graph: KnowledgeGraph, seed: int = 0) -> Any:
    """The model's encoding of a graph, in evaluation mode and without gradients."""
    model.eval()
    with torch.no_grad():  # not inference_mode: what is derived here is kept on the graph and may be trained on
        return model.encode(graph, seed)


def device_of(model: LinkPredictor) -> torch.device:
    """The device of a model's parameters; the CPU if it has none."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def scored_chunks(
    model: LinkPredictor, graph: KnowledgeGraph, questions: np.ndarray, encoded: Any = None
) -> Iterator[Chunk]:
    """Score all candidates of distinct questions [Q, 3], one chunk at a time, in a fixed order.

    `encoded` is the model's encoding of the graph, if it was computed before.
    """
    if encoded is None:
        encoded = encode(model, graph)
    model.eval()
    for column in (TAIL, HEAD, RELATION):
        rows = np.flatnonzero(questions[:, column] < 0)
        order = np.lexsort((questions[rows, HEAD], questions[rows, RELATION]))  # a relation's vectors are computed once
        rows = rows[order]
        size = _chunk_size(model, graph, column)
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            yield Chunk(part, column, score_candidates(model, encoded, graph, questions[part], column))


@torch.no_grad()
def score_candidates(
    model: LinkPredictor,
    encoded: Any,
    graph: KnowledgeGraph,
    questions: np.ndarray,
    column: int,
    candidates: np.ndarray | None = None,
) -> Tensor:
    """Scores of all candidates, or of the candidates [B, C]; NaN raises `FloatingPointError`."""
    device = device_of(model)
    ends = [
        torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in model_arguments(graph, questions, column)
    ]
    if candidates is not None:
        ends.append(torch.from_numpy(candidates).to(device))
    scores = (model.score_relations if column == RELATION else model.score_tails)(encoded, *ends)
    if bool(torch.isnan(scores).any()):
        raise FloatingPointError(
            f"{int(torch.isnan(scores).sum())} of {scores.numel()} scores are NaN; refusing to rank."
        )
    return scores


def consecutive_batches(first: np.ndarray, second: np.ndarray, width: int) -> Iterator[np.ndarray]:
    """Yield batches of consecutive questions that fit in memory; runs of equal questions stay together."""
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


def _chunk_size(model: LinkPredictor, graph: KnowledgeGraph, column: int) -> int:
    """The number of questions to score at once among all candidates."""
    width = graph.num_relations if column == RELATION else graph.num_entities
    passes = width if column == RELATION and not model.relations_apart else 1  # of messages over all entities
    cost = graph.num_entities * passes
    return int(np.clip(min(SCORES_AT_ONCE // max(cost, 1), _fitting(width)), 1, 1024))


def _fitting(width: int) -> int:
    """The number of rows of `width` scores that fit in `MEMORY`."""
    return max(1, MEMORY // BYTES_PER_SCORE // max(width, 1))
