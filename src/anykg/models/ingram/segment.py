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

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from anykg.models.ingram.kernels import (
    RECEIVER,
    RESIDUAL,
    SENDER,
    SLOPE,
    VALUE,
    Gradients,
    IncomingEdges,
    Inputs,
    OutgoingEdges,
    Results,
    attention_kernels,
)
from anykg.threads import spread

_MAX_LANES = 8
_LANE_WORK = 2000
"""Minimum number of edges and nodes per lane."""


class Arrivals(NamedTuple):
    """E edges over N nodes, sorted by receiver, with an index by sender."""

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
    if nodes.device.type != "cpu" or nodes.dtype != torch.float32:
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
    logits = (torch.nn.functional.leaky_relu(states, float(SLOPE)) * vector).sum(-1) + extra  # [E, H]
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
        incoming = IncomingEdges(edges.offsets, edges.senders, edges.kinds, loops)
        results = Results(_flat(weights), _flat(output))
        spread(attention_kernels(d).forward, edges.lanes, incoming, Inputs(*map(_flat, inputs)), results)
        ctx.edges, ctx.loops = edges, loops
        ctx.save_for_backward(*inputs, weights, output)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        nodes, kinds, vector, bias, weights, output = ctx.saved_tensors
        edges = ctx.edges
        kernels, lanes = attention_kernels(nodes.shape[-1]), len(edges.lanes) - 1
        to_nodes, to_logits = torch.empty_like(nodes), torch.empty_like(weights)
        to_tables = [table.new_zeros(lanes, *table.shape) for table in (kinds, vector, bias)]
        incoming = IncomingEdges(edges.offsets, edges.senders, edges.kinds, ctx.loops)
        outgoing = OutgoingEdges(edges.sent_offsets, edges.sent, edges.receivers, edges.kinds)
        inputs = Inputs(_flat(nodes), _flat(kinds), _flat(vector), _flat(bias))
        results = Results(_flat(weights), _flat(output))
        by_lane = (table.view(lanes, -1).numpy() for table in to_tables)
        gradients = Gradients(_flat(to_nodes), _flat(to_logits), *by_lane)
        given = _flat(gradient.contiguous())
        spread(kernels.backward_by_receiver, edges.lanes, incoming, inputs, results, given, gradients)
        spread(kernels.backward_by_sender, edges.sent_lanes, outgoing, inputs, results, gradients)
        return None, to_nodes, *(table.sum(0) for table in to_tables), None


def _flat(tensor: Tensor) -> np.ndarray:
    flat: np.ndarray = tensor.view(-1).numpy()
    return flat


def _offsets(ids: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(ids, minlength=count))])


def _lanes(offsets: np.ndarray) -> np.ndarray:
    """Boundaries [L + 1] of ranges of nodes; a node weighs as much as an edge."""
    work = offsets + np.arange(len(offsets))
    count = min(_MAX_LANES, 1 + int(work[-1]) // _LANE_WORK)
    return np.searchsorted(work, np.linspace(0, work[-1], count + 1))
