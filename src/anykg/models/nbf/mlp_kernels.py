"""Compiled kernels for two-layer MLPs of all states: the read-out of scores, and new states from states.

    score = last . ReLU(state @ first + offset)
    state = ReLU(state @ first + offset) @ second + bias

States are flat float32 arrays of B * N rows of D floats, the hidden layer has 2D, offsets belong to a query. Sixteen
rows at a time go through both layers in the L1 cache, and the hidden layer is recomputed in the backward pass: nothing
of size B * N * 2D exists. In the backward pass a query is split into pieces with separate sums, so that results do not
depend on the number of threads.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from anykg.models.nbf.kernels import TILE, affine, product
from anykg.models.simd import add, larger, load, multiply, multiply_add, splat, store, total, where_positive
from anykg.tasks import take


class Weights(NamedTuple):
    """An MLP's parameters, flat: for the forward pass and, transposed, for the backward pass."""

    offsets: np.ndarray  # [B, 2D] of the read-out, [2D] of the transformation
    first: np.ndarray  # [D, 2D]
    first_t: np.ndarray  # [2D, D]
    last: np.ndarray  # [2D] of the read-out, [D, 2D] of the transformation


class Sums(NamedTuple):
    """Gradients: of the states [B * N, D], and of the parameters for each of P pieces."""

    states: np.ndarray
    offsets: np.ndarray  # [P, 2D]
    first: np.ndarray  # [P, D, 2D]
    last: np.ndarray  # [P, 2D], or [P, 2D, D]
    bias: np.ndarray  # [P, D], of the transformation


class MLPKernels(NamedTuple):
    """The compiled loops for one width."""

    read_out: Any
    read_out_backward: Any
    transform: Any
    transform_backward: Any


@lru_cache
def mlp_kernels(width: int) -> MLPKernels:
    """Kernels for D = width, a constant to the compiler."""
    D, D2 = width, 2 * width  # noqa: N806

    @njit(cache=True, nogil=True)
    def read_out(counter, states, scores, count, offsets, first, last):  # type: ignore[no-untyped-def]
        """Scores [B * N]; `first` is [D, 2D], `offsets` [B, 2D], `last` [2D]."""
        tasks = (len(scores) + TILE - 1) // TILE
        own = np.zeros(TILE * D, np.float32)
        hidden = np.zeros(TILE * D2, np.float32)
        for _ in range(tasks):
            tile = take(counter)
            if tile >= tasks:
                break
            begin = tile * TILE
            height = min(TILE, len(scores) - begin)
            for i in range(height):
                query = (begin + i) // count
                store(own, i * D, load(states, (begin + i) * D, D))
                store(hidden, i * D2, load(offsets, query * D2, D2))
            product(own, D, 1, first, hidden, TILE, D, D2)
            for i in range(height):
                positive = larger(load(hidden, i * D2, D2), splat(np.float32(0), D2))
                scores[begin + i] = total(multiply(positive, load(last, 0, D2)))

    @njit(cache=True, nogil=True)
    def read_out_backward(counter, states, grad_scores, weights, sums):  # type: ignore[no-untyped-def]
        """From grad_scores [B * N] to the gradients of states and parameters; a query has P / B pieces."""
        offsets, first, first_t, last = weights
        grad_states, grad_offsets, grad_first, grad_last, _ = sums
        queries = len(offsets) // D2
        count, pieces = len(grad_scores) // max(queries, 1), len(grad_last) // max(queries * D2, 1)
        tasks = len(grad_last) // D2
        for _ in range(tasks):
            task = take(counter)
            if task >= tasks:
                break
            query, piece = task // pieces, task % pieces
            stop = query * count + count * (piece + 1) // pieces
            sums_first = np.zeros(D * D2, np.float32)
            of_offsets, of_last = splat(np.float32(0), D2), splat(np.float32(0), D2)
            own = np.zeros(TILE * D, np.float32)
            hidden = np.zeros(TILE * D2, np.float32)
            grad_own = np.zeros(TILE * D, np.float32)
            for begin in range(query * count + count * piece // pieces, stop, TILE):
                height = min(TILE, stop - begin)
                for i in range(TILE):
                    store(hidden, i * D2, load(offsets, query * D2, D2))
                    store(grad_own, i * D, splat(np.float32(0), D))
                for i in range(height):
                    store(own, i * D, load(states, (begin + i) * D, D))
                product(own, D, 1, first, hidden, TILE, D, D2)
                for i in range(TILE):
                    if i < height:
                        before = load(hidden, i * D2, D2)
                        grad = splat(grad_scores[begin + i], D2)
                        of_last = multiply_add(where_positive(before, before), grad, of_last)
                        grad = where_positive(before, multiply(grad, load(last, 0, D2)))
                        of_offsets = add(of_offsets, grad)
                        store(hidden, i * D2, grad)
                    else:
                        store(hidden, i * D2, splat(np.float32(0), D2))
                product(hidden, D2, 1, first_t, grad_own, TILE, D2, D)
                product(own, 1, D, hidden, sums_first, D, TILE, D2)
                for i in range(height):
                    store(grad_states, (begin + i) * D, load(grad_own, i * D, D))
            grad_first[task * D * D2 : (task + 1) * D * D2] = sums_first
            store(grad_offsets, task * D2, of_offsets)
            store(grad_last, task * D2, of_last)

    @njit(cache=True, nogil=True)
    def transform(counter, states, out, offsets, first, second, bias):  # type: ignore[no-untyped-def]
        """Out [B * N, D]; `first` is [D, 2D], `second` [2D, D], `offsets` [2D] the same for all queries."""
        num_rows = len(out) // D
        tasks = (num_rows + TILE - 1) // TILE
        own = np.zeros(TILE * D, np.float32)
        hidden = np.zeros(TILE * D2, np.float32)
        new = np.zeros(TILE * D, np.float32)
        for _ in range(tasks):
            tile = take(counter)
            if tile >= tasks:
                break
            begin = tile * TILE
            height = min(TILE, num_rows - begin)
            for i in range(height):
                store(own, i * D, load(states, (begin + i) * D, D))
            affine(own, first, offsets, hidden, TILE, D, D2, True)
            affine(hidden, second, bias, new, TILE, D2, D, False)
            for i in range(height):
                store(out, (begin + i) * D, load(new, i * D, D))

    @njit(cache=True, nogil=True)
    def transform_backward(counter, grad, states, weights, sums):  # type: ignore[no-untyped-def]
        """From grad [B * N, D] to the gradients of states and parameters; all rows are cut into P pieces."""
        offsets, first, first_t, second_t = weights
        grad_states, grad_offsets, grad_first, grad_second, grad_bias = sums
        num_rows, pieces = len(grad) // D, len(grad_bias) // D
        tasks = pieces
        for _ in range(tasks):
            piece = take(counter)
            if piece >= tasks:
                break
            stop = num_rows * (piece + 1) // pieces
            sums_first, sums_second = np.zeros(D * D2, np.float32), np.zeros(D * D2, np.float32)
            of_offsets, of_bias = splat(np.float32(0), D2), splat(np.float32(0), D)
            own = np.zeros(TILE * D, np.float32)
            new = np.zeros(TILE * D, np.float32)
            hidden = np.zeros(TILE * D2, np.float32)
            grad_hidden = np.zeros(TILE * D2, np.float32)
            grad_own = np.zeros(TILE * D, np.float32)
            for begin in range(num_rows * piece // pieces, stop, TILE):
                height = min(TILE, stop - begin)
                for i in range(TILE):
                    store(hidden, i * D2, load(offsets, 0, D2))
                    store(grad_hidden, i * D2, splat(np.float32(0), D2))
                    store(grad_own, i * D, splat(np.float32(0), D))
                    if i < height:
                        value = load(grad, (begin + i) * D, D)
                        store(own, i * D, load(states, (begin + i) * D, D))
                        store(new, i * D, value)
                        of_bias = add(of_bias, value)
                    else:
                        store(new, i * D, splat(np.float32(0), D))
                product(own, D, 1, first, hidden, TILE, D, D2)
                product(new, D, 1, second_t, grad_hidden, TILE, D, D2)
                for i in range(TILE):
                    before = load(hidden, i * D2, D2)
                    value = where_positive(before, load(grad_hidden, i * D2, D2))
                    of_offsets = add(of_offsets, value)
                    store(grad_hidden, i * D2, value)
                    store(hidden, i * D2, where_positive(before, before))
                product(hidden, 1, D2, new, sums_second, D2, TILE, D)
                product(own, 1, D, grad_hidden, sums_first, D, TILE, D2)
                product(grad_hidden, D2, 1, first_t, grad_own, TILE, D2, D)
                for i in range(height):
                    store(grad_states, (begin + i) * D, load(grad_own, i * D, D))
            grad_first[piece * D * D2 : (piece + 1) * D * D2] = sums_first
            grad_second[piece * D * D2 : (piece + 1) * D * D2] = sums_second
            store(grad_offsets, piece * D2, of_offsets)
            store(grad_bias, piece * D, of_bias)

    return MLPKernels(read_out, read_out_backward, transform, transform_backward)
