"""ComplEx with what there is time for: the regularisation chosen by hidden facts, and several starts averaged.

The mean of the scores of M fits is again a ComplEx: their vectors side by side, scaled by M ** (-1 / 3), as three of
them are multiplied.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from anykg.graph.graph import KnowledgeGraph
from anykg.models.complex.complex import ComplEx, ComplExConfig
from anykg.models.complex.fit import bound, fit_vectors
from anykg.models.complex.vectors import Vectors
from anykg.progress import Progress, ignore

REGULARISATIONS = (0.05, 0.01, 0.2)
"""In the order in which they are tried."""
EPOCHS = 60
"""Passes after which more bring little."""
STARTS = 4
"""Most fits that are averaged."""
AGAIN = 0.3
"""Passes to continue with when the hidden facts have been added, as a share of those before."""

Judge = Callable[[ComplEx], float]
"""Says how good a model is; more is better."""


@dataclass(frozen=True, eq=False)
class Restarts:
    """Fits of the same settings from different starts."""

    config: ComplExConfig
    vectors: tuple[Vectors, ...]
    epochs: int
    """Passes over the facts that each has made."""

    def model(self, graph: KnowledgeGraph) -> ComplEx:
        """Their mean, under the names of the graph."""
        scale = len(self.vectors) ** (-1 / 3)
        entities = torch.cat([_halves(part.entities) for part in self.vectors], -1) * scale
        relations = torch.cat([_halves(part.relations) for part in self.vectors], -1) * scale
        first = self.vectors[0]
        joined = Vectors(entities.flatten(1), relations.flatten(1), first.entity_squares, first.relation_squares)
        return bound(joined, graph, self.config)


def _halves(rows: torch.Tensor) -> torch.Tensor:
    """Rows [N, 2K] as [N, 2, K]: real and imaginary parts."""
    return rows.view(len(rows), 2, -1)


def settings_for(graph: KnowledgeGraph) -> ComplExConfig:
    """Settings that suit the size of a graph."""
    facts = len(graph)
    batch = 250 if facts < 50_000 else 500 if facts < 150_000 else 1000
    return ComplExConfig(batch_size=batch, epochs=EPOCHS)


def fit_restarts(
    graph: KnowledgeGraph, *, seconds: float, judge: Judge, seed: int = 0, progress: Progress = ignore
) -> Restarts:
    """Fit within a time budget; what the first fit leaves goes to other regularisations and further starts."""
    deadline = time.monotonic() + seconds
    counted = [0]

    def count(done: int, total: int) -> None:
        counted[0] = done
        progress(int(min(seconds, seconds - (deadline - time.monotonic()))), int(seconds))

    def one(config: ComplExConfig, number: int) -> Vectors:
        left = max(deadline - time.monotonic(), 0.1)
        return fit_vectors(graph, config, seconds=left, seed=seed + number, progress=count)

    config = replace(settings_for(graph), regularisation=REGULARISATIONS[0])
    started = time.monotonic()
    best, best_config = one(config, 0), config
    took = time.monotonic() - started
    steps = max(1, -(-2 * len(graph) // config.batch_size))
    epochs = max(1, round(counted[0] / steps))
    if deadline - time.monotonic() < took:
        return Restarts(best_config, (best,), epochs)
    quality = judge(bound(best, graph, config))
    for weight in REGULARISATIONS[1:]:
        if deadline - time.monotonic() < took:
            break
        tried = replace(config, regularisation=weight)
        vectors = one(tried, 0)
        found = judge(bound(vectors, graph, tried))
        if found > quality:
            best, best_config, quality = vectors, tried, found
    fits = [best]
    while len(fits) < STARTS and deadline - time.monotonic() > took:
        fits.append(one(best_config, len(fits)))
    return Restarts(best_config, tuple(fits), epochs)


def continue_on(
    graph: KnowledgeGraph, fits: Restarts, *, seconds: float, seed: int = 0, progress: Progress = ignore
) -> Restarts:
    """Continue all fits, in place, on a graph of the same names that has more facts."""
    config = replace(fits.config, epochs=max(2, round(AGAIN * fits.epochs)))
    deadline = time.monotonic() + seconds
    for number, vectors in enumerate(fits.vectors):
        left = (deadline - time.monotonic()) / (len(fits.vectors) - number)
        fit_vectors(graph, config, seconds=max(left, 0.1), seed=seed + 1000 + number, start=vectors)
        progress(number + 1, len(fits.vectors))
    return fits
