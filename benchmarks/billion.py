"""Arithmetic for a billion facts, from figures of a graph that fits here.

`python -m benchmarks.billion [FACTS]` generates a graph of FACTS facts (1,000,000), measures what a fact and an entity
cost in a packed file and what a question costs, exact and within a budget, and multiplies. Times are processor seconds
of one thread. docs/scaling.md explains the lines and says which of them break.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from anykg.evaluation.reading import BUDGET, best_answers
from anykg.graph.graph import KnowledgeGraph
from anykg.io.pack import open_pack, write_pack
from anykg.models.base import LinkPredictor
from anykg.models.folders import FOUNDATION
from anykg.models.nbf.relation_graph import to_arrays
from anykg.models.store import load_model
from anykg.threads import threads
from benchmarks.generated import generated

BILLION = 1_000_000_000
QUESTIONS = 4


def bytes_of(graph: KnowledgeGraph, path: Path) -> dict[str, float]:
    """Bytes a fact, and bytes an entity for its name, in a packed graph with sorted edges."""
    write_pack(graph, path, arrays=to_arrays(graph))
    _, header = open_pack(path)
    sizes = {
        row["name"]: int(np.prod(row["shape"], dtype=np.int64)) * np.dtype(row["dtype"]).itemsize
        for row in header["sections"]
    }
    names = sum(size for name, size in sizes.items() if name.startswith("entities"))
    lookups = sum(sizes[name] for name in ("triplets", "keys", "inverse_keys", "pair_keys"))
    edges = sum(size for name, size in sizes.items() if name.startswith("array.")) - sizes.get(
        "array.nbf.relation_graph", 0
    )
    return {"facts": lookups / len(graph), "edges": edges / len(graph), "name": names / graph.num_entities}


def seconds_of(model: LinkPredictor, graph: KnowledgeGraph, budget: int) -> float:
    """Processor seconds of a question, after the first."""
    rows = np.linspace(0, len(graph) - 1, QUESTIONS + 1).astype(int)
    questions = graph.triplets[rows].astype(np.int64)
    questions[:, 2] = -1
    with threads(torch=1, kernels=1):
        best_answers(model, graph, questions[:1], budget=budget)
        started = time.process_time()
        for question in questions[1:]:
            best_answers(model, graph, question[None], budget=budget)
        return (time.process_time() - started) / QUESTIONS


def main() -> None:
    facts = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    graph, model = generated(facts).graph, load_model(FOUNDATION)
    with tempfile.TemporaryDirectory() as folder:
        size = bytes_of(graph, Path(folder) / "graph.anykg")
    exact, near = seconds_of(model, graph, 0), seconds_of(model, graph, min(BUDGET, len(graph) // 5))
    entities = BILLION * graph.num_entities / len(graph)
    width = model.config.width
    states = 4 * width
    lines = [
        ("facts", f"{len(graph):,}", f"{BILLION:,}"),
        ("entities", f"{graph.num_entities:,}", f"{entities:,.0f}"),
        ("triplets and lookups, bytes a fact", f"{size['facts']:.1f}", f"{size['facts'] * BILLION / 1e9:.0f} GB"),
        ("sorted edges, bytes a fact", f"{size['edges']:.1f}", f"{size['edges'] * BILLION / 1e9:.0f} GB"),
        ("names, bytes an entity", f"{size['name']:.1f}", f"{size['name'] * entities / 1e9:.0f} GB"),
        (f"states of all entities, {width} floats, bytes", f"{states}", f"{states * entities / 1e9:.0f} GB a layer"),
        ("exact question, processor seconds", f"{exact:.2f}", f"{exact * BILLION / len(graph):,.0f} s"),
        (f"question within {min(BUDGET, len(graph) // 5):,} facts, the same", f"{near:.2f}", f"{near:.2f} s or more"),
        ("key of a fact: log2(N x N x R)", _bits(graph.num_entities, graph.num_relations), _bits(entities, 800)),
        ("rows of edges: log2(2 E)", f"{np.log2(2 * len(graph)):.1f}", f"{np.log2(2 * BILLION):.1f}"),
    ]
    print("| | here | a billion facts |\n|---|---|---|")
    for line in lines:
        print(f"| {' | '.join(line)} |")


def _bits(entities: float, relations: int) -> str:
    return f"{2 * np.log2(entities) + np.log2(relations):.1f}"


if __name__ == "__main__":
    main()
