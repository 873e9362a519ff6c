"""Describe a built task, for its `build.json`."""

from __future__ import annotations

from typing import Any

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.task import Task


def described(task: Task) -> dict[str, Any]:
    """Sizes and digests of a task's four parts."""
    parts = {"train": task.train, "valid": task.valid, "observe": task.observed, "test": task.test}
    return {"name": task.name} | {name: _described(graph) for name, graph in parts.items()}


def _described(graph: KnowledgeGraph) -> dict[str, Any]:
    return {
        "entities": graph.num_entities,
        "relations": graph.num_relations,
        "triplets": len(graph),
        "digest": graph.digest,
    }
