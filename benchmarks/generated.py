"""Graphs of any size with the shape of real ones, and facts held back from them to ask for.

Entities have types, whose sizes follow Zipf's law, as the numbers of facts of the relations do. A relation joins one
type to another. Half of its tails lie near the place of the head in its type, so that there are regions; the others are
drawn with a power law, so that there are hubs. A quarter of the relations follow from others: (x, z) from a fact (x, y)
of one relation and a fact (y, z) of another, or (y, x) from (x, y), each with exceptions. Of these, and of the
others, some facts are held back. 21,000,000 facts have the size of Wikidata5M: 5,000,000 entities, 800 relations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.keys import distinct
from anykg.graph.vocabulary import Vocabulary
from anykg.seeds import generator

WIKIDATA5M = 21_000_000
LOCAL = 0.5
"""Share of the tails that lie near their heads."""
NEAR = 20.0
"""How near, in entities."""
HOLDS = 0.8
"""Share of the facts that follow from a rule and are there."""


class Generated(NamedTuple):
    """A graph and what was held back."""

    graph: KnowledgeGraph
    planted: np.ndarray  # int64 [H, 3], facts that follow from rules
    others: np.ndarray  # int64 [H, 3]


def generated(facts: int, *, held_back: int = 1000, seed: int = 0) -> Generated:
    """A graph of about so many facts; about `held_back` of either kind are left out of it."""
    rng = generator(seed, "generated", facts)
    entities, relations = round(facts / 4.2), int(np.clip(800 * (facts / WIKIDATA5M) ** 0.35, 20, 800))
    ruled = relations // 4
    given = relations - ruled
    types = max(4, relations // 8)
    sizes = np.maximum(entities / np.arange(1, types + 1) / np.sum(1 / np.arange(1, types + 1)), 20).astype(np.int64)
    sizes[0] += entities - sizes.sum()
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    weights = np.sqrt(sizes) / np.sqrt(sizes).sum()
    domains, ranges = rng.choice(types, (2, given), p=weights)
    domains[1::2] = ranges[0 : given - given % 2 : 2]  # the second of a pair goes on where the first ends
    skew = rng.uniform(2, 12, given)
    counts = _shares(facts, relations, rng)
    room = sizes[domains] * sizes[ranges] // 4

    def more(relation: int, wanted: int, found: np.ndarray) -> np.ndarray:
        """Pairs of a relation, drawn until there are so many; small relations draw many of them twice."""
        ends = [(first[one], sizes[one]) for one in (domains[relation], ranges[relation])]
        for _ in range(4):
            missing = min(wanted, int(room[relation])) - len(found)
            if missing <= 0:
                break
            found = _distinct(np.concatenate([found, _drawn(missing, *ends, skew[relation], rng)]), entities)
        return found

    parts = [more(relation, int(counts[relation]), np.zeros((0, 2), np.int64)) for relation in range(given)]
    ends = []
    for index in range(ruled):
        wanted = int(counts[given + index])
        pair = 2 * (index % (given // 2))
        follows = _inverted(parts[pair]) if index % 4 == 3 else _composed(parts[pair], parts[pair + 1], wanted, rng)
        follows = _distinct(follows, entities)
        chosen = follows[rng.permutation(len(follows))[: int(wanted / HOLDS)]]
        chosen = chosen[rng.random(len(chosen)) < HOLDS]
        ends.append(np.column_stack([chosen[:, 0], np.full(len(chosen), given + index), chosen[:, 1]]))
    planted = np.concatenate(ends)
    rooms = np.array([room[relation] > 4 * len(part) for relation, part in enumerate(parts)])
    missing = max(facts - len(planted) - sum(map(len, parts)), 0) * counts[:given] * rooms
    missing = missing / max((counts[:given] * rooms).sum(), 1)
    parts = [more(relation, len(part) + int(missing[relation]), part) for relation, part in enumerate(parts)]
    others = np.concatenate(
        [np.column_stack([part[:, 0], np.full(len(part), relation), part[:, 1]]) for relation, part in enumerate(parts)]
    )
    order = rng.permutation(entities)  # ids tell nothing
    rows = np.concatenate([planted, others])
    rows[:, 0], rows[:, 2] = order[rows[:, 0]], order[rows[:, 2]]
    names = (_names("entity", "Q", entities), _names("relation", "P", relations))
    whole = KnowledgeGraph(rows, *names)
    hidden = []
    for begin, end in ((0, len(planted)), (len(planted), len(rows))):
        drawn = rows[begin + rng.choice(end - begin, min(held_back, (end - begin) // 10), replace=False)]
        hidden.append(np.unique(drawn, axis=0))
    return Generated(whole.without(np.concatenate(hidden)), *hidden)


def _shares(facts: int, relations: int, rng: np.random.Generator) -> np.ndarray:
    """Facts of each relation, by Zipf's law; which relations are frequent is random."""
    shares = 1 / np.arange(1, relations + 1)
    return np.maximum(facts * rng.permutation(shares / shares.sum()), 20)


def _drawn(
    count: int,
    domain: tuple[np.int64, np.int64],
    range_: tuple[np.int64, np.int64],
    skew: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Pairs [count, 2] of entities of two types, each given by its first entity and its size."""
    heads = (rng.random(count) ** 1.5 * domain[1]).astype(np.int64)
    near = heads * (range_[1] / domain[1]) + rng.laplace(scale=NEAR, size=count)
    far = rng.random(count) ** skew * range_[1]
    tails = np.where(rng.random(count) < LOCAL, near, far).astype(np.int64) % range_[1]
    return np.column_stack([domain[0] + heads, range_[0] + tails])


def _distinct(pairs: np.ndarray, entities: int) -> np.ndarray:
    """The pairs, each once."""
    return np.stack(np.divmod(distinct(pairs[:, 0] * entities + pairs[:, 1]), entities), axis=1)


def _inverted(facts: np.ndarray) -> np.ndarray:
    return facts[:, ::-1]


def _composed(first: np.ndarray, second: np.ndarray, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Pairs (x, z) such that (x, y) is a fact of the first relation and (y, z) of the second; one z for each (x, y)."""
    second = second[np.argsort(second[:, 0], kind="stable")]
    first = first[rng.permutation(len(first))[: 4 * wanted]]
    low, high = (np.searchsorted(second[:, 0], first[:, 1], side=side) for side in ("left", "right"))
    joined = np.flatnonzero(high > low)
    at = low[joined] + (rng.random(len(joined)) * (high - low)[joined]).astype(np.int64)
    return np.column_stack([first[joined, 0], second[at, 1]])


def _names(kind: str, letter: str, count: int) -> Vocabulary:
    return Vocabulary(kind, pl.select(pl.lit(letter) + pl.int_range(count).cast(pl.String)).to_series())
