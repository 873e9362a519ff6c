"""Cache calibrations by graph, model, task and budget; those of similar graphs are reused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from anykg.answers.calibrating.calibration import Calibration, from_dict
from anykg.atomic import write_json
from anykg.evaluation.protocol import Target
from anykg.evaluation.reading import budget_of
from anykg.graph import versions
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.models.store import digest_of

SIMILAR = 0.05
"""A graph in which at most this share of the facts differ reuses the calibration of its earlier version."""


def path_of(graph: KnowledgeGraph, model: LinkPredictor, task: str, budget: int | None = None) -> Path:
    """The path of the cached calibration of a model on a graph for a task and a budget."""
    from platformdirs import user_cache_path

    most = budget_of(graph, budget, model)
    read = "" if most is None else f"-{most}"
    name = f"{graph.digest[:16]}-{digest_of(model)[:16]}-{task}{read}.json"
    return Path(user_cache_path("anykg")) / "calibration" / name


class Kept(NamedTuple):
    """A calibration from the user's cache."""

    calibration: Calibration
    differing: int = 0
    """Number of facts in which the graph differs from the earlier version that it was made for."""

    @property
    def note(self) -> str | None:
        """A remark for the user."""
        if not self.differing:
            return None
        return (
            f"calibrated on an earlier version of this graph: {self.differing:,} facts differ; a check "
            "with again=True repeats the calibration"
        )


def kept(graph: KnowledgeGraph, model: LinkPredictor, task: Target, budget: int | None = None) -> Kept | None:
    """The calibration of a model on this graph, or on the most similar graph with few different facts."""
    path = path_of(graph, model, task, budget)
    exact = load(path)
    if exact is not None:
        return Kept(exact)
    ending = path.name.partition("-")[2]
    best: Kept | None = None
    for other in path.parent.glob(f"*-{ending}"):
        stored = versions.load(path.parent / f"{other.name.partition('-')[0]}.npy")
        earlier = None if stored is None else load(other)
        if stored is None or earlier is None:
            continue
        differing = max(versions.difference(graph.derive(versions.sketch_of), stored), 1)
        if differing <= SIMILAR * len(graph) and (best is None or differing < best.differing):
            best = Kept(earlier, differing)
    return best


def save(calibration: Calibration, path: Path, graph: KnowledgeGraph) -> None:
    """Cache a calibration and a sketch of its graph."""
    versions.save(graph.derive(versions.sketch_of), path.parent / f"{graph.digest[:16]}.npy")
    write_json(path, calibration.to_dict())


def load(path: Path) -> Calibration | None:
    """A cached calibration; None if the file is missing or unreadable."""
    try:
        return from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
