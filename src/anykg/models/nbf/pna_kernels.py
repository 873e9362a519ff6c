"""Compiled kernels for a Bellman-Ford layer with PNA; `anykg.models.nbf.pna` has the equations.

States are tables, flat float32 arrays of rows of D floats. A cell is query * N + node, and `where` [(1 + B) * N] has
the row of each cell in a table, -1 if it has none: query 0 is the background, and cells of other queries may share its
rows, which come first. A kernel computes the listed cells only. Sixteen at a time go through aggregation and matrix
product without leaving the cache; the scaled features, 12 D a row, never exist.

Work is cut into the same pieces for any number of threads, and pieces write to disjoint memory, so results are bitwise
reproducible. D must be a multiple of 16.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from anykg.models.nbf.aggregate import SMALLEST_VARIANCE
from anykg.models.nbf.edges import Adjacency
from anykg.models.nbf.kernels import TILE, product
from anykg.models.simd import (
    add,
    divide,
    larger,
    load,
    multiply,
    multiply_add,
    smaller,
    splat,
    square_root,
    store,
    subtract,
    where_equal,
    where_positive,
)
from anykg.tasks import take

_SMALLEST = np.float32(SMALLEST_VARIANCE)


class Degrees(NamedTuple):
    """Of every node, float32 [N]."""

    counts: np.ndarray  # messages, the boundary included
    scales: np.ndarray  # log-degrees
    inverses: np.ndarray  # 1 / log-degrees


class Rows(NamedTuple):
    """Which cells a table of states has."""

    cells: np.ndarray  # int32 [S], ascending: those that are computed
    where: np.ndarray  # int32 [(1 + B) * N]: the row of each cell, perhaps the background's; -1 if it is not needed
    shared: int  # rows of the background, which are the first
    given: int  # rows that are not computed by the layer, but given: the first of the background, or none
    fixed: int  # rows that get no gradient, which are the first


class Table(NamedTuple):
    """The states before or after a layer."""

    states: np.ndarray  # flat [given + S, D]
    rows: Rows


class Asked(NamedTuple):
    """The background, which has no head, and B queries."""

    heads: np.ndarray  # int32 [1 + B]
    boundary: np.ndarray  # flat [1 + B, D]


class Problem(NamedTuple):
    """What all layers read: the edges by receiver, and what is asked."""

    adjacency: Adjacency
    degrees: Degrees
    asked: Asked


class Parameters(NamedTuple):
    """A layer's parameters, flat.

    The matrix maps the state and four features to three products, to be scaled by 1, log-degree and 1 / log-degree.
    """

    weights: np.ndarray  # [K, D]
    matrix: np.ndarray  # [5D, 3D], transposed in the backward pass
    bias: np.ndarray  # [D]


class CellGradients(NamedTuple):
    """Gradients, flat: of the layer's output, and of what a cell's state is computed from.

    `moments` are sum, sum of squares, largest and smallest message, the last two divided by how many messages attain
    them. Each of P pieces of the cells has sums of its own, `matrix` and `bias`.
    """

    out: np.ndarray  # [given + S, D]
    moments: np.ndarray  # [S, 4D]
    own: np.ndarray  # [S, D]
    boundary: np.ndarray  # [1 + B, D], added to
    matrix: np.ndarray  # [P, 5D, 3D]
    bias: np.ndarray  # [P, D]


class EdgeGradients(NamedTuple):
    """Gradients, flat: those of moments and own states, and what follows from them.

    Each of P pieces of the nodes has sums of its own, `weights`; these and `before` are zero to begin with.
    """

    moments: np.ndarray  # [S, 4D]
    own: np.ndarray  # [S, D]
    before: np.ndarray  # [S', D], of the table before the layer
    weights: np.ndarray  # [P, K, D]


class PNAKernels(NamedTuple):
    """The compiled loops for one width."""

    forward: Any
    backward_cells: Any
    backward_edges: Any


@lru_cache
def pna_kernels(width: int) -> PNAKernels:
    """Kernels for D = width, a constant to the compiler."""
    D, D2, D3, D4, D5 = width, 2 * width, 3 * width, 4 * width, 5 * width  # noqa: N806

    @njit(cache=True, nogil=True)
    def forward(counter, old, new, saved, problem, keep, parameters):  # type: ignore[no-untyped-def]
        """One layer: the `new` table's rows that are not given get the new states of its cells.

        `saved` is None or a flat array [S, 4D] for mean, largest, smallest and variance, which the backward pass needs.
        """
        before, where = old.states, old.rows.where
        out, cells, first_row = new.states, new.rows.cells, new.rows.given
        (nodes, runs, relations, senders), (counts, scales, inverses), (heads, boundary) = problem
        weights, matrix, bias = parameters
        count = len(nodes) - 1
        tasks = (len(cells) + TILE - 1) // TILE
        for _ in range(tasks):
            tile = take(counter)
            if tile >= tasks:
                break
            first = tile * TILE
            height = min(TILE, len(cells) - first)
            inputs = np.zeros(TILE * D5, np.float32)  # state, mean, largest, smallest, deviation
            products = np.zeros(TILE * D3, np.float32)
            for i in range(height):
                cell = np.int64(cells[first + i])
                query = cell // count
                base, node = query * count, cell - query * count
                start = splat(np.float32(0), D)
                if node == heads[query]:
                    start = load(boundary, query * D, D)
                result, squares, most, least = start, multiply(start, start), start, start
                for run in range(nodes[node], nodes[node + 1]):
                    weight = load(weights, np.int64(relations[run]) * D, D)
                    for edge in range(runs[run], runs[run + 1]):
                        if keep is None or keep[edge]:
                            sender = np.int64(where[base + senders[edge]])
                            message = multiply(load(before, sender * D, D), weight)
                            result = add(result, message)
                            squares = multiply_add(message, message, squares)
                            most = larger(message, most)
                            least = smaller(message, least)
                number = splat(counts[node], D)
                mean = divide(result, number)
                variance = subtract(divide(squares, number), multiply(mean, mean))
                at = i * D5
                store(inputs, at, load(before, np.int64(where[cell]) * D, D))
                store(inputs, at + D, mean)
                store(inputs, at + D2, most)
                store(inputs, at + D3, least)
                store(inputs, at + D4, square_root(larger(variance, splat(_SMALLEST, D))))
                store(products, i * D3, load(bias, 0, D))
                if saved is not None:
                    at = (first + i) * D4
                    store(saved, at, mean)
                    store(saved, at + D, most)
                    store(saved, at + D2, least)
                    store(saved, at + D3, variance)
            product(inputs, D5, 1, matrix, products, TILE, D5, D3)
            for i in range(height):
                node = np.int64(cells[first + i]) % count
                value = load(products, i * D3, D)
                value = multiply_add(splat(scales[node], D), load(products, i * D3 + D, D), value)
                value = multiply_add(splat(inverses[node], D), load(products, i * D3 + D2, D), value)
                store(out, (first_row + first + i) * D, larger(value, splat(np.float32(0), D)))

    @njit(cache=True, nogil=True)
    def backward_cells(counter, old, new, saved, problem, keep, parameters, gradients):  # type: ignore[no-untyped-def]
        """From the gradient of the output to the other `CellGradients`."""
        before, where = old.states, old.rows.where
        out, cells, first_row = new.states, new.rows.cells, new.rows.given
        (nodes, runs, relations, senders), (counts, scales, inverses), (heads, boundary) = problem
        grad_out, grad_moments, grad_own, grad_boundary, grad_matrix, grad_bias = gradients
        weights, matrix, _ = parameters
        count, pieces = len(nodes) - 1, len(grad_bias) // D
        tiles = (len(cells) + TILE - 1) // TILE
        for _ in range(pieces):
            piece = take(counter)
            if piece >= pieces:
                break
            sums = np.zeros(D5 * D3, np.float32)
            sum_bias = splat(np.float32(0), D)
            inputs = np.zeros(TILE * D5, np.float32)
            given = np.zeros(TILE * D3, np.float32)
            to_inputs = np.zeros(TILE * D5, np.float32)
            for tile in range(tiles * piece // pieces, tiles * (piece + 1) // pieces):
                first = tile * TILE
                height = min(TILE, len(cells) - first)
                if height < TILE:
                    given[:] = 0
                to_inputs[:] = 0
                for i in range(height):
                    row = first + i
                    cell = np.int64(cells[row])
                    node = cell % count
                    at = (first_row + row) * D
                    grad = where_positive(load(out, at, D), load(grad_out, at, D))
                    sum_bias = add(sum_bias, grad)
                    store(given, i * D3, grad)
                    store(given, i * D3 + D, multiply(grad, splat(scales[node], D)))
                    store(given, i * D3 + D2, multiply(grad, splat(inverses[node], D)))
                    at = i * D5
                    store(inputs, at, load(before, np.int64(where[cell]) * D, D))
                    store(inputs, at + D, load(saved, row * D4, D))
                    store(inputs, at + D2, load(saved, row * D4 + D, D))
                    store(inputs, at + D3, load(saved, row * D4 + D2, D))
                    variance = load(saved, row * D4 + D3, D)
                    store(inputs, at + D4, square_root(larger(variance, splat(_SMALLEST, D))))
                product(given, D3, 1, matrix, to_inputs, TILE, D3, D5)
                product(inputs, 1, D5, given, sums, D5, TILE, D3)
                for i in range(height):
                    row, at = first + i, i * D5
                    cell = np.int64(cells[row])
                    query = cell // count
                    base, node = query * count, cell - query * count
                    store(grad_own, row * D, load(to_inputs, at, D))
                    mean, deviation = load(inputs, at + D, D), load(inputs, at + D4, D)
                    most, least = load(inputs, at + D2, D), load(inputs, at + D3, D)
                    above = subtract(load(saved, row * D4 + D3, D), splat(_SMALLEST, D))
                    to_variance = divide(load(to_inputs, at + D4, D), add(deviation, deviation))
                    to_variance = where_positive(above, to_variance)
                    number = splat(counts[node], D)
                    to_squares = divide(to_variance, number)
                    to_mean = subtract(load(to_inputs, at + D, D), multiply(add(mean, mean), to_variance))
                    to_sum = divide(to_mean, number)
                    start = splat(np.float32(0), D)
                    if node == heads[query]:
                        start = load(boundary, query * D, D)
                    one = splat(np.float32(1), D)
                    tops, bottoms = where_equal(start, most, one), where_equal(start, least, one)
                    for run in range(nodes[node], nodes[node + 1]):
                        weight = load(weights, np.int64(relations[run]) * D, D)
                        for edge in range(runs[run], runs[run + 1]):
                            if keep is None or keep[edge]:
                                sender = np.int64(where[base + senders[edge]])
                                message = multiply(load(before, sender * D, D), weight)
                                tops = add(tops, where_equal(message, most, one))
                                bottoms = add(bottoms, where_equal(message, least, one))
                    to_most = divide(load(to_inputs, at + D2, D), larger(tops, one))
                    to_least = divide(load(to_inputs, at + D3, D), larger(bottoms, one))
                    store(grad_moments, row * D4, to_sum)
                    store(grad_moments, row * D4 + D, to_squares)
                    store(grad_moments, row * D4 + D2, to_most)
                    store(grad_moments, row * D4 + D3, to_least)
                    if node == heads[query]:
                        share = multiply_add(add(start, start), to_squares, to_sum)
                        share = add(share, where_equal(start, most, to_most))
                        share = add(share, where_equal(start, least, to_least))
                        store(grad_boundary, query * D, add(load(grad_boundary, query * D, D), share))
            grad_matrix[piece * D5 * D3 : (piece + 1) * D5 * D3] = sums
            store(grad_bias, piece * D, sum_bias)

    @njit(cache=True, nogil=True)
    def backward_edges(counter, old, new, saved, adjacency, keep, weights, gradients):  # type: ignore[no-untyped-def]
        """From the gradients of moments and own states to the other `EdgeGradients`."""
        before, where, first_row = old.states, old.rows.where, old.rows.fixed
        where_out, shared, given = new.rows.where, new.rows.shared, new.rows.given
        nodes, runs, relations, receivers = adjacency
        grad_moments, grad_own, grad_before, grad_weights = gradients
        count, size = len(nodes) - 1, len(weights)
        pieces = len(grad_weights) // max(size, 1)
        queries = len(where_out) // max(count, 1)
        for _ in range(pieces):
            piece = take(counter)
            if piece >= pieces:
                break
            for node in range(count * piece // pieces, count * (piece + 1) // pieces):
                for query in range(queries):
                    base = query * count
                    row = np.int64(where[base + node])
                    if row < first_row:
                        continue
                    own = shared if query > 0 else given  # rows from here on were computed for this query
                    state = load(before, row * D, D)
                    result = splat(np.float32(0), D)
                    to = np.int64(where_out[base + node])
                    if to >= own:
                        result = load(grad_own, (to - given) * D, D)
                    for run in range(nodes[node], nodes[node + 1]):
                        weight, message, received = result, result, splat(np.float32(0), D)
                        found = False
                        for edge in range(runs[run], runs[run + 1]):
                            to = np.int64(where_out[base + receivers[edge]])
                            if to >= own and (keep is None or keep[edge]):
                                if not found:
                                    weight = load(weights, np.int64(relations[run]) * D, D)
                                    message = multiply(state, weight)
                                    found = True
                                at = (to - given) * D4
                                received = add(received, load(grad_moments, at, D))
                                received = multiply_add(add(message, message), load(grad_moments, at + D, D), received)
                                top, bottom = load(saved, at + D, D), load(saved, at + D2, D)
                                received = add(received, where_equal(message, top, load(grad_moments, at + D2, D)))
                                received = add(received, where_equal(message, bottom, load(grad_moments, at + D3, D)))
                        if found:
                            result = multiply_add(received, weight, result)
                            at = piece * size + np.int64(relations[run]) * D
                            store(grad_weights, at, multiply_add(received, state, load(grad_weights, at, D)))
                    store(grad_before, row * D, add(load(grad_before, row * D, D), result))

    return PNAKernels(forward, backward_cells, backward_edges)
