"""Time and memory of the commands on graphs of 10,000 to 21,000,000 facts, row by row.

Every row is a process of its own on a generated graph (`benchmarks.generated`): wall and processor seconds, and the
most memory that the process ever held. Where there is a reference, it runs in the same minutes, and its processor
seconds stand beside: reading the same file with polars for packing, packing for opening, the whole graph for questions
that are answered from a part of it.

    python -m benchmarks.scale --sizes 1e4,1e5,1e6
    python -m benchmarks.scale --sizes 2.1e7 --out scale.md --folder /large/disk
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from anykg.evaluation.reading import LARGE
from anykg.models.folders import DEFAULT_MODEL
from benchmarks.fresh import in_fresh_process
from benchmarks.generated import generated

SIZES = (10_000, 100_000, 1_000_000, 10_000_000, 21_000_000)
QUERIES, CHECKED, SECOND = 100, 500, 5
COMPLETED = 100
"""The completed relation is the one with about so many questions."""
READ, WHOLE = "read with polars", ("first predict, --budget 0", "second predict, --budget 0")
HEADER = "| facts | command | seconds | processor seconds | peak GiB | reference |\n|---|---|---|---|---|---|"


class Row(NamedTuple):
    """One command on one graph."""

    command: str
    seconds: float
    processor: float
    peak_gib: float
    reference: str = ""

    def line(self, facts: int) -> str:
        """The row of the table."""
        figures = f"{_shown(self.seconds)} | {_shown(self.processor)} | {self.peak_gib:.2f}"
        return f"| {facts:,} | {self.command} | {figures} | {self.reference} |"


class Timed:
    """Wall and processor seconds of a block."""

    def __enter__(self) -> Timed:
        self._wall, self._processor = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *error: object) -> None:
        self.seconds = time.perf_counter() - self._wall
        self.processor = time.process_time() - self._processor

    def row(self, command: str, reference: str = "") -> Row:
        """What was measured, with the peak of this process."""
        return Row(command, self.seconds, self.processor, _peak(), reference)


def measure(facts: int, folder: Path) -> list[Row]:
    """All commands on a graph of about so many facts; files go to the folder and are removed."""
    source, packed, asked = folder / f"{facts}.tsv", folder / f"{facts}.anykg", folder / f"{facts}.npz"
    steps: tuple[Callable[[Path, Path, Path], list[Row]], ...] = (
        _read, _pack, _open, *((_exact,) if facts > LARGE else ()), _predict, _queries, _check, _complete,
    )  # fmt: skip
    count = in_fresh_process(_write, facts, source, asked)
    rows: list[Row] = []
    try:
        for step in steps:
            for row in in_fresh_process(step, source, packed, asked):
                row = _with_reference(row, rows)
                rows.append(row)
                print(row.line(count), flush=True)
    finally:
        for path in (source, packed, asked):
            path.unlink(missing_ok=True)
    return [Row(*row) for row in rows]


def _with_reference(row: Row, before: list[Row]) -> Row:
    """Fill in the references that another process measured."""
    of = {"pack": READ, "open": "pack", "first predict": WHOLE[0], "second predict": WHOLE[1]}.get(row.command)
    found = next((other for other in before if other.command == of), None)
    return row if found is None else row._replace(reference=f"{of}: {_shown(found.processor)} s")


def _write(facts: int, source: Path, asked: Path) -> int:
    made = generated(facts, held_back=QUERIES)
    made.graph.to_polars().write_csv(source, separator="\t", include_header=False)
    np.savez(asked, planted=made.planted, others=made.others)
    return len(made.graph)


def _read(source: Path, packed: Path, asked: Path) -> list[Row]:
    import polars as pl

    with Timed() as timed:
        pl.read_csv(source, separator="\t", has_header=False, new_columns=["head", "relation", "tail"])
    return [timed.row(READ)]


def _pack(source: Path, packed: Path, asked: Path) -> list[Row]:
    from anykg.graph import neighbourhood
    from anykg.io.catalog import load_graph
    from anykg.io.pack import write_pack
    from anykg.models.nbf import relation_graph

    with Timed() as timed:
        graph = load_graph(source, cache=False)
        write_pack(graph, packed, arrays=relation_graph.to_arrays(graph) | neighbourhood.to_arrays(graph))
    return [timed.row("pack")]


def _open(source: Path, packed: Path, asked: Path) -> list[Row]:
    from anykg.io.catalog import load_graph

    with Timed() as timed:
        load_graph(packed).entities.find("Q7")
    return [timed.row("open")]


def _questions(packed: Path, asked: Path) -> tuple[object, list[tuple[str, str, None]]]:
    """The graph, and questions about held back facts by name."""
    from anykg.io.catalog import load_graph

    graph, kept = load_graph(packed), np.load(asked)
    facts = np.concatenate([kept["planted"], kept["others"]])[: 2 * QUERIES]
    facts = facts[np.random.default_rng(0).permutation(len(facts))]
    return graph, [(f"Q{head}", f"P{relation}", None) for head, relation, _ in facts.tolist()]


def _predict(source: Path, packed: Path, asked: Path) -> list[Row]:
    return _first_and_second(packed, asked, None, SECOND, "first predict", "second predict")


def _exact(source: Path, packed: Path, asked: Path) -> list[Row]:
    return _first_and_second(packed, asked, 0, 2, *WHOLE)


def _first_and_second(packed: Path, asked: Path, budget: int | None, count: int, *names: str) -> list[Row]:
    import anykg

    with Timed() as first:
        graph, questions = _questions(packed, asked)
        model = anykg.load_model(DEFAULT_MODEL)
        head, relation, _ = questions[0]
        anykg.predict(graph, head=head, relation=relation, model=model, budget=budget)
    times = []
    for head, relation, _ in questions[1 : 1 + count]:
        with Timed() as timed:
            anykg.predict(graph, head=head, relation=relation, model=model, budget=budget)
        times.append((timed.seconds, timed.processor))
    seconds, processor = np.median(times, axis=0).tolist()
    return [first.row(names[0]), Row(names[1], seconds, processor, _peak())]


def _queries(source: Path, packed: Path, asked: Path) -> list[Row]:
    import anykg

    with Timed() as timed:
        graph, questions = _questions(packed, asked)
        anykg.predict(graph, questions=questions[:QUERIES])
    return [timed.row(f"{QUERIES} queries")]


def _check(source: Path, packed: Path, asked: Path) -> list[Row]:
    import anykg

    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache  # calibrations are kept there
        with Timed() as timed:
            anykg.check(packed, facts=CHECKED, floors=False)
    return [timed.row(f"check of {CHECKED} facts, no floors")]


def _complete(source: Path, packed: Path, asked: Path) -> list[Row]:
    import anykg
    from anykg.answers.completing.proposals import questions_of
    from anykg.io.catalog import load_graph

    graph = load_graph(packed)
    some = np.argsort(np.bincount(graph.triplets[:, 1], minlength=graph.num_relations))
    some = some[:: max(1, len(some) // 40)]
    counts = [len(questions_of(graph, np.array([relation]), None)) for relation in some]
    best = int(np.argmin(np.abs(np.log(np.maximum(counts, 1) / COMPLETED))))
    with Timed() as timed:
        anykg.complete(graph, relations=[graph.relations[int(some[best])]], count=100, calibrated=False)
    return [timed.row(f"complete a relation by score, {counts[best]} questions")]


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _shown(seconds: float) -> str:
    return f"{seconds:.3f}" if seconds < 0.1 else f"{seconds:.2f}" if seconds < 10 else f"{seconds:.0f}"


def main() -> None:
    """Print rows as soon as they are measured; then write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of facts")
    parser.add_argument("--out", type=Path, help="a Markdown file for the table")
    parser.add_argument("--folder", type=Path, help="where generated files go; default: a temporary folder")
    chosen = parser.parse_args()
    print(HEADER, flush=True)
    lines = []
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        os.environ["XDG_CACHE_HOME"] = folder  # rules are mined by the first predict and kept there
        for size in (int(float(part)) for part in chosen.sizes.split(",")):
            lines += [row.line(size) for row in measure(size, Path(folder))]
            if chosen.out:
                chosen.out.write_text("\n".join([HEADER, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
