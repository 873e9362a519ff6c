# ruff: noqa: SIM109 - a compiled `in` compares equal types only
"""Count how often clauses whose body is a path imply given triplets, and how often their rules hold in this graph.

All paths of up to 3 steps from an entity are walked once for all the triplets that start there. A triplet may be walked
from its tail: then its steps are met in reverse, against their direction. Shapes are numbered as in `paths`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from anykg.rules.kernels.matching import FactIndex
from anykg.rules.kernels.paths import CHOICES, PATTERNS, _pattern

PRIOR = 2.0
"""Pseudo-count of pairs without the head's relation, added to every rule: a rule seen once is not certain."""


class Asked(NamedTuple):
    """B triplets, sorted by the entity that paths start from."""

    starts: np.ndarray  # int64 [B]
    relations: np.ndarray  # int64 [B]
    ends: np.ndarray  # int64 [B]
    known: np.ndarray  # int64 [B]: 1 for facts of the graph, which are left out of their own rules
    turned: bool
    """Starts are the tails."""


class Rules(NamedTuple):
    """The rules with paths of some length; see `tables`."""

    offsets: np.ndarray  # int64 [bodies + 1]
    heads: np.ndarray  # int64 [P]
    support: np.ndarray  # int64 [P]
    bodies: np.ndarray  # int64 [bodies]


class Columns(NamedTuple):
    """The output column of each shape of one length, int64 [shapes]; -1 for none."""

    groundings: np.ndarray
    shares: np.ndarray


class Chained(NamedTuple):
    """The given triplets; those with the same ends are chained."""

    relations: np.ndarray  # int64 [B]
    known: np.ndarray  # int64 [B]
    following: np.ndarray  # int64 [B]: the next one with the same ends, -1 after the last


@njit(cache=True)
def path_evidence(
    index: FactIndex,
    sizes: tuple[int, int],
    length: int,
    asked: Asked,
    singles: Rules,
    doubles: Rules,
    columns: tuple[Columns, Columns, Columns],
    out: np.ndarray,
) -> None:
    """Add to out [B, F] the number of paths of each shape, and the best share of each shape's rules.

    `singles` and `doubles` are the rules with one step and two, `columns` are those for one to three. A rule's share is
    the fraction of the pairs joined by its path that have the head's relation.
    """
    n, r = sizes
    to_singles, to_doubles, to_triples = columns
    first, following = np.full(n, -1, np.int64), np.empty(len(asked.starts), np.int64)
    blocks = np.empty(3, np.int64)
    chained = Chained(asked.relations, asked.known, following)
    low = 0
    while low < len(asked.starts):
        start, high = asked.starts[low], low
        while high < len(asked.starts) and asked.starts[high] == start:
            following[high] = first[asked.ends[high]]
            first[asked.ends[high]] = high
            high += 1
        for way in range(2):
            for at in range(index.offsets[way, start], index.offsets[way, start + 1]):
                a, x = np.int64(index.facts[way, at, 1]), index.facts[way, at, 2]
                if x == start:
                    continue
                if first[x] >= 0:
                    directions = 1 - way if asked.turned else way
                    shape = _first_shape(directions, _pattern(1, a, -1, -1, blocks))
                    _add(chained, first[x], blocks, shape, directions * r + a, singles, to_singles, out)
                if length < 2:
                    continue
                for way2 in range(2):
                    for at2 in range(index.offsets[way2, x], index.offsets[way2, x + 1]):
                        b, y = np.int64(index.facts[way2, at2, 1]), index.facts[way2, at2, 2]
                        if y == start or y == x:
                            continue
                        if first[y] >= 0:
                            if asked.turned:
                                directions, one, two = (1 - way2) + 2 * (1 - way), b, a
                            else:
                                directions, one, two = way + 2 * way2, a, b
                            shape = _first_shape(directions, _pattern(2, one, two, -1, blocks))
                            body = (directions * r + one) * r + two
                            _add(chained, first[y], blocks, shape, body, doubles, to_doubles, out)
                        if length < 3:
                            continue
                        for way3 in range(2):
                            for at3 in range(index.offsets[way3, y], index.offsets[way3, y + 1]):
                                z = index.facts[way3, at3, 2]
                                if first[z] < 0 or z == start or z == x or z == y:
                                    continue
                                c = np.int64(index.facts[way3, at3, 1])
                                if asked.turned:
                                    directions = (1 - way3) + 2 * (1 - way2) + 4 * (1 - way)
                                    pattern = _pattern(3, c, b, a, blocks)
                                else:
                                    directions = way + 2 * way2 + 4 * way3
                                    pattern = _pattern(3, a, b, c, blocks)
                                shape = _first_shape(directions, pattern)
                                _add(chained, first[z], blocks, shape, -1, doubles, to_triples, out)
        for row in range(low, high):
            first[asked.ends[row]] = -1
        low = high


@njit(cache=True)
def _first_shape(directions: int, pattern: int) -> int:
    """The number of a path's shape with the head's relation off the path; the others follow."""
    return (directions * PATTERNS + pattern) * CHOICES


@njit(cache=True)
def _add(
    chained: Chained,
    row: int,
    blocks: np.ndarray,
    first_shape: int,
    body: int,
    rules: Rules,
    columns: Columns,
    out: np.ndarray,
) -> None:
    """Count one path for every given triplet with the same ends; `row` is the first of them.

    `body` is the number of its body among those of rules, -1 if there are no rules of its length.
    """
    relations, known, following = chained
    while row >= 0:
        kind = relations[row]
        choice = 1 if kind == blocks[0] else 2 if kind == blocks[1] else 3 if kind == blocks[2] else 0
        shape = first_shape + choice
        if columns.groundings[shape] >= 0:
            out[row, columns.groundings[shape]] += 1
        to = columns.shares[shape]
        if to >= 0:
            low, high = rules.offsets[body], rules.offsets[body + 1]
            rule = low + np.searchsorted(rules.heads[low:high], kind)
            if rule < high and rules.heads[rule] == kind:
                own = known[row]
                share = (rules.support[rule] - own) / (rules.bodies[body] - own + PRIOR)
                out[row, to] = max(out[row, to], np.float32(share))
        row = following[row]


@njit(cache=True)
def role_evidence(
    offsets: np.ndarray,
    roles: np.ndarray,
    shares: np.ndarray,
    entities: np.ndarray,
    relations: np.ndarray,
    at_tail: bool,
) -> np.ndarray:
    """How strongly an entity's roles suggest a relation, at its head or at its tail: float32 [B, 3].

    A role is a relation, at its head (r) or at its tail (r + R); entity e has roles[offsets[e]:offsets[e + 1]], and
    shares [2R, 2R] is the fraction of the entities with one role that have another. Columns: the best role that is a
    head, the best that is a tail, the mean over all. Roles of the relation itself do not count.
    """
    r = len(shares) // 2
    out = np.zeros((len(entities), 3), np.float32)
    for row in range(len(entities)):
        kind = relations[row]
        total, count = 0.0, 0
        for role in roles[offsets[entities[row]] : offsets[entities[row] + 1]]:
            if role == kind or role == kind + r:
                continue
            share = shares[role, kind + r if at_tail else kind]
            side = 1 if role >= r else 0
            out[row, side] = max(out[row, side], np.float32(share))
            total += share
            count += 1
        if count:
            out[row, 2] = total / count
    return out
