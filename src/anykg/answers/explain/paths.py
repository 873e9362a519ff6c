"""The paths a Bellman-Ford model's score depends on most.

The score's gradient with respect to a factor of 1 on every message says what each edge is worth in each layer; a beam
search puts together the paths from head to tail that are worth most (as NBFNet's authors do). A gradient is a guess
about a change. So the paths found are removed from the graph in turn, always the one that lowers the score most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from anykg.answers.explain.beam import NONE, best_paths
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor

BEAMS = 12
"""Paths that are found by gradient and then tried."""


@dataclass(frozen=True)
class Path:
    """Facts that lead from the head to the tail, each in its own direction."""

    facts: np.ndarray  # int64 [L, 3]
    nodes: tuple[int, ...]  # L + 1 entities
    worth: float
    """Sum of the gradients."""
    effect: float = 0.0
    """How much lower the score is without these facts, once those of the paths before it are gone."""


def reads_paths(model: LinkPredictor, graph: KnowledgeGraph) -> bool:
    """Whether a model's messages can be weighted: Ultra and NBFNet."""
    return hasattr(model.encode(graph), "edge_weights")


def important_paths(model: LinkPredictor, graph: KnowledgeGraph, triplet: np.ndarray, beams: int = BEAMS) -> list[Path]:
    """Paths in `graph` that a triplet's score depends on, best guess first; the triplet must not be a fact of it."""
    encoded = model.encode(graph)
    layers = getattr(model.config, "entity_layers", None) or model.config.layers
    device = next(model.parameters()).device
    factors = torch.ones(layers, 2 * len(graph), device=device, requires_grad=True)
    rows = torch.from_numpy(np.asarray(triplet, np.int64))[None].to(device)
    with torch.enable_grad():
        score = model.score_triplets(replace(encoded, edge_weights=factors), rows).sum()
        (gradient,) = torch.autograd.grad(score, factors)
    worth = gradient.cpu().numpy().astype(np.float64)  # [L, 2E]
    edges = graph.with_inverses().astype(np.int64)
    # Edges that no layer reads are most of them; a path cannot use them.
    read = np.flatnonzero((worth > 0).any(0))
    found, worths = best_paths(
        edges[read], np.ascontiguousarray(worth[:, read]), graph.num_entities, int(triplet[0]), int(triplet[2]), beams
    )
    return [
        _path(graph, read[row[row != NONE]], edges, int(triplet[0]), float(total))
        for row, total in zip(found, worths, strict=True)
    ]


def _path(graph: KnowledgeGraph, places: np.ndarray, edges: np.ndarray, start: int, worth: float) -> Path:
    nodes = (start, *(int(edges[place, 0]) for place in places))
    return Path(graph.triplets[places % len(graph)].astype(np.int64), nodes, worth)
