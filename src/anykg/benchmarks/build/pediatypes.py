"""Build PediaTypes: a connected sample of a raw graph, split 80/10/10.

The sampling algorithm is the paper's: breadth-first from the entity of highest degree; a visited entity adds at most D
of its triplets, drawn uniformly, and the entities at their other ends; the search stops once there are N entities or M
triplets. The sample is therefore connected, and has fewer than N + D entities. Departure: the paper's listing also
compares the number of entities with M, which would make M another N; here M limits triplets, and the last visit adds no
more than are left. Entities are visited once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anykg.errors import SettingError
from anykg.graph.graph import KnowledgeGraph, Ragged
from anykg.graph.split import shares, trimmed
from anykg.graph.task import Task
from anykg.seeds import generator

SHARES = (0.8, 0.1, 0.1)


@dataclass(frozen=True)
class SampleSize:
    """Bounds on the size of a sample."""

    nodes: int = 5_000
    """Number of entities at which visiting stops (N)."""
    edges: int = 40_000
    """Upper bound on the triplets (M)."""
    max_degree: int = 50
    """Upper bound on the triplets that a visited entity adds (D)."""

    def __post_init__(self) -> None:
        for name, least in (("nodes", 2), ("edges", 1), ("max_degree", 1)):
            if getattr(self, name) < least:
                raise SettingError(name, f"expected {least} or more, found {getattr(self, name)}")


class Visit(NamedTuple):
    """The triplets that one entity adds."""

    entity: int
    triplets: np.ndarray
    """Positions of the triplets drawn; some may have been drawn before, from their other end."""


def sample_breadth_first(graph: KnowledgeGraph, size: SampleSize, seed: int) -> KnowledgeGraph:
    """A connected part of the graph, with only the names that occur in it."""
    chosen = np.zeros(graph.num_triplets, bool)
    for visit in visits(graph, size, seed):
        chosen[visit.triplets] = True
    return trimmed(graph.subset(chosen))


def visits(graph: KnowledgeGraph, size: SampleSize, seed: int) -> Iterator[Visit]:
    """The entities in the order they are visited, with the triplets drawn for each."""
    if not graph.num_triplets:
        return
    random = generator(seed, "breadth first")
    incident = triplets_of_entities(graph)
    chosen = np.zeros(graph.num_triplets, bool)
    seen = np.zeros(graph.num_entities, bool)
    start = int(np.argmax(np.diff(incident.offsets)))
    seen[start] = True
    queue, entities, triplets = deque([start]), 1, 0
    while queue and entities < size.nodes and triplets < size.edges:
        entity = queue.popleft()
        drawn = incident[entity]
        count = min(size.max_degree, size.edges - triplets)
        if len(drawn) > count:
            drawn = random.choice(drawn, count, replace=False)
        yield Visit(entity, drawn)
        triplets += int((~chosen[drawn]).sum())
        chosen[drawn] = True
        others = graph.triplets[drawn][:, [0, 2]].sum(1) - entity  # a triplet's other end
        new = np.unique(others[~seen[others]])
        random.shuffle(new)  # the order of visits must not depend on ids
        seen[new] = True
        queue.extend(new.tolist())
        entities += len(new)


def triplets_of_entities(graph: KnowledgeGraph) -> Ragged:
    """For each entity, the positions of the triplets it is in; a loop is listed once."""
    heads, _, tails = graph.triplets.T
    crossing = np.flatnonzero(heads != tails)
    ends = np.concatenate([heads, tails[crossing]])
    positions = np.concatenate([np.arange(len(heads)), crossing])
    order = np.argsort(ends, kind="stable")
    counts = np.bincount(ends, minlength=graph.num_entities)
    return Ragged(np.concatenate([[0], np.cumsum(counts)]), positions[order])


def split_observed(graph: KnowledgeGraph, seed: int) -> tuple[KnowledgeGraph, KnowledgeGraph, KnowledgeGraph, int]:
    """Train, valid and test of 80, 10 and 10%, and how many triplets were then moved to train.

    Triplets with an entity or a relation that train would lack are moved.
    """
    parts = shares(graph.num_triplets, SHARES, generator(seed, "80/10/10"))
    heads, relations, tails = graph.triplets.T
    known_entities, known_relations = np.zeros(graph.num_entities, bool), np.zeros(graph.num_relations, bool)
    known_entities[graph.triplets[parts[0]][:, [0, 2]]] = True
    known_relations[relations[parts[0]]] = True
    observed = known_entities[heads] & known_entities[tails] & known_relations[relations]  # [E]
    asked = [np.sort(part[observed[part]]) for part in parts[1:]]
    stays = np.ones(graph.num_triplets, bool)
    stays[np.concatenate(asked)] = False
    moved = int(stays.sum()) - len(parts[0])
    return graph.subset(stays), graph.subset(asked[0]), graph.subset(asked[1]), moved


def task_of_pair(name: str, learnt: Parts, asked: Parts) -> Task:
    """Train on the first graph's train and valid; observe the second's train and test on its test facts."""
    return Task(name, train=learnt.train, valid=learnt.valid, observed=asked.train, test=asked.test)


class Parts(NamedTuple):
    """A sampled graph, split."""

    name: str
    train: KnowledgeGraph
    valid: KnowledgeGraph
    test: KnowledgeGraph
    moved: int
    """Triplets moved to train because something in them would be unobserved."""


def build(name: str, raw: KnowledgeGraph, size: SampleSize, seed: int) -> Parts:
    """Sample and split one raw graph."""
    return Parts(name, *split_observed(sample_breadth_first(raw, size, seed), seed))
