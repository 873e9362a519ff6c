"""Why this answer and not another: single facts that hold up the lead of one answer over the best other one.

Facts that touch the head, the answer or the other answer are removed one at a time, and both answers are scored on what
is left. If there are many, those that a model's `edge_relevance` or the walks between the entities suggest are tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from anykg.answers.explain.neighbourhood import Neighbourhood, neighbourhood
from anykg.answers.explain.paths import RELEVANT_FACTS
from anykg.evaluation.ranking import device_of, relations_with_loops
from anykg.graph.graph import HEAD, TAIL, KnowledgeGraph
from anykg.models.base import LinkPredictor

TESTED = 64
"""Facts that are removed, one at a time."""


@dataclass(frozen=True)
class SingleFact:
    """A fact, and both answers without it."""

    fact: np.ndarray  # int64 [3]
    score: float
    """Of the answer."""
    other: float
    """Of the other answer."""
    effect: float
    """How much smaller the lead is."""


@dataclass(frozen=True)
class Contrast:
    """An answer against the best other one that is not known."""

    other: int
    """An entity."""
    score: float
    other_score: float
    facts: tuple[SingleFact, ...]
    """Those that were tested and matter, largest effect first."""
    tested: int
    nearby: int
    """Facts that touch one of the three entities."""
    known: tuple[tuple[int, float], ...]
    """Known answers that score higher than this one, best first."""

    @property
    def lead(self) -> float:
        """By how much the answer scores higher; negative if the model prefers the other."""
        return self.score - self.other_score


@torch.no_grad()
def contrast(
    model: LinkPredictor, graph: KnowledgeGraph, triplet: np.ndarray, *, count: int = 3, tested: int = TESTED
) -> Contrast | None:
    """Compare a triplet that is no fact of the graph with the best other tail; None if there is no other tail."""
    head, relation, tail = (int(part) for part in triplet)
    device = device_of(model)
    ends = (torch.tensor([end], device=device) for end in (head, relation))
    scores = model.score_tails(model.encode(graph), *ends)[0].float().cpu().numpy()
    answers = graph.answers(np.array([head]), np.array([relation])).values.astype(np.int64)
    open_scores = scores.copy()
    open_scores[answers] = -np.inf
    open_scores[tail] = -np.inf
    if not graph.derive(relations_with_loops)[relation]:
        open_scores[head] = -np.inf
    other = int(open_scores.argmax())
    if not np.isfinite(open_scores[other]):
        return None
    near = neighbourhood(graph, triplet, RELEVANT_FACTS, (other,))
    local = np.array([near.triplet, near.triplet])
    local[1, TAIL] = np.searchsorted(near.entities, other)
    close = touching(near.graph, np.unique(local[:, [HEAD, TAIL]]))
    chosen = _suspects(model, near, local, close, tested)
    lead = _lead(model, near.graph, local, device)
    effects = []
    for fact in chosen:
        without = _lead(model, near.graph.subset(np.arange(len(near.graph)) != fact), local, device)
        effects.append((float((lead[0] - lead[1]) - (without[0] - without[1])), without))
    order = sorted(range(len(chosen)), key=lambda i: -effects[i][0])
    facts = near.in_whole(near.graph.triplets[chosen]) if len(chosen) else np.empty((0, 3), np.int64)
    told = tuple(
        SingleFact(facts[i], float(effects[i][1][0]), float(effects[i][1][1]), effects[i][0])
        for i in order[:count]
        if effects[i][0] > 0
    )
    better = sorted(((int(a), float(scores[a])) for a in answers if scores[a] > scores[tail]), key=lambda row: -row[1])
    return Contrast(other, float(scores[tail]), float(scores[other]), told, len(chosen), len(close), tuple(better))


def touching(graph: KnowledgeGraph, entities: np.ndarray) -> np.ndarray:
    """Rows of the facts that touch one of the entities."""
    return np.flatnonzero(np.isin(graph.triplets[:, HEAD], entities) | np.isin(graph.triplets[:, TAIL], entities))


def _suspects(
    model: LinkPredictor, near: Neighbourhood, local: np.ndarray, close: np.ndarray, tested: int
) -> np.ndarray:
    """The facts to test, best guess first."""
    if len(close) <= tested:
        return close
    size, device = len(near.graph), device_of(model)
    relevance = [model.edge_relevance(near.graph, torch.from_numpy(row).to(device)) for row in local]
    if relevance[0] is not None and relevance[1] is not None:
        gain = (relevance[0] - relevance[1]).sum(0).detach().cpu().numpy()
        worth = gain[:size] + gain[size:]  # both directions of a fact
        return close[np.argsort(-worth[close], kind="stable")[:tested]]
    triplets = near.graph.triplets
    degrees = np.bincount(triplets[:, [HEAD, TAIL]].ravel(), minlength=near.graph.num_entities)
    rarity = degrees[triplets[close, HEAD]] + degrees[triplets[close, TAIL]]
    return close[np.lexsort((rarity, near.lengths[close]))[:tested]]


def _lead(model: LinkPredictor, graph: KnowledgeGraph, rows: np.ndarray, device: torch.device) -> Any:
    """The scores [2] of both answers."""
    return model.score_triplets(model.encode(graph), torch.from_numpy(rows).to(device)).float().cpu().numpy()
