"""Compiled kernels for relational aggregation: sums.

All arrays of states are flat float32: B * N rows of D floats. Weights are B tables of K rows, or one table for all
(`own` is False). Every output row, and every partial sum of a gradient, is written by one thread in a fixed order.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from anykg.models.simd import add, load, multiply, multiply_add, splat, store, total
from anykg.tasks import take

ROWS = 64  # rows, or edges, a thread takes at a time


class Tables(NamedTuple):
    """Relation vectors, flat: a table of `size` for every query, or one for all."""

    weights: np.ndarray
    size: int
    own: bool
    """Whether every query has its own."""


class Gradients(NamedTuple):
    """Gradients of the output, of the states and of the tables in pieces, flat."""

    out: np.ndarray  # [B, N, D]
    states: np.ndarray  # [B, N, D]
    weights: np.ndarray  # [B, P, K, D]


class MessageKernels(NamedTuple):
    """The compiled loops for one width."""

    sum_forward: Any
    sum_backward: Any
    edge_backward: Any


@lru_cache
def message_kernels(width: int) -> MessageKernels:
    """Kernels for D = width, a constant to the compiler."""
    D = width  # noqa: N806

    @njit(cache=True, nogil=True)
    def sum_forward(counter, states, boundary, out, tables, adjacency, factors):  # type: ignore[no-untyped-def]
        (weights, num_weights, own), (nodes, runs, relations, senders) = tables, adjacency
        count = len(nodes) - 1
        num_rows = len(out) // D
        tasks = (num_rows + ROWS - 1) // ROWS
        for _ in range(tasks):
            block = take(counter)
            if block >= tasks:
                break
            for row in range(block * ROWS, min(block * ROWS + ROWS, num_rows)):
                query = row // count
                base, node = query * count, row - query * count
                table = query * num_weights if own else 0
                result = load(boundary, row * D, D)
                for run in range(nodes[node], nodes[node + 1]):
                    weight = load(weights, (table + relations[run]) * D, D)
                    for edge in range(runs[run], runs[run + 1]):
                        message = multiply(load(states, (base + senders[edge]) * D, D), weight)
                        if factors is None:
                            result = add(result, message)
                        else:
                            result = multiply_add(splat(factors[edge], D), message, result)
                store(out, row * D, result)

    @njit(cache=True, nogil=True)
    def sum_backward(  # type: ignore[no-untyped-def]
        counter, states, gradients, pieces, tables, adjacency, factors
    ):
        (weights, num_weights, own), (nodes, runs, relations, receivers) = tables, adjacency
        grad, grad_states, grad_weights = gradients
        count = len(nodes) - 1
        tasks = len(grad_weights) // max(num_weights * D, 1)
        for _ in range(tasks):
            task = take(counter)
            if task >= tasks:
                break
            query, piece = task // pieces, task % pieces
            base, table = query * count, query * num_weights if own else 0
            for node in range(count * piece // pieces, count * (piece + 1) // pieces):
                state = load(states, (base + node) * D, D)
                result = splat(np.float32(0), D)
                for run in range(nodes[node], nodes[node + 1]):
                    received = splat(np.float32(0), D)
                    for edge in range(runs[run], runs[run + 1]):
                        value = load(grad, (base + receivers[edge]) * D, D)
                        if factors is None:
                            received = add(received, value)
                        else:
                            received = multiply_add(splat(factors[edge], D), value, received)
                    weight = load(weights, (table + relations[run]) * D, D)
                    result = add(result, multiply(received, weight))
                    to = (task * num_weights + relations[run]) * D
                    store(grad_weights, to, add(load(grad_weights, to, D), multiply(received, state)))
                store(grad_states, (base + node) * D, result)

    @njit(cache=True, nogil=True)
    def edge_backward(counter, grad, states, grad_edges, count, tables, triplets, keep):  # type: ignore[no-untyped-def]
        """The gradient of every edge's factor: the dot product of its message and the receiver's gradient."""
        weights, num_weights, own = tables
        queries = len(states) // max(count * D, 1)
        tasks = (len(grad_edges) + ROWS - 1) // ROWS
        for _ in range(tasks):
            block = take(counter)
            if block >= tasks:
                break
            for edge in range(block * ROWS, min(block * ROWS + ROWS, len(grad_edges))):
                result = np.float32(0)
                if keep is None or keep[edge]:
                    receiver, relation, sender = triplets[edge, 0], triplets[edge, 1], triplets[edge, 2]
                    for query in range(queries):
                        table = query * num_weights if own else 0
                        weight = load(weights, (table + relation) * D, D)
                        message = multiply(load(states, (query * count + sender) * D, D), weight)
                        result += total(multiply(message, load(grad, (query * count + receiver) * D, D)))
                grad_edges[edge] = result

    return MessageKernels(sum_forward, sum_backward, edge_backward)
