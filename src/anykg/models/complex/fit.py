"""Fit ComplEx to a graph within a time budget."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import islice

import numpy as np
import torch

from anykg.graph.graph import KnowledgeGraph
from anykg.models.complex.complex import ComplEx, ComplExConfig, name_keys
from anykg.models.complex.vectors import Queries, StepSettings, Vectors, matmul_dtype, train_step
from anykg.progress import Progress, ignore
from anykg.seeds import generator, torch_generator

FULL_SOFTMAX = 20_000
"""Up to this many entities, the softmax of a step is over all of them."""
SAMPLE = 3_000
"""Number of entities in the softmax of a step on larger graphs."""


def fit_complex(
    graph: KnowledgeGraph,
    *,
    config: ComplExConfig = ComplExConfig(),  # noqa: B008 - frozen
    seconds: float | None = None,
    seed: int = 0,
    progress: Progress = ignore,
) -> ComplEx:
    """Fit vectors to every entity and relation of a graph; see `fit_vectors`."""
    return bound(fit_vectors(graph, config, seconds=seconds, seed=seed, progress=progress), graph, config)


@torch.no_grad()
def fit_vectors(
    graph: KnowledgeGraph,
    config: ComplExConfig,
    *,
    seconds: float | None = None,
    seed: int = 0,
    start: Vectors | None = None,
    queries: Queries | None = None,
    progress: Progress = ignore,
) -> Vectors:
    """Vectors fitted to the facts of a graph, in its own order.

    Args:
        graph: Its facts are learnt.
        config: Size of the vectors and settings of the fit, with `epochs` as the maximum.
        seconds: Time limit, also within an epoch. With None, the result depends only on `seed`.
        seed: Seed for the initial vectors and the order of the facts.
        start: Continue from these vectors of the same entities and relations, in place.
        queries: The queries of the graph, if they are already computed.
        progress: Called with (done, total) steps.
    """
    started = time.monotonic()
    queries = queries or Queries.of(graph)
    settings = _step_settings(graph, config)
    rng = torch_generator(seed, "complex")
    vectors = start or Vectors.draw(graph.num_entities, graph.num_relations, config.rank, config.scale, rng)
    total = config.epochs * -(-2 * len(graph) // config.batch_size)
    done = 0
    for epoch in range(config.epochs):
        for batch in queries.batches(config.batch_size, generator(seed, "complex", "batches", epoch)):
            train_step(vectors, batch, settings, rng)
            done += 1
            progress(min(done, total), total)
            if seconds is not None and time.monotonic() - started > seconds:
                return vectors
    return vectors


@torch.no_grad()
def measure_pace(graph: KnowledgeGraph, config: ComplExConfig, queries: Queries, seed: int = 0) -> float:
    """Estimate the seconds per epoch from a few steps."""
    settings = _step_settings(graph, config)
    rng = torch_generator(seed, "complex", "pace")
    vectors = Vectors.draw(graph.num_entities, graph.num_relations, config.rank, config.scale, rng)
    times = []
    for batch in islice(queries.batches(config.batch_size, generator(seed, "complex", "pace")), 4):
        started = time.monotonic()
        train_step(vectors, batch, settings, rng)
        times.append(time.monotonic() - started)
    return float(np.median(times[1:] or times)) * 2 * len(graph) / config.batch_size


def _step_settings(graph: KnowledgeGraph, config: ComplExConfig) -> StepSettings:
    sample = config.sample or (SAMPLE if graph.num_entities > FULL_SOFTMAX else 0)
    return StepSettings(config.lr, config.regularisation, config.relation_loss, sample, matmul_dtype())


def bound(vectors: Vectors, graph: KnowledgeGraph, config: ComplExConfig) -> ComplEx:
    """A model with these vectors under the names of the graph."""
    rank = vectors.entities.shape[1] // 2
    model = ComplEx(replace(config, num_entities=graph.num_entities, num_relations=graph.num_relations, rank=rank))
    model.entity_keys, model.relation_keys = name_keys(graph.entities), name_keys(graph.relations)
    model.entity_vectors, model.relation_vectors = vectors.entities, vectors.relations
    return model.eval()
