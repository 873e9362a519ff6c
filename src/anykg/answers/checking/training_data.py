"""Detect whether a model was trained on a graph, from its description: digests, sketches of facts, and names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from anykg.errors import InputError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.sketch import share_in
from anykg.models.base import LinkPredictor
from anykg.models.folders import folder_of, read_description

LARGE = 0.1
"""Share of the facts above which they count as part of the training data."""


def trained_on(model: LinkPredictor, graph: KnowledgeGraph, name: str) -> str | None:
    """A warning if the graph was, or may have been, part of the model's training data; None otherwise."""
    for trained in _runs(_description(model)):
        names, digests, facts = (list(trained.get(key, ())) for key in ("datasets", "digests", "facts"))
        for index, called in enumerate(names):
            if index < len(digests) and graph.digest in digests[index]:
                return f"the model was trained on this very graph ({called}), so the figures are too optimistic."
            share = share_in(graph, facts[index]) if index < len(facts) else None
            if share is not None and share >= LARGE:
                return (
                    f"the model was trained on {share:.0%} of these facts (in {called}), so the figures are too "
                    "optimistic."
                )
        if not facts and name.casefold() in {called.casefold() for called in names}:
            return (
                f"the model was trained on a dataset called {name}, possibly on these facts, which would make the "
                "figures too optimistic."
            )
    return None


def _description(model: LinkPredictor) -> dict[str, Any]:
    try:
        return read_description(folder_of(model.loaded_as)) if model.loaded_as else {}
    except InputError:  # made in memory, or its folder was removed
        return {}


def _runs(described: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The training runs of a model: its own, or those of the models that it averages."""
    trained = described.get("trained", {})
    parts = [trained, *trained.get("average_of", ())] if isinstance(trained, Mapping) else []
    yield from (part for part in parts if isinstance(part, Mapping))
