"""Mining every clause shape: seconds of processor time and memory, by dataset and longest path.

`python -m benchmarks.rules FB15k-237 3 0` mines the training graph to length 3, without shuffled graphs; without
arguments EN-FR to length 3, with 10 of them. The datasets are looked for below $ANYKG_DATA. All cores; compiling is
left out by mining a small graph first.
"""

from __future__ import annotations

import resource
import sys
import time

from anykg.io.catalog import load_graph, load_task
from anykg.rules.mine import mine


def measure(dataset: str, length: int, nulls: int) -> dict[str, float]:
    """Processor seconds, wall seconds and peak GiB of mining a dataset's training graph."""
    mine(load_graph("atlas"), length=length, nulls=1)
    graph = load_task(dataset).train
    processor, wall = time.process_time(), time.perf_counter()
    found = mine(graph, length=length, nulls=nulls)
    return {
        "clauses": len(found),
        "processor seconds": time.process_time() - processor,
        "wall seconds": time.perf_counter() - wall,
        "peak GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


if __name__ == "__main__":
    dataset, longest, shuffled = sys.argv[1:] or ["EN-FR", "3", "10"]
    for name, value in measure(dataset, int(longest), int(shuffled)).items():
        print(f"{name}: {value:.1f}")
