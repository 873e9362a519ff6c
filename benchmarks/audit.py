"""Does an audit find planted errors? 1% of the facts get one end redrawn among entities of the same kind.

A fact that the data set has among its validation or test facts is no error, so it is never planted.
`python -m benchmarks.audit` audits FB15k-237 and EN-FR with such errors and prints the area under the ROC curve, how
many of the 100 most suspicious facts are planted, and the time. `python -m benchmarks.audit EN-FR 2` audits one graph
for so many minutes.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from anykg.answers.audit import audit
from anykg.answers.plausibility import corrupted
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.schema import entity_kinds
from anykg.io.catalog import load_task
from anykg.seeds import generator

GRAPHS = {"FB15k-237": 20.0, "EN-FR": 4.0}
SHARE = 0.01


def spoilt(graph: KnowledgeGraph, known: KnowledgeGraph, share: float, seed: int) -> KnowledgeGraph:
    """The graph with a share of its facts replaced by corrupted ones, none of which is `known`."""
    rng = generator(seed, "spoilt")
    chosen = rng.choice(len(graph), round(share * len(graph)), replace=False)
    false, new = corrupted(known, graph.triplets[chosen], graph.derive(entity_kinds), rng)
    keep = np.ones(len(graph), bool)
    keep[chosen[new]] = False
    return graph.with_triplets(np.concatenate([graph.triplets[keep], false[new]]))


def area(suspicion: np.ndarray, planted: np.ndarray) -> float:
    """Area under the ROC curve; no ties are expected."""
    ranks = np.argsort(np.argsort(suspicion))
    count = int(planted.sum())
    return float((ranks[planted].mean() - (count - 1) / 2) / (len(planted) - count))


def measure(name: str, minutes: float, seed: int = 0) -> dict[str, float]:
    """Figures of one graph."""
    task = load_task(name)
    clean = task.observed
    graph = spoilt(clean, task.known, SHARE, seed)
    planted = ~clean.contains(graph.triplets)
    started = time.perf_counter()
    found = audit(graph, minutes=minutes, seed=seed)
    suspicion = -found.log_odds
    return {
        "facts": len(graph),
        "planted": int(planted.sum()),
        "area under the curve": area(suspicion, planted),
        "planted among the 100 most suspicious": int(planted[np.argsort(-suspicion)[:100]].sum()),
        "wall seconds": time.perf_counter() - started,
    }


if __name__ == "__main__":
    asked = {sys.argv[1]: float(sys.argv[2])} if len(sys.argv) > 2 else GRAPHS
    for graph_name, budget in asked.items():
        print(graph_name)
        for figure, value in measure(graph_name, budget).items():
            print(f"  {figure}: {value:.4g}")
