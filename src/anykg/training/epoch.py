"""What one epoch learns from: drawn from (seed, epoch), so that it can be drawn again after an interruption.

For each training graph: the graph messages pass over, the targets, their negatives; then batches of all graphs mixed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.split import hold_out
from anykg.models.recipe import Recipe
from anykg.seeds import stream
from anykg.training.negatives import corrupt
from anykg.training.spanning import resplit


class Batch(NamedTuple):
    """One optimiser step."""

    graph: KnowledgeGraph
    """Messages pass over this one."""
    rows: np.ndarray  # [B, 1 + K, 3] each target and its negatives


Draw = Callable[[], Batch]


def message_graph(graph: KnowledgeGraph, recipe: Recipe, seed: int) -> KnowledgeGraph:
    """What the model sees of a training graph outside training steps, as in validation."""
    return _split_once(graph, recipe, seed)[0] if recipe.targets == "held-out" else graph


def draw_epoch(graphs: Sequence[KnowledgeGraph], recipe: Recipe, seed: int, epoch: int) -> list[Draw]:
    """The batches of an epoch, in order, each drawn when called; several graphs take turns as the recipe says."""
    by_graph = [_draws(graph, recipe, seed, epoch, place) for place, graph in enumerate(graphs)]
    random = stream(seed, "order", epoch)
    if recipe.mixture == "size":
        draws = [draw for part in by_graph for draw in part]
        order = random.permutation(len(draws)) if len(graphs) > 1 else np.arange(len(draws))
        return [draws[i] for i in order[: recipe.steps_per_epoch or None]]
    sizes = np.array([len(graph) for graph in graphs], float)
    shares = np.sqrt(sizes) if recipe.mixture == "sqrt" else np.ones(len(graphs))
    chosen = random.choice(len(graphs), recipe.steps_per_epoch or sum(map(len, by_graph)), p=shares / shares.sum())
    turns = np.zeros(len(graphs), int)
    result = []
    for place in chosen:
        part = by_graph[place]
        result.append(part[turns[place] % len(part)])  # a small graph may come around again
        turns[place] += 1
    return result


def facts_between(graph: KnowledgeGraph, targets: np.ndarray) -> np.ndarray:
    """The targets [B, 3] and all facts of the graph that join the same two entities, either way: [F, 3]."""
    found = [targets]
    for head, tail in ((0, 2), (2, 0)):
        between = graph.relations_between(targets[:, head], targets[:, tail])
        ends = targets[between.rows]
        found.append(np.stack([ends[:, head], between.values, ends[:, tail]], axis=1))
    return np.concatenate(found).astype(np.int64)


def _draws(graph: KnowledgeGraph, recipe: Recipe, seed: int, epoch: int, place: int) -> list[Draw]:
    messages, targets = graph, graph.triplets
    if recipe.targets == "held-out":
        messages, targets = _split_once(graph, recipe, seed)
    elif recipe.targets == "resplit":
        messages, targets = resplit(graph, recipe.target_share, seed, epoch)
    targets = targets.astype(np.int64)
    if recipe.inverses:
        targets = np.concatenate([targets, graph.inverted(targets)])
    order = stream(seed, "targets", epoch, place).permutation(len(targets))
    size = recipe.batch_size or len(targets)
    if recipe.batch_nodes:
        size = min(size, max(recipe.batch_nodes // graph.num_entities, 1))
    parts = [order[start : start + size] for start in range(0, len(order), size)]
    if recipe.sides == "halves":  # which half a target is in depends on its batch, so each batch draws its own
        names = [("negatives", place, epoch, number) for number in range(len(parts))]
        return [
            partial(_batch, graph, messages, recipe, targets[p], seed, n) for p, n in zip(parts, names, strict=True)
        ]
    whole = _batch(graph, messages, recipe, targets, seed, ("negatives", place, 0 if recipe.fixed_negatives else epoch))
    return [partial(Batch, messages, whole.rows[part]) for part in parts]


def _batch(
    graph: KnowledgeGraph,
    messages: KnowledgeGraph,
    recipe: Recipe,
    targets: np.ndarray,
    seed: int,
    names: tuple[str | int, ...],
) -> Batch:
    """Targets with negatives from the stream called `names`."""
    negatives = corrupt(
        graph,
        targets,
        entities=recipe.negative_entities,
        relations=recipe.negative_relations,
        sides=recipe.sides,
        inverses=recipe.inverses,
        strict=recipe.strict,
        random=stream(seed, *names),
    )
    return Batch(messages, np.concatenate([targets[:, None], negatives], axis=1))


def _split_once(graph: KnowledgeGraph, recipe: Recipe, seed: int) -> tuple[KnowledgeGraph, np.ndarray]:
    rest, held = graph.derive(hold_out, recipe.target_share, seed, "targets")
    return rest, held.triplets
