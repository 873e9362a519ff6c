"""Corrupted copies of target triplets.

targets [B, 3] -> negatives [B, K, 3], the entity corruptions first. Relation ids may be inverses (r + R): corrupting
the tail of an inverse corrupts the head of the fact.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from anykg.graph.graph import KnowledgeGraph

ROUNDS = 30
"""Number of times that a negative that is a known fact is redrawn. If nearly everything is a fact, some may remain."""

HEAD, RELATION, TAIL = 0, 1, 2
Sides = Literal["tail", "either", "halves"]


def corrupt(
    known: KnowledgeGraph,
    targets: np.ndarray,
    *,
    entities: int,
    relations: int = 0,
    sides: Sides = "tail",
    inverses: bool = False,
    strict: bool = True,
    random: np.random.Generator,
) -> np.ndarray:
    """Replace one end of each target `entities` times and its relation `relations` times.

    With `inverses` relations are drawn from all 2R ids. `strict` negatives are not facts of `known`.
    """
    count = len(targets)
    column = np.full((count, entities + relations), RELATION)
    if sides == "either":
        column[:, :entities] = np.where(random.random((count, entities)) < 0.5, HEAD, TAIL)
    else:
        column[:, :entities] = asked_column(count, sides, random)[:, None]
    sizes = np.array([known.num_entities, known.num_relations * (2 if inverses else 1), known.num_entities])
    negatives = np.repeat(targets[:, None], entities + relations, axis=1)  # [B, K, 3]
    again = np.ones(column.shape, bool)
    for _ in range(ROUNDS if strict else 1):
        drawn = column[again]
        rows = negatives[again]
        rows[np.arange(len(drawn)), drawn] = np.floor(random.random(len(drawn)) * sizes[drawn])
        negatives[again] = rows
        if not strict:
            break
        again[again] = known.contains(rows)
        if not again.any():
            break
    return negatives


def asked_column(count: int, sides: Sides, random: np.random.Generator) -> np.ndarray:
    """The end to predict for each of `count` targets, HEAD or TAIL: int [count]."""
    column = np.full(count, TAIL)
    if sides == "either":
        column[random.random(count) < 0.5] = HEAD
    elif sides == "halves":
        half = (count + (int(random.integers(2)) if count % 2 else 0)) // 2
        column[half:] = HEAD
    return column
