"""Clauses with their relations filled in: the rules of ordinary rule miners, for paths of one or two steps.

(E1, married to, E3) & (E3, lives in, E2) => (E1, lives in, E2) is a grounding of a chain whose last relation is C1. The
counts are those of the clauses, for one choice of relations: support and body count distinct pairs (E1, E2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anykg.graph.graph import KnowledgeGraph
from anykg.rules.clause import Clause, quoted
from anykg.rules.kernels.matching import fact_index
from anykg.rules.kernels.tables import ground_paths
from anykg.rules.shapes import grounding

CHUNK = 2048
"""Heads counted per chunk, before supports are summed."""


@dataclass(frozen=True, eq=False)
class GroundRules:
    """Every rule with a path of `length` steps that holds at least once, sorted by body and head."""

    length: int
    num_relations: int
    bodies: np.ndarray  # int64 [bodies]: pairs of ends of each body
    offsets: np.ndarray  # int64 [bodies + 1]: the rules of body b are offsets[b]:offsets[b + 1]
    heads: np.ndarray  # int64 [P]: the head's relation
    support: np.ndarray  # int64 [P]

    @property
    def body_of(self) -> np.ndarray:
        """The number of each rule's body [P]."""
        return np.repeat(np.arange(len(self.bodies)), np.diff(self.offsets))

    def relations(self, rule: int) -> tuple[int, tuple[int, ...]]:
        """The directions and relations of a rule's path."""
        body, steps = int(self.body_of[rule]), []
        for _ in range(self.length):
            body, step = divmod(body, self.num_relations)
            steps.append(step)
        return body, tuple(reversed(steps))

    def counts(self, directions: int, steps: tuple[int, ...], head: int) -> tuple[int, int]:
        """Support and body of one rule, given its path and its head's relation."""
        body = directions
        for step in steps:
            body = body * self.num_relations + step
        low, high = self.offsets[body : body + 2]
        rule = low + np.searchsorted(self.heads[low:high], head)
        held = rule < high and self.heads[rule] == head
        return int(self.support[rule]) if held else 0, int(self.bodies[body])

    def shape(self, rule: int) -> tuple[Clause, tuple[int, ...]]:
        """The clause of which a rule is a grounding, and the relations C1, C2, .. of the rule."""
        return grounding(*self.relations(rule), int(self.heads[rule]))


@dataclass(frozen=True)
class Grounded:
    """One rule and its counts."""

    clause: Clause
    relations: tuple[int, ...]
    """C1, C2, .."""
    body: int
    support: int
    partial: int
    """Pairs of the body whose E1 has a fact of C1."""
    facts: int
    """Facts of C1 that are links."""
    error: float = 0.0
    """Standard error of the confidence, if the counts are estimates from a sample; 0 if they are exact."""

    @property
    def head_coverage(self) -> float:
        """The share of the head relation's facts that are implied."""
        return self.support / self.facts if self.facts else 0.0

    @property
    def confidence(self) -> float:
        """The share of the body's pairs that have the head's relation."""
        return self.support / self.body if self.body else 0.0

    @property
    def pca_confidence(self) -> float:
        """The same among pairs whose E1 has a fact of the head's relation."""
        return self.support / self.partial if self.partial else 0.0

    def text(self, graph: KnowledgeGraph) -> str:
        """The rule with the relations' names in quotes, as `rules.clause.read` takes it."""
        names = [quoted(graph.relations.label(relation)) for relation in self.relations]
        atoms = [f"(E{a.head + 1}, {names[a.relation]}, E{a.tail + 1})" for a in (*self.clause.body, self.clause.head)]
        return f"{' & '.join(atoms[:-1])} => {atoms[-1]}"


def rule_table(graph: KnowledgeGraph, length: int) -> GroundRules:
    """All rules with paths of `length` steps, 1 or 2; computed once for a graph."""
    return graph.derive(_rule_table, length)


def best_groundings(
    graph: KnowledgeGraph, length: int, *, min_support: int = 10, count: int | None = 50
) -> list[Grounded]:
    """The rules with paths of up to `length` (at most 2) steps, by descending PCA confidence."""
    links = graph.triplets[graph.triplets[:, 0] != graph.triplets[:, 2]]
    facts = np.bincount(links[:, 1], minlength=graph.num_relations)
    best = []
    for steps in range(1, min(length, 2) + 1):
        rules = rule_table(graph, steps)
        good = np.flatnonzero(rules.support >= min_support)
        partial = _partial(graph, rules, good)
        body_of = rules.body_of
        order = np.argsort(-rules.support[good] / partial, kind="stable")[:count]
        for index in order:
            rule = int(good[index])
            clause, relations = rules.shape(rule)
            body, support = int(rules.bodies[body_of[rule]]), int(rules.support[rule])
            best.append(Grounded(clause, relations, body, support, int(partial[index]), int(facts[relations[0]])))
    best.sort(key=lambda g: (-g.pca_confidence, -g.support, str(g.clause), g.relations))
    return best[:count]


def _rule_table(graph: KnowledgeGraph, length: int) -> GroundRules:
    sizes = (graph.num_entities, graph.num_relations)
    index = fact_index(graph.triplets, *sizes)
    bodies = np.zeros((1 << length) * graph.num_relations**length, np.int64)
    keys, support = np.empty(0, np.int64), np.empty(0, np.int64)
    for first in range(0, graph.num_entities, CHUNK):
        starts = np.arange(first, min(first + CHUNK, graph.num_entities))
        more, new_keys = ground_paths(index, sizes, length, starts)
        bodies += more
        unique, counts = np.unique(new_keys, return_counts=True)
        keys, inverse = np.unique(np.concatenate([keys, unique]), return_inverse=True)
        support = np.bincount(inverse, np.concatenate([support, counts]), len(keys)).astype(np.int64)
    r = max(graph.num_relations, 1)
    offsets = np.searchsorted(keys, np.arange(len(bodies) + 1) * r)
    return GroundRules(length, graph.num_relations, bodies, offsets, keys % r, support)


def _partial(graph: KnowledgeGraph, rules: GroundRules, wanted: np.ndarray) -> np.ndarray:
    """The number of pairs of each wanted rule's body whose E1 has a fact of the head's relation [len(wanted)]."""
    body_of, partial = rules.body_of[wanted], np.empty(len(wanted), np.int64)
    sizes = (graph.num_entities, graph.num_relations)
    index = fact_index(graph.triplets, *sizes)
    for head in np.unique(rules.heads[wanted]):
        starts = np.unique(graph.triplets[graph.triplets[:, 1] == head, 0]).astype(np.int64)
        bodies, _ = ground_paths(index, sizes, rules.length, starts)
        mine = rules.heads[wanted] == head
        partial[mine] = bodies[body_of[mine]]
    return partial
