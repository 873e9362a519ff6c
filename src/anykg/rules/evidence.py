"""Features of triplets derived from clauses: the evidence that a weighted set of clauses scores with.

triplets [B, 3] -> float32 [B, F]; `features` lists the columns. For each clause:
- path: log(1 + the number of its groundings).
- repeat: the same kind of path occurs with the same relation elsewhere. The share of the pairs linked by it that have
  the relation, for the best path found, with the triplet in question excluded.
- half-link: log(1 + the number of its groundings), and whether both ends have one.
- role: E1 (or E2) has another relation, which goes together with C1 at this end. The share of the entities with it that
  have C1, for the best such relation; and the mean over all relations of the entity.
- attribute: C1 is an attribute of other entities, log(1 + their number); and whether the triplet is an attribute. Path
  and other clauses about two entities are 0 then.
With `graded` off only path, half-link and attribute clauses: 1 where one implies the triplet, else 0.
Triplets that a renaming of entities and relations maps onto each other have equal evidence.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.keys import find
from anykg.rules.clause import Clause, parse
from anykg.rules.ground import rule_table
from anykg.rules.kernels.evidence import PRIOR, Asked, Columns, Rules, path_evidence, role_evidence
from anykg.rules.kernels.matching import FactIndex, fact_index
from anykg.rules.kernels.paths import LONGEST, num_shapes
from anykg.rules.shapes import HALF_LINKS, LONGEST_REPEAT, path_clauses, repeated

BOTH_ENDS = parse("(E1, C1, E3) & (E4, C1, E2) => (E1, C1, E2)")
ROLES = tuple(
    parse(f"{role} => (E1, C1, E2)")
    for role in (
        "(E1, C2, E3) & (E4, C2, E5) & (E4, C1, E6)",
        "(E3, C2, E1) & (E5, C2, E4) & (E4, C1, E6)",
        "(E2, C2, E3) & (E4, C2, E5) & (E6, C1, E4)",
        "(E3, C2, E2) & (E5, C2, E4) & (E6, C1, E4)",
    )
)
ELSEWHERE = parse("(E2, C1, E2) => (E1, C1, E1)")


class Feature(NamedTuple):
    """A column of the evidence."""

    clause: Clause
    measure: str
    """The statistic of the clause's matches."""


@cache
def features(length: int, graded: bool) -> tuple[Feature, ...]:
    """The columns of the evidence from paths of up to `length` steps."""
    paths = [clause for steps in range(1, length + 1) for clause in path_clauses(steps).values()]
    if not graded:
        return tuple(Feature(clause, "implied") for clause in (*paths, *HALF_LINKS, ELSEWHERE))
    short = [clause for steps in range(1, min(length, LONGEST_REPEAT) + 1) for clause in path_clauses(steps).values()]
    return (
        *(Feature(clause, "groundings") for clause in (*paths, *HALF_LINKS, ELSEWHERE)),
        Feature(ELSEWHERE, "asked"),
        Feature(BOTH_ENDS, "implied"),
        *(Feature(repeated(clause), "best share") for clause in short),
        *(Feature(clause, "best share") for clause in ROLES),
        *(Feature(clause, "mean share") for clause in (ROLES[0], ROLES[2])),
    )


def evidence(graph: KnowledgeGraph, triplets: np.ndarray, *, length: int = LONGEST, graded: bool = True) -> np.ndarray:
    """The evidence float32 [B, F] on triplets [B, 3]; a relation r + R asks for (tail, r, head).

    Paths are walked from the first entity of a triplet as given: triplets that share it cost little more than one.
    """
    triplets = np.asarray(triplets, np.int64).reshape(-1, 3)
    turned = triplets[:, 1] >= graph.num_relations
    direct = np.where(turned[:, None], graph.inverted(triplets), triplets)
    out = np.zeros((len(triplets), len(features(length, graded))), np.float32)
    for way in (False, True):
        rows = np.flatnonzero(turned == way)
        if len(rows):
            out[rows] = _evidence(graph, direct[rows], way, length, graded)
    return out


def _evidence(graph: KnowledgeGraph, triplets: np.ndarray, turned: bool, length: int, graded: bool) -> np.ndarray:
    heads, relations, tails = triplets.T
    links, known = heads != tails, graph.contains(triplets)
    column_of = {feature: column for column, feature in enumerate(features(length, graded))}
    out = np.zeros((len(triplets), len(column_of)), np.float32)
    first = tails if turned else heads
    rows = np.argsort(first, kind="stable")
    rows = rows[links[rows]]
    path_features = np.zeros((len(rows), len(column_of)), np.float32)
    asked = Asked(
        first[rows], relations[rows], (heads if turned else tails)[rows], known[rows].astype(np.int64), turned
    )
    rules = [_rules(graph, steps, graded) for steps in (1, 2)]
    sizes = (graph.num_entities, graph.num_relations)
    path_evidence(graph.derive(_index), sizes, length, asked, *rules, _columns(length, graded), path_features)
    out[rows] = path_features
    measure = "groundings" if graded else "implied"
    for clause, end, entities in zip(HALF_LINKS, (0, 2), (heads, tails), strict=True):
        found_links = graph.derive(_links, end).of(entities * graph.num_relations + relations)
        out[:, column_of[Feature(clause, measure)]] = (found_links - known) * links
    attributes = graph.derive(_attributes)[relations] - known
    out[:, column_of[Feature(ELSEWHERE, measure)]] = attributes * ~links
    if not graded:
        return (out > 0).astype(np.float32)
    both = [column_of[Feature(clause, measure)] for clause in HALF_LINKS]
    out[:, column_of[Feature(BOTH_ENDS, "implied")]] = (out[:, both] > 0).all(1)
    numbers = [column for feature, column in column_of.items() if feature.measure == "groundings"]
    out[:, numbers] = np.log1p(out[:, numbers])
    out[:, column_of[Feature(ELSEWHERE, "asked")]] = ~links
    roles = graph.derive(_roles)
    for at_tail, entities, clauses in ((False, heads, ROLES[:2]), (True, tails, ROLES[2:])):
        share = role_evidence(*roles, entities, relations, at_tail) * links[:, None]  # [B, 3]
        out[:, column_of[Feature(clauses[0], "best share")]] = share[:, 0]
        out[:, column_of[Feature(clauses[1], "best share")]] = share[:, 1]
        out[:, column_of[Feature(clauses[0], "mean share")]] = share[:, 2]
    return out


@cache
def _columns(length: int, graded: bool) -> tuple[Columns, ...]:
    """The output column of each shape of paths of 1 to `LONGEST` steps, as the kernel takes them."""
    column_of = {feature: column for column, feature in enumerate(features(length, graded))}
    columns = tuple(Columns(*np.full((2, num_shapes(steps)), -1, np.int64)) for steps in range(1, LONGEST + 1))
    for steps in range(1, length + 1):
        groundings, shares = columns[steps - 1]
        for number, clause in path_clauses(steps).items():
            groundings[number] = column_of[Feature(clause, "groundings" if graded else "implied")]
            if graded and steps <= LONGEST_REPEAT:
                shares[number] = column_of[Feature(repeated(clause), "best share")]
    return columns


def _rules(graph: KnowledgeGraph, length: int, graded: bool) -> Rules:
    """The rules of the graph; empty unless `graded`."""
    if not graded:
        empty = np.zeros(0, np.int64)
        return Rules(empty, empty, empty, empty)
    table = rule_table(graph, length)
    return Rules(table.offsets, table.heads, table.support, table.bodies)


def _index(graph: KnowledgeGraph) -> FactIndex:
    return fact_index(graph.triplets, graph.num_entities, graph.num_relations)


class _Counts(NamedTuple):
    """Counts of keys."""

    keys: np.ndarray  # sorted, each once
    counts: np.ndarray

    def of(self, keys: np.ndarray) -> np.ndarray:
        """The count of each of the given keys."""
        at = find(self.keys, keys)
        return np.where(at >= 0, self.counts[at], 0) if len(self.keys) else np.zeros(len(keys), np.int64)


def _links(graph: KnowledgeGraph, end: int) -> _Counts:
    """Links by the entity at one end and the relation, as entity * R + relation."""
    links = graph.triplets[graph.triplets[:, 0] != graph.triplets[:, 2]].astype(np.int64)
    return _Counts(*np.unique(links[:, end] * graph.num_relations + links[:, 1], return_counts=True))


def _attributes(graph: KnowledgeGraph) -> np.ndarray:
    """Entities that have each relation as an attribute [R]."""
    loops = graph.triplets[graph.triplets[:, 0] == graph.triplets[:, 2]]
    return np.bincount(loops[:, 1], minlength=graph.num_relations)


def _roles(graph: KnowledgeGraph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The roles of every entity (offsets, roles) and the shares [2R, 2R]; see `role_evidence`."""
    n, r = graph.num_entities, graph.num_relations
    heads, relations, tails = graph.triplets.T.astype(np.int64)
    keys = np.unique(np.concatenate([heads * 2 * r + relations, tails * 2 * r + relations + r]))
    offsets, roles = np.searchsorted(keys, np.arange(n + 1) * 2 * r), keys % max(2 * r, 1)
    import scipy.sparse  # explanations do not need it

    incidence = scipy.sparse.csr_array((np.ones(len(keys)), roles, offsets), (n, 2 * r))
    together = (incidence.T @ incidence).toarray()  # [2R, 2R]
    return offsets, roles, together / (together.diagonal()[:, None] + PRIOR)
