"""Draw the negatives among which an answer is ranked, uniformly and from a seeded generator.

Queries [Q] -> candidates [Q, C], padded with -1. Candidates that complete a known fact are never drawn.
"""

from __future__ import annotations

import numpy as np

from anykg.graph.graph import KnowledgeGraph, Ragged


def draw_entities(
    known: KnowledgeGraph, heads: np.ndarray, relations: np.ndarray, count: int, random: np.random.Generator
) -> np.ndarray:
    """Draw `count` distinct entities [Q, count] for each query (head, relation, ?), none of them a known answer.

    A query with fewer than `count` such entities gets all of them.
    """
    # The first `count` distinct unknown ones of a uniform sequence are a uniform sample without replacement.
    drawn = random.integers(known.num_entities, size=(len(heads), 2 * count))
    triplets = np.stack(np.broadcast_arrays(heads[:, None], relations[:, None], drawn), axis=-1)
    good = ~known.contains(triplets) & _is_first(drawn)
    result = _take_first(drawn, good, count)
    short = np.flatnonzero(good.sum(1) < count)
    return _redraw(result, short, known.answers(heads[short], relations[short]), known.num_entities, random)


def draw_relations(
    known: KnowledgeGraph,
    heads: np.ndarray,
    tails: np.ndarray,
    count: int,
    random: np.random.Generator,
    *,
    distinct: bool,
) -> np.ndarray:
    """Draw `count` relations [Q, count] for each query (head, ?, tail), none of them a known answer.

    Relations are drawn with replacement unless `distinct`, and even then if a query has fewer than `count` unknown
    relations. A query whose relations are all known gets a row of -1.
    """
    taken = known.relations_between(heads, tails)
    allowed = np.ones((len(heads), known.num_relations), bool)
    allowed[taken.rows, taken.values] = False
    free = allowed.sum(1)
    order = np.argsort(~allowed, axis=1, kind="stable")  # the allowed relations first, by id
    column = np.floor(random.random((len(heads), count)) * free[:, None]).astype(np.int64)
    result = np.take_along_axis(order, np.minimum(column, known.num_relations - 1), axis=1)
    if distinct and known.num_relations >= count:
        noise = np.where(allowed, random.random(allowed.shape), np.inf)
        shuffled = np.argsort(noise, axis=1)[:, :count]
        enough = free >= count
        result[enough] = shuffled[enough]
    result[free == 0] = -1
    return result


def _is_first(values: np.ndarray) -> np.ndarray:
    """Bool [Q, C]: whether each value is the first of its kind in its row."""
    order = np.argsort(values, axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    fresh = np.ones(values.shape, bool)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = np.empty(values.shape, bool)
    np.put_along_axis(first, order, fresh, axis=1)
    return first


def first_of_kind(values: np.ndarray) -> np.ndarray:
    """Replace repeated values of each row [Q, C] by -1."""
    return np.where(_is_first(values), values, -1)


def _take_first(values: np.ndarray, good: np.ndarray, count: int) -> np.ndarray:
    """Take the first `count` good values of each row [Q, C], in order, padded with -1."""
    column = np.where(good, np.cumsum(good, axis=1) - 1, count)
    result = np.full((len(values), count + 1), -1, dtype=np.int64)
    np.put_along_axis(result, np.minimum(column, count), values, axis=1)
    return result[:, :count]


def _redraw(result: np.ndarray, rows: np.ndarray, taken: Ragged, size: int, random: np.random.Generator) -> np.ndarray:
    """Redraw rows that came out too short, from the list of allowed values."""
    count = result.shape[1]
    for index, row in enumerate(rows):
        allowed = np.setdiff1d(np.arange(size), taken[index])
        picked = random.permutation(allowed)[:count]
        result[row] = -1
        result[row, : len(picked)] = picked
    return result
