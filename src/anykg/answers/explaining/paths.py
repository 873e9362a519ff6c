"""The paths and facts that a score depends on most: candidates, to be tested by removing them.

A model may attribute its score to edges and layers (`LinkPredictor.edge_relevance`: Bellman-Ford networks do); a beam
search then finds the paths from head to tail of largest total relevance. For any other model, facts near the triplet
are removed one at a time; those that lower the score are candidates, alone and joined to paths. In both cases the
candidates are only guesses: `explanation` removes them greedily, always the one that lowers the score the most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from anykg.answers.explaining.beam import NONE, best_paths
from anykg.answers.explaining.neighbourhood import Neighbourhood, neighbourhood
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.models.uqer import UQER

BEAMS = 12
"""Number of candidates that are tested."""
RELEVANT_FACTS = 100_000
"""Upper bound on the facts given to `edge_relevance`, which takes a few kilobytes for each."""
REMOVAL_FACTS, REMOVED, LONGEST = 20_000, 32, 3
"""Without `edge_relevance`: the number of facts that scores are computed on, the number of facts removed one by one,
and the maximum length of the paths they are joined to."""


@dataclass(frozen=True)
class Path:
    """Facts that form a path from head to tail, in any direction, or a single fact near them."""

    facts: np.ndarray  # int64 [L, 3]
    nodes: tuple[int, ...]  # L + 1 entities
    worth: float
    """Total relevance."""
    effect: float = 0.0
    """The decrease of the score without these facts, after removing those of the paths before it."""


def reads_paths(model: LinkPredictor) -> bool:
    """Whether to explain by paths; the score of a model made of clauses is a sum over clauses."""
    return not isinstance(model, UQER)


def important_paths(model: LinkPredictor, graph: KnowledgeGraph, triplet: np.ndarray, beams: int = BEAMS) -> list[Path]:
    """Up to `beams` candidates, best guess first; the triplet must not be a fact of the graph."""
    near = neighbourhood(graph, triplet, RELEVANT_FACTS)
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    relevance = model.edge_relevance(near.graph, torch.from_numpy(near.triplet).to(device))
    if relevance is not None:
        return _joined(near, relevance.detach().cpu().numpy().astype(np.float64), beams)
    near = neighbourhood(graph, triplet, REMOVAL_FACTS)
    worth = removal_effects(model, near)
    paths = _joined(near, np.tile(worth, (LONGEST, 2)), beams)
    alone = np.argsort(-worth, kind="stable")[: beams - len(paths)]
    return paths + [_single(near, fact, worth[fact]) for fact in alone if worth[fact] > 0]


@torch.no_grad()
def removal_effects(model: LinkPredictor, near: Neighbourhood, count: int = REMOVED) -> np.ndarray:
    """The decrease of the score without each fact [E], for the `count` facts on the shortest walks; 0 for others.

    Ties go to walks between entities with fewer facts, which are more specific.
    """
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    asked = torch.from_numpy(near.triplet)[None].to(device)
    facts = near.graph.triplets
    degrees = np.bincount(facts[:, [0, 2]].ravel(), minlength=near.graph.num_entities)
    chosen = np.lexsort((degrees[facts[:, 0]] + degrees[facts[:, 2]], near.lengths))[:count]
    whole = float(model.score_triplets(model.encode(near.graph), asked))
    effects = np.zeros(len(facts))
    for fact in chosen:
        rest = near.graph.subset(np.arange(len(facts)) != fact)
        effects[fact] = whole - float(model.score_triplets(model.encode(rest), asked))
    return effects


def _joined(near: Neighbourhood, worth: np.ndarray, beams: int) -> list[Path]:
    """The best paths from head to tail by the weights [L, 2E] of edges."""
    edges = near.graph.with_inverses().astype(np.int64)
    read = np.flatnonzero((worth > 0).any(0))  # paths only use edges of positive worth, which are few
    head, _, tail = near.triplet
    nodes, ids = np.unique(np.concatenate([[head, tail], edges[read, 0], edges[read, 2]]), return_inverse=True)
    ends, starts = np.split(ids[2:], 2)
    few = np.stack([ends, edges[read, 1], starts], axis=1)
    paths, worths = best_paths(few, np.ascontiguousarray(worth[:, read]), len(nodes), int(ids[0]), int(ids[1]), beams)
    return [_path(near, read[row[row != NONE]], edges, float(total)) for row, total in zip(paths, worths, strict=True)]


def _path(near: Neighbourhood, used: np.ndarray, edges: np.ndarray, worth: float) -> Path:
    """The path over the edges `used`, with the ids of the whole graph."""
    nodes = near.entities[[near.triplet[0], *edges[used, 0]]]
    return Path(near.in_whole(near.graph.triplets[used % len(near.graph)]), tuple(nodes.tolist()), worth)


def _single(near: Neighbourhood, fact: int, worth: float) -> Path:
    facts = near.in_whole(near.graph.triplets[fact : fact + 1])
    return Path(facts, (int(facts[0, 0]), int(facts[0, 2])), float(worth))
