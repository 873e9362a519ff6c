"""Apply a clause to a graph: list all triplets that it implies, test whether it implies a triplet, and find the facts.

A triplet is implied if some assignment of distinct entities and distinct relations, with the head bound to the triplet,
makes every atom of the body an observed fact. Since variables are distinct, no atom but the head itself can be the
triplet in question: a fact is never implied by itself, unless the clause is a tautology.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from anykg.graph.graph import KnowledgeGraph
from anykg.rules.clause import Atom, Clause, ClauseError
from anykg.rules.kernels import matching
from anykg.rules.kernels.matching import FactIndex

CHUNK = 1 << 16
"""Number of matches read per batch."""
EXAMPLES = 8
"""Matches of a body's other part that are tried before a candidate is matched on its own."""
ANY: Mapping[int, int] = MappingProxyType({})
"""No relation is fixed."""
MOST_IMPLIED = 50_000_000
"""Upper bound on the triplets that `implied` lists."""


class Grounding(NamedTuple):
    """Values of a clause's variables."""

    entities: tuple[int, ...]  # [M]
    relations: tuple[int, ...]  # [K]

    def facts(self, clause: Clause) -> np.ndarray:
        """The observed facts [L, 3] that the body is matched to."""
        rows = [(self.entities[a.head], self.relations[a.relation], self.entities[a.tail]) for a in clause.body]
        return np.array(rows, np.int64).reshape(-1, 3)


def is_implied(clause: Clause, graph: KnowledgeGraph, triplets: np.ndarray) -> np.ndarray:
    """Whether each triplet [B, 3] is implied, bool [B]; a relation r + R refers to (tail, r, head)."""
    triplets = np.asarray(triplets, np.int64).reshape(-1, 3)
    triplets = np.where(triplets[:, 1:2] < graph.num_relations, triplets, graph.inverted(triplets))
    result: np.ndarray = (triplets[:, 0] == triplets[:, 2]) == clause.attribute
    rows = np.flatnonzero(result)
    given = np.full((len(rows), _width(clause)), matching.UNBOUND, np.int32)
    for column, variable in enumerate(_head_variables(clause)):
        given[:, variable] = triplets[rows, column]
    if clause.body:
        plan = _Pattern(clause.body, clause).plan(set(_head_variables(clause)))
        cursor = matching.start(plan, _width(clause))
        result[rows] = matching.exist(graph.derive(_index), plan, clause.num_entities, cursor, given)
    return result


def groundings(
    clause: Clause,
    graph: KnowledgeGraph,
    triplet: tuple[int, int, int],
    limit: int = 10,
    relations: Mapping[int, int] = ANY,
) -> list[Grounding]:
    """The first `limit` ways in which a triplet is implied; `relations` as for `implied`, C1 that of the triplet."""
    if not clause.body or (triplet[0] == triplet[2]) != clause.attribute:
        return []
    given = _given(clause, relations) | dict(zip(_head_variables(clause), triplet, strict=True))
    plan = _Pattern(clause.body, clause).plan(set(given))
    cursor = matching.start(plan, _width(clause))
    cursor.values[list(given)] = list(given.values())
    out = np.empty((limit, _width(clause)), np.int32)
    count = matching.advance(graph.derive(_index), plan, clause.num_entities, cursor, out)
    return [
        Grounding(tuple(row[: clause.num_entities]), tuple(row[clause.num_entities :])) for row in out[:count].tolist()
    ]


def implied(clause: Clause, graph: KnowledgeGraph, relations: Mapping[int, int] = ANY) -> np.ndarray:
    """All implied triplets [P, 3], sorted; raises an error if there are more than MOST_IMPLIED.

    `relations` fixes some of the relations: ids by the number of the variable, 0 for C1. They must differ.
    """
    if relations:
        return _implied_at_once(clause, graph, _given(clause, relations))
    anchored, apart = _split(clause)
    if apart and {0, clause.head.tail} <= {v for atom in anchored for v in (atom.head, atom.tail)}:
        return _implied_in_parts(clause, graph, anchored, apart)
    return _implied_at_once(clause, graph)


def _split(clause: Clause) -> tuple[list[Atom], list[Atom]]:
    """The atoms that facts connect with an entity of the head, and the others."""
    reached, before = {0, clause.head.tail}, -1
    while len(reached) != before:
        before = len(reached)
        reached |= {v for a in clause.body if reached & {a.head, a.tail} for v in (a.head, a.tail)}
    anchored = [atom for atom in clause.body if atom.head in reached]
    return anchored, [atom for atom in clause.body if atom.head not in reached]


def _implied_in_parts(clause: Clause, graph: KnowledgeGraph, anchored: list[Atom], apart: list[Atom]) -> np.ndarray:
    """Match the part of the body that is not connected to the head first: it says which relations to look for.

    The entities and relations of both parts must differ, except for shared relations; a candidate for which no example
    of the other part differs is matched on its own.
    """
    near = {atom.relation for atom in anchored} | {0}
    columns = [clause.num_entities + kind for kind in sorted(near & {atom.relation for atom in apart})]
    mine, other = _Pattern(anchored, clause), _Pattern(apart, clause)
    head, entities = _head_variables(clause), clause.num_entities
    own_kinds = [v for v in range(entities, _width(clause)) if v not in columns]
    parts, unsure = [np.empty((0, 3), np.int64)], [np.empty((0, 3), np.int64)]
    for examples in _examples(other, graph, columns):
        given = {column: int(examples[0, column]) for column in columns}
        for rows in mine.matches(graph, given):
            found = rows[:, list(head)].astype(np.int64)
            if head[1] not in mine.variables and head[1] not in columns:  # C1 does not occur: it can be any relation
                found = np.repeat(found, graph.num_relations, axis=0)
                found[:, 1] = np.tile(np.arange(graph.num_relations), len(rows))
                unsure.append(found)
                continue
            sure = ~(_meet(rows, examples, slice(entities)) | _meet(rows, examples, own_kinds)).all(1)
            parts.append(found[sure])
            unsure.append(found[~sure])
        _refuse(sum(map(len, parts)) + sum(map(len, unsure)), clause)
    asked = np.unique(np.concatenate(unsure), axis=0)
    result: np.ndarray = np.unique(np.concatenate([*parts, asked[is_implied(clause, graph, asked)]]), axis=0)
    return result


def _meet(rows: np.ndarray, examples: np.ndarray, variables: slice | list[int]) -> np.ndarray:
    """Whether a row and an example have a value of the variables in common: [C, examples]."""
    mine, theirs = rows[:, variables], examples[:, variables]
    same = (mine[:, :, None, None] == theirs[None, None]) & (mine != matching.UNBOUND)[:, :, None, None]
    met: np.ndarray = same.any((1, 3))  # [C, V, examples, V] -> [C, examples]
    return met


def _examples(pattern: _Pattern, graph: KnowledgeGraph, columns: list[int]) -> Iterator[np.ndarray]:
    """A few matches [up to EXAMPLES, V] for every choice of values of `columns` that has any."""
    kept = np.empty((0, pattern.width), np.int32)
    for rows in pattern.matches(graph, {}):
        kept = np.concatenate([kept, rows])
        kept = kept[np.lexsort(kept[:, columns].T)] if columns else kept
        new = np.append(True, (np.diff(kept[:, columns], axis=0) != 0).any(1))[: len(kept)]
        begin = np.maximum.accumulate(np.where(new, np.arange(len(kept)), 0))
        kept = kept[np.arange(len(kept)) - begin < EXAMPLES]
    new = np.append(True, (np.diff(kept[:, columns], axis=0) != 0).any(1))[: len(kept)]
    yield from np.split(kept, np.flatnonzero(new)[1:]) if len(kept) else []


def _given(clause: Clause, relations: Mapping[int, int]) -> dict[int, int]:
    """Relations by the numbers that their variables have in a pattern."""
    return {clause.num_entities + number: relation for number, relation in relations.items()}


def _implied_at_once(clause: Clause, graph: KnowledgeGraph, given: Mapping[int, int] = ANY) -> np.ndarray:
    sizes = (graph.num_entities, graph.num_relations)
    kinds = _kinds(clause)
    head, body = _head_variables(clause), _Pattern(clause.body, clause)
    bound = body.variables | set(given)
    free = [v for v in dict.fromkeys(head) if v not in bound]
    # Variables that a free variable must differ from are kept in addition to the head's.
    kept = sorted({v for v in bound if v in head or any(kinds[v] == kinds[f] for f in free)})
    rows = _distinct_matches(body, graph, kept, [sizes[kinds[v]] for v in kept], clause, given)
    columns = kept
    for variable in free:
        rows = _spread(rows, [kinds[v] == kinds[variable] for v in columns], sizes[kinds[variable]], clause)
        columns = [*columns, variable]
        later = [v for v in free if v not in columns]
        needed = [v in head or any(kinds[v] == kinds[f] for f in later) for v in columns]
        columns = [v for v, keep in zip(columns, needed, strict=True) if keep]
        rows = np.unique(rows[:, needed], axis=0)
    triplets: np.ndarray = rows[:, [columns.index(v) for v in head]].astype(np.int64)
    return triplets[np.lexsort(triplets.T[::-1])]


def implied_reference(clause: Clause, graph: KnowledgeGraph, relations: Mapping[int, int] = ANY) -> np.ndarray:
    """Reference implementation of `implied`: tries every assignment of every variable."""
    matches = matching.matches_reference(
        graph.triplets,
        np.array(clause.body, np.int64).reshape(-1, 3),
        clause.num_entities,
        clause.num_relations,
        (graph.num_entities, graph.num_relations),
    )
    for variable, relation in _given(clause, relations).items():
        matches = matches[matches[:, variable] == relation]
    return np.unique(matches[:, list(_head_variables(clause))].astype(np.int64), axis=0)


class _Pattern:
    """Some atoms of a clause, with its numbers of variables: relations are numbered after the entities."""

    def __init__(self, atoms: Sequence[Atom], clause: Clause) -> None:
        self.entities, self.width = clause.num_entities, _width(clause)
        self.atoms = [(atom.head, clause.num_entities + atom.relation, atom.tail) for atom in atoms]
        self.variables = {v for atom in self.atoms for v in atom}

    def plan(self, bound: set[int]) -> np.ndarray:
        """The order of the join [L, 5]: greedily the atom with the fewest facts given the variables bound so far."""
        left, steps = list(self.atoms), []
        while left:
            ways = {atom: _way(atom, bound) for atom in left}
            atom = max(left, key=lambda a: ways[a][2])
            order, prefix, _ = ways[atom]
            steps.append([order, prefix, *(atom[column] for column in matching.ORDERS[order])])
            bound = bound | set(atom)
            left.remove(atom)
        return np.array(steps, np.int64).reshape(-1, 5)

    def matches(self, graph: KnowledgeGraph, given: Mapping[int, int]) -> Iterator[np.ndarray]:
        """Yield every match [C, V] with some variables given, in batches."""
        if not self.atoms:
            row = np.full((1, self.width), matching.UNBOUND, np.int32)
            row[0, list(given)] = list(given.values())
            yield row
            return
        plan, index = self.plan(set(given)), graph.derive(_index)
        cursor = matching.start(plan, self.width)
        for variable, value in given.items():
            cursor.values[variable] = value
        out = np.empty((CHUNK, self.width), np.int32)
        while True:
            count = matching.advance(index, plan, self.entities, cursor, out)
            yield out[:count]
            if count < len(out):
                return


def _index(graph: KnowledgeGraph) -> FactIndex:
    return matching.fact_index(graph.triplets, graph.num_entities, graph.num_relations)


def _width(clause: Clause) -> int:
    return clause.num_entities + clause.num_relations


def _head_variables(clause: Clause) -> tuple[int, int, int]:
    """The variables of the head."""
    return clause.head.head, clause.num_entities, clause.head.tail


def _kinds(clause: Clause) -> list[int]:
    """0 for an entity, 1 for a relation."""
    return [0] * clause.num_entities + [1] * clause.num_relations


def _way(atom: tuple[int, int, int], bound: set[int]) -> tuple[int, int, int]:
    """The order of the facts with the longest bound prefix, its length, and its selectivity."""
    prefixes = []
    for columns in matching.ORDERS:
        known = [atom[column] in bound for column in columns]
        prefixes.append(known.index(False) if False in known else 3)
    order = int(np.argmax(prefixes))
    by_relation = prefixes[order] == 1 and matching.ORDERS[order][0] == matching.RELATION
    return order, prefixes[order], 2 * prefixes[order] - by_relation


def _distinct_matches(
    pattern: _Pattern,
    graph: KnowledgeGraph,
    columns: list[int],
    sizes: list[int],
    clause: Clause,
    given: Mapping[int, int],
) -> np.ndarray:
    """The distinct values [P, len(columns)] of some variables over all matches."""
    packable = np.prod(np.array(sizes, float)) < 2**63
    parts: list[np.ndarray] = []
    for rows in pattern.matches(graph, given):
        picked = rows[:, columns].astype(np.int64)
        if packable:
            keys = np.zeros(len(picked), np.int64)
            for column, size in enumerate(sizes):
                keys = keys * size + picked[:, column]
            parts.append(np.unique(keys))
        else:
            parts.append(np.unique(picked, axis=0))
        if sum(map(len, parts)) > MOST_IMPLIED:
            parts = [np.unique(np.concatenate(parts), axis=0)]
            _refuse(len(parts[0]), clause)
    found = np.unique(np.concatenate(parts), axis=0)
    if not packable:
        return found
    unpacked = np.empty((len(found), len(columns)), np.int64)
    for column in range(len(columns) - 1, -1, -1):
        found, unpacked[:, column] = np.divmod(found, sizes[column])
    return unpacked


def _spread(rows: np.ndarray, same_kind: list[bool], size: int, clause: Clause) -> np.ndarray:
    """Rows [P, V] with every value of one more variable that differs from those of its kind: [P', V + 1]."""
    _refuse(len(rows) * max(size - sum(same_kind), 0), clause)
    allowed = np.ones((len(rows), size), bool)
    for column in np.flatnonzero(same_kind):
        allowed[np.arange(len(rows)), rows[:, column]] = False
    which, value = np.nonzero(allowed)
    return np.concatenate([rows[which], value[:, None]], axis=1)


def _refuse(count: int, clause: Clause) -> None:
    if count > MOST_IMPLIED:
        raise ClauseError(
            f"{clause}: implies too many triplets to list ({count:,} ways, at most {MOST_IMPLIED:,}); ask whether "
            "single triplets are implied instead."
        )
