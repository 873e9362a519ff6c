"""Ask a model every test question and rank its answers.

Questions are sorted by (head, relation), so that equal ones are scored together and once; the number scored at a time
follows from the memory that is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import psutil
import torch
from torch import Tensor

from anykg.evaluation.candidates import draw_entities, draw_relations, first_of_kind
from anykg.evaluation.protocol import Protocol, Task
from anykg.evaluation.ranks import Ranks, rank
from anykg.evaluation.strata import half_links
from anykg.graph.graph import KnowledgeGraph, Ragged
from anykg.models.base import LinkPredictor
from anykg.seeds import stream

BYTES_PER_SCORE = 2048
"""What scoring one candidate may take: a few hundred floats for the models that build a row for each."""

Progress = Callable[[int, int], None]
"""Called with (done, total) questions."""


@dataclass(frozen=True)
class Evaluation:
    """The rank of every question's answer, and where the question came from."""

    task: Task
    protocol: Protocol
    seed: int
    triplets: np.ndarray  # [Q, 3] the test triplet of each question
    sides: np.ndarray  # [Q] "tail", "head" or "relation": what was asked for
    strata: np.ndarray  # [Q] index into STRATA
    ranks: Ranks  # [Q]
    test_triplets: int
    """How many there are, of which `triplets` may be a sample."""
    unrankable: int
    """Questions that have no candidate besides the answer; left out."""
    score_errors: np.ndarray | None = None
    """[Q] the standard error of each answer's score, from a model that averages over random draws."""


@dataclass(frozen=True)
class _Questions:
    """Q questions as (head, relation, answer) or, in the relation task, (head, tail, answer)."""

    first: np.ndarray
    second: np.ndarray
    answers: np.ndarray
    triplets: np.ndarray
    side: str

    def take(self, keep: np.ndarray) -> _Questions:
        return _Questions(self.first[keep], self.second[keep], self.answers[keep], self.triplets[keep], self.side)

    def __len__(self) -> int:
        return len(self.answers)


def evaluate(
    model: LinkPredictor,
    observed: KnowledgeGraph,
    test: KnowledgeGraph,
    *,
    task: Task,
    protocol: Protocol,
    seed: int = 0,
    limit: int | None = None,
    also_known: KnowledgeGraph | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Rank the answers to the test triplets on the observed graph.

    Facts of `observed`, `test` and `also_known` are known: never a negative. `limit` takes a seeded sample of the test
    triplets.
    """
    known = observed.union(test) if also_known is None else observed.union(test).union(also_known)
    triplets = test.triplets.astype(np.int64)
    if limit is not None and limit < len(triplets):
        triplets = triplets[np.sort(stream(seed, "limit").choice(len(triplets), limit, replace=False))]
    groups = _ask(triplets, observed.num_relations, task, protocol)
    total, done = sum(map(len, groups)), 0
    parts: list[tuple[Ranks, np.ndarray, str]] = []
    model.eval()
    with torch.no_grad():  # not inference_mode: what is derived here is kept on the graph and may be trained on
        encoded = model.encode(observed, seed)
        for questions in groups:
            drawn = _draw(questions, known, task, protocol, stream(seed, "candidates", task, questions.side))
            for rows in _chunks(questions, drawn.shape[1] if drawn is not None else _width(known, task)):
                part = questions.take(rows)
                negatives = None if drawn is None else drawn[rows]
                parts.append((_rank(model, encoded, part, negatives, known, task), part.triplets, part.side))
                done += len(part)
                if progress:
                    progress(done, total)
    ranks = Ranks.concatenate([ranks for ranks, _, _ in parts])
    asked = np.concatenate([t for _, t, _ in parts] or [triplets])
    sides = np.repeat([side for _, _, side in parts], [len(t) for _, t, _ in parts])
    rankable = ranks.candidates > 1
    return Evaluation(
        task=task,
        protocol=protocol,
        seed=seed,
        triplets=asked[rankable],
        sides=sides[rankable],
        strata=half_links(observed, asked[rankable]),
        ranks=ranks[rankable],
        test_triplets=len(test),
        unrankable=int((~rankable).sum()),
        score_errors=_score_errors(model, encoded, asked[rankable]),
    )


@torch.no_grad()
def _score_errors(model: LinkPredictor, encoded: object, triplets: np.ndarray) -> np.ndarray | None:
    errors = model.score_errors(encoded, torch.from_numpy(triplets).to(_device(model)))
    return None if errors is None else errors.cpu().numpy()


def _ask(triplets: np.ndarray, num_relations: int, task: Task, protocol: Protocol) -> list[_Questions]:
    heads, relations, tails = triplets.T
    if task == "relation":
        groups = [_Questions(heads, tails, relations, triplets, "relation")]
    else:
        groups = []
        if protocol.sides in ("tail", "both"):
            groups.append(_Questions(heads, relations, tails, triplets, "tail"))
        if protocol.sides in ("head", "both"):
            groups.append(_Questions(tails, relations + num_relations, heads, triplets, "head"))
    return [group.take(np.lexsort((group.second, group.first))) for group in groups]


def _draw(
    questions: _Questions, known: KnowledgeGraph, task: Task, protocol: Protocol, random: np.random.Generator
) -> np.ndarray | None:
    """Negatives [Q, C] with -1 for none, or None to rank among all."""
    if not protocol.negatives:
        return None
    if task == "node":
        return draw_entities(known, questions.first, questions.second, protocol.negatives, random)
    distinct = protocol.relations == "distinct-if-possible" and known.num_relations - 1 >= protocol.negatives
    drawn = draw_relations(known, questions.first, questions.second, protocol.negatives, random, distinct=distinct)
    return first_of_kind(drawn) if protocol.count_once else drawn


def _rank(
    model: LinkPredictor,
    encoded: object,
    questions: _Questions,
    negatives: np.ndarray | None,
    known: KnowledgeGraph,
    task: Task,
) -> Ranks:
    score = model.score_tails if task == "node" else model.score_relations
    device = _device(model)
    answers = torch.from_numpy(questions.answers).to(device)
    if negatives is not None:
        columns = torch.cat([answers[:, None], torch.from_numpy(negatives).to(device)], dim=1)  # [B, 1 + C]
        missing = columns < 0
        columns = torch.where(missing, answers[:, None], columns)
        first, second = (torch.from_numpy(part).to(device) for part in (questions.first, questions.second))
        return rank(score(encoded, first, second, columns), torch.zeros_like(answers), missing)
    pairs, place = np.unique(np.stack([questions.first, questions.second], 1), axis=0, return_inverse=True)
    first, second = torch.from_numpy(pairs).to(device).T
    scores = score(encoded, first, second)
    lookup = known.answers if task == "node" else known.relations_between
    taken = _as_mask(lookup(pairs[:, 0], pairs[:, 1]), scores.shape[1]).to(device)
    row = torch.from_numpy(place.reshape(-1)).to(device)
    return rank(scores[row], answers, taken[row])


def _device(model: LinkPredictor) -> torch.device:
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def _as_mask(lists: Ragged, width: int) -> Tensor:
    mask = torch.zeros(len(lists.offsets) - 1, width, dtype=torch.bool)
    mask[torch.from_numpy(lists.rows), torch.from_numpy(lists.values.astype(np.int64))] = True
    return mask


def _width(known: KnowledgeGraph, task: Task) -> int:
    return known.num_entities if task == "node" else known.num_relations


def _chunks(questions: _Questions, width: int) -> Iterator[np.ndarray]:
    """Consecutive questions that fit in a quarter of the free memory; equal questions stay together."""
    size = min(4096, max(1, int(psutil.virtual_memory().available / 4 / BYTES_PER_SCORE / max(width, 1))))
    new = (np.diff(questions.first) != 0) | (np.diff(questions.second) != 0)
    ends = np.append(np.flatnonzero(new) + 1, len(questions))  # of each run of equal questions
    start = 0
    while start < len(questions):
        next_run = np.searchsorted(ends, start, side="right")
        last_fitting = np.searchsorted(ends, start + size, side="right") - 1
        end = int(ends[max(next_run, last_fitting)])
        yield np.arange(start, end)
        start = end
