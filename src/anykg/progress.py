"""The one progress callback: called with (done, total) while long work goes on.

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
    """Report to nobody."""


def after(progress: Progress, before: int, total: int) -> Progress:
    """A callback for one part of the work: `before` units are done already, of `total` in all."""
    return lambda done, _: progress(before + done, total)
