"""The functions run by jobs: from (graph, model, settings, folder, progress) to the content of the result file."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anykg
from anykg.answers.results import GraphInfo
from anykg.graph.graph import KnowledgeGraph
from anykg.progress import Progress

LongWork = Callable[[KnowledgeGraph, str, dict[str, Any], Path, Progress], dict[str, Any]]


def _check(graph: KnowledgeGraph, model: str, settings: dict[str, Any], _: Path, progress: Progress) -> dict[str, Any]:
    accepted = accepted_by(anykg.check, settings)
    result: dict[str, Any] = anykg.check(graph, model=model, again=True, progress=progress, **accepted).to_dict()
    return result


def _complete(
    graph: KnowledgeGraph, model: str, settings: dict[str, Any], folder: Path, progress: Progress
) -> dict[str, Any]:
    accepted = accepted_by(anykg.complete, settings)
    result: dict[str, Any] = anykg.complete(
        graph, model=model, state=folder / "state.npz", progress=progress, **accepted
    ).to_dict()
    return result


def _audit(graph: KnowledgeGraph, model: str, settings: dict[str, Any], _: Path, progress: Progress) -> dict[str, Any]:
    del model  # an audit fits its own models
    result: dict[str, Any] = anykg.audit(graph, progress=progress, **settings).to_dict()
    return result


def _fit(graph: KnowledgeGraph, model: str, settings: dict[str, Any], _: Path, progress: Progress) -> dict[str, Any]:
    del model  # the foundation model is the shipped one: a fitted model is not fitted again
    fitted = anykg.fit(graph, progress=progress, **accepted_by(anykg.fit, settings))
    table = [dict(row) for row in fitted.config.table]
    by_name = {row["component"]: row for row in table}
    parts = {name: row["mrr"] for name, row in by_name.items() if name != "mixed"}
    sentence = "Fitted."
    if "mixed" in by_name and parts:
        after = by_name["mixed"]["mrr"]
        best = max(parts, key=lambda name: parts[name])
        sentence = (
            f"On hidden facts of this graph the mean reciprocal rank is {after:.2f}; of the best part alone, {best}, "
            f"{parts[best]:.2f}."
        )
    return {
        "command": "fit",
        "version": anykg.__version__,
        "graph": asdict(GraphInfo.of(graph, graph.name)),
        "model": Path(settings["out"]).name,
        "summary": {"sentence": sentence, "out": settings["out"]},
        "rows": table,
        "warnings": [],
    }


def accepted_by(function: Callable[..., Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that a function takes; others are left out."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in settings.items() if name in parameters}


LONG_WORK: dict[str, LongWork] = {"check": _check, "complete": _complete, "audit": _audit, "fit": _fit}
