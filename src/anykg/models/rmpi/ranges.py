"""Weighted sums of table rows over ranges of entries.

out[q] = sum of weights[i] * table[columns[i]] for i from starts[q] to stops[q]. Entries [X], ranges [Q], a table [K, D]
-> [Q, D], differentiable in the table. Ranges may overlap, and be empty.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor


def range_sums(
    starts: np.ndarray, stops: np.ndarray, columns: np.ndarray, weights: np.ndarray, table: Tensor
) -> Tensor:
    """The sums, by a kernel that goes through the entries once."""
    result: Tensor = _RangeSums.apply(table, starts, stops, columns, weights)  # type: ignore[no-untyped-call]
    return result


def range_sums_reference(
    starts: np.ndarray, stops: np.ndarray, columns: np.ndarray, weights: np.ndarray, table: Tensor
) -> Tensor:
    """`range_sums`, range by range."""
    rows = [
        (torch.from_numpy(weights[a:b])[:, None].to(table) * table[torch.from_numpy(columns[a:b]).long()]).sum(0)
        for a, b in zip(starts, stops, strict=True)
    ]
    return torch.stack(rows) if rows else table.new_zeros(0, table.shape[1])


class _RangeSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, *entries: np.ndarray) -> Tensor:
        ctx.entries, ctx.shape = entries, table.shape
        out = np.zeros((len(entries[0]), table.shape[1]), np.float32)
        _add_rows(*entries, table.detach().contiguous().numpy(), out)
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        table = np.zeros(tuple(ctx.shape), np.float32)
        _add_columns(*ctx.entries, gradients[0].contiguous().numpy(), table)
        return torch.from_numpy(table), None, None, None, None


@njit(cache=True, fastmath={"contract"})
def _add_rows(
    starts: np.ndarray, stops: np.ndarray, columns: np.ndarray, weights: np.ndarray, table: np.ndarray, out: np.ndarray
) -> None:
    width = table.shape[1]
    for q in range(len(starts)):
        for i in range(starts[q], stops[q]):
            weight, k = weights[i], columns[i]
            if weight != 0.0:
                for d in range(width):
                    out[q, d] += weight * table[k, d]


@njit(cache=True, fastmath={"contract"})
def _add_columns(
    starts: np.ndarray, stops: np.ndarray, columns: np.ndarray, weights: np.ndarray, rows: np.ndarray, out: np.ndarray
) -> None:
    width = rows.shape[1]
    for q in range(len(starts)):
        for i in range(starts[q], stops[q]):
            weight, k = weights[i], columns[i]
            if weight != 0.0:
                for d in range(width):
                    out[k, d] += weight * rows[q, d]
