"""The part of a large graph that matters for a question: its nearest entities and all facts between them.

Nearness is personalised PageRank, by forward push. Mass starts at the entities of the question and at a few facts of
the relation that is asked about, so that a model sees what the relation means and which answers it has. An entity keeps
a share of the mass it receives and passes on the rest, divided evenly between its relations in each direction and
then between the facts of each: a hub's million facts of one relation do not outweigh its five others. Of a group of
facts too large for its mass some are drawn. So the work depends on the number of facts wanted and not on the graph.

Entities are then taken in the order of their mass as long as the facts between them are within the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from anykg.graph.graph import HEAD, RELATION, TAIL, KnowledgeGraph
from anykg.graph.push import Facts, induced, push
from anykg.seeds import derive, generator

KEPT = 0.2
"""Share of its mass that an entity keeps."""
OF_RELATION = 0.5
"""Share of all mass that starts at facts of the relation that is asked about."""
SAMPLED = 500
"""Facts of that relation, at most."""
ROUNDS = 8
"""Times the threshold below which mass is not passed on is lowered until the budget is used."""
LOWERED = 4.0
"""How much each time."""
HUB = 10_000
"""Facts of an entity from which on they are found from their other ends."""
STARTS, ENDS, BY_RELATION, OF_RELATIONS = "graph.starts", "graph.ends", "graph.by_relation", "graph.relations"
"""Names of arrays in packed graphs."""


class Adjacency(NamedTuple):
    """The facts of each entity and relation, found without a search."""

    starts: np.ndarray  # int64 [N + 1]: entity v is the head of facts starts[v] to starts[v + 1]
    ends: np.ndarray  # int64 [N + 1]: and the tail of as many in the order by tail
    by_relation: np.ndarray  # int32 [E]: facts sorted by relation
    relations: np.ndarray  # int64 [R + 1]: where the facts of each relation start in `by_relation`


class Neighbourhood(NamedTuple):
    """A part of a graph; relations keep their ids, entities are numbered anew in the same order."""

    graph: KnowledgeGraph
    entities: np.ndarray  # int64 [n], ascending: ids in the whole graph

    def inside(self, triplets: np.ndarray) -> np.ndarray:
        """Triplets [B, 3] of the whole graph with the ids of the part; -1 for what is open or outside."""
        found = triplets.astype(np.int64)
        for column in (HEAD, TAIL):
            at = np.minimum(np.searchsorted(self.entities, triplets[:, column]), len(self.entities) - 1)
            found[:, column] = np.where(self.entities[at] == triplets[:, column], at, -1)
        return found

    def outside(self, triplets: np.ndarray) -> np.ndarray:
        """Triplets [B, 3] of the part with the ids of the whole graph."""
        return np.stack([self.entities[triplets[:, 0]], triplets[:, 1], self.entities[triplets[:, 2]]], axis=1)


def adjacency(graph: KnowledgeGraph) -> Adjacency:
    """Where to find the facts of an entity or relation. Ask for it by `graph.derive(adjacency)`."""
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
    """What `adjacency` finds in a packed graph instead of computing it again."""
    return dict(zip((STARTS, ENDS, BY_RELATION, OF_RELATIONS), graph.derive(adjacency), strict=True))


def neighbourhood(
    graph: KnowledgeGraph,
    around: Sequence[int] | np.ndarray,
    relations: Sequence[int] | np.ndarray | None,
    budget: int,
    *,
    also: np.ndarray | None = None,
    seed: int = 0,
) -> Neighbourhood:
    """At most about `budget` facts near some entities.

    Args:
        graph: The whole graph.
        around: The entities of the question.
        relations: The relations asked about; None for all.
        budget: How many facts; more only if the entities that must be there have more between them.
        also: Further entities that must be there.
        seed: Draws facts where there are too many.
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
    seeds, masses = _start(graph, adjacent, around, relations, seed)
    mass, marks = np.zeros((2, graph.num_entities), np.float32), np.zeros(graph.num_entities, np.uint8)
    np.add.at(mass[1], seeds, masses.astype(np.float32))
    waiting, threshold, offset = np.unique(seeds), 4.0 / max(budget, 1), derive(seed, "push") % 2**31
    reached = np.zeros(0, np.int64)
    for _ in range(ROUNDS):
        waiting, more = push(facts, mass, marks, waiting, np.float32(threshold), np.float32(KEPT), offset)
        reached = np.concatenate([reached, more])
        near = _nearest(mass, reached, required, budget + 1)
        rows, last = induced(facts, _positions(graph.num_entities, near), near, HUB)
        rows, last = _with_hubs(graph, adjacent, near, rows, last)
        if len(rows) >= budget or len(near) > budget:
            break
        threshold /= LOWERED
    counts = np.cumsum(np.bincount(last, minlength=len(near)))
    size = max(int(np.searchsorted(counts, budget, side="right")), len(required))
    entities = np.sort(near[:size])
    kept = graph.triplets[np.sort(rows[last < size])]
    local = np.stack([np.searchsorted(entities, kept[:, 0]), kept[:, 1], np.searchsorted(entities, kept[:, 2])], axis=1)
    return Neighbourhood(KnowledgeGraph(local, graph.entities.take(entities), graph.relations), entities)


def _start(
    graph: KnowledgeGraph,
    adjacent: Adjacency,
    around: np.ndarray,
    relations: Sequence[int] | np.ndarray | None,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The entities where mass starts, and how much at each."""
    asked = np.arange(graph.num_relations) if relations is None else np.unique(np.asarray(relations, np.int64))
    drawn = []
    for relation in asked:
        first, end = adjacent.relations[relation : relation + 2]
        most = max(1, SAMPLED // len(asked))
        rng = generator(seed, "facts of a relation", int(relation))
        chosen = np.arange(first, end) if end - first <= most else first + rng.choice(end - first, most, replace=False)
        drawn.append(adjacent.by_relation[chosen])
    facts = graph.triplets[np.concatenate([np.zeros(0, np.int32), *drawn])]
    ends = facts[:, [HEAD, TAIL]].astype(np.int64).ravel()
    share = OF_RELATION if len(ends) else 0.0
    masses = [np.full(len(around), (1 - share) / max(len(around), 1)), np.full(len(ends), share / max(len(ends), 1))]
    return np.concatenate([around, ends]), np.concatenate(masses)


def _nearest(mass: np.ndarray, reached: np.ndarray, required: np.ndarray, most: int) -> np.ndarray:
    """Entities by falling mass, ties by id, at most so many; the required ones come first."""
    found = np.sort(reached[~np.isin(reached, required)])
    value = mass[0][found] + mass[1][found]
    found = found[np.argsort(-value, kind="stable")[: max(most - len(required), 0)]]
    return np.concatenate([required, found])


def _positions(count: int, near: np.ndarray) -> np.ndarray:
    """Int32 [N]: where each entity stands in `near`, -1 for others."""
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
    """The same array as kernels are compiled for."""
    view = array.view()
    view.setflags(write=False)
    return view
