"""Decide whether two graphs are equal up to the names of their entities and relations, and find the renaming.

Two graphs are isomorphic iff a bijection of entities and a bijection of relations map the facts of one onto those of
the other. Two triplets are isomorphic iff such bijections also map one triplet onto the other.

Entities and relations have colours, 64-bit hashes that start equal and are refined by the colours around them: an
entity by its facts, a relation by its pairs of ends. Renaming does not change a colour, so two entities of different
colours are not counterparts. If a colour is shared, one of its holders is individualised with a new colour, and the
search tries every counterpart. A hash collision can only make colours coarser, because every returned mapping is
verified fact by fact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from anykg.errors import DataError
from anykg.graph.graph import KnowledgeGraph

MOST_STEPS = 20_000
"""Maximum number of refinements before the search gives up; only graphs with many shared colours need many."""


class Isomorphism(NamedTuple):
    """A renaming of one graph into another."""

    entities: np.ndarray  # [N] entity i of the first graph is entities[i] of the second
    relations: np.ndarray  # [R]


class _Colours(NamedTuple):
    entities: np.ndarray  # uint64 [N]
    relations: np.ndarray  # uint64 [R]

    def set_apart(self, part: int, index: int) -> _Colours:
        """Individualise one entity (part 0) or relation (part 1) with a colour of its own."""
        copies = _Colours(self.entities.copy(), self.relations.copy())
        copies[part][index] = _mix(copies[part][index : index + 1] + np.uint64(1))[0]
        return copies


def find_isomorphism(
    one: KnowledgeGraph,
    other: KnowledgeGraph,
    triplets: tuple[Sequence[int], Sequence[int]] | None = None,
    *,
    most_steps: int = MOST_STEPS,
) -> Isomorphism | None:
    """Find a renaming of `one` into `other`, or None if there is none.

    With `triplets`, a triplet (head, relation, tail) of each graph, the renaming must also map the first onto the
    second. Names are ignored. Raises `DataError` if the search does not finish within `most_steps` refinements.
    """
    sizes = [(g.num_entities, g.num_relations, g.num_triplets) for g in (one, other)]
    if sizes[0] != sizes[1]:
        return None
    graphs = (one, other)
    colours = [_Colours(np.zeros(g.num_entities, np.uint64), np.zeros(g.num_relations, np.uint64)) for g in graphs]
    if triplets is not None:
        colours = [_mark(part, triplet) for part, triplet in zip(colours, triplets, strict=True)]
    branches = [iter([(colours[0], colours[1])])]  # depth first; a branch makes its pairs of colourings when asked
    for _ in range(most_steps):
        while branches and (pair := next(branches[-1], None)) is None:
            branches.pop()
        if not branches:
            return None
        assert pair is not None
        first, second = (_refine(g, c) for g, c in zip(graphs, pair, strict=True))
        if any(not np.array_equal(np.sort(a), np.sort(b)) for a, b in zip(first, second, strict=True)):
            continue
        shared = _smallest_shared(first)
        if shared is not None:
            branches.append(_branch(first, second, *shared))
            continue
        renaming = Isomorphism(*(_match(a, b) for a, b in zip(first, second, strict=True)))
        if _maps(one, other, renaming, triplets):
            return renaming
    raise DataError(
        f"Whether {one!r} and {other!r} are isomorphic was not decided in {most_steps:,} steps; the search is meant "
        "for small graphs."
    )


def _branch(first: _Colours, second: _Colours, part: int, colour: np.uint64) -> Iterator[tuple[_Colours, _Colours]]:
    """Give one holder of a shared colour a colour of its own, and each possible counterpart in turn."""
    chosen = first.set_apart(part, int(np.flatnonzero(first[part] == colour)[0]))
    for index in np.flatnonzero(second[part] == colour):
        yield chosen, second.set_apart(part, int(index))


def _mark(colours: _Colours, triplet: Sequence[int]) -> _Colours:
    """Different colours for the head, the relation and the tail of a triplet; a loop's only end has both."""
    head, relation, tail = triplet
    for part, index in ((0, head), (1, relation), (0, tail), (0, tail)):
        colours = colours.set_apart(part, index)
    return colours


def _refine(graph: KnowledgeGraph, colours: _Colours) -> _Colours:
    """Refine until no colour splits any further."""
    heads, relations, tails = graph.triplets.T
    count = 0
    while True:
        entities, kinds = colours
        head, kind, tail = entities[heads], kinds[relations], entities[tails]
        loop = (heads == tails).astype(np.uint64)
        at_head, at_tail = np.zeros_like(entities), np.zeros_like(entities)
        of_kind = np.zeros_like(kinds)
        # Sums of hashes modulo 2^64 do not depend on the order of the facts.
        np.add.at(at_head, heads, _mix(kind * _ODD[0] + tail * _ODD[1] + loop))
        np.add.at(at_tail, tails, _mix(kind * _ODD[2] + head * _ODD[3] + loop))
        np.add.at(of_kind, relations, _mix(head * _ODD[0] + tail * _ODD[3] + loop))
        colours = _Colours(_mix(entities + at_head * _ODD[1] + at_tail * _ODD[2]), _mix(kinds + of_kind * _ODD[1]))
        before, count = count, len(np.unique(colours.entities)) + len(np.unique(colours.relations))
        if count == before:
            return colours


_ODD = tuple(np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93))


def _mix(values: np.ndarray) -> np.ndarray:
    """Hash of each value, uint64 (the finaliser of splitmix64)."""
    values = (values + _ODD[0]).astype(np.uint64)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = values ^ (values >> np.uint64(31))
    return mixed


def _smallest_shared(colours: _Colours) -> tuple[int, np.uint64] | None:
    """The shared colour with the fewest holders, among entities (0) or relations (1)."""
    best: tuple[int, int, np.uint64] | None = None
    for part in (1, 0):  # relations first: they decide more
        values, counts = np.unique(colours[part], return_counts=True)
        for value, count in zip(values[counts > 1], counts[counts > 1], strict=True):
            if best is None or count < best[0]:
                best = (int(count), part, value)
    return None if best is None else best[1:]


def _match(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The index of `other` with the same colour as each index of `one`; all colours are distinct."""
    matched = np.empty(len(one), np.int64)
    matched[np.argsort(one)] = np.argsort(other)
    return matched


def _maps(
    one: KnowledgeGraph,
    other: KnowledgeGraph,
    by: Isomorphism,
    triplets: tuple[Sequence[int], Sequence[int]] | None,
) -> bool:
    """Whether the renaming maps the facts of one onto those of the other, and one triplet onto the other."""

    def move(rows: np.ndarray) -> np.ndarray:
        heads, relations, tails = rows.T
        return np.stack([by.entities[heads], by.relations[relations], by.entities[tails]], axis=1)

    if triplets is not None and move(np.array([triplets[0]])).tolist() != [list(triplets[1])]:
        return False
    return bool(other.contains(move(one.triplets)).all())
