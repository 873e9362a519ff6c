"""One link-prediction task: what is learnt from, what is observed at inference, what is asked."""

from __future__ import annotations

from dataclasses import dataclass

from anykg.graph.graph import KnowledgeGraph


@dataclass(frozen=True)
class Task:
    """Training and inference graphs of a benchmark.

    `train` and `valid` share their vocabularies, and so do `observed` and `test`: their names are those of both files.
    In a transductive task all four do, and `observed` is `train`.
    """

    name: str
    train: KnowledgeGraph
    valid: KnowledgeGraph
    observed: KnowledgeGraph
    test: KnowledgeGraph
