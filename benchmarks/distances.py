"""Shortest distances: all pairs against scipy in the same run, then the uses that matter.

Times are the best of several, in seconds. The graph is the training graph of EN-FR if ANYKG_DATA names the folder of
the benchmarks, else a random one of the same size.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import scipy.sparse as sp

from anykg.graph.bfs import multi_source_bfs
from anykg.graph.distances import adjacency, triplet_distances
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.seeds import generator


def measure() -> dict[str, float]:
    """Seconds by task, and how many times faster than scipy all pairs are."""
    graph = _graph()
    edges = adjacency(graph, "out")
    everyone = np.arange(graph.num_entities)
    matrix = sp.csr_array((np.ones(len(edges.neighbours)), edges.neighbours, edges.offsets))
    matrix.resize(graph.num_entities, graph.num_entities)
    scipy_seconds = _best(lambda: sp.csgraph.shortest_path(matrix, unweighted=True), repeats=3)
    ours = _best(lambda: multi_source_bfs(edges.offsets, edges.neighbours, everyone), repeats=20)

    random = generator(0, "distances")
    positives = random.permutation(graph.triplets)[:200]
    corrupted = positives.repeat(4, axis=0)
    corrupted[:, 2] = random.integers(graph.num_entities, size=len(corrupted))
    batch = np.concatenate([positives, corrupted])  # [1000, 3]
    candidates = random.permutation(graph.triplets)[:2500].repeat(51, axis=0)
    candidates[:, 2] = random.integers(graph.num_entities, size=len(candidates))
    facts = graph.triplets

    def fresh() -> KnowledgeGraph:
        copy = graph.with_triplets(graph.triplets)
        triplet_distances(copy, graph.triplets[:0], directed=True, leave_out="triplet")
        triplet_distances(copy, graph.triplets[:0], directed=False, leave_out="pair")
        return copy

    copies = [fresh() for _ in range(3)]
    return {
        "all pairs, scipy": scipy_seconds,
        "all pairs": ours,
        "all pairs, times faster than scipy": scipy_seconds / ours,
        "detours of all facts, directed": min(
            _once(lambda c=c: triplet_distances(c, facts, directed=True, leave_out="triplet")) for c in copies
        ),
        "detours of all facts, undirected, limit 3": min(
            _once(lambda c=c: triplet_distances(c, facts, directed=False, leave_out="pair", limit=3)) for c in copies
        ),
        "batch of 1,000, directed": _best(
            lambda: triplet_distances(copies[0], batch, directed=True, leave_out="triplet"), repeats=50
        ),
        "batch of 1,000, undirected, limit 3": _best(
            lambda: triplet_distances(copies[0], batch, directed=False, leave_out="pair", limit=3), repeats=50
        ),
        "2,500 x 51 candidates, directed": _best(
            lambda: triplet_distances(copies[0], candidates, directed=True, leave_out="triplet"), repeats=5
        ),
    }


def _graph() -> KnowledgeGraph:
    folder = os.environ.get("ANYKG_DATA")
    path = Path(folder or ".") / "PediaTypes" / "EN2FR-15K-V2-trans" / "train.txt"
    if folder and path.exists():
        return KnowledgeGraph.from_polars(pl.read_csv(path, separator=" ", has_header=False, infer_schema=False))
    print("ANYKG_DATA does not lead to EN-FR: a random graph of its size stands in.")
    random = generator(0, "stand-in")
    popular = 1 / (1 + np.arange(4962.0))
    ends = random.choice(4962, size=(2, 25_000), p=popular / popular.sum())
    triplets = np.stack([ends[0], random.integers(100, size=25_000), ends[1]], axis=1)
    return KnowledgeGraph(
        triplets, Vocabulary("entity", map(str, range(4962))), Vocabulary("relation", map(str, range(100)))
    )


def _once(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _best(run: Callable[[], object], repeats: int = 5) -> float:
    run()
    return min(_once(run) for _ in range(repeats))


def main() -> None:
    for name, value in measure().items():
        print(f"{name:45s} {value:12.6f}")


if __name__ == "__main__":
    main()
