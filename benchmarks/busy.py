"""Times alone and beside one busy process, for `make bench`: nobody's laptop is idle.

A neighbour is a child process that computes without end on one thread. Alone and busy runs alternate, and each figure
is the median of several: a best of several would hide the waiting that this is about.

`python -m benchmarks.busy [OTHER]` does the same with `anykg predict` from the command line; OTHER is another tree of
anykg (the folder above `src`), such as the version before a change.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import anykg
from benchmarks.fresh import in_fresh_process
from benchmarks.startup import COMMANDS

_REPEATS, _ROUNDS = 5, 3


@contextmanager
def neighbour() -> Iterator[None]:
    """Keep one core busy with another process."""
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.5)
        yield
    finally:
        child.kill()
        child.wait()


def alone_and_busy(prepare: Callable[..., Callable[[], object]], *arguments: object) -> dict[str, float]:
    """Seconds of the work that `prepare` of a module returns, alone and beside a neighbour, and their ratio."""
    alone, busy = in_fresh_process(_times, prepare, arguments)
    return {"alone_seconds": alone, "busy_seconds": busy, "busy_ratio": busy / alone}


def _times(prepare: Callable[..., Callable[[], object]], arguments: tuple[object, ...]) -> tuple[float, float]:
    work = prepare(*arguments)
    work()  # compiles
    alone: list[float] = []
    busy: list[float] = []
    for _ in range(_ROUNDS):
        alone += _several(work)
        with neighbour():
            busy += _several(work)
    return median(alone), median(busy)


def _several(work: Callable[[], object]) -> list[float]:
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return times


def _predict(source: Path) -> Callable[[], object]:
    """The command line's `predict` on atlas, of the tree with this folder of sources."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(source)
    command = [sys.executable, "-m", "anykg", *COMMANDS["predict"]]
    return lambda: subprocess.run(command, env=environment, check=True, capture_output=True)


def main() -> None:
    trees = {"now": Path(anykg.__file__).parents[1]}
    if len(sys.argv) > 1:
        trees = {"before": Path(sys.argv[1]).resolve() / "src"} | trees
    for tree, source in trees.items():
        alone, busy = _times(_predict, (source,))
        print(f"predict, {tree}: alone {alone:.2f} s, busy {busy:.2f} s, ratio {busy / alone:.2f}")


if __name__ == "__main__":
    main()
