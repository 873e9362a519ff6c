"""Test whether an audit finds planted errors: 1% of the facts get one end redrawn among entities of the same kind.

A validation or test fact of the benchmark is not an error, so it is never planted.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from anykg.answers.audit import audit
from anykg.answers.auditing.plausibility import corrupted
from anykg.benchmarks.cells import Cell
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.schema import entity_kinds
from anykg.io.catalog import load_task
from anykg.seeds import generator

GRAPHS = {"EN-FR": 6.0, "FB15k-237": 20.0}
"""Minutes for each graph."""
SHARE = 0.01
SUSPECTS = 100


def measure(name: str, minutes: float, data_dir: Path | None = None) -> dict[str, Any]:
    """Figures of one graph, audited for some minutes."""
    task = load_task(name, data_dir)
    clean = task.observed
    graph = spoilt(clean, task.known, SHARE, seed=0)
    planted = ~clean.contains(graph.triplets)
    started = time.monotonic()
    suspicion = -audit(graph, minutes=minutes, again=True).log_odds
    return {
        "seconds": time.monotonic() - started,
        "facts": len(graph),
        "planted": int(planted.sum()),
        "area": area(suspicion, planted),
        "found": int(planted[np.argsort(-suspicion)[:SUSPECTS]].sum()),
    }


def spoilt(graph: KnowledgeGraph, known: KnowledgeGraph, share: float, seed: int) -> KnowledgeGraph:
    """The graph with a share of its facts replaced by corrupted ones, none of which is `known`."""
    rng = generator(seed, "spoilt")
    chosen = rng.choice(len(graph), round(share * len(graph)), replace=False)
    false, new = corrupted(known, graph.triplets[chosen], graph.derive(entity_kinds), rng)
    keep = np.ones(len(graph), bool)
    keep[chosen[new]] = False
    return graph.with_triplets(np.concatenate([graph.triplets[keep], false[new]]))


def area(suspicion: np.ndarray, planted: np.ndarray) -> float:
    """Area under the ROC curve; no ties are expected.

    >>> area(np.array([0.9, 0.1, 0.8, 0.2]), np.array([True, False, False, False]))
    1.0
    """
    ranks = np.argsort(np.argsort(suspicion))
    count = int(planted.sum())
    return float((ranks[planted].mean() - (count - 1) / 2) / (len(planted) - count))


def lines(cells: list[Cell]) -> list[str]:
    """A table with a row for each graph."""
    return [
        *("", "## Audit", ""),
        f"{SHARE:.0%} of the facts are replaced by corrupted ones, one end redrawn among entities of the same kind: "
        f"area under the ROC curve of `audit`, and how many of the {SUSPECTS} most suspicious facts are planted.",
        *(
            "",
            f"| graph | facts | planted | minutes | area under the curve | of the first {SUSPECTS} |",
            "|---|" + "---:|" * 5,
        ),
        *(
            f"| {cell['graph']} | {cell['facts']:,} | {cell['planted']:,} | {cell['seconds'] / 60:.1f} | "
            f"{cell['area']:.3f} | {cell['found']} |"
            for cell in cells
        ),
    ]
