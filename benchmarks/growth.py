"""How Ultra's full ranking of one query grows with the graph: seconds and memory, row by row.

Each row is a fresh process: a random graph with skewed degrees, ten triplets an entity, edges with inverses. `prepare`
sorts the edges and derives the relation graph, once per graph; `query` is one (head, relation, ?) scored against all
entities, relation vectors made before. The last row is 1,000,000 entities and 10,000,000 triplets; `peak` is all the
process ever held.

    python benchmarks/growth.py                     # the table
    python benchmarks/growth.py 1000000             # up to so many triplets
    python benchmarks/growth.py 10000000 growth.svg # and a plot
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.models.nbf.ultra import Ultra
from anykg.seeds import generator

TRIPLETS = (5_000, 20_000, 50_000, 200_000, 500_000, 2_000_000, 10_000_000)
RELATIONS = 200


class Row(NamedTuple):
    """One graph."""

    triplets: int
    edges: int
    prepare: float
    query: float
    peak_gib: float

    @property
    def nanoseconds_per_edge(self) -> float:
        return self.query / self.edges * 1e9


def measure(largest: int = 500_000) -> dict[str, float]:
    """Seconds of a query and its nanoseconds an edge, by number of triplets."""
    rows = [_measured(count) for count in TRIPLETS if count <= largest]
    seconds = {f"query_seconds_{row.triplets}": row.query for row in rows}
    return seconds | {f"nanoseconds_per_edge_{row.triplets}": row.nanoseconds_per_edge for row in rows}


def _measured(count: int) -> Row:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measured_here, (count,))


@torch.no_grad()
def _measured_here(count: int) -> Row:
    torch.manual_seed(0)
    model = Ultra().eval()
    _ask(model, _graph(1_000))  # load what is compiled
    graph = _graph(count)
    start = time.perf_counter()
    encoded = model.encode(graph)
    _ = encoded.entities.by_receiver, encoded.entities.by_sender
    prepared = time.perf_counter()
    model.score_triplets(encoded, torch.zeros(1, 3, dtype=torch.long))  # makes the relation vectors
    times = []
    for _ in range(3):
        start_query = time.perf_counter()
        _ask(model, graph, encoded)
        times.append(time.perf_counter() - start_query)
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = float(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 2**20
    return Row(graph.num_triplets, 2 * graph.num_triplets, prepared - start, min(times), peak)


def _ask(model: Ultra, graph: KnowledgeGraph, encoded: object = None) -> None:
    scores = model.score_tails(encoded or model.encode(graph), torch.zeros(1, dtype=torch.long), torch.tensor([0]))
    assert scores.shape == (1, graph.num_entities)


def _graph(count: int) -> KnowledgeGraph:
    """Facts between entities of skewed degree; a relation joins two ranges of entities, as types would have it."""
    entities = max(count // 10, 10)
    random = generator(0, "growth", count)
    relations = random.integers(RELATIONS, size=count)
    ends = []
    for side in range(2):
        first = generator(0, "range", side).integers(entities, size=RELATIONS)[relations]
        skewed = (random.random(count) ** 3 * entities / 10).astype(np.int64)
        ends.append((first + skewed) % entities)
    triplets = np.stack([ends[0], relations, ends[1]], axis=1)
    names = (Vocabulary("entity", map(str, range(entities))), Vocabulary("relation", map(str, range(RELATIONS))))
    return KnowledgeGraph(triplets, *names)


def main() -> None:
    """Print a row as soon as it is there; then plot them."""
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else TRIPLETS[-1]
    print(f"{'triplets':>10} {'edges':>10} {'prepare s':>10} {'query s':>9} {'ns/edge':>8} {'peak GiB':>9}")
    rows = []
    for count in TRIPLETS:
        if count <= largest:
            row = _measured(count)
            cells = f"{row.prepare:10.2f} {row.query:9.3f} {row.nanoseconds_per_edge:8.1f} {row.peak_gib:9.2f}"
            print(f"{row.triplets:10d} {row.edges:10d} {cells}", flush=True)
            rows.append(row)
    if len(sys.argv) > 2:
        _plot(rows, Path(sys.argv[2]))


def _plot(rows: list[Row], path: Path) -> None:
    """Seconds of a query over edges, both logarithmic, beside a line through the last row that is exactly linear."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    edges = [row.edges for row in rows]
    axes.loglog(edges, [row.query for row in rows], "o-", label="one full ranking")
    axes.loglog(edges, [rows[-1].query * count / edges[-1] for count in edges], ":", label="linear in the edges")
    axes.set_xlabel("edges, inverses included")
    axes.set_ylabel("seconds")
    axes.legend()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
