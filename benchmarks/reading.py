"""Reading a million triplets, against polars reading the same file into three categorical columns."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from anykg.io.read import read_graph

TRIPLETS = 1_000_000
ENTITIES = 100_000
RELATIONS = 200
REPEATS = 5


def measure() -> dict[str, float]:
    """Seconds of each, the best of several taken in turns, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.tsv"
        write_example(path)
        pairs = [(seconds(lambda: read_polars(path)), seconds(lambda: read_graph(path))) for _ in range(REPEATS)]
    polars, ours = (min(times) for times in zip(*pairs, strict=True))
    return {"polars_seconds": polars, "anykg_seconds": ours, "ratio": ours / polars}


def write_example(path: Path) -> None:
    """Triplets with skewed degrees and names as long as IRIs."""
    draw = np.random.default_rng(0)
    heads = draw.zipf(1.3, TRIPLETS) % ENTITIES
    relations = draw.zipf(1.5, TRIPLETS) % RELATIONS
    tails = draw.integers(0, ENTITIES, TRIPLETS)
    table = pl.DataFrame({"h": heads, "r": relations, "t": tails}).select(
        pl.format("http://example.org/entity/Q{}", "h"),
        pl.format("relation_{}", "r"),
        pl.format("http://example.org/entity/Q{}", "t").alias("t_name"),
    )
    table.write_csv(path, separator="\t", include_header=False)


def read_polars(path: Path) -> pl.DataFrame:
    """What the ratio is taken against."""
    schema = dict.fromkeys(("head", "relation", "tail"), pl.Categorical)
    return pl.read_csv(path, separator="\t", has_header=False, schema=schema)


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    result = measure()
    print(f"polars read_csv, categorical   {result['polars_seconds']:.3f} s")
    print(f"anykg read_graph               {result['anykg_seconds']:.3f} s")
    print(f"ratio                          {result['ratio']:.2f} (at most 3)")


if __name__ == "__main__":
    main()
