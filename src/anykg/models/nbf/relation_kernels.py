"""Compiled kernels for TRIX's relation step: messages between relations that meet in an entity.

H(v) are the relation ids of which entity v is a head, T(v) those of which it is a tail: H(v) with r and r + R swapped.
With s_H[v], s_T[v] the sums of z over H(v) and T(v), and F_k the factors f_k(x_v) of the four link types,

    hh[r] = sum of F_hh[v] * (s_H[v] - z[r])  over v with r in H(v)        tt[r] alike over v with r in T(v), with s_T
    ht[r] = sum of F_ht[v] * s_T[v]           over v with r in H(v)        th[r] alike over v with r in T(v), with s_H

which is the sum over all pairs of relations of an entity, at a cost linear in the (entity, relation) pairs. These pairs
are the runs of `edges.Order`. Some entities at a time go through the two layers of f in the L1 cache, one link type
after the other. A query is split into pieces with separate sums, so results do not depend on the number of
threads.

`update` then turns what relations receive into new vectors, some relations at a time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from anykg.models.nbf.kernels import LANES, affine, normalised, product
from anykg.models.simd import add, larger, load, multiply, multiply_add, splat, store, subtract, where_positive
from anykg.tasks import take

TILE = 32  # rows that go through an MLP together
HH, TT, HT, TH = range(4)


class Incidence(NamedTuple):
    """Distinct (entity, relation) pairs: entity v has the relations from nodes[v] to nodes[v + 1]."""

    nodes: np.ndarray  # int32 [N + 1]
    relations: np.ndarray  # int32 [Q]
    num_relations: int  # 2R


class FactorWeights(NamedTuple):
    """The parameters of f for the four link types, flat: for the forward and, transposed, for the backward pass."""

    first: np.ndarray  # [4, D, D] (input, output)
    offsets: np.ndarray  # [B, 4D]
    second: np.ndarray  # [4, D, D] (input, output)
    bias: np.ndarray  # [4, D]
    first_t: np.ndarray  # [4D, D]
    second_t: np.ndarray  # [4, D, D] (output, input)


class Known(NamedTuple):
    """Which entities of which queries have states of their own, and the factors of all others."""

    rows: np.ndarray  # int32 [A], b * N + entity, ascending: the row of each state
    bounds: np.ndarray  # int64 [P + 1]: the states of piece p are those from bounds[p] to bounds[p + 1]
    factors: np.ndarray  # [N, 4, D] of every entity without a state, for all queries; may be empty if there is none


class UpdateWeights(NamedTuple):
    """The parameters of the update for the four link types, flat."""

    linear: np.ndarray  # [4, 2D, D] (input, output)
    bias: np.ndarray  # [4, D]
    scale: np.ndarray  # [4, D]
    shift: np.ndarray  # [4, D]


class Sums(NamedTuple):
    """Gradients: of the states [B * N, D], and of the others for each of P pieces, zero to begin with."""

    states: np.ndarray
    vectors: np.ndarray  # [P, 2R, D]
    first: np.ndarray  # [P, D, 4D]
    offsets: np.ndarray  # [P, 4D]
    second: np.ndarray  # [P, 4, D, D]
    bias: np.ndarray  # [P, 4, D]


class RelationKernels(NamedTuple):
    """The compiled loops for one width."""

    factors: Any
    forward: Any
    backward: Any
    update: Any


@njit(cache=True)
def count_meetings(nodes, relations, keep, wanted, num_relations):  # type: ignore[no-untyped-def]
    """In how many entities each relation meets a wanted one, by link type: float32 [U, 4, 2R]."""
    result = np.zeros((len(wanted), 4, num_relations), np.float32)
    half = num_relations // 2
    for index in range(len(wanted)):
        asked = wanted[index]
        asked_inverse = asked + half if asked < half else asked - half
        counts = result[index]
        for node in range(len(nodes) - 1):
            in_heads, in_tails = False, False
            for run in range(nodes[node], nodes[node + 1]):
                if keep is None or keep[run]:
                    in_heads = in_heads or relations[run] == asked
                    in_tails = in_tails or relations[run] == asked_inverse
            if not (in_heads or in_tails):
                continue
            for run in range(nodes[node], nodes[node + 1]):
                if keep is None or keep[run]:
                    head = relations[run]
                    tail = head + half if head < half else head - half
                    if in_heads:
                        counts[HH, head] += head != asked
                        counts[TH, tail] += 1
                    if in_tails:
                        counts[HT, head] += 1
                        counts[TT, tail] += tail != asked
    return result


class Factors(NamedTuple):
    """The factors of a tile of states and what they are computed from, flat."""

    own: np.ndarray  # [TILE, D], the states
    hidden: np.ndarray  # [4, TILE, D], the hidden layer
    factors: np.ndarray  # [4, TILE, D]


@njit(cache=True, nogil=True)
def _factors(states, at, height, query, weights, made, width):  # type: ignore[no-untyped-def]
    """Fill `made`, `Factors` of up to TILE states from row `at` on."""
    first, offsets, second, bias, _, _ = weights
    own, hidden, factors = made
    size, weight_size = TILE * width, width * width
    for lane in range(0, height * width, LANES):
        store(own, lane, load(states, at * width + lane, LANES))
    for k in range(4):
        inner, outer = hidden[k * size : (k + 1) * size], factors[k * size : (k + 1) * size]
        part = slice(k * weight_size, (k + 1) * weight_size)
        affine(own, first[part], offsets[(query * 4 + k) * width :], inner, TILE, width, width, True)
        affine(inner, second[part], bias[k * width :], outer, TILE, width, width, False)


@lru_cache
def relation_kernels(width: int) -> RelationKernels:
    """Kernels for D = width, a constant to the compiler."""
    D, D2, D4 = width, 2 * width, 4 * width  # noqa: N806

    @njit(cache=True, nogil=True)
    def factors_of(counter, states, out, weights):  # type: ignore[no-untyped-def]
        """The factors of states [N, D] with the first query's offsets: [N, 4, D]."""
        count = len(states) // D
        tasks = (count + TILE - 1) // TILE
        own = np.zeros(TILE * D, np.float32)
        hidden = np.zeros(TILE * D4, np.float32)
        factors = np.zeros(4 * TILE * D, np.float32)
        for _ in range(tasks):
            task = take(counter)
            if task >= tasks:
                break
            begin = task * TILE
            height = min(TILE, count - begin)
            _factors(states, begin, height, 0, weights, Factors(own, hidden, factors), D)
            for i in range(height):
                for k in range(4):
                    store(out, ((begin + i) * 4 + k) * D, load(factors, (k * TILE + i) * D, D))

    @njit(cache=True, nogil=True)
    def forward(counter, states, known, vectors, out, incidence, keep, weights):  # type: ignore[no-untyped-def]
        """Out [P, 4, 2R, D], zero to begin with, gets the sums of each piece; a query has P / B of them."""
        nodes, relations, num_relations = incidence
        rows, bounds, known_factors = known
        count, half = len(nodes) - 1, num_relations // 2
        tasks = len(bounds) - 1
        pieces = tasks // max(len(weights.offsets) // D4, 1)
        own = np.zeros(TILE * D, np.float32)
        hidden = np.zeros(TILE * D4, np.float32)
        factors = np.zeros(4 * TILE * D, np.float32)
        for _ in range(tasks):
            task = take(counter)
            if task >= tasks:
                break
            query, piece = task // pieces, task % pieces
            table, base = query * num_relations, query * count
            to_hh = task * 4 * num_relations
            to_tt, to_ht, to_th = to_hh + num_relations, to_hh + 2 * num_relations, to_hh + 3 * num_relations
            at, tile, ready, end = bounds[task], bounds[task], bounds[task], bounds[task + 1]
            for node in range(count * piece // pieces, count * (piece + 1) // pieces):
                if at < end and rows[at] == base + node:
                    if at == ready:
                        tile, ready = at, min(at + TILE, end)
                        _factors(states, at, ready - at, query, weights, Factors(own, hidden, factors), D)
                    i = at - tile
                    factor_hh = load(factors, (HH * TILE + i) * D, D)
                    factor_tt = load(factors, (TT * TILE + i) * D, D)
                    factor_ht = load(factors, (HT * TILE + i) * D, D)
                    factor_th = load(factors, (TH * TILE + i) * D, D)
                    at += 1
                else:
                    factor_hh = load(known_factors, (node * 4 + HH) * D, D)
                    factor_tt = load(known_factors, (node * 4 + TT) * D, D)
                    factor_ht = load(known_factors, (node * 4 + HT) * D, D)
                    factor_th = load(known_factors, (node * 4 + TH) * D, D)
                heads, tails = splat(np.float32(0), D), splat(np.float32(0), D)
                run, end_run = np.int64(nodes[node]), np.int64(nodes[node + 1])
                while run < end_run:
                    if keep is None or keep[run]:
                        head = np.int64(relations[run])
                        tail = head + half if head < half else head - half
                        heads = add(heads, load(vectors, (table + head) * D, D))
                        tails = add(tails, load(vectors, (table + tail) * D, D))
                    run += 1
                message_ht = multiply(factor_ht, tails)
                message_th = multiply(factor_th, heads)
                run, end_run = np.int64(nodes[node]), np.int64(nodes[node + 1])
                while run < end_run:
                    if keep is None or keep[run]:
                        head = np.int64(relations[run])
                        tail = head + half if head < half else head - half
                        to = (to_hh + head) * D
                        others = subtract(heads, load(vectors, (table + head) * D, D))
                        store(out, to, multiply_add(factor_hh, others, load(out, to, D)))
                        to = (to_tt + tail) * D
                        others = subtract(tails, load(vectors, (table + tail) * D, D))
                        store(out, to, multiply_add(factor_tt, others, load(out, to, D)))
                        to = (to_ht + head) * D
                        store(out, to, add(message_ht, load(out, to, D)))
                        to = (to_th + tail) * D
                        store(out, to, add(message_th, load(out, to, D)))
                    run += 1

    @njit(cache=True, nogil=True)
    def backward(counter, grad, states, vectors, incidence, keep, weights, sums):  # type: ignore[no-untyped-def]
        """From grad [B, 4, 2R, D] to all gradients. The factors are recomputed."""
        nodes, relations, num_relations = incidence
        first_t, second_t = weights.first_t, weights.second_t
        grad_states, grad_vectors, grad_first, grad_offsets, grad_second, grad_bias = sums
        count, half = len(nodes) - 1, num_relations // 2
        pieces = len(grad_bias) // max(len(weights.offsets), 1)
        tasks = len(grad_bias) // D4
        for _ in range(tasks):
            task = take(counter)
            if task >= tasks:
                break
            query, piece = task // pieces, task % pieces
            table, stop = query * num_relations, count * (piece + 1) // pieces
            at_hh = query * 4 * num_relations
            at_tt, at_ht, at_th = at_hh + num_relations, at_hh + 2 * num_relations, at_hh + 3 * num_relations
            own = np.zeros(TILE * D, np.float32)
            hidden = np.zeros(TILE * D4, np.float32)
            factors = np.zeros(4 * TILE * D, np.float32)
            grad_factors = np.zeros(4 * TILE * D, np.float32)
            grad_hidden = np.zeros(TILE * D4, np.float32)
            grad_part = np.zeros(TILE * D, np.float32)
            grad_own = np.zeros(TILE * D, np.float32)
            sums_first = np.zeros(D * D4, np.float32)
            sums_second = np.zeros(4 * D * D, np.float32)
            for begin in range(count * piece // pieces, stop, TILE):
                height = min(TILE, stop - begin)
                _factors(states, query * count + begin, height, query, weights, Factors(own, hidden, factors), D)
                grad_own[:] = 0
                grad_factors[:] = 0
                for i in range(height):
                    node = begin + i
                    zero = splat(np.float32(0), D)
                    heads, tails, own_hh, own_tt = zero, zero, zero, zero
                    all_hh, all_tt, all_ht, all_th = zero, zero, zero, zero
                    run, end_run = np.int64(nodes[node]), np.int64(nodes[node + 1])
                    while run < end_run:
                        if keep is None or keep[run]:
                            head = np.int64(relations[run])
                            tail = head + half if head < half else head - half
                            vector, of_type = load(vectors, (table + head) * D, D), load(grad, (at_hh + head) * D, D)
                            heads, all_hh = add(heads, vector), add(all_hh, of_type)
                            own_hh = multiply_add(vector, of_type, own_hh)
                            vector, of_type = load(vectors, (table + tail) * D, D), load(grad, (at_tt + tail) * D, D)
                            tails, all_tt = add(tails, vector), add(all_tt, of_type)
                            own_tt = multiply_add(vector, of_type, own_tt)
                            all_ht = add(all_ht, load(grad, (at_ht + head) * D, D))
                            all_th = add(all_th, load(grad, (at_th + tail) * D, D))
                        run += 1
                    store(grad_factors, (HH * TILE + i) * D, subtract(multiply(all_hh, heads), own_hh))
                    store(grad_factors, (TT * TILE + i) * D, subtract(multiply(all_tt, tails), own_tt))
                    store(grad_factors, (HT * TILE + i) * D, multiply(all_ht, tails))
                    store(grad_factors, (TH * TILE + i) * D, multiply(all_th, heads))
                    factor_hh = load(factors, (HH * TILE + i) * D, D)
                    factor_tt = load(factors, (TT * TILE + i) * D, D)
                    of_heads = multiply(load(factors, (TH * TILE + i) * D, D), all_th)
                    of_heads = multiply_add(factor_hh, all_hh, of_heads)
                    of_tails = multiply(load(factors, (HT * TILE + i) * D, D), all_ht)
                    of_tails = multiply_add(factor_tt, all_tt, of_tails)
                    run, end_run = np.int64(nodes[node]), np.int64(nodes[node + 1])
                    while run < end_run:
                        if keep is None or keep[run]:
                            head = np.int64(relations[run])
                            tail = head + half if head < half else head - half
                            at = (task * num_relations + head) * D
                            part = multiply(factor_hh, load(grad, (at_hh + head) * D, D))
                            store(grad_vectors, at, add(load(grad_vectors, at, D), subtract(of_heads, part)))
                            at = (task * num_relations + tail) * D
                            part = multiply(factor_tt, load(grad, (at_tt + tail) * D, D))
                            store(grad_vectors, at, add(load(grad_vectors, at, D), subtract(of_tails, part)))
                        run += 1
                for k in range(4):
                    of_factors = grad_factors[k * TILE * D : (k + 1) * TILE * D]
                    part = slice(k * D * D, (k + 1) * D * D)
                    product(hidden[k * TILE * D :], 1, D, of_factors, sums_second[part], D, TILE, D)
                    grad_part[:] = 0
                    product(of_factors, D, 1, second_t[part], grad_part, TILE, D, D)
                    at = (task * 4 + k) * D
                    sum_bias, sum_offsets = load(grad_bias, at, D), load(grad_offsets, at, D)
                    for i in range(TILE):
                        sum_bias = add(sum_bias, load(of_factors, i * D, D))
                        value = where_positive(load(hidden, (k * TILE + i) * D, D), load(grad_part, i * D, D))
                        sum_offsets = add(sum_offsets, value)
                        store(grad_hidden, i * D4 + k * D, value)
                    store(grad_bias, at, sum_bias)
                    store(grad_offsets, at, sum_offsets)
                product(own, 1, D, grad_hidden, sums_first, D, TILE, D4)
                product(grad_hidden, D4, 1, first_t, grad_own, TILE, D4, D)
                for i in range(height):
                    store(grad_states, (query * count + begin + i) * D, load(grad_own, i * D, D))
            grad_first[task * D * D4 : (task + 1) * D * D4] = sums_first
            grad_second[task * 4 * D * D : (task + 1) * 4 * D * D] = sums_second

    @njit(cache=True, nogil=True)
    def update(counter, vectors, received, boundary, num_relations, out, weights):  # type: ignore[no-untyped-def]
        """New vectors [B * 2R, D] from what they receive [B, 4, 2R, D], to which the boundary [B * 2R] is added."""
        linear, bias, scale, shift = weights
        num_rows = len(boundary)
        tasks = (num_rows + TILE - 1) // TILE
        pair = np.zeros(TILE * D2, np.float32)  # [TILE, 2D]: vector, received
        mixed = np.zeros(TILE * D, np.float32)
        new = np.zeros(TILE * D, np.float32)
        for _ in range(tasks):
            tile = take(counter)
            if tile >= tasks:
                break
            begin = tile * TILE
            height = min(TILE, num_rows - begin)
            for i in range(height):
                vector = load(vectors, (begin + i) * D, D)
                store(pair, i * D2, vector)
                store(new, i * D, vector)
            for k in range(4):
                for i in range(height):
                    query = (begin + i) // num_relations
                    at = (query * 3 + k) * num_relations + begin + i  # (query, link type, relation)
                    value = add(load(received, at * D, D), splat(boundary[begin + i], D))
                    store(pair, i * D2 + D, value)
                affine(pair, linear[k * D2 * D : (k + 1) * D2 * D], bias[k * D :], mixed, TILE, D2, D, False)
                for i in range(height):
                    value = normalised(load(mixed, i * D, D))
                    value = multiply_add(value, load(scale, k * D, D), load(shift, k * D, D))
                    value = larger(value, splat(np.float32(0), D))
                    store(new, i * D, add(load(new, i * D, D), value))
            for i in range(height):
                store(out, (begin + i) * D, load(new, i * D, D))

    return RelationKernels(factors_of, forward, backward, update)
