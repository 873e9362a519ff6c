"""ComplEx within a time budget: hyperparameters selected on hidden facts, and an ensemble of several runs.

1. Short trials of a few settings, each evaluated on hidden facts, as long as they fit in the share `SEARCH` of the
   time. If one trial takes most of the time, the settings are chosen by the density of the graph instead.
2. The best trial continues to the full number of epochs.
3. The remaining time is used for further runs, whose scores are averaged.

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
from anykg.models.complex.fit import SAMPLE, bound, fit_vectors, measure_pace
from anykg.models.complex.vectors import Queries, Vectors
from anykg.progress import Progress, ignore

REGULARISATIONS = (0.01, 0.05, 0.003)
"""Values tried one after the other."""
RELATION_LOSSES = (0.05, 0.5)
"""Values tried with the best regularisation."""
DENSE = 12.0
"""Above this number of facts per entity, a graph counts as dense; dense graphs need less regularisation."""
RANKS = (400, 200, 100, 50, 25)
"""Sizes of the vectors: the largest for which there is time for `WANTED` passes, and not below 100 unless the vectors
of all entities would need more than `MOST_BYTES`."""
MOST_BYTES = 1 << 30
"""For the vectors of all entities; fitting takes about five times as much memory."""
WANTED, NEEDED = 70, 12
"""Number of epochs that suffice for trials and several runs; and the minimum number of epochs for a softmax over all
entities, below which a sampled softmax is used."""
EPOCHS = 40
"""Number of epochs after which more improve little."""
TRIAL = 12
"""Number of epochs of a trial."""
SEARCH = 0.4
"""Share of the time for trials."""
STARTS = 4
"""Maximum number of runs that are averaged."""
AGAIN = 0.3
"""Number of epochs to continue with after the hidden facts were added, as a share of those before."""

Judge = Callable[[ComplEx], float]
"""Returns the quality of a model; higher is better."""


@dataclass(frozen=True, eq=False)
class Restarts:
    """Runs with the same settings from different initial values."""

    config: ComplExConfig
    vectors: tuple[Vectors, ...]
    epochs: int
    """Number of epochs of each run."""
    pace: float = 0.0
    """Seconds per epoch."""

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


@dataclass(frozen=True)
class Settings:
    """Settings chosen for a graph and a time budget."""

    config: ComplExConfig
    pace: float
    """Approximate seconds per epoch."""


def settings_for(graph: KnowledgeGraph, seconds: float, seed: int = 0) -> Settings:
    """Settings that suit the density of a graph, and a rank and a softmax that suit the time and the memory."""
    facts, dense = len(graph), 2 * len(graph) >= DENSE * graph.num_entities
    config = ComplExConfig(
        regularisation=REGULARISATIONS[0] if dense else REGULARISATIONS[1],
        batch_size=250 if facts < 5_000 else 500 if facts < 150_000 else 1000,
        epochs=EPOCHS,
    )
    queries = Queries.of(graph)
    for rank in _ranks(graph.num_entities):
        config = replace(config, rank=rank)
        pace = measure_pace(graph, config, queries, seed)
        if pace * WANTED <= seconds:
            return Settings(config, pace)
    if pace * NEEDED > seconds and graph.num_entities > SAMPLE:
        config = replace(config, sample=SAMPLE)
        pace = measure_pace(graph, config, queries, seed)
    return Settings(config, pace)


def _ranks(entities: int) -> list[int]:
    """Candidate ranks, largest first."""
    small = [rank for rank in RANKS if _bytes(entities, rank) <= MOST_BYTES] or [RANKS[-1]]
    return [rank for rank in small if rank >= 100] or small[:1]


def _bytes(entities: int, rank: int) -> int:
    """Memory for the vectors of entities."""
    return entities * 2 * rank * 4


class _Fits:
    """Fits to one graph under one deadline."""

    def __init__(self, graph: KnowledgeGraph, seconds: float, seed: int, progress: Progress) -> None:
        self.graph, self.seconds, self.seed, self.progress = graph, seconds, seed, progress
        self.queries = Queries.of(graph)
        self.deadline = time.monotonic() + seconds
        self.pace = 0.0
        """Seconds that an epoch takes."""

    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.monotonic()

    def fit(self, config: ComplExConfig, epochs: int, number: int, start: Vectors | None = None) -> tuple[Vectors, int]:
        """Vectors after `epochs` epochs or at the deadline, and the number of epochs."""
        steps = max(1, -(-2 * len(self.graph) // config.batch_size))
        done = 0

        def count(made: int, total: int) -> None:
            nonlocal done
            done = made
            self.progress(int(min(self.seconds, self.seconds - self.left())), int(self.seconds))

        started = time.monotonic()
        chosen = replace(config, epochs=epochs)
        seed = self.seed + number + (500 if start is not None else 0)
        vectors = fit_vectors(
            self.graph,
            chosen,
            seconds=max(self.left(), 0.1),
            seed=seed,
            start=start,
            queries=self.queries,
            progress=count,
        )
        self.pace = (time.monotonic() - started) * steps / max(done, 1)
        return vectors, max(1, round(done / steps))


def fit_restarts(
    graph: KnowledgeGraph,
    config: ComplExConfig,
    *,
    seconds: float,
    judge: Judge,
    seed: int = 0,
    progress: Progress = ignore,
) -> Restarts:
    """Fit within a time budget, from the settings that `settings_for` suggests."""
    fits = _Fits(graph, seconds, seed, progress)
    best, epochs = fits.fit(config, TRIAL, 0)
    if (1 - SEARCH) * seconds < fits.left():
        config, best = _search(fits, config, best, judge)
    if epochs == TRIAL and fits.left() > 0:
        best, more = fits.fit(config, EPOCHS - TRIAL, 0, best)
        epochs += more
    found = [best]
    most = min(STARTS, MOST_BYTES // max(_bytes(graph.num_entities, config.rank), 1))
    while len(found) < most and fits.left() > 0.9 * epochs * fits.pace:
        found.append(fits.fit(config, epochs, len(found))[0])
    return Restarts(config, tuple(found), epochs, fits.pace)


def _search(fits: _Fits, config: ComplExConfig, best: Vectors, judge: Judge) -> tuple[ComplExConfig, Vectors]:
    """The best of the settings that there is time to try, and its vectors after `TRIAL` epochs."""
    quality = judge(bound(best, fits.graph, config))
    for others in (_regularisations, _relation_losses):
        for tried in others(config):
            if fits.left() - TRIAL * fits.pace < (1 - SEARCH) * fits.seconds:
                break
            vectors, _ = fits.fit(tried, TRIAL, 0)
            found = judge(bound(vectors, fits.graph, tried))
            if found > quality:
                config, best, quality = tried, vectors, found
    return config, best


def _regularisations(config: ComplExConfig) -> list[ComplExConfig]:
    values = [value for value in REGULARISATIONS if value != config.regularisation]
    return [replace(config, regularisation=value) for value in values]


def _relation_losses(config: ComplExConfig) -> list[ComplExConfig]:
    return [replace(config, relation_loss=value) for value in RELATION_LOSSES if value != config.relation_loss]


def fit_again(
    graph: KnowledgeGraph, fits: Restarts, *, seconds: float, seed: int = 0, progress: Progress = ignore
) -> Restarts:
    """Fit to a graph of the same names with more facts: from new initial values, or in place if time is short."""
    made = _Fits(graph, seconds, seed, progress)
    count = len(fits.vectors)
    anew = seconds > 0.9 * fits.pace * count * fits.epochs
    more = max(2, round(AGAIN * fits.epochs), EPOCHS - fits.epochs)  # what was cut short catches up
    config = fits.config if anew else replace(fits.config, epochs=more)
    found = []
    for number, vectors in enumerate(fits.vectors):
        if anew:
            found.append(made.fit(config, fits.epochs, number)[0])
        else:
            left = max(made.left(), 0.1) / (count - number)
            number_seed = seed + 1000 + number
            found.append(
                fit_vectors(graph, config, seconds=left, seed=number_seed, start=vectors, queries=made.queries)
            )
        progress(number + 1, count)
    return replace(fits, vectors=tuple(found))
