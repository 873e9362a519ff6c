"""Build WikiTopics: one graph for each topic of relations, sampled by a forest fire, a tenth of it for testing.

A table assigns relations to topics. The triplets of a topic's relations are its graph. From that a forest fire samples
entities, the triplets among them are kept, and a tenth of those become test facts, such that every entity and relation
of a test fact is observed. Each topic is sampled twice: for training and for testing.

Departure: the published graphs guarantee this for entities only; here it holds for relations too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from anykg.benchmarks.build.raw import Keep
from anykg.errors import DataError, SettingError
from anykg.graph.graph import KnowledgeGraph, Ragged
from anykg.graph.split import trimmed
from anykg.graph.task import Task
from anykg.io.delimited import parse_labels
from anykg.io.source import load
from anykg.seeds import generator

BACKLOG = 100
"""Number of entities seen but not burnt that are remembered, from which a dying fire continues."""
RESTART = 10
"""Number of them from which a dying fire continues."""


@dataclass(frozen=True)
class FireSize:
    """Settings of the sampling."""

    nodes: int = 10_000
    """Entities of each sampled graph."""
    burning: float = 0.8
    """A burning entity ignites a geometric number of neighbours with this parameter: 1 / burning on average."""
    query: float = 0.1
    """The share of triplets that become test facts."""

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise SettingError("nodes", f"expected 1 or more, found {self.nodes}")
        if not 0 < self.burning <= 1:
            raise SettingError("burning", f"expected more than 0 and at most 1, found {self.burning}")
        if not 0 <= self.query < 1:
            raise SettingError("query", f"expected 0 or more and less than 1, found {self.query}")


class Topic(NamedTuple):
    """A topic's task, and the size of the topic's whole graph."""

    task: Task
    entities: int
    """Of the topic's whole graph."""
    triplets: int
    """Of the topic's whole graph."""


# -- topics ---------------------------------------------------------------------------------------------------------


def read_topics(path: Path | str) -> dict[str, str]:
    """The topic of each relation, from a file of two columns, relation and topic."""
    topics = parse_labels(load(path))
    if topics.get("relation") == "topic":
        del topics["relation"]
    for topic in topics.values():
        if not topic or topic.startswith(".") or "/" in topic or "\\" in topic:
            raise DataError(f"{path}: expected a topic that can be the name of a folder, found {topic!r}.")
    return topics


def has_topic(topics: Mapping[str, str]) -> Keep:
    """Keeps the rows whose relation has a topic."""
    known = pl.Series(list(topics), dtype=pl.String)
    return lambda relations: relations.is_in(known.implode()).to_numpy()


def by_topic(raw: KnowledgeGraph, topics: Mapping[str, str]) -> Iterator[tuple[str, KnowledgeGraph]]:
    """The graph of each topic that occurs, by name, over the names of the raw graph."""
    names = sorted({topics[relation] for relation in raw.relations})
    number = {name: i for i, name in enumerate(names)}
    topic_of = np.array([number[topics[relation]] for relation in raw.relations], np.int32)  # [R]
    of_triplet = topic_of[raw.triplets[:, 1]]  # [E]
    for name in names:
        yield name, raw.subset(of_triplet == number[name])


# -- samples --------------------------------------------------------------------------------------------------------


def build_topic(name: str, graph: KnowledgeGraph, size: FireSize, seed: int) -> Topic:
    """A training graph and an inference graph of one topic, each with its own fire."""
    neighbours = distinct_neighbours(graph)
    pairs = []
    for use in ("trans", "ind"):
        burnt = forest_fire(neighbours, size, generator(seed, "fire", name, use))
        pairs.append(split_queries(induced(graph, burnt), size.query, generator(seed, "queries", name, use)))
    (train, valid), (observed, test) = pairs
    entities = int((np.diff(neighbours.offsets) > 0).sum())
    return Topic(Task(name, train=train, valid=valid, observed=observed, test=test), entities, len(graph))


def distinct_neighbours(graph: KnowledgeGraph) -> Ragged:
    """The distinct neighbours of each entity, ascending; including itself if it has a loop."""
    heads, _, tails = graph.triplets.T.astype(np.int64)
    n = max(graph.num_entities, 1)
    keys = np.sort(np.concatenate([heads * n + tails, tails * n + heads]))
    keys = keys[np.diff(keys, prepend=-1) > 0]
    ends, neighbours = np.divmod(keys, n)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=graph.num_entities))])
    return Ragged(offsets, neighbours.astype(np.int32))


def forest_fire(neighbours: Ragged, size: FireSize, random: np.random.Generator) -> np.ndarray:
    """The entities [at most size.nodes] that burn, ascending; all that have a fact if there are no more of them.

    A fire starts at a random unburnt entity. A burning entity sets fire to a geometric number of its unburnt
    neighbours. A fire that dies continues from entities that it saw but did not burn; if there are none, another one
    starts.
    """
    present = np.flatnonzero(np.diff(neighbours.offsets) > 0)
    if len(present) <= size.nodes:
        return present
    burnt = np.zeros(len(neighbours.offsets) - 1, bool)
    spared: deque[int] = deque(maxlen=BACKLOG)
    queue: deque[int] = deque()
    starts = iter(random.permutation(present).tolist())
    count = 0
    while count < size.nodes:
        if not queue:
            queue.extend(spared.popleft() for _ in range(min(RESTART, len(spared))))
        entity = queue.popleft() if queue else next(start for start in starts if not burnt[start])
        count += not burnt[entity]
        burnt[entity] = True
        around = neighbours[entity]
        fresh = around[~burnt[around]]
        spreading = min(int(random.geometric(size.burning)), len(fresh))
        seen = random.choice(fresh, min(spreading + BACKLOG, len(fresh)), replace=False).tolist()
        queue.extend(seen[:spreading])
        spared.extendleft(seen[spreading:])
    return np.flatnonzero(burnt)


def induced(graph: KnowledgeGraph, entities: np.ndarray) -> KnowledgeGraph:
    """The triplets among some entities, with only the names that occur in them."""
    among = np.zeros(graph.num_entities, bool)
    among[entities] = True
    return trimmed(graph.subset(among[graph.triplets[:, 0]] & among[graph.triplets[:, 2]]))


# -- queries --------------------------------------------------------------------------------------------------------


def split_queries(
    graph: KnowledgeGraph, share: float, random: np.random.Generator
) -> tuple[KnowledgeGraph, KnowledgeGraph]:
    """Observed and test triplets; every entity and relation of a test triplet is observed.

    Draws as many triplets as are still needed, puts back those with an entity or relation that would no longer be
    observed, and repeats until the share is reached or no further triplet can be removed.
    """
    target = round(share * graph.num_triplets)
    asked = np.zeros(graph.num_triplets, bool)
    size = target
    while asked.sum() < target:
        # A triplet with the last occurrence of an entity or relation must stay observed.
        free = np.flatnonzero(~asked & (_least_count(graph, ~asked) > 1))
        if not len(free):
            break
        batch = random.choice(free, min(size, target - int(asked.sum()), len(free)), replace=False)
        rest = ~asked
        rest[batch] = False
        good = batch[_least_count(graph, rest)[batch] > 0]
        asked[good] = True
        size = target if len(good) else max(len(batch) // 2, 1)  # a batch of one always succeeds
    return graph.subset(~asked), graph.subset(asked)


def _least_count(graph: KnowledgeGraph, rows: np.ndarray) -> np.ndarray:
    """For each triplet [E], the smallest number of occurrences of its head, tail or relation in `rows`."""
    heads, relations, tails = graph.triplets.T
    loops = rows & (heads == tails)
    of_entity = np.bincount(heads[rows], minlength=graph.num_entities)
    of_entity += np.bincount(tails[rows & ~loops], minlength=graph.num_entities)
    of_relation = np.bincount(relations[rows], minlength=graph.num_relations)
    least: np.ndarray = np.minimum(np.minimum(of_entity[heads], of_entity[tails]), of_relation[relations])
    return least
