"""Measure how many proposed facts are right: the benchmark's hidden facts among the best 100 and 1,000 proposals.

Proposals are ranked by probability, as in `anykg complete`, and by the model's scores alone. True facts that the
benchmark does not have count as errors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from anykg.answers.complete import complete
from anykg.answers.table import Answers
from anykg.benchmarks.cells import Cell
from anykg.graph.graph import COLUMNS, KnowledgeGraph
from anykg.graph.schema import one_way_relations
from anykg.io.catalog import load_task
from anykg.models.base import LinkPredictor
from anykg.models.folders import DEFAULT_MODEL
from anykg.models.store import load_model

COUNTS = (100, 1000)
NAMES = (
    *("EN-FR", "DE-EN", "DB-WD", "DB-YG", "YG-DB"),
    *(f"wikitopics:{topic}" for topic in ("art", "award", "edu", "health")),
)
"""None of these graphs was used to develop the probabilities of proposals."""
GRAPHS = dict.fromkeys(NAMES, 0.0)


def measure(name: str, minutes: float, data_dir: Path | None = None) -> dict[str, Any]:
    """Figures of one graph, with the default model."""
    task = load_task(name, data_dir)
    return right_proposals(load_model(DEFAULT_MODEL), task.observed, task.known)


def right_proposals(model: LinkPredictor, graph: KnowledgeGraph, whole: KnowledgeGraph) -> dict[str, Any]:
    """The number of proposals for a graph that are facts of the whole, and the number expected by probability."""
    figures: dict[str, Any] = {"hidden": len(whole) - len(graph)}
    for title, calibrated in (("probability", True), ("score", False)):
        found = complete(graph, model=model, count=max(COUNTS), calibrated=calibrated)
        facts = _ids(graph, found)
        right = whole.contains(facts)
        figures[f"right_by_{title}"] = [int(right[:count].sum()) for count in COUNTS]
        if calibrated:
            stated = found.to_polars()["probability"].to_numpy()
            figures["promised"] = [round(float(stated[:count].sum()), 1) for count in COUNTS]
            turned = graph.contains(facts[:, ::-1]) & graph.derive(one_way_relations)[facts[:, 1]]
            figures["backwards"] = int(turned.sum())
    return figures


def _ids(graph: KnowledgeGraph, found: Answers) -> np.ndarray:
    frame = found.to_polars()
    vocabularies = (graph.entities, graph.relations, graph.entities)
    return np.stack([v.ids(frame[name]) for v, name in zip(vocabularies, COLUMNS, strict=True)], axis=1)


def lines(cells: list[Cell]) -> list[str]:
    """A table with a row for each graph."""
    heads = ["graph", "hidden"]
    for count in COUNTS:
        heads += [f"of {count:,} by score", "by probability", "sum of probabilities"]
    rows = []
    for cell in cells:
        shown = [cell["graph"], f"{cell['hidden']:,}"]
        for index in range(len(COUNTS)):
            shown += [str(cell[f"right_by_{title}"][index]) for title in ("score", "probability")]
            shown.append(f"{cell['promised'][index]:.0f}")
        rows.append([*shown, str(cell["backwards"])])
    return [
        *("", "## Proposals", ""),
        f"Of the facts that `complete` proposes with {DEFAULT_MODEL}, how many are hidden facts of the benchmark: in "
        "the order of its scores, in that of its probabilities, and the sum of the probabilities. Backwards: "
        "known facts of one-way relations that are proposed the other way round.",
        *("", f"| {' | '.join([*heads, 'backwards'])} |", "|---|" + "---:|" * len(heads)),
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
