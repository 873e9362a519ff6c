"""The relevant part of a large graph for a question: its nearest entities and all facts between them.

Proximity is personalised PageRank, computed by forward push. Half of the mass starts at the entities of the question,
half at the facts of its relation, so that the frequent heads and tails of the relation are included: a model sees what
the relation means and which answers it has. An entity keeps a share of the mass it receives and passes on the rest,
divided evenly between its relations in each direction and then between the facts of each: a hub's million facts of one
relation do not outweigh its five others. Mass is not passed along a fact that would get too little of it, so the cost
depends on the requested number of facts and hardly on the graph.

Entities are then added in the order of their mass as long as the facts between them are within the budget. Entities of
equal mass are added together, unless that leaves half of the budget unused. The selection is deterministic, so renaming
entities and relations renames the part; ids only break ties that do not fit.

`python -m benchmarks.budgets` measures the effect on accuracy. On its generated graphs, all answers that follow from
planted rules were in the part. Some of the others were not, mostly rare tails of their relation that the whole graph
ranks low as well; the differences in MRR came from changes of rank within the part, in both directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from anykg.graph.graph import HEAD, RELATION, TAIL, KnowledgeGraph
from anykg.graph.push import Facts, induced, push

TOTAL = 2**50
"""Total mass; half of it starts at the entities of a question, half at the facts of its relations."""
KEPT = 5
"""An entity keeps 1 / KEPT of its mass and passes on the rest."""
ROUNDS = 8
"""Maximum number of times that the minimum mass passed along a fact is lowered until the budget is used."""
LOWERED = 4
"""Factor by which it is lowered each time."""
HUB = 10_000
"""An entity with more facts than this is a hub, whose facts are found from their other ends."""
STARTS, ENDS, BY_RELATION, OF_RELATIONS = "graph.starts", "graph.ends", "graph.by_relation", "graph.relations"
"""Names of arrays in packed graphs."""


class Adjacency(NamedTuple):
    """The facts of each entity and relation, found without a search."""

    starts: np.ndarray  # int64 [N + 1]: entity v is the head of facts starts[v] to starts[v + 1]
    ends: np.ndarray  # int64 [N + 1]: and the tail of as many in the order by tail
    by_relation: np.ndarray  # int32 [E]: facts sorted by relation
    relations: np.ndarray  # int64 [R + 1]: where the facts of each relation start in `by_relation`


class Neighbourhood(NamedTuple):
    """A part of a graph; relations keep their ids, entities are renumbered in the same order."""

    graph: KnowledgeGraph
    entities: np.ndarray  # int64 [n], ascending: ids in the whole graph

    def inside(self, triplets: np.ndarray) -> np.ndarray:
        """Triplets [B, 3] of the whole graph with the ids of the part; -1 for open columns and entities outside."""
        found = triplets.astype(np.int64)
        for column in (HEAD, TAIL):
            at = np.minimum(np.searchsorted(self.entities, triplets[:, column]), len(self.entities) - 1)
            found[:, column] = np.where(self.entities[at] == triplets[:, column], at, -1)
        return found

    def outside(self, triplets: np.ndarray) -> np.ndarray:
        """Triplets [B, 3] of the part with the ids of the whole graph."""
        return np.stack([self.entities[triplets[:, 0]], triplets[:, 1], self.entities[triplets[:, 2]]], axis=1)


def adjacency(graph: KnowledgeGraph) -> Adjacency:
    """An index of the facts of each entity and relation. Use `graph.derive(adjacency)`, which caches it."""
    stored = [graph.arrays.get(name) for name in (STARTS, ENDS, BY_RELATION, OF_RELATIONS)]
    parts = [part for part in stored if part is not None]
    if len(parts) == len(stored):
        return Adjacency(*parts)
    step = max(graph.num_entities, 1) * max(graph.num_relations, 1)
    first = np.arange(graph.num_entities + 1) * step
    starts, ends = (np.searchsorted(keys, first) for keys in (graph._keys, graph._inverse_keys))
    relations = graph.triplets[:, RELATION]
    # Sorting numbers of 16 bits takes a tenth of the time.
    narrow = relations.astype(np.uint16) if graph.num_relations < 2**16 else relations
    by_relation = np.argsort(narrow, kind="stable").astype(np.int32)
    counts = np.bincount(relations, minlength=graph.num_relations)
    return Adjacency(starts, ends, by_relation, np.concatenate([[0], np.cumsum(counts)]))


def facts_of(graph: KnowledgeGraph, relation: int) -> np.ndarray:
    """Positions of the facts of a relation, ascending."""
    adjacent = graph.derive(adjacency)
    first, end = adjacent.relations[relation : relation + 2]
    return adjacent.by_relation[first:end]


def to_arrays(graph: KnowledgeGraph) -> dict[str, np.ndarray]:
    """The arrays that `adjacency` finds in a packed graph instead of computing them again."""
    return dict(zip((STARTS, ENDS, BY_RELATION, OF_RELATIONS), graph.derive(adjacency), strict=True))


def neighbourhood(
    graph: KnowledgeGraph,
    around: Sequence[int] | np.ndarray,
    relations: Sequence[int] | np.ndarray | None,
    budget: int,
    *,
    also: np.ndarray | None = None,
) -> Neighbourhood:
    """The facts near some entities, at most about `budget`.

    Args:
        graph: The whole graph.
        around: The entities of the question.
        relations: The relations of the question; None for all.
        budget: Number of facts; exceeded only if the required entities have more facts between them.
        also: Further required entities.
    """
    adjacent = graph.derive(adjacency)
    facts = Facts(
        _read_only(graph._keys),
        _read_only(graph._inverse_keys),
        _read_only(adjacent.starts),
        _read_only(adjacent.ends),
        graph.num_relations,
    )
    around = np.unique(np.asarray(around, np.int64))
    required = around if also is None else np.unique(np.concatenate([around, also]))
    seeds, masses = _start(graph, around, relations)
    least = max(TOTAL // max(budget, 1), 1)
    for _ in range(ROUNDS):
        mass = np.zeros((2, graph.num_entities), np.int64)
        mass[1, seeds] = masses
        reached = push(facts, mass, seeds, least, KEPT)
        total = mass[0][reached] + mass[1][reached]
        # Of entities with less, others with more may not have been reached yet.
        some = total >= least
        near, rows, last = _facts_between(graph, facts, adjacent, required, reached[some], total[some], budget)
        if len(rows) >= budget or len(near) > budget:
            break
        least = max(least // LOWERED, 1)
    else:
        near, rows, last = _facts_between(graph, facts, adjacent, required, reached, total, budget)
    counts = np.cumsum(np.bincount(last, minlength=len(near)))
    size = max(int(np.searchsorted(counts, budget, side="right")), len(required))
    if size < len(near):
        masses = mass[0][near] + mass[1][near]
        whole = max(size - _run_length(masses[len(required) : size], masses[size]), len(required))
        size = whole if whole and counts[whole - 1] >= budget / 2 else size
    entities = np.sort(near[:size])
    kept = graph.triplets[np.sort(rows[last < size])]
    local = np.stack([np.searchsorted(entities, kept[:, 0]), kept[:, 1], np.searchsorted(entities, kept[:, 2])], axis=1)
    return Neighbourhood(KnowledgeGraph(local, graph.entities.take(entities), graph.relations), entities)


def _start(
    graph: KnowledgeGraph, around: np.ndarray, relations: Sequence[int] | np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The entities where mass starts, ascending, and the mass at each.

    Every relation has an equal share, divided between the ends of its facts.
    """
    if relations is None:
        masses = graph.derive(_at_all_relations).copy()
    else:
        masses = np.zeros(graph.num_entities, np.int64)
        asked = np.unique(np.asarray(relations, np.int64))
        for relation in asked:
            ends = graph.triplets[facts_of(graph, int(relation))][:, [HEAD, TAIL]].ravel()
            masses += TOTAL // 2 // max(len(ends) * len(asked), 1) * np.bincount(ends, minlength=graph.num_entities)
    masses[around] += TOTAL // 2 // max(len(around), 1)
    seeds = np.flatnonzero(masses)
    return seeds, masses[seeds]


def _at_all_relations(graph: KnowledgeGraph) -> np.ndarray:
    """Int64 [N]: the mass that starts at each entity if the question is about all relations."""
    relations = graph.triplets[:, RELATION]
    ends = 2 * np.bincount(relations, minlength=graph.num_relations)
    weights = (TOTAL // 2 // np.maximum(ends * graph.num_relations, 1))[relations]
    # The sums are integers below 2^53, so they are exact in any order.
    heads, tails = (np.bincount(graph.triplets[:, end], weights, graph.num_entities) for end in (HEAD, TAIL))
    return (heads + tails).astype(np.int64)


def _facts_between(
    graph: KnowledgeGraph,
    facts: Facts,
    adjacent: Adjacency,
    required: np.ndarray,
    reached: np.ndarray,
    mass: np.ndarray,
    budget: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The required entities, then others by descending mass, ties by id, until there are `budget` facts between them.

    Returns these entities, the rows of the facts between them and the later position of the two entities of each.
    """
    others = _by_mass(reached, mass, budget + 1)
    near = np.concatenate([required, others[~np.isin(others, required)]])[: max(budget + 1, len(required))]
    size = len(required) + max(budget // 8, 1)
    while True:
        some = near[:size]
        rows, last = induced(facts, _positions(graph.num_entities, some), some, HUB)
        rows, last = _with_hubs(graph, adjacent, some, rows, last)
        if len(rows) >= budget or size >= len(near):
            return some, rows, last
        size *= 2


def _by_mass(entities: np.ndarray, mass: np.ndarray, most: int) -> np.ndarray:
    """The entities with the largest mass, at most `most`, in descending order; ties by id."""
    if len(entities) > most:
        bound = np.partition(mass, len(mass) - most)[len(mass) - most]
        above = np.flatnonzero(mass > bound)
        tied = np.flatnonzero(mass == bound)
        tied = tied[np.argsort(entities[tied])[: most - len(above)]]
        chosen = np.concatenate([above, tied])
        entities, mass = entities[chosen], mass[chosen]
    return entities[np.lexsort((entities, -mass))]


def _run_length(values: np.ndarray, value: np.int64) -> int:
    """The number of values at the end of an array that are equal to `value`."""
    others = np.flatnonzero(values != value)
    return len(values) - (int(others[-1]) + 1 if len(others) else 0)


def _positions(count: int, near: np.ndarray) -> np.ndarray:
    """Int32 [N]: the position of each entity in `near`, -1 for others."""
    positions = np.full(count, -1, np.int32)
    positions[near] = np.arange(len(near), dtype=np.int32)
    return positions


def _with_hubs(
    graph: KnowledgeGraph, adjacent: Adjacency, near: np.ndarray, rows: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Add the facts between two hubs, which `induced` leaves out."""
    as_heads, as_tails = _large(adjacent.starts, near), _large(adjacent.ends, near)
    if not len(as_heads) or not len(as_tails):
        return rows, last
    first, second = (part.ravel() for part in np.meshgrid(as_heads, as_tails, indexing="ij"))
    found = graph.relations_between(near[first], near[second])
    which = found.rows
    facts = np.stack([near[first[which]], found.values.astype(np.int64), near[second[which]]], axis=1)
    more = np.maximum(first[which], second[which])
    return np.concatenate([rows, graph.positions(facts)]), np.concatenate([last, more])


def _large(offsets: np.ndarray, near: np.ndarray) -> np.ndarray:
    """The positions in `near` of hubs."""
    return np.flatnonzero(offsets[near + 1] - offsets[near] > HUB)


def _read_only(array: np.ndarray) -> np.ndarray:
    """The same array with the type that kernels are compiled for."""
    view = array.view()
    view.setflags(write=False)
    return view
