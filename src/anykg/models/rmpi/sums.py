"""Weighted sums of table rows over ranges of entries, the main operation of RMPI.

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
    """The sums; on a CPU by a kernel that goes through the entries once."""
    if table.device.type != "cpu" or table.dtype != torch.float32:
        return range_sums_reference(starts, stops, columns, weights, table)
    result: Tensor = _RangeSums.apply(table, starts, stops, columns, weights)  # type: ignore[no-untyped-call]
    return result


def range_sums_reference(
    starts: np.ndarray, stops: np.ndarray, columns: np.ndarray, weights: np.ndarray, table: Tensor
) -> Tensor:
    """`range_sums` in torch, with a row for every entry of every range."""
    counts = stops - starts
    rows = np.repeat(np.arange(len(starts)), counts)  # the range of each entry
    entries = np.arange(len(rows)) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
    parts = table[_like(table, columns[entries].astype(np.int64))] * _like(table, weights[entries])[:, None]
    return table.new_zeros(len(starts), table.shape[1]).index_add(0, _like(table, rows), parts)


def _like(example: Tensor, array: np.ndarray) -> Tensor:
    """The array on the device of `example`; floats in its type."""
    tensor = torch.from_numpy(array).to(example.device)
    return tensor.to(example.dtype) if tensor.is_floating_point() else tensor


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
