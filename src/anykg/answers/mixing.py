"""Learn how to weigh models by facts that none of them has seen.

A question is (h, r, ?) with one hidden answer. Its candidates are the answer, the best ones of every component, and a
uniform sample that stands for all others; facts known otherwise are no candidates. The weights maximise the likelihood
of the answers under a softmax over the candidates: one set for all questions, plus a correction for every relation and
direction that is shrunk towards zero, so that it only shows where there are facts to learn it from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from anykg.evaluation.ranks import Ties, rank
from anykg.graph.graph import KnowledgeGraph, Ragged
from anykg.models.base import LinkPredictor
from anykg.seeds import torch_stream

BEST, DRAWN = 32, 128
"""Candidates of a question: the best so many of every component, and so many drawn from all others."""
SCORES_AT_ONCE = 1 << 22
STRENGTHS = (3.0, 10.0, 30.0, 100.0)
"""Shrinkage of corrections that are tried: facts of a relation at which a correction is about half of what they say."""
RIDGE = 0.1
"""Shrinkage of the weights themselves."""
FOLDS = 4

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Scored:
    """Q questions with their candidates' scores under C components; the answer is candidate 0."""

    questions: np.ndarray  # int64 [Q, 3]: head, relation (inverses from R on), answer
    candidates: Tensor  # int64 [Q, K]
    values: Tensor  # float32 [Q, K, C]
    offsets: Tensor  # float32 [Q, K], log of how many entities a candidate stands for; -inf for none
    ranks: np.ndarray  # float64 [Q, C], of the answer under each component alone, all entities ranked

    def __len__(self) -> int:
        return len(self.questions)

    def take(self, rows: np.ndarray) -> Scored:
        """Some of the questions."""
        at = torch.from_numpy(rows)
        return Scored(self.questions[rows], self.candidates[at], self.values[at], self.offsets[at], self.ranks[rows])

    def only(self, components: Sequence[int]) -> Scored:
        """Some of the components."""
        chosen = list(components)
        return Scored(self.questions, self.candidates, self.values[..., chosen], self.offsets, self.ranks[:, chosen])


@torch.no_grad()
def ask(
    models: Sequence[LinkPredictor],
    graph: KnowledgeGraph,
    questions: np.ndarray,
    known: KnowledgeGraph,
    *,
    seed: int = 0,
    encoded: Sequence[Any] | None = None,
    progress: Progress | None = None,
) -> Scored:
    """Score the candidates of questions [Q, 3] on a graph; facts of `known` are no candidates but for the answer."""
    encoded = [model.eval().encode(graph) for model in models] if encoded is None else encoded
    generator = torch_stream(seed, "mixing candidates")
    order = np.lexsort((questions[:, 0], questions[:, 1]))
    size = int(np.clip(SCORES_AT_ONCE // max(graph.num_entities, 1), 1, 256))
    parts = []
    for start in range(0, len(order), size):
        asked = questions[order[start : start + size]]
        heads, relations = torch.from_numpy(asked[:, 0]), torch.from_numpy(asked[:, 1])
        scores = [
            model.score_tails(part, heads, relations).float() for model, part in zip(models, encoded, strict=True)
        ]
        parts.append(_candidates(asked, scores, known.answers(asked[:, 0], asked[:, 1]), generator))
        if progress:
            progress(min(start + size, len(order)), len(order))
    back = np.argsort(order)
    joined = Scored(
        np.concatenate([part.questions for part in parts]),
        *(torch.cat([getattr(part, name) for part in parts]) for name in ("candidates", "values", "offsets")),
        np.concatenate([part.ranks for part in parts]),
    )
    return joined.take(back)


def _candidates(asked: np.ndarray, scores: list[Tensor], known: Ragged, generator: torch.Generator) -> Scored:
    """The candidates of B questions from their scores [B, N] under every component."""
    count, entities = scores[0].shape
    answers = torch.from_numpy(asked[:, 2])
    usable = torch.ones(count, entities, dtype=torch.bool)
    usable[torch.from_numpy(known.rows), torch.from_numpy(known.values.astype(np.int64))] = False
    usable[torch.arange(count), answers] = False
    ranks = np.stack([rank(part, answers, ~usable).by(Ties.REALISTIC) for part in scores], axis=1)
    best = [part.masked_fill(~usable, -torch.inf).topk(min(BEST, entities), dim=1).indices for part in scores]
    drawn = torch.randint(entities, (count, min(DRAWN, entities)), generator=generator)
    ids = torch.cat([answers[:, None], *best, drawn], 1)  # [B, K]
    fresh = _first(ids) & usable.gather(1, ids)
    fresh[:, 0] = True
    sampled = torch.zeros_like(fresh)
    sampled[:, -drawn.shape[1] :] = fresh[:, -drawn.shape[1] :]
    others = usable.sum(1) + 1 - (fresh & ~sampled).sum(1)
    stands_for = (others.clamp(min=1) / sampled.sum(1).clamp(min=1)).log()[:, None]
    offsets = torch.where(sampled, stands_for, 0.0).masked_fill(~fresh, -torch.inf)
    values = torch.stack([part.gather(1, ids) for part in scores], -1)
    return Scored(asked, ids, values, offsets, ranks)


def _first(ids: Tensor) -> Tensor:
    """Bool [B, K]: whether no earlier column of the row has the same id."""
    ordered, order = torch.sort(ids, dim=1, stable=True)
    fresh = torch.ones_like(ids, dtype=torch.bool)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return torch.empty_like(fresh).scatter_(1, order, fresh)


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of C components: for a question in general, and for relations and directions that were asked about."""

    general: np.ndarray  # [C]
    corrections: np.ndarray  # [2R, C]

    def of(self, relations: np.ndarray) -> np.ndarray:
        """Weights [Q, C] of questions by relation."""
        return np.asarray(self.general + self.corrections[relations])


def fit_weights(
    scored: Scored, num_relations: int, strength: float | None, start: Weights | None = None, iterations: int = 60
) -> Weights:
    """The weights that make the answers likely; `strength` None has no corrections."""
    count = scored.values.shape[-1]
    spread = _spread(scored)
    values = torch.where(torch.isfinite(scored.offsets)[..., None], scored.values / spread, 0.0)
    values = values - values[:, :1]  # relative to the answer, whose score is then 0
    asked, group = np.unique(scored.questions[:, 1], return_inverse=True)
    group = torch.from_numpy(group.reshape(-1))
    groups = 0 if strength is None else len(asked)
    penalty = RIDGE + np.zeros((groups + 1, count))
    if groups:
        penalty[1:] = strength

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = torch.from_numpy(flat.reshape(groups + 1, count)).float()
        of_question = weights[0] + weights[1:][group] if groups else weights[:1].expand(len(scored), -1)
        logits = torch.einsum("qkc,qc->qk", values, of_question) + scored.offsets
        loss = torch.logsumexp(logits, 1).sum()
        gradient = torch.einsum("qk,qkc->qc", torch.softmax(logits, 1), values)
        total = np.zeros((groups + 1, count))
        total[0] = gradient.sum(0).numpy()
        if groups:
            total[1:] = torch.zeros(groups, count).index_add_(0, group, gradient).numpy()
        square = flat.reshape(groups + 1, count)
        return float(loss) + float((penalty * square**2).sum()) / 2, (total + penalty * square).ravel()

    first = np.zeros((groups + 1, count))
    if start is not None:
        first[0] = start.general * spread.numpy()
        if groups:
            first[1:] = start.corrections[asked] * spread.numpy()
    else:
        first[0] = 1 / count
    found = minimize(objective, first.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": iterations}).x
    weights = found.reshape(groups + 1, count) / spread.numpy()
    corrections = np.zeros((2 * num_relations, count))
    corrections[asked] = weights[1:] if groups else 0.0
    return Weights(weights[0], corrections)


def _spread(scored: Scored) -> Tensor:
    """The standard deviation [C] of a component's scores among the candidates of a question."""
    there = torch.isfinite(scored.offsets)[..., None]
    counts = there.sum(1).clamp(min=1)
    means = torch.where(there, scored.values, 0.0).sum(1) / counts
    squares = torch.where(there, (scored.values - means[:, None]) ** 2, 0.0).sum(1) / counts
    return squares.mean(0).sqrt().clamp(min=1e-6)


def logits_of(scored: Scored, weights: Weights) -> Tensor:
    """Mixed scores [Q, K] of the candidates, with the log of how many entities each stands for not added."""
    of_question = torch.from_numpy(weights.of(scored.questions[:, 1])).float()
    return torch.einsum("qkc,qc->qk", scored.values, of_question)


def ranks_of(scored: Scored, logits: Tensor) -> np.ndarray:
    """Ranks [Q] of the answers; a drawn candidate that is better counts for all it stands for."""
    stands_for = scored.offsets.exp()
    better = ((logits > logits[:, :1]) * stands_for).sum(1)
    ties = ((logits == logits[:, :1]) * stands_for).sum(1) - 1
    return (1 + better + ties / 2).double().numpy()


def likelihood_of(scored: Scored, logits: Tensor) -> np.ndarray:
    """Log-likelihood [Q] of the answers."""
    whole = logits + scored.offsets
    return (whole[:, 0] - torch.logsumexp(whole, 1)).double().numpy()


def folds_of(scored: Scored, count: int = FOLDS) -> np.ndarray:
    """A fold [Q] for every question; the two questions about a fact share one."""
    heads, relations, tails = scored.questions.T
    r = relations.max(initial=0) + 1
    mixed = (np.minimum(heads, tails) * 1_000_003 + np.maximum(heads, tails)) * 31 + relations * 0 * r
    return np.asarray(np.unique(mixed, return_inverse=True)[1].reshape(-1) % count)


@dataclass(frozen=True, eq=False)
class Mix:
    """Chosen weights, and how well they do on questions they were not fitted to."""

    weights: Weights
    strength: float | None
    """Shrinkage of the corrections; None if there are none."""
    logits: Tensor
    """Mixed scores [Q, K] of every question, from weights fitted to the other folds."""
    ranks: np.ndarray  # [Q], of the same


def choose(scored: Scored, num_relations: int) -> Mix:
    """Fit the weights, with the shrinkage that does best on folds left out."""
    fold = folds_of(scored)
    tried: dict[float | None, Tensor] = {}
    general = fit_weights(scored, num_relations, None)
    for strength in (None, *STRENGTHS):
        logits = torch.zeros(scored.offsets.shape)
        for left_out in range(FOLDS):
            rest, mine = np.flatnonzero(fold != left_out), np.flatnonzero(fold == left_out)
            if len(rest) and len(mine):
                weights = fit_weights(scored.take(rest), num_relations, strength, general, iterations=25)
                logits[torch.from_numpy(mine)] = logits_of(scored.take(mine), weights)
        tried[strength] = logits
    quality = {key: float(likelihood_of(scored, logits).mean()) for key, logits in tried.items()}
    best = max(quality, key=lambda key: quality[key])
    weights = fit_weights(scored, num_relations, best, general)
    return Mix(weights, best, tried[best], ranks_of(scored, tried[best]))
