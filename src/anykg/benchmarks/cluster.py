"""Run the cells of an experiment on the machines of a Ray cluster.

It works as on one machine: a cell is locked, skipped if done and resumed otherwise. All machines must therefore share
the folder of runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anykg.benchmarks.experiment import Experiment
from anykg.benchmarks.runs import Tell, missing_cells, run_if_missing, with_available_graphs
from anykg.cluster import RETRIES, connected


def run_on(
    address: str,
    experiment: Experiment,
    runs: Path,
    *,
    data_dir: Path | None = None,
    minutes: float | None = None,
    tell: Tell,
) -> int:
    """Like `run_all`, on the cluster at `address`, or on all cores of this machine with "local"."""
    runs, data_dir = runs.resolve(), data_dir and data_dir.resolve()  # workers start elsewhere
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    with connected(address, threads=1) as cluster:
        assert cluster is not None
        available = with_available_graphs(experiment, data_dir)

        def tasks() -> Iterator[tuple[Any, ...]]:
            for cell in missing_cells(available, runs):
                if deadline is not None and time.monotonic() > deadline:
                    return
                yield available, cell, runs, data_dir

        for done in cluster.completed(run_if_missing, tasks()):
            summary = done.result
            if done.lost:  # the others continue
                summary = f"lost its worker {RETRIES + 1} times; run the command again to resume it"
            if summary is not None:
                tell(done.arguments[1], summary)
    return len(missing_cells(available, runs))
