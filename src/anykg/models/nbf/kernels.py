"""Compiled kernels for the fused Bellman-Ford layer.

    aggregate_u = boundary_u + sum over edges (u, e, v) of state_v * weight_e
    out_u = state_u + ReLU(LayerNorm(Linear([state_u, aggregate_u])))

States are flat float32 arrays of B * N rows of D floats: query b owns rows b * N to (b + 1) * N. A kernel computes the
listed `rows` only. Sixteen rows at a time go through aggregation, matrix product and normalisation without leaving the
L1 cache; nothing of size E x D exists. Work is cut into the same pieces for any number of threads, and
pieces write to disjoint memory, so results are bitwise reproducible. D must be a multiple of 16.

Most runs have one edge or two. The loops over runs and edges are therefore `while` loops over int64: numba prepares a
`range` in about as many cycles as reading two edges takes.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from anykg.models.nbf.reference import EPSILON
from anykg.models.simd import (
    add,
    larger,
    load,
    load_like,
    multiply,
    multiply_add,
    prefetch_like,
    splat,
    splat_at,
    splat_like,
    store,
    subtract,
    total,
    where_positive,
    width_of,
)
from anykg.tasks import take

TILE = 16  # rows that go through a layer together
AHEAD = 12  # edges whose states are fetched before they are needed: large graphs do not fit the cache
LANES = 16  # columns of a matrix product kept in registers, for four rows


@njit(cache=True)
def stable_order(keys: np.ndarray, order: np.ndarray, count: int) -> np.ndarray:
    """`order` stably sorted by keys[order]; keys are below `count`."""
    next_free = np.zeros(count + 1, np.int64)
    for key in keys:
        next_free[key + 1] += 1
    for key in range(count):
        next_free[key + 1] += next_free[key]
    result = np.empty(len(order), np.int32)
    for item in order:
        result[next_free[keys[item]]] = item
        next_free[keys[item]] += 1
    return result


@njit(cache=True)
def add_senders(
    flags: np.ndarray, rows: np.ndarray, nodes: np.ndarray, runs: np.ndarray, senders: np.ndarray, count: int
) -> None:
    """Flag (uint8 [B * N]) the listed rows and every row they receive from."""
    for row in rows:
        first = row // count * count
        flags[row] = 1
        for edge in range(runs[nodes[row - first]], runs[nodes[row - first + 1]]):
            flags[first + senders[edge]] = 1


@njit(cache=True, nogil=True)
def product(
    a: np.ndarray,
    a_row: int,
    a_step: int,
    b: np.ndarray,
    out: np.ndarray,
    height: int,
    depth: int,
    width: int,
) -> None:
    """Out [height, width] += a [height, depth] @ b [depth, width]; a is read by two strides."""
    for column in range(0, width, LANES):
        for row in range(0, height, 4):
            at, to = row * a_row, row * width + column
            sum0, sum1 = load(out, to, LANES), load(out, to + width, LANES)
            sum2, sum3 = load(out, to + 2 * width, LANES), load(out, to + 3 * width, LANES)
            for k in range(depth):
                right, left = load(b, k * width + column, LANES), at + k * a_step
                sum0 = multiply_add(splat_at(a, left, LANES), right, sum0)
                sum1 = multiply_add(splat_at(a, left + a_row, LANES), right, sum1)
                sum2 = multiply_add(splat_at(a, left + 2 * a_row, LANES), right, sum2)
                sum3 = multiply_add(splat_at(a, left + 3 * a_row, LANES), right, sum3)
            store(out, to, sum0)
            store(out, to + width, sum1)
            store(out, to + 2 * width, sum2)
            store(out, to + 3 * width, sum3)


@njit(cache=True, nogil=True)
def affine(
    a: np.ndarray,
    b: np.ndarray,
    bias: np.ndarray,
    out: np.ndarray,
    height: int,
    depth: int,
    width: int,
    relu: bool,
) -> None:
    """Out [height, width] = a [height, depth] @ b [depth, width] + bias [width]; ReLU if wanted."""
    zero = splat(np.float32(0), LANES)
    for column in range(0, width, LANES):
        start = load(bias, column, LANES)
        for row in range(0, height, 4):
            at, to = row * depth, row * width + column
            sum0, sum1, sum2, sum3 = start, start, start, start
            for k in range(depth):
                right, left = load(b, k * width + column, LANES), at + k
                sum0 = multiply_add(splat_at(a, left, LANES), right, sum0)
                sum1 = multiply_add(splat_at(a, left + depth, LANES), right, sum1)
                sum2 = multiply_add(splat_at(a, left + 2 * depth, LANES), right, sum2)
                sum3 = multiply_add(splat_at(a, left + 3 * depth, LANES), right, sum3)
            if relu:
                sum0, sum1, sum2, sum3 = larger(sum0, zero), larger(sum1, zero), larger(sum2, zero), larger(sum3, zero)
            store(out, to, sum0)
            store(out, to + width, sum1)
            store(out, to + 2 * width, sum2)
            store(out, to + 3 * width, sum3)


@njit(inline="always")
def _gathered(start, states, base, edges_from, edges_to, others, keep):  # type: ignore[no-untyped-def]
    """`start` and the states at the other ends of a run's edges, added up."""
    result, edge, end = start, np.int64(edges_from), np.int64(edges_to)
    while edge < end:
        ahead = min(edge + AHEAD, len(others) - 1)
        prefetch_like(states, (base + others[ahead]) * width_of(start), start)
        if keep is None or keep[edge]:
            at = (base + others[edge]) * width_of(start)
            result = add(result, load_like(states, at, start))
        edge += 1
    return result


@njit(inline="always")
def normalised(value):  # type: ignore[no-untyped-def]
    """A vector with mean 0 and variance 1: the layer normalisation before scale and shift."""
    count = np.float32(width_of(value))
    value = subtract(value, splat_like(total(value) / count, value))
    variance = total(multiply(value, value)) / count
    return multiply(value, splat_like(np.float32(1) / np.float32(sqrt(variance + np.float32(EPSILON))), value))


class Asked(NamedTuple):
    """B queries with M heads each, and the rows b * N + node that are computed."""

    rows: np.ndarray  # int32
    tables: np.ndarray  # int32 [B]
    marks: int  # M
    heads: np.ndarray  # int32 [B * M]
    boundary: np.ndarray  # flat [B, M, D]


class Parameters(NamedTuple):
    """A layer's parameters, flat; `weights` are tables of `num_weights` vectors."""

    weights: np.ndarray  # [U, K, D]
    num_weights: int  # K
    linear: np.ndarray  # [2D, D] forward, [D, 2D] backward
    bias: np.ndarray
    scale: np.ndarray
    shift: np.ndarray


class Gradients(NamedTuple):
    """Gradients of a layer's output, its input and its aggregates, flat [B * N, D] each."""

    out: np.ndarray
    states: np.ndarray
    aggregate: np.ndarray


class Wanted(NamedTuple):
    """Rows b * N + node, ascending; those of query b are from bounds[b] to bounds[b + 1], its weights in tables[b]."""

    rows: np.ndarray
    bounds: np.ndarray  # [B + 1]
    tables: np.ndarray  # int32 [B]


class LayerKernels(NamedTuple):
    """The compiled loops for one width."""

    forward: Any
    forward_alike: Any
    backward_rows: Any
    backward_edges: Any


@lru_cache
def layer_kernels(width: int) -> LayerKernels:
    """Kernels for D = width, a constant to the compiler.

    numba caches closures over plain numbers on disk but not closures over functions, so shared functions are defined at
    module level.
    """
    D, D2 = width, 2 * width  # noqa: N806

    @njit(cache=True, nogil=True)
    def forward(counter, states, out, saved, adjacency, keep, asked, parameters):  # type: ignore[no-untyped-def]
        """One layer for the requested rows: `out` [B * N, D] gets their new states.

        `saved` is None or three flat arrays that keep, in the order of `rows`, what the backward pass needs: aggregates
        [M, D], normalised products [M, D] and inverse deviations [M].
        """
        nodes, runs, relations, senders = adjacency
        rows, tables, marks, heads, boundary = asked
        weights, num_weights, linear, bias, scale, shift = parameters
        count = len(nodes) - 1
        tasks = (len(rows) + TILE - 1) // TILE
        pair = np.zeros(TILE * D2, np.float32)  # [TILE, 2D]: state, aggregate
        mixed = np.zeros(TILE * D, np.float32)
        for _ in range(tasks):
            tile = take(counter)
            if tile >= tasks:
                break
            first = tile * TILE
            height = min(TILE, len(rows) - first)
            for i in range(height):
                row = np.int64(rows[first + i])
                query = row // count
                base, node = query * count, row - query * count
                total_message = splat(np.float32(0), D)
                for mark in range(query * marks, (query + 1) * marks):
                    if node == heads[mark]:
                        total_message = add(total_message, load(boundary, mark * D, D))
                table = np.int64(tables[query]) * num_weights
                run, stop = np.int64(nodes[node]), np.int64(nodes[node + 1])
                while run < stop:
                    message = _gathered(splat(np.float32(0), D), states, base, runs[run], runs[run + 1], senders, keep)
                    weight = load(weights, (table + relations[run]) * D, D)
                    total_message = multiply_add(message, weight, total_message)
                    run += 1
                store(pair, i * D2, load(states, row * D, D))
                store(pair, i * D2 + D, total_message)
                if saved is not None:
                    store(saved[0], (first + i) * D, total_message)
            affine(pair, linear, bias, mixed, TILE, D2, D, False)
            for i in range(height):
                value = load(mixed, i * D, D)
                value = subtract(value, splat(total(value) / np.float32(D), D))
                variance = total(multiply(value, value)) / np.float32(D)
                inverse = np.float32(1) / np.float32(sqrt(variance + np.float32(EPSILON)))
                value = multiply(value, splat(inverse, D))
                if saved is not None:
                    store(saved[1], (first + i) * D, value)
                    saved[2][first + i] = inverse
                value = multiply_add(value, load(scale, 0, D), load(shift, 0, D))
                value = larger(value, splat(np.float32(0), D))
                store(out, np.int64(rows[first + i]) * D, add(value, load(pair, i * D2, D)))

    @njit(cache=True, nogil=True)
    def forward_alike(counter, out, rows, background, adjacency, tables, parameters):  # type: ignore[no-untyped-def]
        """As `forward` for rows whose own state and whose senders' states are all the `background` [D].

        Then a run of n edges of relation e sends n * background * weight_e: the states are not read at all. The rows'
        own half of the matrix product is part of the bias, `linear` is the other half [D, D], and the weights are
        multiplied by the background.
        """
        nodes, runs, relations, _ = adjacency
        weights, num_weights, linear, bias, scale, shift = parameters
        count = len(nodes) - 1
        tasks = (len(rows) + TILE - 1) // TILE
        received = np.zeros(TILE * D, np.float32)
        mixed = np.zeros(TILE * D, np.float32)
        for _ in range(tasks):
            tile = take(counter)
            if tile >= tasks:
                break
            first = tile * TILE
            height = min(TILE, len(rows) - first)
            for i in range(height):
                row = np.int64(rows[first + i])
                query = row // count
                node = row - query * count
                table = np.int64(tables[query]) * num_weights
                total_message = splat(np.float32(0), D)
                run, stop = np.int64(nodes[node]), np.int64(nodes[node + 1])
                while run < stop:
                    weight = load(weights, (table + relations[run]) * D, D)
                    size = splat(np.float32(runs[run + 1] - runs[run]), D)
                    total_message = multiply_add(size, weight, total_message)
                    run += 1
                store(received, i * D, total_message)
            affine(received, linear, bias, mixed, TILE, D, D, False)
            for i in range(height):
                value = normalised(load(mixed, i * D, D))
                value = multiply_add(value, load(scale, 0, D), load(shift, 0, D))
                value = larger(value, splat(np.float32(0), D))
                store(out, np.int64(rows[first + i]) * D, add(value, load(background, 0, D)))

    @njit(cache=True, nogil=True)
    def backward_rows(  # type: ignore[no-untyped-def]
        counter, gradients, states, saved, rows, parameters, grad_linear, grad_vectors
    ):
        """From the gradient of `out` to those of the rows' own states, of their aggregates and of the parameters.

        `linear` is [D, 2D]. Each of P pieces of the rows has its own sums grad_linear [P, D, 2D] and grad_vectors
        [P, 3, D] (bias, scale, shift).
        """
        grad_out, grad_states, grad_aggregate = gradients
        linear, scale, shift = parameters.linear, parameters.scale, parameters.shift
        pieces = len(grad_vectors) // (3 * D)
        tasks = pieces
        for _ in range(tasks):
            piece = take(counter)
            if piece >= tasks:
                break
            tiles = (len(rows) + TILE - 1) // TILE
            sums = np.zeros(D * D2, np.float32)
            grad_bias = splat(np.float32(0), D)
            grad_scale = splat(np.float32(0), D)
            grad_shift = splat(np.float32(0), D)
            pair = np.zeros(TILE * D2, np.float32)
            grad_mixed = np.zeros(TILE * D, np.float32)
            grad_pair = np.zeros(TILE * D2, np.float32)
            for tile in range(tiles * piece // pieces, tiles * (piece + 1) // pieces):
                first = tile * TILE
                height = min(TILE, len(rows) - first)
                if height < TILE:
                    grad_mixed[:] = 0
                grad_pair[:] = 0
                for i in range(height):
                    row = np.int64(rows[first + i])
                    normal = load(saved[1], (first + i) * D, D)
                    factor = load(scale, 0, D)
                    before = multiply_add(normal, factor, load(shift, 0, D))
                    grad = where_positive(before, load(grad_out, row * D, D))
                    grad_shift = add(grad_shift, grad)
                    grad_scale = multiply_add(grad, normal, grad_scale)
                    grad = multiply(grad, factor)
                    mean = total(grad) / np.float32(D)
                    slope = total(multiply(grad, normal)) / np.float32(D)
                    grad = subtract(grad, multiply_add(normal, splat(slope, D), splat(mean, D)))
                    grad = multiply(grad, splat(saved[2][first + i], D))
                    grad_bias = add(grad_bias, grad)
                    store(grad_mixed, i * D, grad)
                    store(pair, i * D2, load(states, row * D, D))
                    store(pair, i * D2 + D, load(saved[0], (first + i) * D, D))
                product(grad_mixed, D, 1, linear, grad_pair, TILE, D, D2)
                product(grad_mixed, 1, D, pair, sums, D, TILE, D2)
                for i in range(height):
                    row = np.int64(rows[first + i])
                    own = add(load(grad_out, row * D, D), load(grad_pair, i * D2, D))
                    store(grad_states, row * D, own)
                    store(grad_aggregate, row * D, load(grad_pair, i * D2 + D, D))
            grad_linear[piece * D * D2 : (piece + 1) * D * D2] = sums
            store(grad_vectors, piece * 3 * D, grad_bias)
            store(grad_vectors, piece * 3 * D + D, grad_scale)
            store(grad_vectors, piece * 3 * D + D2, grad_shift)

    @njit(cache=True, nogil=True)
    def backward_edges(  # type: ignore[no-untyped-def]
        counter, gradients, states, wanted, adjacency, keep, parameters, grad_weights
    ):
        """From the gradient of the aggregates to those of the senders' states (added) and of the weights.

        Every query has its own `pieces` sums, grad_weights [B, pieces, num_weights, D], initially zero.
        Aggregates that were not computed have gradient 0.
        """
        grad_states, grad_aggregate = gradients.states, gradients.aggregate
        rows, bounds, tables = wanted
        nodes, runs, relations, receivers = adjacency
        weights, num_weights = parameters.weights, parameters.num_weights
        count, pieces = len(nodes) - 1, len(grad_weights) // max((len(bounds) - 1) * num_weights * D, 1)
        tasks = (len(bounds) - 1) * pieces
        for _ in range(tasks):
            task = take(counter)
            if task >= tasks:
                break
            query, piece = task // pieces, task % pieces
            begin, length = bounds[query], bounds[query + 1] - bounds[query]
            table, base = np.int64(tables[query]) * num_weights, query * count
            for i in range(begin + length * piece // pieces, begin + length * (piece + 1) // pieces):
                row = np.int64(rows[i])
                node = row - base
                state = load(states, row * D, D)
                grad = load(grad_states, row * D, D)
                run, stop = np.int64(nodes[node]), np.int64(nodes[node + 1])
                while run < stop:
                    message = _gathered(
                        splat(np.float32(0), D), grad_aggregate, base, runs[run], runs[run + 1], receivers, keep
                    )
                    grad = multiply_add(message, load(weights, (table + relations[run]) * D, D), grad)
                    to = (task * num_weights + relations[run]) * D
                    store(grad_weights, to, multiply_add(message, state, load(grad_weights, to, D)))
                    run += 1
                store(grad_states, row * D, grad)

    return LayerKernels(forward, forward_alike, backward_rows, backward_edges)
