"""Contrastive explanation: the single facts that the lead of an answer over the runner-up depends on.

Facts that touch the head, the answer or the runner-up are removed one at a time, and both answers are scored on the
rest. Encoding the graph again for each of them is slow, so a Bellman-Ford network first passes over the encoded graph
with each fact masked, and only the most important ones are removed from the graph. For other models, and if there are
very many facts, the facts to test are chosen by `edge_relevance` or by the walks between the entities.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from anykg.answers.explaining.neighbourhood import Neighbourhood, neighbourhood
from anykg.answers.explaining.paths import RELEVANT_FACTS
from anykg.evaluation.ranking import best_answers
from anykg.evaluation.scoring import device_of, encode
from anykg.graph.graph import HEAD, TAIL, KnowledgeGraph
from anykg.models.base import LinkPredictor

TESTED = 64
"""Number of facts that are removed, one at a time."""
MASKED, REMOVED = 600, 16
"""Number of facts that are masked, one at a time, and of those that are then removed."""


@dataclass(frozen=True)
class SingleFact:
    """A fact, and the scores of both answers without it."""

    fact: np.ndarray  # int64 [3]
    score: float
    """Score of the answer."""
    other: float
    """Score of the runner-up."""
    effect: float
    """The decrease of the lead."""


@dataclass(frozen=True)
class Contrast:
    """An answer compared with the best other answer that is not known."""

    other: int
    """An entity."""
    score: float
    other_score: float
    facts: tuple[SingleFact, ...]
    """The tested facts that matter, largest effect first."""
    tested: int
    nearby: int
    """Facts that touch one of the three entities."""
    known: tuple[tuple[int, float], ...]
    """Known answers that score higher than this one, best first."""

    @property
    def lead(self) -> float:
        """The lead of the answer; negative if the model prefers the other one."""
        return self.score - self.other_score


@torch.no_grad()
def contrast(
    model: LinkPredictor, graph: KnowledgeGraph, triplet: np.ndarray, *, count: int = 3, tested: int = TESTED
) -> Contrast | None:
    """Compare a triplet that is not a fact of the graph with the best other tail; None if there is no other tail."""
    head, relation, tail = (int(part) for part in triplet)
    encoded = encode(model, graph)
    best = best_answers(model, graph, np.array([[head, relation, -1]]), k=2, encoded=encoded).triplets[:, TAIL]
    others = best[best != tail]
    if not len(others):
        return None
    other = int(others[0])
    answers = graph.answers(np.array([head]), np.array([relation])).values.astype(np.int64)
    asked = np.array([[head, relation, end] for end in (tail, other, *answers)])
    scores = _scores(model, encoded, asked)
    near = neighbourhood(graph, triplet, RELEVANT_FACTS, (other,))
    local = np.array([near.triplet, near.triplet])
    local[1, TAIL] = np.searchsorted(near.entities, other)
    close = touching(near.graph, np.unique(local[:, [HEAD, TAIL]]))
    encoded = encoded if near.graph is graph else encode(model, near.graph)
    masks = hasattr(encoded, "keep")
    tried = _suspects(model, near, local, close, MASKED if masks else tested)
    chosen = _masked(model, near.graph, encoded, local, tried)[:REMOVED] if masks else tried
    lead = _scores(model, encoded, local)
    effects = []
    for fact in chosen:
        rest = near.graph.subset(np.arange(len(near.graph)) != fact)
        without = _scores(model, encode(model, rest), local)
        effects.append((float((lead[0] - lead[1]) - (without[0] - without[1])), without))
    order = sorted(range(len(chosen)), key=lambda i: -effects[i][0])
    facts = near.in_whole(near.graph.triplets[chosen]) if len(chosen) else np.empty((0, 3), np.int64)
    tested_facts = tuple(
        SingleFact(facts[i], float(effects[i][1][0]), float(effects[i][1][1]), effects[i][0])
        for i in order[:count]
        if effects[i][0] > 0
    )
    known = zip(answers.tolist(), scores[2:].tolist(), strict=True)
    better = sorted(((a, score) for a, score in known if score > scores[0]), key=lambda row: -row[1])
    return Contrast(other, float(scores[0]), float(scores[1]), tested_facts, len(tried), len(close), tuple(better))


def _masked(
    model: LinkPredictor, graph: KnowledgeGraph, encoded: Any, rows: np.ndarray, facts: np.ndarray
) -> np.ndarray:
    """The facts, sorted by how much masking them reduces the lead of the first of two triplets [2, 3]."""
    leads = []
    for fact in facts:
        keep = np.ones(2 * len(graph), bool)
        keep[[fact, fact + len(graph)]] = False  # both directions
        answer, other = _scores(model, replace(encoded, keep=keep), rows)
        leads.append(float(answer - other))
    return facts[np.argsort(np.array(leads), kind="stable")]


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


@torch.no_grad()
def _scores(model: LinkPredictor, encoded: Any, rows: np.ndarray) -> np.ndarray:
    """The scores [B] of triplets [B, 3]."""
    scores = model.score_triplets(encoded, torch.from_numpy(rows).to(device_of(model)))
    result: np.ndarray = scores.float().cpu().numpy()
    return result
