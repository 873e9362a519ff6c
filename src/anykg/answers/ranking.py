"""The best answers to many questions at once.

asked ids [Q, 3], -1 at the open place -> Best. Equal questions are scored once, questions of one relation together.
Ties go to the lower id. The entity a question starts from answers it only if the relation has such facts already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from anykg.graph.graph import KnowledgeGraph, Ragged
from anykg.models.base import LinkPredictor

HEAD, RELATION, TAIL = range(3)
SCORES_AT_ONCE = 1 << 22
"""Scores held at a time: a few MB, and often enough a step of the progress bar."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Limits:
    """What may be an answer."""

    entities: np.ndarray | None = None
    """Ids of the only entities; None for all."""
    relations: np.ndarray | None = None
    """Ids of the only relations; None for all."""
    like: bool = False
    """Only entities that are already seen at that place of that relation."""


class Best(NamedTuple):
    """A answers, question by question, best first."""

    questions: np.ndarray  # int64 [A], the row of `asked`
    triplets: np.ndarray  # int64 [A, 3]
    scores: np.ndarray  # float32 [A]
    ranks: np.ndarray  # int64 [A], from 1
    known: np.ndarray  # bool [A]


class Chunk(NamedTuple):
    """Some distinct questions of one kind with the scores of all their candidates."""

    rows: np.ndarray  # int64 [B], the rows of `asked`
    place: int
    """What is asked for: HEAD, RELATION or TAIL."""
    scores: np.ndarray  # float32 [B, C]
    known: Ragged
    """The candidates that make a known fact."""


def best_answers(
    model: LinkPredictor,
    graph: KnowledgeGraph,
    asked: np.ndarray,
    *,
    k: int = 10,
    known: bool = False,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    progress: Progress | None = None,
) -> Best:
    """The k best answers to each question; facts of the graph are among them only if `known`."""
    distinct, place = np.unique(asked, axis=0, return_inverse=True)
    found: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray, int]] = {}
    done = 0
    for chunk in scored(model, graph, distinct):
        allowed = allowed_answers(graph, distinct[chunk.rows], chunk, limits)
        for index, row in enumerate(chunk.rows):
            is_known = np.zeros(chunk.scores.shape[1], bool)
            is_known[chunk.known[index]] = True
            usable = allowed[index] & (known | ~is_known)
            best = top(chunk.scores[index], usable, k)
            found[int(row)] = best, chunk.scores[index, best], is_known[best], chunk.place
        done += len(chunk.rows)
        if progress:
            progress(done, len(distinct))
    parts = [found[int(row)] for row in place.reshape(-1)]
    counts = np.array([len(part[0]) for part in parts], np.int64)
    questions = np.repeat(np.arange(len(asked)), counts)
    triplets = asked[questions]
    if len(parts):
        triplets[np.arange(len(questions)), np.repeat([part[3] for part in parts], counts)] = _joined(parts, 0)
    ranks = np.arange(len(questions)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    return Best(questions, triplets, _joined(parts, 1).astype(np.float32), ranks, _joined(parts, 2).astype(bool))


def scored(model: LinkPredictor, graph: KnowledgeGraph, asked: np.ndarray, encoded: Any = None) -> Iterator[Chunk]:
    """All candidates of distinct questions [Q, 3], scored a chunk at a time; chunks come in a fixed order.

    `encoded` is what the model made of the graph, if it has done so.
    """
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    model.eval()
    if encoded is None:
        with torch.no_grad():
            encoded = model.encode(graph)
    for place in (TAIL, HEAD, RELATION):
        rows = np.flatnonzero(asked[:, place] < 0)
        rows = rows[np.lexsort((asked[rows, HEAD], asked[rows, RELATION]))]  # a relation's vectors are made once
        width = graph.num_relations if place == RELATION else graph.num_entities
        cost = graph.num_entities * width if place == RELATION else width  # a relation's question takes a pass for each
        size = int(np.clip(SCORES_AT_ONCE // max(cost, 1), 1, 1024))
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            with torch.no_grad():
                scores, known = _score(model, encoded, graph, asked[part], place, device)
            if bool(torch.isnan(scores).any()):
                raise FloatingPointError("The model's scores are NaN; refusing to rank.")
            yield Chunk(part, place, scores.float().cpu().numpy(), known)


def top(scores: np.ndarray, usable: np.ndarray, k: int) -> np.ndarray:
    """The k best usable places of scores [C], best first, the lower place first of equals."""
    places = np.flatnonzero(usable)
    values = scores[places]
    if len(places) > k:
        least = np.partition(values, len(values) - k)[len(values) - k]
        places, values = places[values >= least], values[values >= least]
    best: np.ndarray = places[np.argsort(-values, kind="stable")[:k]]
    return best


def _score(
    model: LinkPredictor, encoded: object, graph: KnowledgeGraph, asked: np.ndarray, place: int, device: torch.device
) -> tuple[Tensor, Ragged]:
    heads, relations, tails = asked.T
    if place == RELATION:
        scores = model.score_relations(encoded, _tensor(heads, device), _tensor(tails, device))
        return scores, graph.relations_between(heads, tails)
    starts = heads if place == TAIL else tails
    kinds = relations if place == TAIL else relations + graph.num_relations
    return model.score_tails(encoded, _tensor(starts, device), _tensor(kinds, device)), graph.answers(starts, kinds)


def _tensor(values: np.ndarray, device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).to(device)


def allowed_answers(graph: KnowledgeGraph, asked: np.ndarray, chunk: Chunk, limits: Limits) -> np.ndarray:
    """Bool [B, C]: the candidates that may answer."""
    allowed = np.ones(chunk.scores.shape, bool)
    only = limits.relations if chunk.place == RELATION else limits.entities
    if only is not None:
        allowed[:] = False
        allowed[:, only] = True
    if chunk.place == RELATION:
        return allowed
    relations, start = asked[:, RELATION], asked[:, HEAD if chunk.place == TAIL else TAIL]
    loops = graph.derive(relations_with_loops)[relations]
    without = np.flatnonzero(~loops)
    allowed[without, start[without]] = False
    if limits.like:
        seen = {int(r): graph.triplets[graph.triplets[:, RELATION] == r, chunk.place] for r in np.unique(relations)}
        for row, relation in enumerate(relations):
            fits = np.zeros(graph.num_entities, bool)
            fits[seen[int(relation)]] = True
            allowed[row] &= fits
    return allowed


def relations_with_loops(graph: KnowledgeGraph) -> np.ndarray:
    """Bool [R]: relations that join some entity to itself."""
    loops = np.zeros(graph.num_relations, bool)
    loops[graph.triplets[graph.triplets[:, HEAD] == graph.triplets[:, TAIL], RELATION]] = True
    return loops


def _joined(parts: list[tuple[np.ndarray, np.ndarray, np.ndarray, int]], column: int) -> np.ndarray:
    return np.concatenate([part[column] for part in parts] or [np.zeros(0, np.int64)])
