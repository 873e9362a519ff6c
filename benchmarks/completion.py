"""How many proposed facts are right? A tenth of a graph is hidden and looked for among the best 100 and 1,000.

`python -m benchmarks.completion MODEL GRAPH ..` prints, for each graph, precision by probability and by the model's
plain scores, how many true facts the probabilities promise, and how many one-way relations are answered backwards.
MODEL is a kind of model that needs no training (rulebook, complex), a shipped model, or `fit:MINUTES` to fit one to
each graph. True facts that are in neither part count as errors.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from anykg.answers.complete import complete
from anykg.answers.table import Answers
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.schema import one_way_relations
from anykg.graph.split import hold_out
from anykg.io.catalog import load_graph
from anykg.models.base import LinkPredictor
from anykg.models.store import load_model

SHARE = 0.1
COUNTS = (100, 1000)


def model_for(name: str, graph: KnowledgeGraph) -> LinkPredictor:
    """The model, fitted to the graph if it is called fit:MINUTES."""
    if name.startswith("fit:"):
        from anykg.answers.fit import fit

        return fit(graph, minutes=float(name.removeprefix("fit:")))  # type: ignore[return-value]
    return load_model(name)


def measure(name: str, model_name: str, seed: int = 0) -> dict[str, float]:
    """Figures of one graph."""
    whole = load_graph(name)
    rest, hidden = hold_out(whole, SHARE, seed, "completion")
    model = model_for(model_name, rest)
    figures: dict[str, float] = {"hidden": len(hidden)}
    for title, calibrated in (("probability", True), ("score", False)):
        started = time.perf_counter()
        found = complete(rest, model=model, count=max(COUNTS), calibrated=calibrated)
        facts = _ids(rest, found)
        right = hidden.contains(facts)
        for count in COUNTS:
            figures[f"right of {count} by {title}"] = int(right[:count].sum())
            if calibrated:
                figures[f"promised of {count}"] = float(found.to_polars()["probability"][:count].sum())
        backwards = rest.contains(facts[:, ::-1]) & rest.derive(one_way_relations)[facts[:, 1]]
        figures[f"backwards by {title}"] = int(backwards.sum())
        figures[f"seconds by {title}"] = time.perf_counter() - started
    return figures


def _ids(graph: KnowledgeGraph, found: Answers) -> np.ndarray:
    frame = found.to_polars()
    vocabularies = (graph.entities, graph.relations, graph.entities)
    columns = ("head", "relation", "tail")
    return np.stack([v.ids(frame[name]) for v, name in zip(vocabularies, columns, strict=True)], axis=1)


if __name__ == "__main__":
    kind, *graphs = sys.argv[1:]
    for graph_name in graphs:
        print(graph_name, flush=True)
        for figure, value in measure(graph_name, kind).items():
            print(f"  {figure}: {value:.4g}", flush=True)
