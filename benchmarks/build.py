"""How a WikiTopics-like build grows with the raw dump: seconds and memory of `anykg data build wikitopics`.

A synthetic dump with four triplets an entity, hubs among the tails, and 330 relations in 11 topics. An argument is the
number of triplets: `python -m benchmarks.build 20000000`. The build runs in its own process; `peak` is all it held.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

TRIPLETS = 2_000_000
RELATIONS = 330
TOPICS = 11
PART = 1_000_000


def write_example(path: Path, topics: Path, triplets: int) -> None:
    draw, entities = np.random.default_rng(0), triplets // 4
    with path.open("wb") as file:
        for start in range(0, triplets, PART):
            count = min(PART, triplets - start)
            heads = (entities * draw.random(count)).astype(np.int64)
            relations = (RELATIONS * draw.random(count) ** 1.5).astype(np.int64)
            tails = (entities * draw.random(count) ** 3).astype(np.int64)
            columns = {"h": heads, "r": relations, "t": tails}
            names = [pl.format(f"{letter}{{}}", name).alias(name) for letter, name in zip("QPQ", "hrt", strict=True)]
            pl.DataFrame(columns).select(names).write_csv(file, separator="\t", include_header=False)
    topics.write_text("".join(f"P{r}\ttopic{r % TOPICS}\n" for r in range(RELATIONS)))


def measure(triplets: int) -> tuple[float, float]:
    """Seconds and peak GiB of a build."""
    with tempfile.TemporaryDirectory() as folder:
        raw, topics = Path(folder) / "raw.tsv", Path(folder) / "topics.tsv"
        write_example(raw, topics, triplets)
        command = ["data", "build", "wikitopics", raw, "--topics", topics, "--out", Path(folder) / "out"]
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "anykg", *map(str, command)], check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


def main() -> None:
    triplets = int(sys.argv[1]) if len(sys.argv) == 2 and sys.argv[1].isdigit() else TRIPLETS
    seconds, peak = measure(triplets)
    print(f"{triplets:,} triplets, {TOPICS} topics   {seconds:.1f} s   peak {peak:.2f} GiB")


if __name__ == "__main__":
    main()
