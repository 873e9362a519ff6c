"""What one epoch learns from: drawn from (seed, epoch), so that it can be drawn again after an interruption.

For each training graph: the graph messages pass over, the targets, their negatives; then batches of all graphs mixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from anykg.core.contract import Recipe
from anykg.core.seeds import stream
from anykg.data.graph import KnowledgeGraph
from anykg.data.negatives import corrupt
from anykg.data.spanning import resplit
from anykg.data.split import hold_out


class Batch(NamedTuple):
    """One optimiser step."""

    graph: KnowledgeGraph
    """Messages pass over this one."""
    rows: np.ndarray  # [B, 1 + K, 3] each target and its negatives


def message_graph(graph: KnowledgeGraph, recipe: Recipe, seed: int) -> KnowledgeGraph:
    """What the model sees of a training graph outside training steps, as in validation."""
    return _split_once(graph, recipe, seed)[0] if recipe.targets == "held-out" else graph


def draw_epoch(graphs: Sequence[KnowledgeGraph], recipe: Recipe, seed: int, epoch: int) -> list[Batch]:
    """The batches of an epoch, in order; graphs take turns in proportion to their targets."""
    batches = [batch for place, graph in enumerate(graphs) for batch in _batches(graph, recipe, seed, epoch, place)]
    order = stream(seed, "order", epoch).permutation(len(batches)) if len(graphs) > 1 else range(len(batches))
    return [batches[i] for i in order]


def _batches(graph: KnowledgeGraph, recipe: Recipe, seed: int, epoch: int, place: int) -> list[Batch]:
    messages, targets = graph, graph.triplets
    if recipe.targets == "held-out":
        messages, targets = _split_once(graph, recipe, seed)
    elif recipe.targets == "resplit":
        messages, targets = resplit(graph, recipe.target_share, seed, epoch)
    targets = targets.astype(np.int64)
    if recipe.inverses:
        targets = np.concatenate([targets, graph.inverted(targets)])
    negatives_of = 0 if recipe.fixed_negatives else epoch
    order = stream(seed, "targets", epoch, place).permutation(len(targets))
    size = recipe.batch_size or len(targets)

    def with_negatives(chosen: np.ndarray, *names: int) -> np.ndarray:
        negatives = corrupt(
            graph,
            chosen,
            entities=recipe.negative_entities,
            relations=recipe.negative_relations,
            sides=recipe.sides,
            inverses=recipe.inverses,
            strict=recipe.strict,
            random=stream(seed, "negatives", place, *names),
        )
        return np.concatenate([chosen[:, None], negatives], axis=1)

    if recipe.sides == "halves":  # which half a target is in depends on its batch
        parts = [order[start : start + size] for start in range(0, len(order), size)]
        return [Batch(messages, with_negatives(targets[part], epoch, i)) for i, part in enumerate(parts)]
    rows = with_negatives(targets, negatives_of)[order]
    return [Batch(messages, rows[start : start + size]) for start in range(0, len(rows), size)]


def _split_once(graph: KnowledgeGraph, recipe: Recipe, seed: int) -> tuple[KnowledgeGraph, np.ndarray]:
    rest, held = graph.derive(hold_out, recipe.target_share, seed, "targets")
    return rest, held.triplets
