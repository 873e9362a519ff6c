"""Run the cells of an experiment on the machines of a Ray cluster.

Ray hands out the cells and starts one again whose worker was lost; everything else is as on one machine: a cell is
claimed, skipped if done and resumed if not. So all machines must see the same folder of runs.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from anykg.benchmarks.experiment import Cell, Experiment
from anykg.benchmarks.runs import Tell, at_hand, missing_cells, run_if_missing
from anykg.errors import ConfigError

TRIES = 5
"""How often a cell may lose its worker."""


def run_on(
    address: str,
    experiment: Experiment,
    runs: Path,
    *,
    data_dir: Path | None = None,
    minutes: float | None = None,
    tell: Tell,
) -> int:
    """As `run_all`, on the cluster at `address`, or on all cores of this machine with "local"."""
    ray = _connected(address)
    runs, data_dir = runs.resolve(), data_dir and data_dir.resolve()  # workers start elsewhere
    experiment = at_hand(experiment, data_dir)
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    try:
        slots = int(ray.cluster_resources()["CPU"])
        task = ray.remote(max_retries=TRIES, num_cpus=1)(run_if_missing)
        waiting = missing_cells(experiment, runs)
        running: dict[Any, Cell] = {}
        while running or waiting:
            in_time = deadline is None or time.monotonic() < deadline
            while (
                in_time and waiting and len(running) < slots
            ):  # no more than can run: a budget may end before the list
                cell = waiting.pop(0)
                running[task.remote(experiment, cell, runs, data_dir)] = cell
            if not running:
                break
            (done,), _ = ray.wait(list(running), num_returns=1)
            _report(ray, done, running.pop(done), tell)
    finally:
        ray.shutdown()
    return len(missing_cells(experiment, runs))


def _connected(address: str) -> Any:
    try:
        import ray
    except ImportError as error:
        raise ConfigError("--cluster needs Ray, which is not installed; run `pip install 'anykg[cluster]'`.") from error
    try:
        ray.init(address=address, log_to_driver=False, include_dashboard=False)
    except (ConnectionError, ValueError) as error:
        raise ConfigError(f"--cluster: cannot reach a Ray cluster at {address!r} ({error}).") from error
    return ray


def _report(ray: Any, done: Any, cell: Cell, tell: Tell) -> None:
    try:
        summary = ray.get(done)
    except ray.exceptions.WorkerCrashedError:  # as often as it may: the others go on
        summary = f"lost its worker {TRIES + 1} times; give the command again to go on with it"
    if summary is not None:
        tell(cell, summary)
