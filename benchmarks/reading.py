"""Reading a million triplets: TSV against polars reading categoricals, N-Triples against pyoxigraph parsing alone."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from anykg.io.pack import write_pack
from anykg.io.read import read_graph

TRIPLETS = 1_000_000
ENTITIES = 100_000
RELATIONS = 200
REPEATS = 5


def measure() -> dict[str, float]:
    """Seconds of each, the best of several taken in turns, and the ratios."""
    with tempfile.TemporaryDirectory() as folder:
        table, lines = Path(folder) / "graph.tsv", Path(folder) / "graph.nt"
        write_example(table)
        write_ntriples(table, lines)
        read_graph(table, cache=False)  # compiles
        polars, ours = best(lambda: read_polars(table), lambda: read_graph(table, cache=False), REPEATS)
        oxigraph, ntriples = best(lambda: parse_oxigraph(lines), lambda: read_graph(lines, cache=False), REPEATS - 2)
        packed = Path(folder) / "graph.anykg"
        write_pack(read_graph(table, cache=False), packed)
        opened = min(seconds(lambda: read_graph(packed)) for _ in range(REPEATS))
    return {
        "polars_seconds": polars,
        "anykg_seconds": ours,
        "ratio": ours / polars,
        "packed_seconds": opened,
        "pyoxigraph_seconds": oxigraph,
        "ntriples_seconds": ntriples,
        "ntriples_ratio": ntriples / oxigraph,
    }


def best(first: Callable[[], object], second: Callable[[], object], repeats: int) -> tuple[float, float]:
    """The least seconds of each, run in turns."""
    pairs = [(seconds(first), seconds(second)) for _ in range(repeats)]
    return min(a for a, _ in pairs), min(b for _, b in pairs)


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


def write_ntriples(table: Path, path: Path) -> None:
    """The same triplets as N-Triples."""
    frame = pl.read_csv(table, separator="\t", has_header=False, new_columns=["h", "r", "t"])
    lines = frame.select(pl.format("<{}> <http://example.org/{}> <{}> .", "h", "r", "t"))
    lines.write_csv(path, include_header=False, quote_style="never")


def read_polars(path: Path) -> pl.DataFrame:
    """What the ratio of TSV is taken against."""
    schema = dict.fromkeys(("head", "relation", "tail"), pl.Categorical)
    return pl.read_csv(path, separator="\t", has_header=False, schema=schema)


def parse_oxigraph(path: Path) -> int:
    """What the ratio of N-Triples is taken against."""
    import pyoxigraph

    return sum(1 for _ in pyoxigraph.parse(path=path, format=pyoxigraph.RdfFormat.N_TRIPLES))


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    result = measure()
    print(f"polars read_csv, categorical   {result['polars_seconds']:.3f} s")
    print(f"anykg read_graph, TSV          {result['anykg_seconds']:.3f} s")
    print(f"ratio                          {result['ratio']:.2f} (at most 2.5)")
    print(f"anykg read_graph, packed       {result['packed_seconds']:.4f} s")
    print(f"pyoxigraph, N-Triples          {result['pyoxigraph_seconds']:.3f} s")
    print(f"anykg read_graph, N-Triples    {result['ntriples_seconds']:.3f} s")
    print(f"ratio                          {result['ntriples_ratio']:.2f} (at most 1.5)")


if __name__ == "__main__":
    main()
