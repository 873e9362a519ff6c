"""Find the assignments of distinct values to variables under which every atom of a pattern is a fact.

A backtracking join over sorted arrays. Facts are stored in four orders, each with the offsets of its first column, so
that the facts that match the bound variables are always one range. Variables are numbered together, the
entities first; equal values are refused among entities and among relations. `plan` [L, 5] says for every atom, in the
order of the join: which order of the facts, how many of its columns are bound, and the variables of its columns.
The state of the search is kept in `Cursor`, so that matches can be read in batches.
"""

from __future__ import annotations

from itertools import permutations, product
from typing import NamedTuple

import numpy as np
from numba import njit

HEAD, RELATION, TAIL = 0, 1, 2
ORDERS = ((HEAD, RELATION, TAIL), (TAIL, RELATION, HEAD), (RELATION, HEAD, TAIL), (HEAD, TAIL, RELATION))
"""Columns of the facts as they are sorted: by head, by tail, by relation, by pair."""
UNBOUND = -1


class FactIndex(NamedTuple):
    """Facts in each of ORDERS."""

    facts: np.ndarray  # int32 [4, E, 3]: columns in the order they are sorted by
    offsets: np.ndarray  # int64 [4, max(N, R) + 1]: facts whose first column is v are offsets[v]:offsets[v + 1]


class Cursor(NamedTuple):
    """The state of a search, updated as it advances."""

    values: np.ndarray  # int32 [V]: the value of each variable, UNBOUND for none
    position: np.ndarray  # int64 [L]: the next fact to try at each atom
    stop: np.ndarray  # int64 [L]
    fresh: np.ndarray  # bool [L, 3]: columns whose variable this atom has bound
    level: np.ndarray  # int64 [1]: the current atom; -1 when done


def fact_index(triplets: np.ndarray, num_entities: int, num_relations: int) -> FactIndex:
    """Sort triplets [E, 3] in every order."""
    size = max(num_entities, num_relations)
    facts = np.empty((len(ORDERS), len(triplets), 3), np.int32)
    offsets = np.empty((len(ORDERS), size + 1), np.int64)
    for order, columns in enumerate(ORDERS):
        ordered = triplets[:, columns]
        facts[order] = ordered[np.lexsort(ordered.T[::-1])]
        offsets[order] = np.searchsorted(facts[order][:, 0], np.arange(size + 1))
    return FactIndex(facts, offsets)


def start(plan: np.ndarray, num_variables: int) -> Cursor:
    """A cursor before the first match with nothing bound; bind variables by writing into its values."""
    depth = len(plan)
    return Cursor(
        np.full(num_variables, UNBOUND, np.int32),
        np.zeros(depth, np.int64),
        np.zeros(depth, np.int64),
        np.zeros((depth, 3), bool),
        np.full(1, UNBOUND, np.int64),
    )


@njit(cache=True)
def advance(index: FactIndex, plan: np.ndarray, entities: int, cursor: Cursor, out: np.ndarray) -> int:
    """Fill rows of out [C, V] with the next matches; returns fewer than C when there are no more.

    `entities` is the number of variables that are entities. A cursor at level -1 starts from the beginning.
    """
    depth, count = len(plan), 0
    level = cursor.level[0]
    if level < 0:
        level = 0
        _open(index, plan[0], cursor, 0)
    while level >= 0:
        _release(plan[level], cursor, level)
        if not _next(index, plan[level], entities, cursor, level):
            level -= 1
        elif level < depth - 1:
            level += 1
            _open(index, plan[level], cursor, level)
        else:
            out[count] = cursor.values
            count += 1
            if count == len(out):
                break
    cursor.level[0] = level
    return count


@njit(cache=True)
def exist(index: FactIndex, plan: np.ndarray, entities: int, cursor: Cursor, given: np.ndarray) -> np.ndarray:
    """Whether there is a match with the variables bound as in each row of given [B, V], bool [B]."""
    found = np.zeros(len(given), np.bool_)
    out = np.empty((1, given.shape[1]), np.int32)
    for row in range(len(given)):
        cursor.values[:] = given[row]
        cursor.fresh[:] = False
        cursor.level[0] = UNBOUND
        found[row] = advance(index, plan, entities, cursor, out) > 0
    return found


@njit(cache=True)
def _open(index: FactIndex, step: np.ndarray, cursor: Cursor, level: int) -> None:
    """Set the range of facts that agree with the bound variables."""
    order, bound = step[0], step[1]
    low, high = 0, index.facts.shape[1]
    if bound > 0:
        first = cursor.values[step[2]]
        low, high = index.offsets[order, first], index.offsets[order, first + 1]
    for column in range(1, bound):
        value = cursor.values[step[2 + column]]
        low = _bisect(index.facts[order], column, low, high, value)
        high = _bisect(index.facts[order], column, low, high, value + 1)
    cursor.position[level], cursor.stop[level] = low, high
    cursor.fresh[level] = False


@njit(cache=True)
def _bisect(facts: np.ndarray, column: int, low: int, high: int, value: int) -> int:
    """The first row in low:high whose column is at least `value`."""
    while low < high:
        middle = (low + high) // 2
        if facts[middle, column] < value:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _release(step: np.ndarray, cursor: Cursor, level: int) -> None:
    """Unbind the variables that this atom has bound."""
    for column in range(3):
        if cursor.fresh[level, column]:
            cursor.values[step[2 + column]] = UNBOUND
            cursor.fresh[level, column] = False


@njit(cache=True)
def _next(index: FactIndex, step: np.ndarray, entities: int, cursor: Cursor, level: int) -> bool:
    """Bind this atom's variables to the next fact that fits."""
    order = step[0]
    while cursor.position[level] < cursor.stop[level]:
        row = index.facts[order, cursor.position[level]]
        cursor.position[level] += 1
        fits = True
        for column in range(3):
            variable, value = step[2 + column], row[column]
            if cursor.values[variable] == UNBOUND:
                first = 0 if variable < entities else entities
                last = entities if variable < entities else len(cursor.values)
                for other in range(first, last):
                    fits &= cursor.values[other] != value
                if fits:
                    cursor.values[variable] = value
                    cursor.fresh[level, column] = True
            else:
                fits = cursor.values[variable] == value
            if not fits:
                break
        if fits:
            return True
        _release(step, cursor, level)
    return False


def matches_reference(
    triplets: np.ndarray, atoms: np.ndarray, entities: int, relations: int, sizes: tuple[int, int]
) -> np.ndarray:
    """Every match [P, V] of atoms [L, 3] (entity, relation, entity variables), by trying all assignments."""
    facts = {tuple(triplet) for triplet in triplets.tolist()}
    found = [
        (*chosen, *kinds)
        for chosen, kinds in product(permutations(range(sizes[0]), entities), permutations(range(sizes[1]), relations))
        if all((chosen[h], kinds[r], chosen[t]) in facts for h, r, t in atoms)
    ]
    return np.array(found, np.int32).reshape(-1, entities + relations)
