"""The number of threads of torch, compiled kernels and scipy's BLAS, and the threads that run kernels.

This is the only module that changes these numbers.

>>> import torch
>>> before = torch.get_num_threads()
>>> with threads(torch=1):
...     torch.get_num_threads()
1
>>> torch.get_num_threads() == before
True
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

_KERNEL_THREADS: ContextVar[int | None] = ContextVar("kernel threads", default=None)


def wait_briefly() -> None:
    """Make torch's threads spin only for microseconds while they wait for each other; no effect once torch is loaded.

    By default they spin for milliseconds. If another program needs a processor, they may keep the very thread they are
    waiting for from running. Disabling spinning altogether would make short operations half as fast on an idle machine.
    """
    if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")


def spread(kernel: Callable[..., object], *arguments: object) -> None:
    """Call kernel(counter, *arguments) on several threads; it takes its tasks with `tasks.take(counter)`.

    Returns when all tasks are done. A thread that has not started by then is not waited for, so a small loop costs
    no more than it does on one thread. Kernels must release the GIL.
    """
    import numpy as np

    counter = np.zeros(1, np.int64)
    others = [_pool().submit(kernel, counter, *arguments) for _ in range(num_threads() - 1)]
    try:
        kernel(counter, *arguments)
    finally:
        running = [other for other in others if not other.cancel()]
        for other in running:
            other.result()


def num_threads() -> int:
    """The number of threads of `spread`: the smaller of NUMBA_NUM_THREADS and torch's, unless `threads` sets it."""
    import numba

    chosen = _KERNEL_THREADS.get()
    if chosen is not None:
        return chosen
    most: int = numba.config.NUMBA_NUM_THREADS
    return min(most, sys.modules["torch"].get_num_threads()) if "torch" in sys.modules else most


@cache
def _pool() -> ThreadPoolExecutor:
    """Worker threads, in addition to the one that calls `spread`."""
    return ThreadPoolExecutor(max((os.cpu_count() or 1) - 1, 1), thread_name_prefix="kernel")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of its parent's threads


@contextmanager
def threads(*, torch: int | None = None, kernels: int | None = None, blas: int | None = None) -> Iterator[None]:
    """Set numbers of threads and restore the previous ones at the end; None leaves a library unchanged.

    `kernels` is the number used by `spread`. `blas` is for the BLAS library bundled with scipy, which compiled `np.dot`
    calls; torch and numpy have their own.
    """
    restore: list[tuple[Any, Any]] = []
    try:
        for count, setter in ((torch, _torch), (kernels, _kernels), (blas, _blas)):
            if count is not None:
                restore.extend(setter(count))
        yield
    finally:
        for set_threads, before in reversed(restore):
            set_threads(before)


def _torch(count: int) -> list[tuple[Any, Any]]:
    import torch

    before = torch.get_num_threads()
    if before != count:
        torch.set_num_threads(count)
    return [(torch.set_num_threads, before)] if before != count else []


def _kernels(count: int) -> list[tuple[Any, Any]]:
    return [(_KERNEL_THREADS.reset, _KERNEL_THREADS.set(count))]


def _blas(count: int) -> list[tuple[Any, Any]]:
    controllers = []
    for library in _scipy_blas():
        controllers.append((library.set_num_threads, library.get_num_threads()))
        library.set_num_threads(count)
    return controllers


@cache
def _scipy_blas() -> list[Any]:
    """Controllers of the BLAS libraries in scipy's wheel; none if scipy uses a library that it does not ship."""
    import scipy.linalg  # noqa: F401 - loads it
    from threadpoolctl import ThreadpoolController

    libraries = ThreadpoolController().lib_controllers
    return [one for one in libraries if one.user_api == "blas" and "scipy.libs" in str(one.filepath)]
