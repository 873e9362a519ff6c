"""Explain the score of one triplet by single facts, paths and clauses, and test the explanation.

The triplet itself is removed from the graph if it is known, so that it does not explain itself. The facts given as
reasons are removed too, and the change in score is compared with removing the same number of random facts around the
two entities: reasons that do not matter have no larger effect.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from anykg.answers.explaining.contrast import Contrast, contrast
from anykg.answers.explaining.matches import Match, matches
from anykg.answers.explaining.neighbourhood import neighbourhood
from anykg.answers.explaining.paths import RELEVANT_FACTS, Path, important_paths, reads_paths
from anykg.evaluation.ranking import Ranked, rank_facts
from anykg.evaluation.ranks import Ties
from anykg.graph.graph import TAIL, KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.seeds import generator

LEAST_EFFECT = 0.01
"""A further path must lower the score by more than this."""


@dataclass(frozen=True)
class Removal:
    """The score, and the rank among all tails that are not known answers, after removing facts."""

    facts: np.ndarray  # int64 [F, 3]
    score: float
    rank: float


@dataclass(frozen=True)
class Explanation:
    """Why a model scores a triplet as it does."""

    graph: KnowledgeGraph
    """Without the triplet."""
    triplet: np.ndarray  # int64 [3]
    known: bool
    """Whether the triplet was a fact of the graph."""
    score: float
    rank: float
    candidates: int
    """Number of tails that are ranked."""
    paths: tuple[Path, ...]
    """Empty for models that do not read paths."""
    matches: tuple[Match, ...]
    removal: Removal
    """Removal of the facts of the paths, or of the matches if there are no paths."""
    random: tuple[Removal, ...]
    """Removals of the same number of random facts around the two entities."""
    contrast: Contrast | None = None
    """With the best other tail; None if there is none."""


def explain(
    model: LinkPredictor,
    graph: KnowledgeGraph,
    triplet: tuple[int, int, int],
    *,
    paths: int = 5,
    clauses: int = 5,
    draws: int = 5,
    seed: int = 0,
) -> Explanation:
    """Explain the score of a triplet (head, relation, tail) by at most `paths` paths and `clauses` clauses."""
    model.eval()
    asked = np.array(triplet, np.int64)
    known = bool(graph.contains(asked))
    rest = graph.without(asked[None])
    model = model.fixed_to(rest)
    ranked = _ranked(model, rest, asked)
    found: list[Path] = []
    if reads_paths(model):
        near = neighbourhood(rest, asked, RELEVANT_FACTS)
        tried = important_paths(model, near.graph, near.triplet)
        found = [
            replace(path, facts=near.in_whole(path.facts), nodes=tuple(near.entities[list(path.nodes)].tolist()))
            for path in _effective_paths(model, near.graph, near.triplet, tried, paths)
        ]
    implied = matches(model, rest, asked, clauses)
    reasons = np.concatenate([np.empty((0, 3), np.int64), *(part.facts for part in (found or implied))])
    reasons = np.unique(reasons, axis=0)
    others = [
        _removed(model, rest, asked, nearby(rest, asked, reasons, generator(seed, "nearby", draw)))
        for draw in range(draws if len(reasons) else 0)
    ]
    return Explanation(
        graph=rest,
        triplet=asked,
        known=known,
        score=float(ranked.scores[0]),
        rank=float(ranked.ranks.by(Ties.REALISTIC)[0]),
        candidates=int(ranked.ranks.candidates[0]),
        paths=tuple(found),
        matches=tuple(implied),
        removal=_removed(model, rest, asked, reasons),
        random=tuple(others),
        contrast=contrast(model, rest, asked),
    )


def nearby(graph: KnowledgeGraph, triplet: np.ndarray, reasons: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Other facts that touch the two entities or a neighbour, as many as there are reasons if available."""
    heads, tails = graph.triplets[:, 0], graph.triplets[:, 2]
    close = np.zeros(graph.num_entities, bool)
    close[triplet[[0, 2]]] = True
    touches = close[heads] | close[tails]
    close[heads[touches]] = close[tails[touches]] = True
    pool = np.flatnonzero((close[heads] | close[tails]) & ~graph.with_triplets(reasons).contains(graph.triplets))
    drawn = random.choice(pool, min(len(reasons), len(pool)), replace=False)
    facts: np.ndarray = graph.triplets[np.sort(drawn)].astype(np.int64)
    return facts


def _effective_paths(
    model: LinkPredictor, graph: KnowledgeGraph, triplet: np.ndarray, tried: list[Path], count: int
) -> list[Path]:
    """Up to `count` of the paths, each the one whose removal then lowers the score most; at least one, if there is any.

    Paths that do not lower it further are left out: they lead through facts that are already removed.
    """
    chosen: list[Path] = []
    left, before = graph, _score(model, graph, triplet)
    while tried and len(chosen) < count:
        after = [_score(model, left.without(path.facts), triplet) for path in tried]
        best = min(range(len(tried)), key=lambda i: (after[i], len(tried[i].facts)))
        if chosen and before - after[best] <= LEAST_EFFECT:
            break
        path = tried.pop(best)
        chosen.append(replace(path, effect=before - after[best]))
        left, before = left.without(path.facts), after[best]
    return chosen


@torch.no_grad()
def _score(model: LinkPredictor, graph: KnowledgeGraph, triplet: np.ndarray) -> float:
    return float(model.score_triplets(model.encode(graph), torch.from_numpy(triplet)[None]))


def _ranked(model: LinkPredictor, graph: KnowledgeGraph, triplet: np.ndarray) -> Ranked:
    """The score of the triplet and its rank among all tails that are not known answers."""
    return rank_facts(model, graph, triplet[None], TAIL, known=graph)


def _removed(model: LinkPredictor, graph: KnowledgeGraph, triplet: np.ndarray, facts: np.ndarray) -> Removal:
    ranked = _ranked(model, graph.without(facts), triplet)
    return Removal(facts, float(ranked.scores[0]), float(ranked.ranks.by(Ties.REALISTIC)[0]))
