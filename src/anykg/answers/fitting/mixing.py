"""Learn mixing weights for models from facts that none of them has seen.

A question has one hidden answer: (h, r, ?) among entities, with r over both directions, or (h, ?, t) among relations.
Its candidates are the answer, the best ones of every component, and a uniform sample that represents all others; facts
of the visible graph are not candidates. The weights maximise the likelihood of the answers under a softmax over the
candidates: one set of weights for all questions, plus a correction for every relation and direction that is shrunk
towards zero, so that it only matters if there are enough facts to learn it from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from anykg.evaluation.ranks import Ties, rank
from anykg.graph.graph import KnowledgeGraph, Ragged
from anykg.models.base import LinkPredictor
from anykg.progress import Progress, ignore
from anykg.seeds import torch_generator

BEST, DRAWN = 32, 128
"""Candidates per question: the top BEST of each component and DRAWN sampled uniformly from the rest."""
SCORES_AT_ONCE = 1 << 22
STRENGTHS = (1.0, 5.0, 25.0)
"""Candidate values for the shrinkage of the corrections, as a prior strength in questions."""
RIDGE = 2.0
"""Shrinkage of the weights themselves."""
FOLDS = 3
ITERATIONS = 40

Kind = Literal["entities", "relations"]


@dataclass(frozen=True, eq=False)
class Scored:
    """Q questions with their K candidates' scores under C components; the answer is candidate 0."""

    questions: np.ndarray  # int64 [Q, 3]: head, relation (inverses from R on), answer; or head, tail, answer
    candidates: Tensor  # int64 [Q, K]
    values: Tensor  # float32 [Q, K, C]
    offsets: Tensor  # float32 [Q, K], log of how many candidates one stands for; -inf for one that is not to be used
    also_right: Tensor  # bool [Q, K], other hidden answers: neither right nor wrong when the weights are fitted
    ranks: np.ndarray  # float64 [Q, C], of the answer under each component alone, all candidates ranked
    known: np.ndarray  # int64 [Q], visible answers to the question
    rejected: Tensor | None = None  # bool [Q, K], candidates that a person rejected; None without any

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def components(self) -> int:
        """C."""
        return int(self.values.shape[-1])

    @property
    def likelihood_offsets(self) -> Tensor:
        """The offsets [Q, K] without the other hidden answers."""
        return self.offsets.masked_fill(self.also_right, -torch.inf)

    def take(self, rows: np.ndarray) -> Scored:
        """Some of the questions."""
        at = torch.from_numpy(rows)
        return Scored(
            self.questions[rows],
            self.candidates[at],
            self.values[at],
            self.offsets[at],
            self.also_right[at],
            self.ranks[rows],
            self.known[rows],
            None if self.rejected is None else self.rejected[at],
        )

    def only(self, components: Sequence[int]) -> Scored:
        """Some of the components."""
        chosen = list(components)
        return replace(self, values=self.values[..., chosen], ranks=self.ranks[:, chosen])


def both_ways(facts: np.ndarray, num_relations: int) -> np.ndarray:
    """Questions [2F, 3] for the tails and then the heads of facts [F, 3]."""
    heads, relations, tails = facts.astype(np.int64).T
    return np.concatenate(
        [np.stack([heads, relations, tails], 1), np.stack([tails, relations + num_relations, heads], 1)]
    )


@torch.no_grad()
def ask(
    models: Sequence[LinkPredictor],
    encoded: Sequence[Any],
    visible: KnowledgeGraph,
    whole: KnowledgeGraph,
    questions: np.ndarray,
    *,
    kind: Kind = "entities",
    rejected: KnowledgeGraph | None = None,
    seed: int = 0,
    progress: Progress = ignore,
) -> Scored:
    """Score the candidates of questions [Q, 3].

    Args:
        models: The components.
        encoded: The encoding of `visible` by each component.
        visible: The facts that the components were fitted to.
        whole: The same with the hidden facts.
        questions: Head, relation, answer; or head, tail, answer if relations are predicted.
        kind: What is predicted.
        rejected: Triples that are known to be wrong; they are candidates of the questions they would answer.
        seed: Seed for drawing the candidates.
        progress: Called with (done, total) questions.
    """
    rng = torch_generator(seed, "mixing", "candidates")
    width = whole.num_entities if kind == "entities" else whole.num_relations
    order = np.lexsort((questions[:, 0], questions[:, 1]))
    size = int(np.clip(SCORES_AT_ONCE // max(width * len(models), 1), 1, 128))
    parts = []
    for start in range(0, len(order), size):
        asked = questions[order[start : start + size]]
        ends = torch.from_numpy(asked[:, 0]), torch.from_numpy(asked[:, 1])
        scores = [
            (model.score_tails if kind == "entities" else model.score_relations)(part, *ends).float()
            for model, part in zip(models, encoded, strict=True)
        ]
        look_up = ("answers", "relations_between")[kind == "relations"]
        seen, all_known = (getattr(graph, look_up)(asked[:, 0], asked[:, 1]) for graph in (visible, whole))
        wrong = None if rejected is None else getattr(rejected, look_up)(asked[:, 0], asked[:, 1])
        parts.append(_candidates(asked, scores, seen, all_known, wrong, rng))
        progress(min(start + size, len(order)), len(order))
    return pooled(parts).take(np.argsort(order))


def pooled(parts: Sequence[Scored]) -> Scored:
    """Concatenate questions of several parts or graphs, padding those with fewer candidates."""
    nothing_rejected = all(part.rejected is None for part in parts)
    rejected = [torch.zeros_like(part.also_right) if part.rejected is None else part.rejected for part in parts]
    return Scored(
        np.concatenate([part.questions for part in parts]),
        _padded([part.candidates for part in parts], 0),
        _padded([part.values for part in parts], 0.0),
        _padded([part.offsets for part in parts], -torch.inf),
        _padded([part.also_right for part in parts], False),
        np.concatenate([part.ranks for part in parts]),
        np.concatenate([part.known for part in parts]),
        None if nothing_rejected else _padded(rejected, False),
    )


def _candidates(
    asked: np.ndarray, scores: list[Tensor], seen: Ragged, known: Ragged, wrong: Ragged | None, rng: torch.Generator
) -> Scored:
    """The candidates of B questions from their scores [B, N] under every component."""
    count, width = scores[0].shape
    rows, answers = torch.arange(count), torch.from_numpy(asked[:, 2])
    novel, other = ~_mask_of(seen, count, width), _mask_of(known, count, width)
    other[rows, answers] = False
    ranks = np.stack([rank(part, answers, other | ~novel).by(Ties.REALISTIC) for part in scores], axis=1)
    if width <= DRAWN + BEST * len(scores):  # take them all
        best, drawn = [torch.arange(width).expand(count, -1)], torch.zeros(count, 0, dtype=torch.int64)
    else:
        best = [part.masked_fill(~novel, -torch.inf).topk(BEST, dim=1).indices for part in scores]
        drawn = torch.randint(width, (count, DRAWN), generator=rng)
    taken = [] if wrong is None else [_rows_of(wrong, answers)]
    ids = torch.cat([answers[:, None], *taken, *best, drawn], 1)  # [B, K]
    fresh = _first(ids) & novel.gather(1, ids)
    sampled = fresh & (torch.arange(ids.shape[1]) >= ids.shape[1] - drawn.shape[1])
    others = (novel.sum(1) - (fresh & ~sampled).sum(1)).clamp(min=1)
    stands_for = (others / sampled.sum(1).clamp(min=1)).log()[:, None]
    offsets = torch.where(sampled, stands_for, 0.0).masked_fill(~fresh, -torch.inf)
    used = torch.argsort(fresh.logical_not().byte(), dim=1, stable=True)[:, : int(fresh.sum(1).max())]
    ids, offsets = ids.gather(1, used), offsets.gather(1, used)
    values = torch.stack([part.gather(1, ids) for part in scores], -1)
    refused = None if wrong is None else _mask_of(wrong, count, width).gather(1, ids)
    return Scored(asked, ids, values, offsets, other.gather(1, ids), ranks, np.diff(seen.offsets), refused)


def _rows_of(ragged: Ragged, answers: Tensor) -> Tensor:
    """The values of each row [B, L], padded with its answer."""
    counts = np.diff(ragged.offsets)
    rows = answers[:, None].repeat(1, int(counts.max(initial=0)))
    column = np.arange(len(ragged.values)) - np.repeat(ragged.offsets[:-1], counts)
    rows[torch.from_numpy(ragged.rows), torch.from_numpy(column)] = torch.from_numpy(ragged.values.astype(np.int64))
    return rows


def _mask_of(ragged: Ragged, count: int, width: int) -> Tensor:
    """Bool [B, N]: True at the values of each row."""
    mask = torch.zeros(count, width, dtype=torch.bool)
    mask[torch.from_numpy(ragged.rows), torch.from_numpy(ragged.values.astype(np.int64))] = True
    return mask


def _padded(parts: list[Tensor], value: float) -> Tensor:
    """Concatenate tensors [B, K, ...] of different K, padded with a value."""
    width = max(part.shape[1] for part in parts)
    filled = []
    for part in parts:
        whole = part.new_full((part.shape[0], width, *part.shape[2:]), value)
        whole[:, : part.shape[1]] = part
        filled.append(whole)
    return torch.cat(filled)


def _first(ids: Tensor) -> Tensor:
    """Bool [B, K]: whether no earlier column of the row has the same id."""
    ordered, order = torch.sort(ids, dim=1, stable=True)
    fresh = torch.ones_like(ids, dtype=torch.bool)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return torch.empty_like(fresh).scatter_(1, order, fresh)


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of C components: global weights, and corrections for a relation and direction."""

    general: np.ndarray  # [C]
    corrections: np.ndarray  # [G, C], by the second column of a question

    def of(self, groups: np.ndarray) -> np.ndarray:
        """Weights [Q, C] of questions by relation."""
        return np.asarray(self.general + self.corrections[groups])


def fit_weights(
    scored: Scored,
    groups: int,
    strength: float | None,
    start: Weights | None = None,
    iterations: int = ITERATIONS,
    *,
    unexplained: float = 0.0,
) -> Weights:
    """The weights of maximum likelihood; with a `strength` of None, without corrections.

    `unexplained` is the chance of an answer that no component can explain. It bounds the loss of such an answer:
    without it the weights would be spent on answers that no mix ranks well, at the expense of those that it could rank
    first.
    """
    count, offsets = scored.components, scored.likelihood_offsets
    spread = _spread(scored)
    values = (scored.values - scored.values[:, :1]) / spread  # the answer's own score becomes 0
    values = values.masked_fill(~torch.isfinite(offsets)[..., None], 0.0)
    asked, group = np.unique(scored.questions[:, 1], return_inverse=True)
    of_group = torch.from_numpy(group.reshape(-1))
    rows = 1 if strength is None else 1 + len(asked)
    penalty = np.full((rows, 1), RIDGE)
    penalty[1:] = strength or 0.0

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(rows, count)
        table = torch.from_numpy(weights).float()
        mine = table[0] + table[1:][of_group] if rows > 1 else table.expand(len(scored), -1)
        logits = torch.bmm(values, mine[..., None]).squeeze(2) + offsets
        costs = torch.logsumexp(logits, 1)  # [Q], -log of the chances of the answers, whose logits are 0
        loss = float(
            -torch.log(torch.exp(-costs) + unexplained).double().sum() if unexplained else costs.double().sum()
        )
        explained = 1 / (1 + unexplained * torch.exp(costs)) if unexplained else torch.ones_like(costs)
        slope = (
            torch.bmm((explained[:, None] * torch.softmax(logits, 1))[:, None], values).squeeze(1).double()
        )  # [Q, C]
        gradient = penalty * weights
        gradient[0] += slope.sum(0).numpy()
        if rows > 1:
            gradient[1:] += torch.zeros(rows - 1, count, dtype=torch.float64).index_add_(0, of_group, slope).numpy()
        return loss + float((penalty * weights**2).sum()) / 2, gradient.ravel()

    first, scale = np.zeros((rows, count)), spread.double().numpy()
    first[0] = 1 / count if start is None else start.general * scale
    if start is not None and rows > 1:
        first[1:] = start.corrections[asked] * scale
    from scipy.optimize import minimize

    found = minimize(objective, first.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": iterations}).x
    weights = found.reshape(rows, count) / scale
    corrections = np.zeros((groups, count))
    if rows > 1:
        corrections[asked] = weights[1:]
    return Weights(weights[0], corrections)


def _spread(scored: Scored) -> Tensor:
    """The standard deviation [C] of a component's scores among the candidates of a question."""
    there = torch.isfinite(scored.likelihood_offsets)[..., None]
    counts = there.sum(1).clamp(min=1)
    means = torch.where(there, scored.values, 0.0).sum(1) / counts
    squares = torch.where(there, (scored.values - means[:, None]) ** 2, 0.0).sum(1) / counts
    return squares.mean(0).sqrt().clamp(min=1e-6)


def mixed(scored: Scored, weights: Weights) -> Tensor:
    """Mixed scores [Q, K] of the candidates."""
    return torch.bmm(scored.values, torch.from_numpy(weights.of(scored.questions[:, 1])).float()[..., None]).squeeze(2)


def ranks_of(scored: Scored, scores: Tensor) -> np.ndarray:
    """Ranks [Q] of the answers; a sampled candidate that scores better counts for all candidates that it represents."""
    stands_for = scored.likelihood_offsets.exp()
    better = ((scores > scores[:, :1]) * stands_for).sum(1)
    ties = ((scores == scores[:, :1]) * stands_for).sum(1) - 1
    return np.asarray((1 + better + ties / 2).double().numpy())


def likelihoods(scored: Scored, scores: Tensor) -> np.ndarray:
    """Log-likelihoods [Q] of the answers."""
    logits = scores + scored.likelihood_offsets
    return np.asarray((logits[:, 0] - torch.logsumexp(logits, 1)).double().numpy())


def folds_of(questions: np.ndarray, count: int = FOLDS) -> np.ndarray:
    """A fold [Q] for every question; questions about the same pair of entities share one."""
    low, high = np.minimum(questions[:, 0], questions[:, 2]), np.maximum(questions[:, 0], questions[:, 2])
    pairs = np.unique(np.stack([low, high], 1), axis=0, return_inverse=True)[1].reshape(-1)
    return np.asarray((pairs * 2654435761 >> 8) % count)


@dataclass(frozen=True, eq=False)
class Mix:
    """Selected weights, and cross-fitted scores."""

    weights: Weights
    strength: float | None
    """Shrinkage of the corrections; None if there are none."""
    scores: Tensor
    """Mixed scores [Q, K] of every question under weights fitted to the other folds."""
    ranks: np.ndarray  # [Q], by the same

    @property
    def mrr(self) -> float:
        """Mixed scores of questions that the weights were not fitted to."""
        return float((1 / self.ranks).mean())


def cross_fitted(scored: Scored, groups: int, strength: float | None, start: Weights | None = None) -> Tensor:
    """Mixed scores [Q, K] of every question under weights fitted to the other folds."""
    fold = folds_of(scored.questions)
    scores = torch.zeros(scored.offsets.shape)
    for left_out in range(FOLDS):
        rest, mine = np.flatnonzero(fold != left_out), np.flatnonzero(fold == left_out)
        if len(mine):
            weights = fit_weights(scored.take(rest) if len(rest) else scored, groups, strength, start, ITERATIONS // 2)
            scores[torch.from_numpy(mine)] = mixed(scored.take(mine), weights)
    return scores


def choose(scored: Scored, groups: int, *, corrections: bool = True) -> Mix:
    """Fit the weights, with the shrinkage that maximises the likelihood of held-out folds."""
    start = fit_weights(scored, groups, None)
    best: tuple[float, float | None, Tensor] | None = None
    for strength in (None, *STRENGTHS) if corrections else (None,):
        scores = cross_fitted(scored, groups, strength, start)
        found = float(likelihoods(scored, scores).mean())
        if best is None or found > best[0]:
            best = found, strength, scores
    assert best is not None
    _, strength, scores = best
    weights = start if strength is None else fit_weights(scored, groups, strength, start)
    return Mix(weights, strength, scores, ranks_of(scored, scores))
