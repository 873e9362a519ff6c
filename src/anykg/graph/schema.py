"""The schema of a graph: statements about its relations, each with its support.

- functional, inverse functional: an entity has one tail (one head) of the relation;
- symmetric, one-way: facts are known in both directions, or never are;
- irreflexive: no entity is linked to itself;
- duplicate, inverse: two relations link the same entities, in the same or the opposite direction;
- implies, implies the inverse of: the facts of a relation are among those of a larger one;
- kinds: which entities occur at either end. A kind is a type given by type facts, if there are any, otherwise a group
  of relation ends that share entities (the head of `capital of` and the tail of `lives in`).

A statement needs at least ten cases, and must hold for a minimum share of them. An *end* is a relation and a side: end
r is the head of r, end r + R its tail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from anykg.graph.graph import KnowledgeGraph

if TYPE_CHECKING:
    import scipy.sparse as sp

FEWEST = 10
"""Minimum number of cases for a statement."""
ALIKE = 0.8
"""Minimum share for a relation to be symmetric, or the duplicate or inverse of another."""
FUNCTIONAL = 0.95
ONE_WAY = 0.98
IRREFLEXIVE = 0.99
SAME_KIND = 0.25
"""Minimum mean cosine at which two groups of ends are merged into one kind."""
MOST_ENDS = 3000
"""Upper bound on the ends that are clustered; rarer ends take the kind of their entities."""
TYPE_NAMES = frozenset({"type", "rdf:type", "instance of", "instance_of", "instanceof", "is a", "is_a", "isa", "p31"})

Property = Literal[
    "functional",
    "inverse functional",
    "symmetric",
    "one-way",
    "irreflexive",
    "duplicate of",
    "inverse of",
    "implies",
    "implies the inverse of",
]


class RelationCounts(NamedTuple):
    """Counts of every relation [R]."""

    facts: np.ndarray
    heads: np.ndarray
    tails: np.ndarray
    single_heads: np.ndarray
    """Heads with one tail."""
    single_tails: np.ndarray
    loops: np.ndarray
    mutual: np.ndarray
    """Facts between two entities that are also known in the opposite direction."""


@dataclass(frozen=True)
class Statement:
    """A property of a relation."""

    relation: str
    holds: Property
    support: int
    """Number of cases in which it holds."""
    cases: int
    other: str | None = None
    """The other relation, of a statement about two."""

    @property
    def share(self) -> float:
        """Support / cases."""
        return self.support / self.cases if self.cases else 0.0


@dataclass(frozen=True)
class KindShare:
    """The number of entities of a kind at an end."""

    kind: str
    entities: int
    share: float


@dataclass(frozen=True)
class RelationSchema:
    """One relation."""

    relation: str
    facts: int
    heads: int
    tails: int
    statements: tuple[Statement, ...]
    head_kinds: tuple[KindShare, ...]
    tail_kinds: tuple[KindShare, ...]


@dataclass(frozen=True, eq=False)
class Kinds:
    """A kind for every entity."""

    names: tuple[str, ...]
    of_entity: np.ndarray  # int32 [N]: -1 for an entity without facts
    from_types: str | None
    """The relation whose facts name the kinds, if they were not found from relation ends."""


@dataclass(frozen=True, eq=False)
class Schema:
    """Statements about the relations of a graph."""

    relations: tuple[RelationSchema, ...]
    kinds: tuple[KindShare, ...]
    """All kinds, with the share of the graph's entities."""

    def __getitem__(self, relation: str) -> RelationSchema:
        return next(row for row in self.relations if row.relation == relation)

    @property
    def statements(self) -> list[Statement]:
        """All statements."""
        return [statement for row in self.relations for statement in row.statements]


def schema(graph: KnowledgeGraph) -> Schema:
    """Describe every relation that has facts, most frequent first."""
    counts, kinds = graph.derive(relation_counts), graph.derive(entity_kinds)
    statements: dict[int, list[Statement]] = {}
    for relation, statement in [*_own(graph, counts), *_of_pairs(graph, counts)]:
        statements.setdefault(relation, []).append(statement)
    order = np.argsort(-counts.facts, kind="stable")
    heads, tails = (_kind_shares(graph, kinds, column) for column in (0, 2))
    rows = tuple(
        RelationSchema(
            graph.relations.label(relation),
            int(counts.facts[relation]),
            int(counts.heads[relation]),
            int(counts.tails[relation]),
            tuple(statements.get(relation, [])),
            heads.get(relation, ()),
            tails.get(relation, ()),
        )
        for relation in order.tolist()
        if counts.facts[relation]
    )
    members = np.bincount(kinds.of_entity[kinds.of_entity >= 0], minlength=len(kinds.names))
    ranked = np.argsort(-members, kind="stable")
    total = max(int(members.sum()), 1)
    return Schema(rows, tuple(KindShare(kinds.names[k], int(members[k]), float(members[k] / total)) for k in ranked))


def relation_counts(graph: KnowledgeGraph) -> RelationCounts:
    """Count facts, ends, loops and facts known both ways."""
    r, n = graph.num_relations, max(graph.num_entities, 1)
    heads, relations, tails = graph.triplets.T.astype(np.int64)
    facts = np.bincount(relations, minlength=r)
    sizes = []
    for ends in (heads, tails):
        pairs, members = np.unique(ends * max(r, 1) + relations, return_counts=True)
        kinds = pairs % max(r, 1)
        sizes.append((np.bincount(kinds, minlength=r), np.bincount(kinds[members == 1], minlength=r)))
    loop = heads == tails
    keys = (relations * n + heads) * n + tails
    back = (relations * n + tails) * n + heads
    mutual = np.isin(back, keys) & ~loop
    return RelationCounts(
        facts,
        sizes[0][0],
        sizes[1][0],
        sizes[0][1],
        sizes[1][1],
        np.bincount(relations[loop], minlength=r),
        np.bincount(relations[mutual], minlength=r),
    )


def overlaps(graph: KnowledgeGraph) -> sp.csr_array:
    """[R, 2R]: |pairs of r that are pairs of s| / min(|r|, |s|); zero for relations of few facts and r with itself.

    Column s + R compares with s in the opposite direction, so column r + R of row r is how symmetric r is.
    """
    import scipy.sparse as sp

    heads, relations, tails = graph.triplets.T.astype(np.int64)
    pairs = np.concatenate([heads * graph.num_entities + tails, tails * graph.num_entities + heads])
    kinds = np.concatenate([relations, relations + graph.num_relations])
    keys, rows = np.unique(pairs, return_inverse=True)
    counts = np.bincount(relations, minlength=graph.num_relations)
    matrix = sp.csr_array((np.ones(len(rows)), (rows.reshape(-1), kinds)), shape=(len(keys), 2 * graph.num_relations))
    shared = (matrix[:, : graph.num_relations].T @ matrix).tocoo()
    smaller = np.minimum(counts[shared.row], counts[shared.col % max(graph.num_relations, 1)])
    good = (smaller >= FEWEST) & (shared.row != shared.col)
    values = shared.data[good] / smaller[good]
    return sp.csr_array((values, (shared.row[good], shared.col[good])), shape=shared.shape)


def redundant_relations(graph: KnowledgeGraph) -> np.ndarray:
    """Sorted pairs [T, 2] of a relation r and a relation s (or its inverse s + R) whose facts determine those of r."""
    alike = overlaps(graph).tocoo()
    keep = alike.data >= ALIKE
    pairs = np.stack([alike.row[keep], alike.col[keep]], axis=1).astype(np.int64)
    return pairs[np.lexsort(pairs.T[::-1])]


def symmetric_relations(graph: KnowledgeGraph) -> np.ndarray:
    """Bool [R]: relations most of whose facts are known both ways."""
    counts = graph.derive(relation_counts)
    links = counts.facts - counts.loops
    result: np.ndarray = (links >= FEWEST) & (counts.mutual >= ALIKE * links)
    return result


def one_way_relations(graph: KnowledgeGraph) -> np.ndarray:
    """Bool [R]: relations whose facts are almost never known both ways; never, for relations with few facts."""
    counts = graph.derive(relation_counts)
    links = counts.facts - counts.loops
    result: np.ndarray = np.where(links >= FEWEST, counts.mutual <= (1 - ONE_WAY) * links, counts.mutual == 0)
    return result


def functional_shares(graph: KnowledgeGraph) -> np.ndarray:
    """Float [2R]: the share of heads with one tail, of functional relations; 0 for the others.

    From R on, the share of tails with one head, of inverse functional relations.
    """
    counts = graph.derive(relation_counts)
    single = np.concatenate([counts.single_heads, counts.single_tails])
    cases = np.concatenate([counts.heads, counts.tails])
    claimed = (cases >= FEWEST) & (single >= FUNCTIONAL * cases)
    return np.where(claimed, single / (cases + 1), 0.0)


def ends_of_entities(graph: KnowledgeGraph) -> sp.csr_array:
    """[N, 2R]: the number of facts of each entity at each end."""
    import scipy.sparse as sp

    heads, relations, tails = graph.triplets.T.astype(np.int64)
    rows = np.concatenate([heads, tails])
    columns = np.concatenate([relations, relations + graph.num_relations])
    shape = (graph.num_entities, 2 * graph.num_relations)
    return sp.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)


def type_relation(graph: KnowledgeGraph) -> int | None:
    """The relation that states the type of an entity, recognised by its name; None if there is none."""
    for relation in range(graph.num_relations):
        names = (graph.relations[relation], graph.relations.label(relation))
        short = {part for name in names for part in (name, name.rsplit("#", 1)[-1], name.rsplit("/", 1)[-1])}
        if any(part.strip("<>").casefold() in TYPE_NAMES for part in short):
            return relation
    return None


def entity_kinds(graph: KnowledgeGraph) -> Kinds:
    """The kind of every entity: the most common of its types, or the group of ends in which it occurs most."""
    matrix = graph.derive(ends_of_entities)
    grouped = _by_ends(graph, matrix)
    kind = type_relation(graph)
    if kind is None:
        return grouped
    facts = graph.triplets[graph.triplets[:, 1] == kind]
    types, inverse = np.unique(facts[:, 2], return_inverse=True)
    common = np.bincount(inverse.reshape(-1))
    order = np.lexsort((inverse.reshape(-1), -common[inverse.reshape(-1)], facts[:, 0]))
    entities, first = np.unique(facts[order, 0], return_index=True)
    names = [graph.entities.label(int(entity)) for entity in types]
    of_entity = np.where(grouped.of_entity >= 0, grouped.of_entity + len(types), -1).astype(np.int32)
    of_entity[entities] = inverse.reshape(-1)[order][first]
    return Kinds((*names, *grouped.names), of_entity, graph.relations.label(kind))


def _by_ends(graph: KnowledgeGraph, matrix: sp.csr_array) -> Kinds:
    """Group ends with the same entities, by average-linkage clustering of their cosines."""
    import scipy.sparse as sp
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    present = matrix.copy()
    present.data = np.ones_like(present.data)
    sizes = np.asarray(present.sum(0)).reshape(-1)
    used = np.sort(np.argsort(-sizes, kind="stable")[:MOST_ENDS])
    used = used[sizes[used] > 0]
    if not len(used):
        return Kinds((), np.full(graph.num_entities, -1, np.int32), None)
    some = present[:, used].astype(np.float64)
    norm = np.sqrt(sizes[used])
    cosine = (some.T @ some).toarray() / norm / norm[:, None]
    group: np.ndarray = np.ones(1, np.int32)
    if len(used) > 1:
        distance = np.clip(1 - cosine, 0, None)
        np.fill_diagonal(distance, 0)
        group = fcluster(linkage(squareform(distance, checks=False), "average"), 1 - SAME_KIND, "distance")
    # Ends are weighted by their rarity, so that an end shared by all entities has no influence.
    rarity = np.log1p(graph.num_entities / np.maximum(sizes[used], 1)).astype(np.float64)
    votes = some @ sp.csr_array((rarity, (np.arange(len(used)), group - 1)), shape=(len(used), int(group.max())))
    dense = votes.toarray()
    of_entity = np.where(dense.max(1) > 0, dense.argmax(1), -1).astype(np.int32)
    members, renumbered = np.unique(of_entity[of_entity >= 0], return_inverse=True)
    names = []
    for number in members:
        mine = used[group == number + 1]
        inside = np.asarray(present[of_entity == number][:, mine].sum(0)).reshape(-1)
        names.append(_end_name(graph, int(mine[np.argmax(inside)])))
    result = of_entity.copy()
    result[of_entity >= 0] = renumbered.reshape(-1)
    return Kinds(tuple(names), result, None)


def _end_name(graph: KnowledgeGraph, end: int) -> str:
    side = "head" if end < graph.num_relations else "tail"
    return f"{side} of {graph.relations.label(end % graph.num_relations)}"


def _own(graph: KnowledgeGraph, counts: RelationCounts) -> list[tuple[int, Statement]]:
    """Statements about single relations."""
    links = counts.facts - counts.loops
    tests: list[tuple[Property, np.ndarray, np.ndarray, float]] = [
        ("functional", counts.single_heads, counts.heads, FUNCTIONAL),
        ("inverse functional", counts.single_tails, counts.tails, FUNCTIONAL),
        ("symmetric", counts.mutual, links, ALIKE),
        ("one-way", links - counts.mutual, links, ONE_WAY),
        ("irreflexive", links, counts.facts, IRREFLEXIVE),
    ]
    return [
        (relation, Statement(graph.relations.label(relation), name, int(support[relation]), int(cases[relation])))
        for name, support, cases, share in tests
        for relation in np.flatnonzero((cases >= FEWEST) & (support >= share * cases)).tolist()
    ]


def _of_pairs(graph: KnowledgeGraph, counts: RelationCounts) -> list[tuple[int, Statement]]:
    """Statements about two relations, at the one with fewer facts."""
    shares, r = overlaps(graph), graph.num_relations
    statements = []
    for one, other in redundant_relations(graph).tolist():
        second = other % r
        if one == second or (counts.facts[one], one) > (counts.facts[second], second):
            continue
        cases, larger = int(counts.facts[one]), int(counts.facts[second])
        support = round(float(shares[one, other]) * cases)
        names: tuple[Property, Property] = ("duplicate of", "inverse of")
        if support < ALIKE * larger:
            names = ("implies", "implies the inverse of")
        name = names[int(other >= r)]
        label = graph.relations.label
        statements.append((one, Statement(label(one), name, support, cases, label(second))))
    return statements


def _kind_shares(graph: KnowledgeGraph, kinds: Kinds, column: int) -> dict[int, tuple[KindShare, ...]]:
    """The kinds at an end of every relation, most common first, until they cover nine tenths; at most three."""
    pairs = np.unique(graph.triplets[:, [1, column]], axis=0)
    table = np.stack([pairs[:, 0], kinds.of_entity[pairs[:, 1]]], axis=1)
    rows, counts = np.unique(table, axis=0, return_counts=True)
    result = {}
    for relation in np.unique(rows[:, 0]).tolist():
        mine = rows[:, 0] == relation
        numbers, members = rows[mine, 1], counts[mine]
        order = np.argsort(-members, kind="stable")[:3]
        covered = np.cumsum(members[order]) / members.sum()
        keep = order[: 1 + int(np.searchsorted(covered, 0.9))]
        result[relation] = tuple(
            KindShare(kinds.names[numbers[i]], int(members[i]), float(members[i] / members.sum())) for i in keep
        )
    return result
