"""Compiled kernels for attention over incoming edges; `anykg.models.ingram.segment` has the equations.

All arrays of numbers are flat float32. One head of one node is a vector of D floats, which goes through the kernels as
one value. A loop is an edge from v to v whose kind is the mean of those that arrive at v; its weights stand in row
E + v. Kernels run over lanes: ranges of nodes that write to disjoint memory.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from anykg.models.simd import (
    add,
    if_positive,
    larger,
    load_like,
    multiply,
    multiply_add,
    splat,
    splat_like,
    store,
    total,
    where_positive,
    width_of,
)
from anykg.tasks import take

RECEIVER, SENDER, VALUE, RESIDUAL = range(4)
"""The second axis of nodes [N, 4, H, D]."""
SLOPE = np.float32(0.2)
"""Slope of LeakyReLU below zero."""


class IncomingEdges(NamedTuple):
    """E edges, sorted by receiver."""

    offsets: np.ndarray  # int64 [N + 1]: the edges to node v are offsets[v] to offsets[v + 1]
    senders: np.ndarray  # int32 [E]
    kinds: np.ndarray  # int32 [E]
    loops: bool  # whether every node also sends to itself


class OutgoingEdges(NamedTuple):
    """The same edges, found by sender."""

    offsets: np.ndarray  # int64 [N + 1]: the edges from node u are sent[offsets[u]:offsets[u + 1]]
    sent: np.ndarray  # int32 [E]: rows of `receivers` and `kinds`
    receivers: np.ndarray  # int32 [E]
    kinds: np.ndarray  # int32 [E]


class Inputs(NamedTuple):
    """Products with weight matrices and parameters of the attention, flat."""

    nodes: np.ndarray  # [N, 4, H, D]
    kinds: np.ndarray  # [K, 2, H, D]
    vector: np.ndarray  # [H, D]
    bias: np.ndarray  # [K, H]


class Results(NamedTuple):
    """Written by the forward pass and read by the backward pass, flat."""

    weights: np.ndarray  # [E, H] after softmax, [E + N, H] with loops
    output: np.ndarray  # [N, H, D]


class Gradients(NamedTuple):
    """Of the inputs and of the logits.

    Each of L lanes adds to its own tables for kinds, vector and bias; within a lane, these are its rows only.
    """

    nodes: np.ndarray  # flat [N, 4, H, D]
    logits: np.ndarray  # flat, as many as weights
    kinds: np.ndarray  # [L, K 2 H D]
    vector: np.ndarray  # [L, H D]
    bias: np.ndarray  # [L, K H]


@njit(cache=True)
def _softmax(weights, heads, start, stop, loop):  # type: ignore[no-untyped-def]
    """In place, over rows start to stop and, unless it is -1, the row `loop`."""
    for h in range(heads):
        highest = weights[loop * heads + h] if loop >= 0 else np.float32(-np.inf)
        for e in range(start, stop):
            highest = max(highest, weights[e * heads + h])
        sum_of = np.float32(0)
        if loop >= 0:
            weights[loop * heads + h] = np.exp(weights[loop * heads + h] - highest)
            sum_of += weights[loop * heads + h]
        for e in range(start, stop):
            weights[e * heads + h] = np.exp(weights[e * heads + h] - highest)
            sum_of += weights[e * heads + h]
        share = np.float32(1) / sum_of if sum_of else np.float32(0)  # no edge and no loop
        if loop >= 0:
            weights[loop * heads + h] *= share
        for e in range(start, stop):
            weights[e * heads + h] *= share


@njit(cache=True)
def _softmax_backward(weights, heads, start, stop, loop, gradient):  # type: ignore[no-untyped-def]
    """The gradient of the weights becomes that of the logits, in place."""
    for h in range(heads):
        sum_of = weights[loop * heads + h] * gradient[loop * heads + h] if loop >= 0 else np.float32(0)
        for e in range(start, stop):
            sum_of += weights[e * heads + h] * gradient[e * heads + h]
        if loop >= 0:
            gradient[loop * heads + h] = weights[loop * heads + h] * (gradient[loop * heads + h] - sum_of)
        for e in range(start, stop):
            gradient[e * heads + h] = weights[e * heads + h] * (gradient[e * heads + h] - sum_of)


@njit(cache=True)
def _logit(state, vector):  # type: ignore[no-untyped-def]
    return total(multiply(larger(state, multiply(state, splat_like(SLOPE, state))), vector))


@njit(cache=True)
def _forward_lane(zero, first, last, edges, inputs, results):  # type: ignore[no-untyped-def]
    offsets, senders, kind_of, loops = edges
    nodes, kinds, vector, bias = inputs
    weights, output = results
    D = width_of(zero)  # noqa: N806
    heads = len(vector) // D
    row, kind_row = 4 * heads * D, 2 * heads * D
    for v in range(first, last):
        start, stop = offsets[v], offsets[v + 1]
        loop = len(senders) + v if loops else -1
        share = splat_like(np.float32(1) / np.float32(max(stop - start, 1)), zero)
        at = v * row
        for h in range(heads):
            receiver, attention = load_like(nodes, at + h * D, zero), load_like(vector, h * D, zero)
            terms = zero
            for e in range(start, stop):
                u, k = np.int64(senders[e]), np.int64(kind_of[e])
                term = load_like(kinds, k * kind_row + h * D, zero)
                state = add(receiver, load_like(nodes, u * row + (SENDER * heads + h) * D, zero))
                weights[e * heads + h] = _logit(add(state, term), attention) + bias[k * heads + h]
                terms = add(terms, term)
            if loops:
                state = add(receiver, load_like(nodes, at + (SENDER * heads + h) * D, zero))
                weights[loop * heads + h] = _logit(add(state, multiply(terms, share)), attention)
        _softmax(weights, heads, start, stop, loop)
        for h in range(heads):
            result, terms = load_like(nodes, at + (RESIDUAL * heads + h) * D, zero), zero
            for e in range(start, stop):
                u, k = np.int64(senders[e]), np.int64(kind_of[e])
                term = load_like(kinds, k * kind_row + (heads + h) * D, zero)
                value = add(load_like(nodes, u * row + (VALUE * heads + h) * D, zero), term)
                result = multiply_add(splat_like(weights[e * heads + h], zero), value, result)
                terms = add(terms, term)
            if loops:
                value = add(load_like(nodes, at + (VALUE * heads + h) * D, zero), multiply(terms, share))
                result = multiply_add(splat_like(weights[loop * heads + h], zero), value, result)
            store(output, (v * heads + h) * D, larger(result, zero))  # NaN is propagated


@njit(cache=True)
def _receiver_lane(zero, first, last, edges, inputs, results, gradient, gradients):  # type: ignore[no-untyped-def]
    """Gradients of residuals, logits, receivers and tables, and what senders get of their own loops."""
    offsets, senders, kind_of, loops = edges
    nodes, kinds, vector, _ = inputs
    weights, output = results
    to_nodes, to_logits, to_kinds, to_vector, to_bias = gradients
    D = width_of(zero)  # noqa: N806
    heads = len(vector) // D
    row, kind_row = 4 * heads * D, 2 * heads * D
    mean = np.empty(heads * D, np.float32)  # of the kinds' terms, for the loop
    slope = splat_like(SLOPE, zero)
    for v in range(first, last):
        start, stop = offsets[v], offsets[v + 1]
        loop = len(senders) + v if loops else -1
        share = splat_like(np.float32(1) / np.float32(max(stop - start, 1)), zero)
        at = v * row
        for h in range(heads):
            to = (v * heads + h) * D
            given = where_positive(load_like(output, to, zero), load_like(gradient, to, zero))
            store(to_nodes, at + (RESIDUAL * heads + h) * D, given)
            terms, values = zero, zero
            for e in range(start, stop):
                u, k = np.int64(senders[e]), np.int64(kind_of[e])
                term = load_like(kinds, k * kind_row + (heads + h) * D, zero)
                value = add(load_like(nodes, u * row + (VALUE * heads + h) * D, zero), term)
                to_logits[e * heads + h] = total(multiply(given, value))
                values = add(values, term)
                terms = add(terms, load_like(kinds, k * kind_row + h * D, zero))
            if loops:
                value = add(load_like(nodes, at + (VALUE * heads + h) * D, zero), multiply(values, share))
                to_logits[loop * heads + h] = total(multiply(given, value))
                store(mean, h * D, multiply(terms, share))
        _softmax_backward(weights, heads, start, stop, loop, to_logits)
        for h in range(heads):
            receiver, attention = load_like(nodes, at + h * D, zero), load_like(vector, h * D, zero)
            given = load_like(to_nodes, at + (RESIDUAL * heads + h) * D, zero)
            to_attention = load_like(to_vector, h * D, zero)
            to_state, to_value = zero, zero
            if loops:
                own = add(receiver, load_like(nodes, at + (SENDER * heads + h) * D, zero))
                state = add(own, load_like(mean, h * D, zero))
                to_logit = splat_like(to_logits[loop * heads + h], zero)
                to_attention = multiply_add(to_logit, larger(state, multiply(state, slope)), to_attention)
                to_state = multiply(to_logit, attention)
                to_state = if_positive(state, to_state, multiply(to_state, slope))
                to_value = multiply(splat_like(weights[loop * heads + h], zero), given)
            store(to_nodes, at + (SENDER * heads + h) * D, to_state)
            store(to_nodes, at + (VALUE * heads + h) * D, to_value)
            to_receiver, rest, value_rest = to_state, multiply(to_state, share), multiply(to_value, share)
            for e in range(start, stop):
                u, k = np.int64(senders[e]), np.int64(kind_of[e])
                to = k * kind_row + h * D
                state = add(receiver, load_like(nodes, u * row + (SENDER * heads + h) * D, zero))
                state = add(state, load_like(kinds, to, zero))
                to_logit = splat_like(to_logits[e * heads + h], zero)
                to_attention = multiply_add(to_logit, larger(state, multiply(state, slope)), to_attention)
                to_state = multiply(to_logit, attention)
                to_state = if_positive(state, to_state, multiply(to_state, slope))
                to_receiver = add(to_receiver, to_state)
                store(to_kinds, to, add(load_like(to_kinds, to, zero), add(to_state, rest)))
                to += heads * D
                to_value = multiply_add(splat_like(weights[e * heads + h], zero), given, value_rest)
                store(to_kinds, to, add(load_like(to_kinds, to, zero), to_value))
                to_bias[k * heads + h] += to_logits[e * heads + h]
            store(to_nodes, at + (RECEIVER * heads + h) * D, to_receiver)
            store(to_vector, h * D, to_attention)


@njit(cache=True)
def _sender_lane(zero, first, last, edges, inputs, results, gradients):  # type: ignore[no-untyped-def]
    """Gradients of senders, added to those of their loops."""
    offsets, sent, receivers, kind_of = edges
    nodes, kinds, vector, _ = inputs
    weights, to_nodes, to_logits = results.weights, gradients.nodes, gradients.logits
    D = width_of(zero)  # noqa: N806
    heads = len(vector) // D
    row, kind_row = 4 * heads * D, 2 * heads * D
    slope = splat_like(SLOPE, zero)
    for u in range(first, last):
        for h in range(heads):
            at, value_at = u * row + (SENDER * heads + h) * D, u * row + (VALUE * heads + h) * D
            own, attention = load_like(nodes, at, zero), load_like(vector, h * D, zero)
            to_sender, to_value = load_like(to_nodes, at, zero), load_like(to_nodes, value_at, zero)
            for position in range(offsets[u], offsets[u + 1]):
                e = np.int64(sent[position])
                v, k = np.int64(receivers[e]), np.int64(kind_of[e])
                state = add(load_like(nodes, v * row + h * D, zero), own)
                state = add(state, load_like(kinds, k * kind_row + h * D, zero))
                to_state = multiply(splat_like(to_logits[e * heads + h], zero), attention)
                to_sender = add(to_sender, if_positive(state, to_state, multiply(to_state, slope)))
                given = load_like(to_nodes, v * row + (RESIDUAL * heads + h) * D, zero)
                to_value = multiply_add(splat_like(weights[e * heads + h], zero), given, to_value)
            store(to_nodes, at, to_sender)
            store(to_nodes, value_at, to_value)


class AttentionKernels(NamedTuple):
    """The compiled loops for one width of a head."""

    forward: Any
    backward_by_receiver: Any
    backward_by_sender: Any


@lru_cache
def attention_kernels(width: int) -> AttentionKernels:
    """Kernels for D = width, a constant to the compiler."""
    D = width  # noqa: N806

    @njit(cache=True, nogil=True)
    def forward(counter, lanes, edges, inputs, results):  # type: ignore[no-untyped-def]
        tasks = len(lanes) - 1
        for _ in range(tasks):
            lane = take(counter)
            if lane >= tasks:
                break
            _forward_lane(splat(np.float32(0), D), lanes[lane], lanes[lane + 1], edges, inputs, results)

    @njit(cache=True, nogil=True)
    def backward_by_receiver(counter, lanes, edges, inputs, results, gradient, gradients):  # type: ignore[no-untyped-def]
        """From `gradient`, flat [N, H, D] of the output, to `gradients`, except what nodes get as senders of edges."""
        to_nodes, to_logits, to_kinds, to_vector, to_bias = gradients
        tasks = len(lanes) - 1
        for _ in range(tasks):
            lane = take(counter)
            if lane >= tasks:
                break
            own = Gradients(to_nodes, to_logits, to_kinds[lane], to_vector[lane], to_bias[lane])
            zero = splat(np.float32(0), D)
            _receiver_lane(zero, lanes[lane], lanes[lane + 1], edges, inputs, results, gradient, own)

    @njit(cache=True, nogil=True)
    def backward_by_sender(counter, lanes, edges, inputs, results, gradients):  # type: ignore[no-untyped-def]
        """Add what nodes get as senders of edges; runs after `backward_by_receiver`."""
        tasks = len(lanes) - 1
        for _ in range(tasks):
            lane = take(counter)
            if lane >= tasks:
                break
            _sender_lane(splat(np.float32(0), D), lanes[lane], lanes[lane + 1], edges, inputs, results, gradients)

    return AttentionKernels(forward, backward_by_receiver, backward_by_sender)
