"""Distribute the tasks of a compiled loop over threads: a free thread takes the next one.

A kernel for `threads.spread` gets a counter first and takes its tasks from it:

    @njit(cache=True, nogil=True)
    def kernel(counter, values, out):
        for _ in range(len(out)):
            task = take(counter)
            if task >= len(out):
                break
            out[task] = values[task] ** 2

On a busy machine, a thread may have to wait for a processor at any time. The others then do its share of the work, so
that a loop waits for at most one of its tasks.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic


@intrinsic
def take(typing: Any, counter: Any) -> Any:
    """Atomically add one to the counter int64 [1] and return its previous value."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.atomic_rmw("add", data, ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(counter), emit
