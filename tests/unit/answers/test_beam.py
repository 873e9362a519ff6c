"""Beam search against trying every path."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.answers.explaining.beam import NONE, best_paths


def every_path(edges: np.ndarray, scores: np.ndarray, start: int, end: int) -> dict[tuple[int, ...], float]:
    """Each simple path and its worth in the best layers."""
    found: dict[tuple[int, ...], float] = {}

    def go(node: int, path: tuple[int, ...], seen: set[int]) -> None:
        if node == end and path:
            worths = [
                sum(scores[layer, edge] for layer, edge in zip(layers, path, strict=True))
                for layers in combinations(range(len(scores)), len(path))
                if all(scores[layer, edge] > 0 for layer, edge in zip(layers, path, strict=True))
            ]
            if worths:
                found[path] = max(worths)
            return
        for edge, (to, _, source) in enumerate(edges.tolist()):
            if source == node and to not in seen and len(path) < len(scores):
                go(to, (*path, edge), seen | {to})

    go(start, (), {start})
    return found


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4))
def test_finds_what_is_best(seed: int, layers: int) -> None:
    random = np.random.default_rng(seed)
    edges = np.stack([random.integers(5, size=9), np.zeros(9, int), random.integers(5, size=9)], 1)
    scores = random.normal(size=(layers, 9)) + 0.3
    expected = sorted(every_path(edges, scores, 0, 1).values(), reverse=True)
    found, worth = best_paths(edges, scores, 5, 0, 1, 64)
    np.testing.assert_allclose(worth, expected)
    for row in found:
        path = row[row != NONE]
        assert edges[path[0], 2] == 0
        assert edges[path[-1], 0] == 1
        assert len({tuple(r) for r in found.tolist()}) == len(found)


def test_nothing_is_found_where_nothing_leads() -> None:
    edges = np.array([[1, 0, 0], [2, 0, 1]])
    assert len(best_paths(edges, np.ones((1, 2)), 3, 0, 2, 4)[0]) == 0
    assert len(best_paths(edges, np.ones((2, 2)), 3, 0, 2, 4)[0]) == 1
    assert len(best_paths(edges, np.ones((2, 2)), 3, 0, 0, 4)[0]) == 0
