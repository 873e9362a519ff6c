"""Compiled kernels for TRIX's relation step: messages between relations that meet in an entity.

H(v) are the relation ids of which entity v is a head, T(v) those of which it is a tail: H(v) with r and r + R swapped.
With s_H[v], s_T[v] the sums of z over H(v) and T(v), and F_k the factors f_k(x_v) of the four link types,

    hh[r] = sum of F_hh[v] * (s_H[v] - z[r])  over v with r in H(v)        tt[r] alike over v with r in T(v), with s_T
    ht[r] = sum of F_ht[v] * s_T[v]           over v with r in H(v)        th[r] alike over v with r in T(v), with s_H

which is the sum over all pairs of relations of an entity, at a cost linear in the (entity, relation) pairs. These pairs
are the runs of `edges.Order`. Sixteen entities at a time go through the two layers of f in the L1 cache. A
query is cut into pieces that have sums of their own, so results do not depend on the number of threads.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from anykg.models.nbf.kernels import TILE, product
from anykg.models.simd import add, larger, load, multiply, multiply_add, splat, store, subtract, where_positive
from anykg.tasks import take

HH, TT, HT, TH = range(4)


class Incidence(NamedTuple):
    """Distinct (entity, relation) pairs: entity v has the relations from nodes[v] to nodes[v + 1]."""

    nodes: np.ndarray  # int32 [N + 1]
    relations: np.ndarray  # int32 [Q]
    num_relations: int  # 2R


class FactorWeights(NamedTuple):
    """The parameters of f for the four link types, flat: for the forward and, transposed, for the backward pass."""

    first: np.ndarray  # [D, 4D]
    offsets: np.ndarray  # [B, 4D]
    second: np.ndarray  # [4, D, D] (input, output)
    bias: np.ndarray  # [4, D]
    first_t: np.ndarray  # [4D, D]
    second_t: np.ndarray  # [4, D, D] (output, input)


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

    forward: Any
    backward: Any


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


@lru_cache
def relation_kernels(width: int) -> RelationKernels:
    """Kernels for D = width, a constant to the compiler."""
    D, D4 = width, 4 * width  # noqa: N806

    @njit(cache=True, nogil=True)
    def forward(counter, states, vectors, out, incidence, keep, weights):  # type: ignore[no-untyped-def]
        """Out [P, 4, 2R, D], zero to begin with, gets the sums of each piece; a query has P / B of them."""
        nodes, relations, num_relations = incidence
        first, offsets, second, bias, _, _ = weights
        count, half = len(nodes) - 1, num_relations // 2
        pieces = len(out) // max(len(offsets) * num_relations, 1)
        tasks = len(out) // (4 * num_relations * D)
        for _ in range(tasks):
            task = take(counter)
            if task >= tasks:
                break
            query, piece = task // pieces, task % pieces
            table, stop = query * num_relations, count * (piece + 1) // pieces
            to_hh = task * 4 * num_relations
            to_tt, to_ht, to_th = to_hh + num_relations, to_hh + 2 * num_relations, to_hh + 3 * num_relations
            own = np.zeros(TILE * D, np.float32)
            hidden = np.zeros(TILE * D4, np.float32)
            factors = np.zeros(4 * TILE * D, np.float32)
            for begin in range(count * piece // pieces, stop, TILE):
                height = min(TILE, stop - begin)
                for i in range(height):
                    store(own, i * D, load(states, (query * count + begin + i) * D, D))
                for i in range(TILE):
                    for k in range(4):
                        store(hidden, i * D4 + k * D, load(offsets, query * D4 + k * D, D))
                        store(factors, (k * TILE + i) * D, load(bias, k * D, D))
                product(own, 0, D, 1, first, hidden, TILE, D, D4)
                for i in range(4 * TILE):
                    store(hidden, i * D, larger(load(hidden, i * D, D), splat(np.float32(0), D)))
                for k in range(4):
                    product(
                        hidden, k * D, D4, 1, second[k * D * D : (k + 1) * D * D],
                        factors[k * TILE * D : (k + 1) * TILE * D], TILE, D, D,
                    )  # fmt: skip
                for i in range(height):
                    node = begin + i
                    heads, tails = splat(np.float32(0), D), splat(np.float32(0), D)
                    for run in range(nodes[node], nodes[node + 1]):
                        if keep is None or keep[run]:
                            head = np.int64(relations[run])
                            tail = head + half if head < half else head - half
                            heads = add(heads, load(vectors, (table + head) * D, D))
                            tails = add(tails, load(vectors, (table + tail) * D, D))
                    factor_hh = load(factors, (HH * TILE + i) * D, D)
                    factor_tt = load(factors, (TT * TILE + i) * D, D)
                    message_ht = multiply(load(factors, (HT * TILE + i) * D, D), tails)
                    message_th = multiply(load(factors, (TH * TILE + i) * D, D), heads)
                    for run in range(nodes[node], nodes[node + 1]):
                        if keep is None or keep[run]:
                            head = np.int64(relations[run])
                            tail = head + half if head < half else head - half
                            at = (to_hh + head) * D
                            others = subtract(heads, load(vectors, (table + head) * D, D))
                            store(out, at, multiply_add(factor_hh, others, load(out, at, D)))
                            at = (to_tt + tail) * D
                            others = subtract(tails, load(vectors, (table + tail) * D, D))
                            store(out, at, multiply_add(factor_tt, others, load(out, at, D)))
                            at = (to_ht + head) * D
                            store(out, at, add(message_ht, load(out, at, D)))
                            at = (to_th + tail) * D
                            store(out, at, add(message_th, load(out, at, D)))

    @njit(cache=True, nogil=True)
    def backward(counter, grad, states, vectors, incidence, keep, weights, sums):  # type: ignore[no-untyped-def]
        """From grad [B, 4, 2R, D] to all gradients. The factors are recomputed."""
        nodes, relations, num_relations = incidence
        first, offsets, second, bias, first_t, second_t = weights
        grad_states, grad_vectors, grad_first, grad_offsets, grad_second, grad_bias = sums
        count, half = len(nodes) - 1, num_relations // 2
        pieces = len(grad_bias) // max(len(offsets), 1)
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
                for i in range(height):
                    store(own, i * D, load(states, (query * count + begin + i) * D, D))
                for i in range(TILE):
                    store(grad_own, i * D, splat(np.float32(0), D))
                    for k in range(4):
                        store(hidden, i * D4 + k * D, load(offsets, query * D4 + k * D, D))
                        store(factors, (k * TILE + i) * D, load(bias, k * D, D))
                        store(grad_factors, (k * TILE + i) * D, splat(np.float32(0), D))
                product(own, 0, D, 1, first, hidden, TILE, D, D4)
                for i in range(4 * TILE):
                    store(hidden, i * D, larger(load(hidden, i * D, D), splat(np.float32(0), D)))
                for k in range(4):
                    product(
                        hidden, k * D, D4, 1, second[k * D * D : (k + 1) * D * D],
                        factors[k * TILE * D : (k + 1) * TILE * D], TILE, D, D,
                    )  # fmt: skip
                for i in range(height):
                    node = begin + i
                    zero = splat(np.float32(0), D)
                    heads, tails, own_hh, own_tt = zero, zero, zero, zero
                    all_hh, all_tt, all_ht, all_th = zero, zero, zero, zero
                    for run in range(nodes[node], nodes[node + 1]):
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
                    for run in range(nodes[node], nodes[node + 1]):
                        if keep is None or keep[run]:
                            head = np.int64(relations[run])
                            tail = head + half if head < half else head - half
                            at = (task * num_relations + head) * D
                            part = multiply(factor_hh, load(grad, (at_hh + head) * D, D))
                            store(grad_vectors, at, add(load(grad_vectors, at, D), subtract(of_heads, part)))
                            at = (task * num_relations + tail) * D
                            part = multiply(factor_tt, load(grad, (at_tt + tail) * D, D))
                            store(grad_vectors, at, add(load(grad_vectors, at, D), subtract(of_tails, part)))
                for k in range(4):
                    of_factors = grad_factors[k * TILE * D : (k + 1) * TILE * D]
                    part = slice(k * D * D, (k + 1) * D * D)
                    product(hidden, k * D, 1, D4, of_factors, sums_second[part], D, TILE, D)
                    grad_part[:] = 0
                    product(of_factors, 0, D, 1, second_t[part], grad_part, TILE, D, D)
                    at = (task * 4 + k) * D
                    sum_bias, sum_offsets = load(grad_bias, at, D), load(grad_offsets, at, D)
                    for i in range(TILE):
                        sum_bias = add(sum_bias, load(of_factors, i * D, D))
                        value = where_positive(load(hidden, i * D4 + k * D, D), load(grad_part, i * D, D))
                        sum_offsets = add(sum_offsets, value)
                        store(grad_hidden, i * D4 + k * D, value)
                    store(grad_bias, at, sum_bias)
                    store(grad_offsets, at, sum_offsets)
                product(own, 0, 1, D, grad_hidden, sums_first, D, TILE, D4)
                product(grad_hidden, 0, D4, 1, first_t, grad_own, TILE, D4, D)
                for i in range(height):
                    store(grad_states, (query * count + begin + i) * D, load(grad_own, i * D, D))
            grad_first[task * D * D4 : (task + 1) * D * D4] = sums_first
            grad_second[task * 4 * D * D : (task + 1) * 4 * D * D] = sums_second

    return RelationKernels(forward, backward)
