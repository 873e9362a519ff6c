"""Split one graph into a training graph and an inference graph that share no entity, or neither entity nor relation.

The inference entities are the first ones that a breadth-first search from a random entity reaches, so that both sides
stay dense; triplets between the two sides belong to neither. `inductive` drops inference triplets of relations that
training does not have. `fully-inductive` gives each relation to the side where it has the larger share of the triplets.
Each side then holds out a part of its own, for validation and for testing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order

from anykg.errors import DataError, SettingError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.split import hold_out, split_task, trimmed
from anykg.graph.task import Task
from anykg.seeds import generator

Kind = Literal["transductive", "inductive", "fully-inductive"]
HELD_OUT = 0.1
"""The share of each side's triplets for validation or testing."""


@dataclass(frozen=True)
class Dropped:
    """The parts of the graph that neither side contains."""

    between: int
    """Triplets between a training entity and an inference entity."""
    other_relations: int
    """Triplets of a relation that their side does not have."""
    entities: tuple[str, ...]
    """Entities without a triplet left."""
    relations: tuple[str, ...]
    """Relations without a triplet left."""


def split_by_kind(
    graph: KnowledgeGraph, name: str, kind: Kind, *, seed: int = 0, share: float = 0.3
) -> tuple[Task, Dropped]:
    """Split a graph into a task, and report what was dropped; `share` of the entities are for inference."""
    if kind == "transductive":
        return split_task(graph, name, seed), Dropped(0, 0, (), ())
    if not 0 < share < 1:
        raise SettingError("share", f"expected more than 0 and less than 1, found {share}")
    graph = trimmed(graph)
    asked = _inference_entities(graph, share, seed)  # [N]
    heads, relations, tails = graph.triplets.T
    inference, training = asked[heads] & asked[tails], ~asked[heads] & ~asked[tails]  # [E]
    between = graph.num_triplets - int(inference.sum() + training.sum())
    counts = [np.bincount(relations[side], minlength=graph.num_relations) for side in (training, inference)]
    if kind == "inductive":
        inference &= (counts[0] > 0)[relations]
    else:
        for_inference = counts[1] * max(training.sum(), 1) > counts[0] * max(inference.sum(), 1)  # [R]
        inference, training = inference & for_inference[relations], training & ~for_inference[relations]
    kept = graph.subset(inference | training)
    sides = [trimmed(graph.subset(side)) for side in (training, inference)]
    for what, side in zip(("training", "inference"), sides, strict=True):
        if not len(side):
            raise DataError(
                f"{name}: no fact is left for {what}; a {kind} split needs a larger graph, more relations or "
                "another `share` or `seed`."
            )
    train, valid = hold_out(sides[0], HELD_OUT, seed, "valid")
    observed, test = hold_out(sides[1], HELD_OUT, seed, "test")
    gone_entities = np.setdiff1d(np.arange(graph.num_entities), kept.triplets[:, [0, 2]])
    gone_relations = np.setdiff1d(np.arange(graph.num_relations), kept.triplets[:, 1])
    dropped = Dropped(
        between=between,
        other_relations=graph.num_triplets - between - len(kept),
        entities=tuple(graph.entities[i] for i in gone_entities),
        relations=tuple(graph.relations[i] for i in gone_relations),
    )
    return Task(name, train=train, valid=valid, observed=observed, test=test), dropped


def _inference_entities(graph: KnowledgeGraph, share: float, seed: int) -> np.ndarray:
    """Mask [N] of the entities for inference: about `share` of them, those nearest to a random one."""
    heads, _, tails = graph.triplets.T
    n = graph.num_entities
    edges = sp.csr_array((np.ones(len(heads), np.int8), (heads, tails)), shape=(n, n))
    chosen = np.zeros(n, bool)
    remaining = round(share * n)
    for start in generator(seed, "inference entities").permutation(n):
        if remaining <= 0:
            break
        if not chosen[start]:
            # An exhausted component is taken as a whole, so that a later search never meets its entities.
            met = breadth_first_order(edges, start, directed=False, return_predecessors=False)[:remaining]
            chosen[met] = True
            remaining -= len(met)
    return chosen
