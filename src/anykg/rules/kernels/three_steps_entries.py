# ruff: noqa: SIM109 - a compiled `in` compares equal types only
"""The first two steps of paths of three: which relations lead from a start to an entity, and over which others.

Paths s -a- x -b- m are merged into entries (a, b) of m, whose `gap` is the only x on the way, or MANY.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from anykg.rules.kernels.rows import Runs

MANY, NONE = -1, -2
"""Gaps of entries: several x, so that no end is left out; there is no entry."""


class Entries(NamedTuple):
    """The first two steps of paths, each (a, b, m) once, in groups with one m and one of the two relations."""

    nodes: np.ndarray  # int32 [G]: m
    bounds: np.ndarray  # int32 [G + 1]: the entries of a group
    own: np.ndarray  # int32 [G]: the relation of the group
    partners: np.ndarray  # int32 [entries]: the other relation
    gaps: np.ndarray  # int32 [entries]


class Work(NamedTuple):
    """Working memory; a set of relations or entities is emptied by a new number."""

    number: np.ndarray  # int64 [1]
    kind: np.ndarray  # int64 [R]: the number, if the relation is in the set
    position: np.ndarray  # int64 [R]: where it is
    entity: np.ndarray  # int64 [N]
    size: np.ndarray  # int32 [N]: ways to each entity


@njit(cache=True)
def new_work(n: int, r: int) -> Work:
    """Working memory for n entities and r relations."""
    return Work(
        np.zeros(1, np.int64),
        np.zeros(r, np.int64),
        np.zeros(r, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n, np.int32),
    )


@njit(cache=True)
def by_first(runs: Runs, r: int, start: int, directions: int, work: Work) -> Entries:
    """The entries of paths from a start, grouped by m and a; the groups of one m are consecutive."""
    nodes, bounds, kinds, gaps = _two_steps(runs, r, start, directions, work.size)
    count, groups, most, tag = 0, 0, len(kinds), work.number[0]
    node, begin, own = np.empty(most, np.int32), np.empty(most + 1, np.int32), np.empty(most, np.int32)
    partners, gap = np.empty(most, np.int32), np.empty(most, np.int32)
    in_set, position = work.kind, work.position
    for at in range(len(nodes)):
        previous = -1
        for i in range(bounds[at], bounds[at + 1]):
            a = kinds[i] // r
            b = kinds[i] - a * r
            if a != previous:
                tag += 1
                previous = a
                node[groups], begin[groups], own[groups] = nodes[at], count, a
                groups += 1
            if in_set[b] != tag:
                in_set[b], position[b] = tag, count
                partners[count], gap[count] = b, gaps[i]
                count += 1
            elif gap[position[b]] != gaps[i]:
                gap[position[b]] = MANY
    begin[groups] = count
    work.number[0] = tag
    return Entries(node[:groups], begin[: groups + 1], own[:groups], partners[:count], gap[:count])


@njit(cache=True)
def _two_steps(
    runs: Runs, r: int, start: int, directions: int, size: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Every way of two steps, by where it arrives: the m [G], bounds [G + 1], a * R + b, and x, by rising a."""
    way, then = directions & 1, (directions >> 1) & 1
    low, high = runs.nodes[way, start], runs.nodes[way, start + 1]
    for at in range(runs.edges[low], runs.edges[high]):
        x = runs.others[at]
        for to in range(runs.edges[runs.nodes[then, x]], runs.edges[runs.nodes[then, x + 1]]):
            size[runs.others[to]] += 1
    size[start] = 0
    total, groups = 0, 0
    for m in range(len(size)):
        total += size[m]
        groups += size[m] > 0
    nodes, bounds = np.empty(groups, np.int32), np.empty(groups + 1, np.int32)
    kinds, gaps = np.empty(total, np.int32), np.empty(total, np.int32)
    free, group = 0, 0
    for m in range(len(size)):
        if size[m] > 0:
            nodes[group], bounds[group] = m, free
            free += size[m]
            size[m] = bounds[group]
            group += 1
    bounds[groups] = total
    for first in range(low, high):
        for at in range(runs.edges[first], runs.edges[first + 1]):
            x = runs.others[at]
            for second in range(runs.nodes[then, x], runs.nodes[then, x + 1]):
                kind = runs.kinds[first] * r + runs.kinds[second]
                for to in range(runs.edges[second], runs.edges[second + 1]):
                    m = runs.others[to]
                    if m != start:
                        kinds[size[m]], gaps[size[m]] = kind, x
                        size[m] += 1
    size[nodes] = 0
    return nodes, bounds, kinds, gaps


@njit(cache=True)
def by_second(entries: Entries, r: int, work: Work) -> Entries:
    """The same entries, grouped by m and b."""
    nodes, bounds, own, partners, gaps = entries
    count, groups, at, most, tag = 0, 0, 0, len(partners), work.number[0]
    node, begin, kind = np.empty(most, np.int32), np.empty(most + 1, np.int32), np.empty(most, np.int32)
    other, gap = np.empty(most, np.int32), np.empty(most, np.int32)
    in_set, position, size = work.kind, work.position, np.zeros(r, np.int64)
    while at < len(nodes):
        stop, tag, first = at, tag + 1, groups
        while stop < len(nodes) and nodes[stop] == nodes[at]:
            stop += 1
        for i in range(bounds[at], bounds[stop]):
            b = partners[i]
            if in_set[b] != tag:
                in_set[b], size[b] = tag, 0
                node[groups], kind[groups] = nodes[at], b
                groups += 1
            size[b] += 1
        for group in range(first, groups):
            begin[group], position[kind[group]] = count, count
            count += size[kind[group]]
        for group in range(at, stop):
            for i in range(bounds[group], bounds[group + 1]):
                to = position[partners[i]]
                other[to], gap[to] = own[group], gaps[i]
                position[partners[i]] += 1
        at = stop
    begin[groups] = count
    work.number[0] = tag
    return Entries(node[:groups], begin[: groups + 1], kind[:groups], other, gap)


@njit(cache=True, forceinline=True)
def joined(one: int, two: int) -> int:
    """The gap of two sets of entries together."""
    return two if one == NONE or one == two else one if two == NONE else MANY
