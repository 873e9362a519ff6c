"""Extract the enclosing subgraphs of candidate triplets (u, r, v), in the form that message passing needs.

A graph is given by the triplets around each entity: those of entity i are at `offsets[i]:offsets[i + 1]`, sorted by the
entity at their other end (`other`). `column` is r for a triplet of relation r that comes in, R + r for one that goes
out, `edge` its number; a loop is listed twice. The subgraph has u, v and the entities within two hops of both, where a
path from one does not pass through the other, all triplets among them, and the candidate, whether it is a fact or not.

Only what touches u or v passes messages on, so of a subgraph are kept: the *rows* of entries of u, of v and of their
neighbours in it, and the *links*: the entries of u's or v's row to one neighbour. A link to the other root comes first.
The entries of a row are triplets of the subgraph; each has two weights, drawn as in dropout.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit


class Around(NamedTuple):
    """The triplets around each entity."""

    offsets: np.ndarray  # [N + 1], int64
    other: np.ndarray  # [2 E], int32
    column: np.ndarray  # [2 E], int32, below 2 R
    edge: np.ndarray  # [2 E], int32
    num_relations: int


class Enclosed(NamedTuple):
    """C subgraphs with Q rows, L links and X entries in all."""

    rows: np.ndarray  # [Q + 1] row q is the entries rows[q]:rows[q + 1]
    roots: np.ndarray  # [C] the row of u; that of v is the next one
    columns: np.ndarray  # [X] of the entries
    first: np.ndarray  # [X] their weights in the first layer, float32
    second: np.ndarray  # [X] and in the second
    links: np.ndarray  # [L, 2] the entries of a link: from, to
    ends: np.ndarray  # [L, 2] its rows: that of the root, that of the neighbour
    direct: np.ndarray  # [C, 2] the link from u to v, and that from v to u
    beside: np.ndarray  # [C, R] triplets of the whole graph that touch u or v, without the candidate, by relation


_FIRST, _SECOND, _BESIDE = np.uint64(1), np.uint64(2), np.uint64(3)


def enclose(around: Around, triplets: np.ndarray, drop: float = 0.0, seed: int = 0) -> Enclosed:
    """The subgraphs of triplets [C, 3]; an entry's weight is 0 with probability `drop`, else 1 / (1 - drop)."""
    triplets = np.ascontiguousarray(triplets, np.int64)
    found = _enclose(*around, triplets, drop, np.uint64(seed))
    rows, roots, columns, edges, links, ends, direct, beside, num_rows, num_links, size = found
    entries = np.append(rows[roots], size)  # [C + 1] each candidate's
    keys = _keys(around, triplets)
    first, second = (_weights(edges[:size], entries, keys, drop, np.uint64(seed), salt) for salt in (_FIRST, _SECOND))
    return Enclosed(
        rows[: num_rows + 1],
        roots,
        columns[:size],
        first,
        second,
        links[: 2 * num_links].reshape(-1, 2),
        ends[: 2 * num_links].reshape(-1, 2),
        direct,
        beside,
    )


def enclose_reference(around: Around, triplets: np.ndarray, drop: float = 0.0, seed: int = 0) -> Enclosed:
    """`enclose`, candidate by candidate with sets."""
    size, facts = around.num_relations, len(around.edge) // 2
    listed = [_listed(around, entity) for entity in range(len(around.offsets) - 1)]
    near = [{other for other, _, _ in entries} for entries in listed]
    entries: list[tuple[int, int, int]] = []  # column, key of the candidate, edge
    rows, roots, direct = [0], [], []
    links: list[tuple[int, int]] = []
    ends: list[tuple[int, int]] = []
    beside = np.zeros((len(triplets), size), np.float32)
    for c, (u, r, v) in enumerate(np.asarray(triplets, np.int64).tolist()):
        key = (u * size + r) * len(near) + v
        inside = (_within(near, u, v) & _within(near, v, u)) | {u, v}
        asked = {e for other, column, e in listed[u] if (other, column) == (v, size + r)}
        neighbours: list[int] = []
        roots.append(len(rows) - 1)
        for side, (root, apart) in enumerate(((u, v), (v, u))):
            linked = {apart: [(k, key, e) for other, k, e in listed[root] if other == apart]}
            if not asked:
                linked[apart] += [(k, key, facts) for way, k in enumerate((size + r, r)) if way == side or u == v]
            for other, k, e in listed[root]:
                if other != apart and other in inside:
                    linked.setdefault(other, []).append((k, key, e))
            neighbours += [other for other in linked if other not in (u, v, *neighbours)]
            row_of = {other: roots[c] + 2 + i for i, other in enumerate(neighbours)}
            row_of |= {root: roots[c] + side, apart: roots[c] + 1 - side}
            direct.append(len(links))
            for other, between in linked.items():
                links.append((len(entries), len(entries) + len(between)))
                ends.append((roots[c] + side, row_of[other]))
                entries += between
            rows.append(len(entries))
        for entity in neighbours:
            entries += [(k, key, e) for other, k, e in listed[entity] if other in inside]
            rows.append(len(entries))
        for e, k in {e: k % size for entity in (u, v) for _, k, e in listed[entity]}.items():
            beside[c, k] += e not in asked and _weight(np.uint64(seed), _BESIDE, key, e, drop) > 0
    first, second = (
        np.array([_weight(np.uint64(seed), salt, key, e, drop) for _, key, e in entries], np.float32)
        for salt in (_FIRST, _SECOND)
    )
    return Enclosed(
        np.array(rows),
        np.array(roots, np.int64),
        np.array([k for k, _, _ in entries], np.int32),
        first,
        second,
        np.array(links, np.int64).reshape(-1, 2),
        np.array(ends, np.int64).reshape(-1, 2),
        np.array(direct, np.int64).reshape(-1, 2),
        beside,
    )


def _keys(around: Around, triplets: np.ndarray) -> np.ndarray:
    """A number for each triplet [C, 3]."""
    keys: np.ndarray = (triplets[:, 0] * around.num_relations + triplets[:, 1]) * (len(around.offsets) - 1) + triplets[
        :, 2
    ]
    return keys


def _listed(around: Around, entity: int) -> list[tuple[int, int, int]]:
    """(other, column, edge) of the triplets around an entity."""
    span = slice(around.offsets[entity], around.offsets[entity + 1])
    columns = (part[span].tolist() for part in (around.other, around.column, around.edge))
    return list(zip(*columns, strict=True))


def _within(near: list[set[int]], root: int, apart: int) -> set[int]:
    """The entities within two hops of `root` without passing through `apart`."""
    one = near[root] - {root, apart}
    return one.union(*(near[x] for x in one)) - {root, apart}


@njit(cache=True)
def _weight(seed: np.uint64, salt: np.uint64, candidate: int, edge: int, drop: float) -> float:
    """The weight of a triplet in a candidate's subgraph: a hash, so that it is the same wherever the triplet occurs.

    It depends on the candidate itself, not on its index, so that a batch can be scored in parts.
    """
    if drop == 0.0:
        return 1.0
    mixed = seed * np.uint64(0x9E3779B97F4A7C15) + salt
    for value in (np.uint64(candidate), np.uint64(edge)):
        mixed = (mixed ^ value) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(32)
    return 0.0 if np.float64(mixed >> np.uint64(11)) * 2.0**-53 < drop else 1.0 / (1.0 - drop)


@njit(cache=True)
def _weights(
    edges: np.ndarray, entries: np.ndarray, keys: np.ndarray, drop: float, seed: np.uint64, salt: np.uint64
) -> np.ndarray:
    """The weights of the entries of candidates with these keys, entries[c]:entries[c + 1] being those of one."""
    out = np.ones(len(edges), np.float32)
    if drop > 0.0:
        for c in range(len(keys)):
            for i in range(entries[c], entries[c + 1]):
                out[i] = _weight(seed, salt, keys[c], edges[i], drop)
    return out


@njit(cache=True)
def _spread(offsets: np.ndarray, other: np.ndarray, root: int, apart: int, mark: np.ndarray, stamp: int) -> None:
    """Mark the entities within two hops of `root` without passing through `apart`."""
    for i in range(offsets[root], offsets[root + 1]):
        x = other[i]
        if x in (root, apart) or (i > offsets[root] and other[i - 1] == x):
            continue
        mark[x] = stamp
        for j in range(offsets[x], offsets[x + 1]):
            mark[other[j]] = stamp
    mark[root] = 0
    mark[apart] = 0


@njit(cache=True)
def _longer(values: np.ndarray, count: int, needed: int) -> np.ndarray:
    """The same values with room for `needed`."""
    if needed <= len(values):
        return values
    grown = np.empty(max(needed, 2 * len(values)), values.dtype)
    for i in range(count):  # an assignment of slices takes seconds to compile
        grown[i] = values[i]
    return grown


@njit(cache=True)
def _enclose(
    offsets: np.ndarray,
    other: np.ndarray,
    column: np.ndarray,
    edge: np.ndarray,
    num_relations: int,
    triplets: np.ndarray,
    drop: float,
    seed: np.uint64,
) -> tuple[Any, ...]:
    """The parts of `Enclosed` and the edges of the entries, over-allocated, and how much of each is used."""
    count, entities, facts = len(triplets), len(offsets) - 1, len(edge) // 2
    from_u, from_v = np.zeros(entities, np.int32), np.zeros(entities, np.int32)
    seen, row_of = np.zeros(entities, np.int32), np.zeros(entities, np.int64)
    neighbours = np.empty(entities, np.int64)
    rows = np.zeros(16 * count + 1, np.int64)
    columns, edges = np.empty(256 * count, np.int32), np.empty(256 * count, np.int32)
    links, ends = np.empty(32 * count, np.int64), np.empty(32 * count, np.int64)  # two numbers for each link
    roots, direct = np.empty(count, np.int64), np.empty((count, 2), np.int64)
    beside = np.zeros((count, num_relations), np.float32)
    num_rows, num_links, size = 0, 0, 0
    for c in range(count):
        u, r, v = triplets[c, 0], triplets[c, 1], triplets[c, 2]
        stamp, key = c + 1, (u * num_relations + r) * entities + v
        _spread(offsets, other, u, v, from_u, stamp)
        _spread(offsets, other, v, u, from_v, stamp)
        degrees = offsets[u + 1] - offsets[u] + offsets[v + 1] - offsets[v]
        rows = _longer(rows, num_rows + 1, num_rows + degrees + 3)
        links = _longer(links, 2 * num_links, 2 * (num_links + degrees + 2))
        ends = _longer(ends, 2 * num_links, 2 * (num_links + degrees + 2))
        columns = _longer(columns, size, size + degrees + 4)
        edges = _longer(edges, size, size + degrees + 4)
        roots[c] = num_rows
        met, missing = 0, True
        for side in range(2):
            root, apart = (u, v) if side == 0 else (v, u)
            own = num_rows
            begin, end = offsets[root], offsets[root + 1]
            # The link to the other root, with the candidate.
            start = size
            wanted = num_relations + r if side == 0 else r
            for i in range(begin, end):
                if other[i] == apart:
                    columns[size] = column[i]
                    edges[size] = edge[i]
                    size += 1
                    missing = missing and column[i] != wanted
            for way in range(2):
                if missing and (way == side or u == v):
                    columns[size] = num_relations + r if way == 0 else r
                    edges[size] = facts
                    size += 1
            direct[c, side] = num_links
            links[2 * num_links], links[2 * num_links + 1] = start, size
            ends[2 * num_links], ends[2 * num_links + 1] = own, roots[c] + 1 - side
            num_links += 1
            # The links to the others, one for each run of equal neighbours.
            for i in range(begin, end):
                x = other[i]
                if x == apart or not (x == root or (from_u[x] == stamp and from_v[x] == stamp)):
                    continue
                if i == begin or other[i - 1] != x:
                    if x != root and seen[x] != stamp:
                        seen[x], row_of[x] = stamp, roots[c] + 2 + met
                        neighbours[met] = x
                        met += 1
                    links[2 * num_links] = size
                    ends[2 * num_links], ends[2 * num_links + 1] = own, own if x == root else row_of[x]
                    num_links += 1
                columns[size] = column[i]
                edges[size] = edge[i]
                size += 1
                links[2 * num_links - 1] = size
            num_rows += 1
            rows[num_rows] = size
            # What touches the roots in the whole graph: a loop once, what is between them once, the candidate never.
            for i in range(begin, end):
                loop = other[i] == root
                if (loop and column[i] < num_relations) or (side == 1 and (other[i] == u or u == v)):
                    continue
                if side == 0 and other[i] == v and column[i] == num_relations + r:
                    continue
                if _weight(seed, _BESIDE, key, edge[i], drop) > 0.0:
                    beside[c, column[i] % num_relations] += 1.0
        for k in range(met):
            x = neighbours[k]
            begin, end = offsets[x], offsets[x + 1]
            columns = _longer(columns, size, size + end - begin)
            edges = _longer(edges, size, size + end - begin)
            for i in range(begin, end):
                y = other[i]
                if y in (u, v) or (from_u[y] == stamp and from_v[y] == stamp):
                    columns[size] = column[i]
                    edges[size] = edge[i]
                    size += 1
            num_rows += 1
            rows[num_rows] = size
    return rows, roots, columns, edges, links, ends, direct, beside, num_rows, num_links, size
