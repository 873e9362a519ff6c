"""The best paths through layers of weighted edges, by beam search.

An edge (u, r, v) leads from v to u, like messages in `models.nbf`; scores [L, E] are its weights in each layer. A path
takes at most one edge per layer, in order, and may skip layers; it never revisits an entity. Its score is the sum over
its edges, in the best layers for them; only edges with a positive weight are used.
"""

from __future__ import annotations

import numpy as np
from numba import njit

NONE = -1


@njit(cache=True)
def best_paths(
    edges: np.ndarray, scores: np.ndarray, num_nodes: int, start: int, end: int, beams: int
) -> tuple[np.ndarray, np.ndarray]:
    """Paths [P, L] as rows of edges [E, 3] from `start` to `end`, padded with NONE, and their scores [P], best first.

    `beams` different paths are kept at every entity in every layer, so P is at most that.
    """
    layers = len(scores)
    worth = np.full((layers + 1, num_nodes, beams), -np.inf)
    taken = np.full((layers + 1, num_nodes, beams), NONE, np.int64)
    back = np.zeros((layers + 1, num_nodes, beams), np.int64)
    name = np.zeros((layers + 1, num_nodes, beams), np.uint64)  # a hash of the sequence of edges
    worth[0, start, 0] = 0.0
    for layer in range(1, layers + 1):
        worth[layer], name[layer] = worth[layer - 1], name[layer - 1]
        for beam in range(beams):
            back[layer, :, beam] = beam
        for edge in range(len(edges)):
            gain, to, source = scores[layer - 1, edge], edges[edge, 0], edges[edge, 2]
            if gain <= 0:
                continue
            for beam in range(beams):
                total = worth[layer - 1, source, beam] + gain
                if total <= worth[layer, to, beams - 1]:
                    break  # beams are sorted: the others are worse
                if not _visits(edges, taken, back, layer - 1, source, beam, to):
                    label = name[layer - 1, source, beam] * np.uint64(1000003) + np.uint64(edge + 1)
                    _insert(
                        worth[layer, to], taken[layer, to], back[layer, to], name[layer, to], total, edge, beam, label
                    )
    paths = np.full((beams, layers), NONE, np.int64)
    count = 0
    for beam in range(beams):
        if worth[layers, end, beam] == -np.inf or end == start:
            break
        node, at, size = end, beam, 0
        for layer in range(layers, 0, -1):
            edge, before = taken[layer, node, at], back[layer, node, at]
            if edge != NONE:
                paths[count, size] = edge
                size += 1
                node = edges[edge, 2]
            at = before
        paths[count, :size] = paths[count, :size][::-1].copy()
        count += 1
    return paths[:count], worth[layers, end, :count].copy()


@njit(cache=True)
def _visits(
    edges: np.ndarray, taken: np.ndarray, back: np.ndarray, layer: int, node: int, beam: int, wanted: int
) -> bool:
    """Whether a kept path goes through the entity `wanted`."""
    while True:
        if node == wanted:
            return True
        if layer == 0:
            return False
        edge, before = taken[layer, node, beam], back[layer, node, beam]
        if edge != NONE:
            node = edges[edge, 2]
        layer, beam = layer - 1, before


@njit(cache=True)
def _insert(
    worth: np.ndarray,
    taken: np.ndarray,
    back: np.ndarray,
    name: np.ndarray,
    total: float,
    edge: int,
    beam: int,
    label: np.uint64,
) -> None:
    """Insert a path into the sorted paths of an entity; the same edges in other layers are the same path."""
    last = len(worth) - 1
    for slot in range(len(worth)):
        if worth[slot] > -np.inf and name[slot] == label:
            if worth[slot] >= total:
                return
            last = slot
            break
    slot = last
    while slot > 0 and worth[slot - 1] < total:
        worth[slot], taken[slot], back[slot], name[slot] = (
            worth[slot - 1],
            taken[slot - 1],
            back[slot - 1],
            name[slot - 1],
        )
        slot -= 1
    worth[slot], taken[slot], back[slot], name[slot] = total, edge, beam, label
