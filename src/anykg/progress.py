"""The progress callback of all long-running functions, called with (done, total).

>>> calls = []
>>> part = after(lambda done, total: calls.append((done, total)), 10, 30)
>>> part(5, 20)
>>> calls
[(15, 30)]
"""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with (done, total)."""


def ignore(done: int, total: int) -> None:
    """Do nothing."""


def after(progress: Progress, before: int, total: int) -> Progress:
    """A callback for one part of the work, with `before` of `total` units already done."""
    return lambda done, _: progress(before + done, total)
