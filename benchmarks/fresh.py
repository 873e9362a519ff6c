"""Run a measurement in a process of its own: what others left with the allocator changes times by more than half."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def in_fresh_process(function: Callable[..., Result], *arguments: object) -> Result:
    """The result of a function of a module, called with picklable arguments."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)
