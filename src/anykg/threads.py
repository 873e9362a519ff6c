"""How many threads torch, numba and scipy's BLAS use: the only place that changes it.

>>> import torch
>>> before = torch.get_num_threads()
>>> with threads(torch=1):
...     torch.get_num_threads()
1
>>> torch.get_num_threads() == before
True
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@contextmanager
def threads(*, torch: int | None = None, numba: int | None = None, blas: int | None = None) -> Iterator[None]:
    """Set numbers of threads and restore what was there before; None leaves a library alone.

    `blas` is the BLAS library that comes with scipy, which compiled `np.dot` calls; torch and numpy have their own.
    """
    restore: list[tuple[Any, int]] = []
    try:
        for count, setter in ((torch, _torch), (numba, _numba), (blas, _blas)):
            if count is not None:
                restore.extend(setter(count))
        yield
    finally:
        for set_threads, before in reversed(restore):
            set_threads(before)


def _torch(count: int) -> list[tuple[Any, int]]:
    import torch

    before = torch.get_num_threads()
    if before != count:
        torch.set_num_threads(count)
    return [(torch.set_num_threads, before)] if before != count else []


def _numba(count: int) -> list[tuple[Any, int]]:
    import numba
    import torch

    of_torch = torch.get_num_threads()
    before = numba.get_num_threads()  # the first call starts numba's threads, and sets those of torch with OpenMP
    if torch.get_num_threads() != of_torch:
        torch.set_num_threads(of_torch)
    numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
    return [(numba.set_num_threads, before)]


def _blas(count: int) -> list[tuple[Any, int]]:
    found = []
    for library in _scipy_blas():
        found.append((library.set_num_threads, library.get_num_threads()))
        library.set_num_threads(count)
    return found


@cache
def _scipy_blas() -> list[Any]:
    """Controllers of the BLAS libraries in scipy's wheel; none if scipy uses a library that it does not ship."""
    import scipy.linalg  # noqa: F401 - loads it
    from threadpoolctl import ThreadpoolController

    libraries = ThreadpoolController().lib_controllers
    return [one for one in libraries if one.user_api == "blas" and "scipy.libs" in str(one.filepath)]
