"""Measure the leakage of a split: what training and inference share, and test facts revealed by inverse relations.

Relation b is an inverse duplicate of relation a if most pairs of a, swapped, are pairs of b. If such a pair is
observed, it reveals a test fact. A symmetric relation is its own inverse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.task import Task
from anykg.graph.vocabulary import Vocabulary

MOST = 0.8
"""Minimum share of a relation's pairs that its inverse has swapped."""


class Inverse(NamedTuple):
    """A relation and its inverse duplicate."""

    relation: str
    inverse: str
    share: float
    """Of the relation's pairs, those the inverse has too."""


@dataclass(frozen=True)
class Leakage:
    """What is shared between the parts of a task."""

    shared_entities: int
    """Entities with facts in the training graph and in the inference graph."""
    shared_relations: int
    shared_triplets: int
    unobserved_entities: int
    """Test entities without an observed fact."""
    unobserved_relations: int
    asked: int
    asked_with_fact_back: int
    """Test triplets whose tail has an observed fact of any relation to the head."""
    asked_with_inverse: int
    """Test triplets that are observed in reverse, by an inverse duplicate of their relation."""
    inverses: tuple[Inverse, ...]
    """Inverse duplicates in the inference graph."""


def leakage_of(task: Task) -> Leakage:
    """Compare training (train and valid) with inference (observed and test), and test with observed, by name."""
    learnt, asked = task.train.union(task.valid), task.observed.union(task.test)
    entities = [_present(graph.triplets[:, [0, 2]], graph.entities) for graph in (learnt, asked)]
    relations = [_present(graph.triplets[:, 1], graph.relations) for graph in (learnt, asked)]
    same = task.train is task.observed
    observed, test = task.observed, task.test
    inverses = inverse_duplicates(asked)
    back = observed.relations_between(test.triplets[:, 2], test.triplets[:, 0])
    turned = np.zeros((asked.num_relations, asked.num_relations), bool)
    for relation, inverse, _ in inverses:
        turned[asked.relations.index(relation), asked.relations.index(inverse)] = True
    through = np.unique(back.rows[turned[test.triplets[back.rows, 1], back.values]])
    return Leakage(
        shared_entities=len(entities[0] & entities[1]),
        shared_relations=len(relations[0] & relations[1]),
        shared_triplets=0 if same else _shared_triplets(learnt, asked),
        unobserved_entities=len(np.setdiff1d(test.triplets[:, [0, 2]], observed.triplets[:, [0, 2]])),
        unobserved_relations=len(np.setdiff1d(test.triplets[:, 1], observed.triplets[:, 1])),
        asked=len(test),
        asked_with_fact_back=int((np.diff(back.offsets) > 0).sum()),
        asked_with_inverse=len(through),
        inverses=tuple(inverses),
    )


def inverse_duplicates(graph: KnowledgeGraph) -> list[Inverse]:
    """The relations with an inverse duplicate, possibly themselves; loops are left out."""
    heads, relations, tails = graph.triplets[graph.triplets[:, 0] != graph.triplets[:, 2]].T.astype(np.int64)
    n = max(graph.num_entities, 1)
    pairs, inverse = np.unique(np.concatenate([heads * n + tails, tails * n + heads]), return_inverse=True)
    there, back = np.split(inverse, 2)
    shape = (len(pairs), graph.num_relations)
    ones = np.ones(len(heads), np.int64)
    both = sp.csr_array((ones, (there, relations)), shape=shape).T @ sp.csr_array(
        (ones, (back, relations)), shape=shape
    )
    counts = np.bincount(relations, minlength=graph.num_relations)
    common = both.tocoo()  # [R, R] pairs of the row's relation that the column's has swapped
    rows, columns = common.coords
    share = common.data / counts[rows]
    kept = np.flatnonzero(share >= MOST)
    return [
        Inverse(graph.relations[rows[i]], graph.relations[columns[i]], round(float(share[i]), 4))
        for i in kept[np.lexsort((columns[kept], rows[kept]))]
    ]


def _present(ids: np.ndarray, vocabulary: Vocabulary) -> set[str]:
    """The names that occur."""
    return set(vocabulary.names.gather(np.unique(ids)).to_list())


def _shared_triplets(one: KnowledgeGraph, other: KnowledgeGraph) -> int:
    return len(one) + len(other) - len(one.union(other))
