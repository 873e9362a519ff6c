"""Numbers of threads are restored, whatever a model sets while it computes; tasks are shared among threads."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from anykg.tasks import take
from anykg.threads import _pool, _scipy_blas, num_threads, spread, threads


def test_restored_after_an_error() -> None:
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError), threads(torch=3, kernels=5, blas=1):
        assert torch.get_num_threads() == 3
        assert num_threads() == 5
        assert [library.num_threads for library in _scipy_blas()] == [1] * len(_scipy_blas())
        1 / 0  # noqa: B018
    assert torch.get_num_threads() == before
    assert num_threads() <= before


@njit(nogil=True)
def _count(counter, times):  # type: ignore[no-untyped-def]
    tasks = len(times)
    for _ in range(tasks):
        task = take(counter)
        if task >= tasks:
            break
        times[task] += 1


@given(st.integers(0, 5000), st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_every_task_is_done_once(tasks: int, count: int) -> None:
    times = np.zeros(tasks, np.int64)
    with threads(kernels=count):
        spread(_count, times)
    assert (times == 1).all()


def test_a_thread_that_has_not_started_is_not_waited_for() -> None:
    busy = threading.Event()
    blocked = [_pool().submit(busy.wait) for _ in range(_pool()._max_workers)]
    times = np.zeros(100, np.int64)
    try:
        with threads(kernels=3):
            spread(_count, times)
        assert (times == 1).all()
    finally:
        busy.set()
    assert all(one.result() for one in blocked)


def test_an_error_in_a_kernel_is_raised() -> None:
    def fail(counter: np.ndarray) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), threads(kernels=2):
        spread(fail)


def test_a_forked_child_starts_threads_of_its_own() -> None:
    code = """
import os, warnings
import numpy as np
from numba import njit
from anykg.tasks import take
from anykg.threads import spread, threads

@njit(nogil=True)
def count(counter, times):
    tasks = len(times)
    for _ in range(tasks):
        task = take(counter)
        if task >= tasks:
            break
        times[task] += 1

def run():
    times = np.zeros(1000, np.int64)
    with threads(kernels=2):
        spread(count, times)
    return (times == 1).all()

warnings.simplefilter("ignore")
assert run()
child = os.fork()
if child == 0:
    os._exit(0 if run() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_torch_waits_briefly_unless_told_otherwise() -> None:
    code = "import os, anykg; print(os.environ.get('GOMP_SPINCOUNT'))"
    for chosen, expected in (({}, "2000"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None"), ({"GOMP_SPINCOUNT": "7"}, "7")):
        environment = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")} | chosen
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected


def test_models_leave_them_as_they_were() -> None:
    """In a process with two threads: ISDEA+ uses one of scipy's BLAS."""
    code = """
import torch, scipy.linalg
from threadpoolctl import threadpool_info
from anykg.threads import num_threads
found = lambda: (num_threads(), torch.get_num_threads(), [p["num_threads"] for p in threadpool_info()])
before = found()
import anykg
from anykg.models.registry import MODELS
graph = anykg.read_graph([(f"e{i % 7}", f"r{i % 3}", f"e{i * 5 % 11}") for i in range(40)])
for name in ("ingram", "isdea+"):
    kind = MODELS.load(name)
    model = kind.build(kind.Config(), graph)
    rows = torch.from_numpy(graph.triplets[:4].astype("int64"))[:, None].repeat(1, 2, 1)
    model.training_scores(graph, rows, 0).sum().backward()
    anykg.predict(graph, head="e1", relation="r1", model=model)
# Libraries that were loaded since come after those that were there.
assert found()[:2] == before[:2], (before, found())
assert found()[2][: len(before[2])] == before[2], (before, found())
"""
    environment = os.environ | {"NUMBA_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
