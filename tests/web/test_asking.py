"""When the page states probabilities."""

from __future__ import annotations

import pytest

from anykg.models.floors import Popularity
from anykg.web import asking
from graphs import named


def test_probabilities_of_relations_need_both_calibrations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a request for one would wait for a check that nobody started."""
    graph, kept = named("a knows b"), {"relation"}
    monkeypatch.setattr(asking, "kept_calibration", lambda _, __, task: task if task in kept else None)
    assert not asking.has_probabilities(graph, Popularity(), "relation")
    kept.add("node")
    assert asking.has_probabilities(graph, Popularity(), "relation")
    kept.remove("relation")
    assert asking.has_probabilities(graph, Popularity(), "tail")
    assert not asking.has_probabilities(graph, Popularity(), "relation")
