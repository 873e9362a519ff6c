"""Attention over the edges that arrive at each node: softmax within a node's segment, weighted sum, residual, ReLU.

For an edge u -> v of kind k and each of H heads of width D (GATv2):
    logit = a . LeakyReLU(receiver_v + sender_u + term_k) + bias_k
    out_v = ReLU(residual_v + sum over edges of softmax(logit) * (value_u + value_k))
With `loops`, every node also sends to itself, with the mean of the kinds that arrive at it (0 if none does).

All products with weight matrices are done before, per node and per kind: nodes [N, 4, H, D] holds receiver, sender,
value and residual of each node, kinds [K, 2, H, D] term and value of each kind. The kernel makes nothing of size
E x D; it keeps the softmax weights [E, H], those of loops after those of edges. It runs in parallel over lanes, ranges
of nodes with about equally many edges; their number depends on the graph alone, and so does the result.
`attend_reference` is the same function in torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from numba import njit, prange
from torch import Tensor
from torch.autograd.function import once_differentiable

RECEIVER, SENDER, VALUE, RESIDUAL = range(4)
"""The second axis of `nodes`."""
SLOPE = 0.2
"""Of LeakyReLU below zero."""
_MAX_LANES = 8
_LANE_WORK = 2000
"""Edges and nodes that are worth a lane of their own."""
_FAST = {"reassoc", "contract", "nsz", "arcp"}  # sums may be vectorised; NaN and infinity stay what they are


class Arrivals(NamedTuple):
    """E edges over N nodes, sorted by receiver, and the way through them by sender."""

    offsets: np.ndarray  # [N + 1] int64: the edges to node v are offsets[v] to offsets[v + 1]
    receivers: np.ndarray  # [E] int32
    senders: np.ndarray  # [E] int32
    kinds: np.ndarray  # [E] int32
    lanes: np.ndarray  # [L + 1] int64: ranges of receivers with about equally many edges
    sent_offsets: np.ndarray  # [N + 1] int64: the edges from node u are sent[sent_offsets[u]:sent_offsets[u + 1]]
    sent: np.ndarray  # [E] int32
    sent_lanes: np.ndarray  # [L + 1] int64


def arrivals(receivers: np.ndarray, senders: np.ndarray, kinds: np.ndarray, num_nodes: int) -> Arrivals:
    """Group edges [E], given in any order."""
    order = np.argsort(receivers, kind="stable")
    receivers, senders, kinds = (ids[order].astype(np.int32) for ids in (receivers, senders, kinds))
    offsets, sent_offsets = (_offsets(ids, num_nodes) for ids in (receivers, senders))
    sent = np.argsort(senders, kind="stable").astype(np.int32)
    return Arrivals(offsets, receivers, senders, kinds, _lanes(offsets), sent_offsets, sent, _lanes(sent_offsets))


def attend(edges: Arrivals, nodes: Tensor, kinds: Tensor, vector: Tensor, bias: Tensor, loops: bool = False) -> Tensor:
    """Output [N, H, D] for nodes [N, 4, H, D], kinds [K, 2, H, D], vector [H, D], bias [K, H]."""
    if nodes.device.type != "cpu":
        return attend_reference(edges, nodes, kinds, vector, bias, loops)
    output: Tensor = _Attend.apply(edges, nodes, kinds, vector, bias, loops)  # type: ignore[no-untyped-call]
    return output


def attend_reference(
    edges: Arrivals, nodes: Tensor, kinds: Tensor, vector: Tensor, bias: Tensor, loops: bool = False
) -> Tensor:
    """`attend` with a row for every edge."""
    receivers, senders, types = (
        torch.from_numpy(ids).to(nodes.device, torch.int64) for ids in (edges.receivers, edges.senders, edges.kinds)
    )
    of_edge, extra = kinds[types], bias[types]  # [E, 2, H, D], [E, H]
    if loops:
        everyone = torch.arange(len(nodes), device=nodes.device)
        degrees = torch.bincount(receivers, minlength=len(nodes)).clamp(min=1)
        means = of_edge.new_zeros(len(nodes), *kinds.shape[1:]).index_add(0, receivers, of_edge)
        of_edge = torch.cat([of_edge, means / degrees[:, None, None, None]])
        extra = torch.cat([extra, extra.new_zeros(len(nodes), bias.shape[1])])
        receivers, senders = torch.cat([receivers, everyone]), torch.cat([senders, everyone])
    states = nodes[receivers, RECEIVER] + nodes[senders, SENDER] + of_edge[:, 0]  # [E, H, D]
    logits = (torch.nn.functional.leaky_relu(states, SLOPE) * vector).sum(-1) + extra  # [E, H]
    segments = receivers[:, None].expand_as(logits)
    empty = logits.new_full((len(nodes), logits.shape[1]), -torch.inf)
    highest = empty.scatter_reduce(0, segments, logits.detach(), "amax")
    weights = (logits - highest[receivers]).exp()
    totals = torch.zeros_like(empty).index_add(0, receivers, weights)
    weights = weights / totals[receivers]
    messages = weights[..., None] * (nodes[senders, VALUE] + of_edge[:, 1])  # [E, H, D]
    return nodes[:, RESIDUAL].index_add(0, receivers, messages).relu()


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, edges: Arrivals, nodes: Tensor, kinds: Tensor, vector: Tensor, bias: Tensor, loops: bool
    ) -> Tensor:
        inputs = [tensor.detach().contiguous() for tensor in (nodes, kinds, vector, bias)]
        n, _, h, d = nodes.shape
        output = nodes.new_empty(n, h, d)
        weights = nodes.new_empty(len(edges.senders) + n * loops, h)
        arrays = (tensor.numpy() for tensor in (*inputs, weights, output))
        _run(_forward, _forward_lane, edges.lanes, (edges.offsets, edges.senders, edges.kinds, loops, *arrays))
        ctx.edges, ctx.loops = edges, loops
        ctx.save_for_backward(*inputs, weights, output)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        nodes, kinds, vector, bias, weights, output = ctx.saved_tensors
        edges = ctx.edges
        lanes = len(edges.lanes) - 1
        to_nodes, to_logits = torch.empty_like(nodes), torch.empty_like(weights)
        to_tables = [table.new_zeros(lanes, *table.shape) for table in (kinds, vector, bias)]
        inputs = [tensor.numpy() for tensor in (nodes, kinds, vector, weights)]
        given = [tensor.numpy() for tensor in (output, gradient.contiguous())]
        results = [tensor.numpy() for tensor in (to_nodes, to_logits)]
        _run(
            _backward_by_receiver,
            _receiver_lane,
            edges.lanes,
            (edges.offsets, edges.senders, edges.kinds, ctx.loops, *inputs, *given, *results),
            [table.numpy() for table in to_tables],
        )
        _run(
            _backward_by_sender,
            _sender_lane,
            edges.sent_lanes,
            (edges.sent_offsets, edges.sent, edges.receivers, edges.kinds, *inputs, *results),
        )
        return None, to_nodes, *(table.sum(0) for table in to_tables), None


def _offsets(ids: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(ids, minlength=count))])


def _lanes(offsets: np.ndarray) -> np.ndarray:
    """Boundaries [L + 1] of ranges of nodes; a node weighs as much as an edge."""
    work = offsets + np.arange(len(offsets))
    count = min(_MAX_LANES, 1 + int(work[-1]) // _LANE_WORK)
    return np.searchsorted(work, np.linspace(0, work[-1], count + 1))


def _run(
    parallel: Callable[..., None],
    one_lane: Callable[..., None],
    lanes: np.ndarray,
    arrays: Sequence[Any],
    by_lane: Sequence[np.ndarray] = (),
) -> None:
    """Run all lanes on as many threads as torch may use; `by_lane` has an array for each lane."""
    threads = min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS)
    if threads > 1 and len(lanes) > 2:
        numba.set_num_threads(threads)
        parallel(lanes, *arrays, *by_lane)
    else:  # waking threads takes longer than a small graph
        for lane in range(len(lanes) - 1):
            one_lane(lanes[lane], lanes[lane + 1], *arrays, *(array[lane] for array in by_lane))


# The kernels. A loop is an edge from v to v of kind 0 of the table `mean`, with its weights at row E + v. Functions
# with a prange do nothing else: the compiler takes long over what is inside one.


@njit(cache=True, parallel=True)
def _forward(lanes, offsets, senders, kind_of, loops, nodes, kinds, vector, bias, weights, output):  # type: ignore[no-untyped-def]
    for lane in prange(len(lanes) - 1):
        _forward_lane(
            lanes[lane], lanes[lane + 1], offsets, senders, kind_of, loops, nodes, kinds, vector, bias, weights, output
        )


@njit(cache=True, parallel=True)
def _backward_by_receiver(  # type: ignore[no-untyped-def]
    lanes, offsets, senders, kind_of, loops, nodes, kinds, vector, weights, output, gradient,
    to_nodes, to_logits, to_kinds, to_vector, to_bias,
):  # fmt: skip
    for lane in prange(len(lanes) - 1):
        _receiver_lane(
            lanes[lane], lanes[lane + 1], offsets, senders, kind_of, loops, nodes, kinds, vector, weights,
            output, gradient, to_nodes, to_logits, to_kinds[lane], to_vector[lane], to_bias[lane],
        )  # fmt: skip


@njit(cache=True, parallel=True)
def _backward_by_sender(  # type: ignore[no-untyped-def]
    lanes, offsets, sent, receivers, kind_of, nodes, kinds, vector, weights, to_nodes, to_logits
):
    for lane in prange(len(lanes) - 1):
        _sender_lane(
            lanes[lane], lanes[lane + 1], offsets, sent, receivers, kind_of, nodes, kinds, vector, weights,
            to_nodes, to_logits,
        )  # fmt: skip


@njit(cache=True, fastmath=_FAST)
def _forward_lane(first, last, offsets, senders, kind_of, loops, nodes, kinds, vector, bias, weights, output):  # type: ignore[no-untyped-def]
    heads, width = vector.shape
    mean = np.zeros((1, 2, heads, width), kinds.dtype)
    for v in range(first, last):
        start, stop = offsets[v], offsets[v + 1]
        loop = len(senders) + v if loops else -1
        for e in range(start, stop):
            _logits(nodes, v, senders[e], kinds, kind_of[e], vector, weights, e)
            for h in range(heads):
                weights[e, h] += bias[kind_of[e], h]
        if loops:
            _mean_kind(kinds, kind_of, start, stop, mean)
            _logits(nodes, v, v, mean, 0, vector, weights, loop)
        _softmax(weights, start, stop, loop)
        for h in range(heads):
            for d in range(width):
                output[v, h, d] = nodes[v, RESIDUAL, h, d]
        for e in range(start, stop):
            _add_message(nodes, senders[e], kinds, kind_of[e], weights, e, output, v)
        if loops:
            _add_message(nodes, v, mean, 0, weights, loop, output, v)
        for h in range(heads):
            for d in range(width):
                if output[v, h, d] < 0:  # leaves NaN for others to see
                    output[v, h, d] = 0


@njit(cache=True, fastmath=_FAST)
def _receiver_lane(  # type: ignore[no-untyped-def]
    first, last, offsets, senders, kind_of, loops, nodes, kinds, vector, weights, output, gradient,
    to_nodes, to_logits, to_kinds, to_vector, to_bias,
):  # fmt: skip
    """Gradients of residuals, logits, receivers and tables, and what senders get of their own loops."""
    heads, width = vector.shape
    shape = (1, 2, heads, width)
    mean, to_mean, zeros = np.zeros(shape, kinds.dtype), np.zeros(shape, kinds.dtype), np.zeros(shape, kinds.dtype)
    scratch = np.empty(width, kinds.dtype)
    for v in range(first, last):
        start, stop = offsets[v], offsets[v + 1]
        loop = len(senders) + v if loops else -1
        for h in range(heads):
            for d in range(width):
                to_nodes[v, RESIDUAL, h, d] = gradient[v, h, d] if output[v, h, d] > 0 else 0
                to_nodes[v, RECEIVER, h, d] = 0
        for e in range(start, stop):
            _to_weights(nodes, senders[e], kinds, kind_of[e], to_nodes, v, to_logits, e)
        if loops:
            _mean_kind(kinds, kind_of, start, stop, mean)
            _to_weights(nodes, v, mean, 0, to_nodes, v, to_logits, loop)
        _softmax_backward(weights, start, stop, loop, to_logits)
        if loops:
            to_mean[:] = 0
            _to_terms(
                nodes, v, v, mean, 0, vector, weights, to_logits, loop,
                to_nodes, to_mean, to_vector, zeros, scratch,
            )  # fmt: skip
        share = nodes.dtype.type(1 / max(stop - start, 1))
        for h in range(heads):
            for d in range(width):
                to_nodes[v, SENDER, h, d], to_nodes[v, VALUE, h, d] = to_mean[0, 0, h, d], to_mean[0, 1, h, d]
                to_mean[0, 0, h, d] *= share
                to_mean[0, 1, h, d] *= share
        for e in range(start, stop):
            u, k = senders[e], kind_of[e]
            _to_terms(
                nodes, v, u, kinds, k, vector, weights, to_logits, e,
                to_nodes, to_kinds, to_vector, to_mean, scratch,
            )  # fmt: skip
            for h in range(heads):
                to_bias[k, h] += to_logits[e, h]


@njit(cache=True, fastmath=_FAST)
def _sender_lane(  # type: ignore[no-untyped-def]
    first, last, offsets, sent, receivers, kind_of, nodes, kinds, vector, weights, to_nodes, to_logits
):
    """Gradients of senders, added to those of their loops."""
    heads, width = vector.shape
    slope = vector.dtype.type(SLOPE)
    for u in range(first, last):
        for position in range(offsets[u], offsets[u + 1]):
            e = sent[position]
            v, k = receivers[e], kind_of[e]
            for h in range(heads):
                to_logit, weight = to_logits[e, h], weights[e, h]
                for d in range(width):
                    state = nodes[v, RECEIVER, h, d] + nodes[u, SENDER, h, d] + kinds[k, 0, h, d]
                    to_state = to_logit * vector[h, d]
                    to_nodes[u, SENDER, h, d] += to_state if state > 0 else to_state * slope
                    to_nodes[u, VALUE, h, d] += weight * to_nodes[v, RESIDUAL, h, d]


@njit(cache=True, fastmath=_FAST)
def _mean_kind(kinds, kind_of, start, stop, mean):  # type: ignore[no-untyped-def]
    _, parts, heads, width = kinds.shape
    share = kinds.dtype.type(1 / max(stop - start, 1))
    for part in range(parts):
        for h in range(heads):
            for d in range(width):
                mean[0, part, h, d] = 0
    for e in range(start, stop):
        _add_scaled(kinds, kind_of[e], share, mean)


@njit(cache=True, fastmath=_FAST)
def _add_scaled(kinds, k, share, mean):  # type: ignore[no-untyped-def]
    _, parts, heads, width = kinds.shape
    for part in range(parts):
        for h in range(heads):
            for d in range(width):
                mean[0, part, h, d] += share * kinds[k, part, h, d]


@njit(cache=True, fastmath=_FAST)
def _logits(nodes, v, u, table, k, vector, logits, row):  # type: ignore[no-untyped-def]
    heads, width = vector.shape
    slope = vector.dtype.type(SLOPE)
    for h in range(heads):
        logit = vector.dtype.type(0)
        for d in range(width):
            state = nodes[v, RECEIVER, h, d] + nodes[u, SENDER, h, d] + table[k, 0, h, d]
            logit += vector[h, d] * (state if state > 0 else state * slope)
        logits[row, h] = logit


@njit(cache=True, fastmath=_FAST)
def _softmax(weights, start, stop, loop):  # type: ignore[no-untyped-def]
    """In place, over rows start to stop and, unless it is -1, the row `loop`."""
    for h in range(weights.shape[1]):
        highest = weights[loop, h] if loop >= 0 else weights.dtype.type(-np.inf)
        for e in range(start, stop):
            highest = max(highest, weights[e, h])
        total = weights.dtype.type(0)
        if loop >= 0:
            weights[loop, h] = np.exp(weights[loop, h] - highest)
            total += weights[loop, h]
        for e in range(start, stop):
            weights[e, h] = np.exp(weights[e, h] - highest)
            total += weights[e, h]
        if loop >= 0:
            weights[loop, h] /= total
        for e in range(start, stop):
            weights[e, h] /= total


@njit(cache=True, fastmath=_FAST)
def _softmax_backward(weights, start, stop, loop, gradient):  # type: ignore[no-untyped-def]
    """The gradient of the weights becomes that of the logits, in place."""
    for h in range(weights.shape[1]):
        total = weights[loop, h] * gradient[loop, h] if loop >= 0 else weights.dtype.type(0)
        for e in range(start, stop):
            total += weights[e, h] * gradient[e, h]
        if loop >= 0:
            gradient[loop, h] = weights[loop, h] * (gradient[loop, h] - total)
        for e in range(start, stop):
            gradient[e, h] = weights[e, h] * (gradient[e, h] - total)


@njit(cache=True, fastmath=_FAST)
def _add_message(nodes, u, table, k, weights, row, output, v):  # type: ignore[no-untyped-def]
    _, heads, width = output.shape
    for h in range(heads):
        weight = weights[row, h]
        for d in range(width):
            output[v, h, d] += weight * (nodes[u, VALUE, h, d] + table[k, 1, h, d])


@njit(cache=True, fastmath=_FAST)
def _to_weights(nodes, u, table, k, to_nodes, v, to_weights, row):  # type: ignore[no-untyped-def]
    _, _, heads, width = nodes.shape
    for h in range(heads):
        total = nodes.dtype.type(0)
        for d in range(width):
            total += to_nodes[v, RESIDUAL, h, d] * (nodes[u, VALUE, h, d] + table[k, 1, h, d])
        to_weights[row, h] = total


@njit(cache=True, fastmath=_FAST)
def _to_terms(  # type: ignore[no-untyped-def]
    nodes, v, u, table, k, vector, weights, to_logits, row, to_nodes, to_table, to_vector, rest, scratch
):
    """Add the gradients of one edge to the receiver, to row k of `to_table` (with `rest`), and to the vector.

    Every loop writes one array only: the compiler then proves quickly enough that it may be vectorised.
    """
    heads, width = vector.shape
    slope = vector.dtype.type(SLOPE)
    for h in range(heads):
        to_logit, weight = to_logits[row, h], weights[row, h]
        for d in range(width):
            state = nodes[v, RECEIVER, h, d] + nodes[u, SENDER, h, d] + table[k, 0, h, d]
            scratch[d] = to_logit * (state if state > 0 else state * slope)
        for d in range(width):
            to_vector[h, d] += scratch[d]
        for d in range(width):
            state = nodes[v, RECEIVER, h, d] + nodes[u, SENDER, h, d] + table[k, 0, h, d]
            to_state = to_logit * vector[h, d]
            scratch[d] = to_state if state > 0 else to_state * slope
        for d in range(width):
            to_nodes[v, RECEIVER, h, d] += scratch[d]
        for d in range(width):
            to_table[k, 0, h, d] += scratch[d] + rest[0, 0, h, d]
        for d in range(width):
            to_table[k, 1, h, d] += weight * to_nodes[v, RESIDUAL, h, d] + rest[0, 1, h, d]
