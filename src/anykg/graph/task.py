"""A link-prediction task: training facts, facts observed at inference, and test facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

from anykg.graph.graph import KnowledgeGraph


@dataclass(frozen=True)
class Task:
    """Training and inference graphs of a benchmark.

    `train` and `valid` share their vocabularies, and so do `observed` and `test`: each vocabulary has the names of both
    files. In a transductive task, all four share them, and `observed` is `train`.
    """

    name: str
    train: KnowledgeGraph
    valid: KnowledgeGraph
    observed: KnowledgeGraph
    test: KnowledgeGraph
    inference_valid: KnowledgeGraph | None = None
    """Validation facts that lie on the inference graph, over its vocabularies: valid.txt of the msg layout."""

    @cached_property
    def known(self) -> KnowledgeGraph:
        """The known facts of the inference graph, which never count as negatives: observed, valid and test."""
        known = self.observed.union(self.test)
        if self.inference_valid is not None:
            known = known.union(self.inference_valid)
        same = self.valid.entities == self.observed.entities and self.valid.relations == self.observed.relations
        return known.union(self.valid) if same else known


def merge_tasks(tasks: Sequence[Task], name: str) -> Task:
    """Merge tasks into one, with entities and relations matched by name.

    Tasks may share facts: validation and test facts that another task trains on or observes are dropped.
    """
    train, valid, observed, test = (
        reduce(KnowledgeGraph.union, (getattr(task, part) for task in tasks))
        for part in ("train", "valid", "observed", "test")
    )
    return Task(
        name,
        train=train,
        valid=valid.subset(~train.contains(valid.triplets)),
        observed=observed,
        test=test.subset(~observed.contains(test.triplets)),
    )
