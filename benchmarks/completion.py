"""How many proposed facts are right? A tenth of a graph is hidden and looked for among the best 100 and 1,000.

`python -m benchmarks.completion [MODEL [GRAPH ..]]` prints a table: for each graph, how many hidden facts are among the
first 100 and 1,000 by probability and by the model's scores, how many the probabilities promise, and how many one-way
relations are answered backwards. MODEL is a kind of model that needs no training (rulebook), a shipped model, or
`fit:MINUTES` to fit one to each graph; GRAPH may also be a file in the data directory. True facts that are in neither
part count as errors.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from anykg.answers.complete import complete
from anykg.answers.hidden import hide_together
from anykg.answers.table import Answers
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.schema import one_way_relations
from anykg.io.catalog import data_dirs, load_graph
from anykg.models.base import LinkPredictor
from anykg.models.store import load_model

SHARE = 0.1
COUNTS = (100, 1000)
GRAPHS = (
    *("umls", "kinship", "wikitopics:sci"),
    *(f"pretraining/{name}.tsv.gz" for name in ("sequence-ontology", "plant-ontology", "srd5e", "zebrafish-anatomy")),
    *("pretraining/codex-s.tsv.gz", "pretraining/family.tsv.gz", "wikitopics:tax"),
)


def model_for(name: str, graph: KnowledgeGraph) -> LinkPredictor:
    """The model, fitted to the graph if it is called fit:MINUTES."""
    if name.startswith("fit:"):
        from anykg.answers.fit import fit

        return fit(graph, minutes=float(name.removeprefix("fit:")))  # type: ignore[return-value]
    return load_model(name)


def measure(name: str, model_name: str, seed: int = 0) -> dict[str, float]:
    """Figures of one graph."""
    files = [folder / name for folder in data_dirs() if (folder / name).is_file()]
    whole = load_graph(files[0] if files else name)
    rest, hidden = hide_together(whole, SHARE, seed + 1)
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


def row(name: str, figures: dict[str, float]) -> str:
    """A line of the table."""
    cells = [name, f"{figures['hidden']:,.0f}"]
    for count in COUNTS:
        promised = figures[f"promised of {count}"]
        cells += [f"{figures[f'right of {count} by {title}']:.0f}" for title in ("score", "probability")]
        cells.append(f"{promised:.0f}")
    cells.append(f"{figures['backwards by probability']:.0f}")
    return "| " + " | ".join(cells) + " |"


def main(model: str = "anykg-small", *names: str) -> None:
    """Print the table."""
    heads = ["graph", "hidden"]
    for count in COUNTS:
        heads += [f"of {count:,} by score", "by probability", "promised"]
    print("| " + " | ".join([*heads, "backwards"]) + " |\n|---|" + "---:|" * (len(heads)))
    for name in names or GRAPHS:
        print(row(name, measure(name, model)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
