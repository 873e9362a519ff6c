"""Relational aggregation: the messages that every node receives over its edges, for B queries at once.

    sum   boundary_u + sum over edges (u, e, v) of state_v * weight_e
    pna   [mean, max, min, deviation] x [1, log-degree, 1 / log-degree] of boundary and messages, side by side: 12 D

The log-degree log(degree_u + 1) is divided by its mean over the graph. Sums run compiled on a CPU in float32 for widths
that are multiples of 16 up to 128 and never hold anything of size E x D; `fast=False`, and everything else, is gather,
multiply and index_add in torch. If several messages are the largest, they share the gradient equally. The compiled
network with PNA is in `pna`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from anykg.models.nbf.edges import RelationalEdges
from anykg.threads import spread

if TYPE_CHECKING:
    from anykg.models.nbf.aggregate_kernels import Tables

Reduce = Literal["sum", "pna"]
PNA_PARTS = 12  # the width of a PNA aggregate, in D
SMALLEST_VARIANCE = 1e-6
"""Smaller variances are raised to this, so that the deviation has a gradient."""
_SMALLEST_LOG_DEGREE = 1e-2


def aggregate(
    states: Tensor,
    weights: Tensor,
    boundary: Tensor,
    edges: RelationalEdges,
    *,
    keep: np.ndarray | None = None,
    edge_weights: Tensor | None = None,
    reduce: Reduce = "sum",
    fast: bool = True,
) -> Tensor:
    """Aggregates [B, N, D], or [B, N, 12 D] for pna.

    Args:
        states: [B, N, D].
        weights: [B, K, D], or [K, D] shared by all queries; K relations.
        boundary: [B, N, D].
        edges: The graph.
        keep: bool [E]; edges where it is False are ignored.
        edge_weights: [E], factors of the messages.
        reduce: How messages are aggregated.
        fast: Use the compiled kernels where they apply: for sums.
    """
    weights = weights if weights.dim() == 3 else weights[None]  # [B or 1, K, D]
    width = states.shape[-1]
    if reduce == "pna":
        moments = _moments(states, weights, boundary, edges, keep, edge_weights)
        return _principal(moments, message_counts(edges, keep, states))
    fast = fast and states.device.type == "cpu" and states.dtype == torch.float32
    if not fast or width % 16 or width > 128:
        return _sum_reference(states, weights, boundary, edges, keep, edge_weights)
    total: Tensor = _Sum.apply(states, weights, boundary, edge_weights, edges, keep)  # type: ignore[no-untyped-call]
    return total


class Moments(NamedTuple):
    """Over the boundary and the messages of every node, each [B, N, D]."""

    total: Tensor
    squares: Tensor
    largest: Tensor
    smallest: Tensor


def _principal(moments: Moments, counts: Tensor) -> Tensor:
    """Principal neighbourhood aggregation, [B, N, 12 D]: feature by feature, its three scalings side by side."""
    mean = moments.total / counts[:, None]
    deviation = (moments.squares / counts[:, None] - mean**2).clamp(min=SMALLEST_VARIANCE).sqrt()
    features = torch.cat([mean, moments.largest, moments.smallest, deviation], dim=-1)  # [B, N, 4 D]
    return (features[..., None] * degree_scales(counts)[:, None]).flatten(-2)


def degree_scales(counts: Tensor) -> Tensor:
    """The factors of the features, [N, 3], of nodes with counts [N] of messages: 1, log-degree, 1 / log-degree."""
    scale = counts.log()
    scale = scale / scale.mean().clamp(min=_SMALLEST_LOG_DEGREE)
    return torch.stack([torch.ones_like(scale), scale, 1 / scale.clamp(min=_SMALLEST_LOG_DEGREE)], dim=-1)


def message_counts(edges: RelationalEdges, keep: np.ndarray | None, like: Tensor) -> Tensor:
    """Messages of each node, its boundary counted, [N]."""
    return (torch.from_numpy(edges.degrees(keep)).to(like.device) + 1).to(like.dtype)


# -- reference ------------------------------------------------------------------------------------------------------


def _messages(
    states: Tensor,
    weights: Tensor,
    edges: RelationalEdges,
    keep: np.ndarray | None,
    edge_weights: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The receivers [E'] and messages [B, E', D] of the edges that are kept."""
    receivers, relations, senders = (column.to(states.device) for column in edges.tensors)
    if keep is not None:
        kept = torch.from_numpy(keep.astype(bool)).to(states.device)
        receivers, relations, senders = receivers[kept], relations[kept], senders[kept]
        edge_weights = None if edge_weights is None else edge_weights[kept]
    messages = states[:, senders] * weights[:, relations]
    if edge_weights is not None:
        messages = messages * edge_weights[:, None]
    return receivers, messages


def _sum_reference(
    states: Tensor,
    weights: Tensor,
    boundary: Tensor,
    edges: RelationalEdges,
    keep: np.ndarray | None,
    edge_weights: Tensor | None,
) -> Tensor:
    receivers, messages = _messages(states, weights, edges, keep, edge_weights)
    return boundary.index_add(1, receivers, messages)


def _moments(
    states: Tensor,
    weights: Tensor,
    boundary: Tensor,
    edges: RelationalEdges,
    keep: np.ndarray | None,
    edge_weights: Tensor | None,
) -> Moments:
    receivers, messages = _messages(states, weights, edges, keep, edge_weights)
    positions = receivers[None, :, None].expand_as(messages)
    return Moments(
        boundary.index_add(1, receivers, messages),
        (boundary**2).index_add(1, receivers, messages**2),
        boundary.scatter_reduce(1, positions, messages, "amax"),
        boundary.scatter_reduce(1, positions, messages, "amin"),
    )


# -- compiled -------------------------------------------------------------------------------------------------------


def _flat(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().contiguous().view(-1).numpy()
    return array


def _tables(weights: Tensor) -> Tables:
    from anykg.models.nbf.aggregate_kernels import Tables

    return Tables(_flat(weights), weights.shape[1], len(weights) > 1)


def _pieces(queries: int) -> int:
    """Pieces per query: few queries are split, so that every core has work; independent of the number of cores."""
    return -(-8 // max(queries, 1))


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weights: Tensor,
        boundary: Tensor,
        edge_weights: Tensor | None,
        edges: RelationalEdges,
        keep: np.ndarray | None,
    ) -> Tensor:
        from anykg.models.nbf.aggregate_kernels import message_kernels

        factors = None  # [E], in the order given: edges that are ignored have factor 0
        if keep is not None:
            factors = keep.astype(np.float32)
        if edge_weights is not None:
            weight = edge_weights.detach().numpy()
            factors = weight if factors is None else factors * weight
        ctx.save_for_backward(states, weights)
        ctx.edges, ctx.keep, ctx.factors = edges, keep, factors
        order, out = edges.by_receiver, torch.empty_like(states, memory_format=torch.contiguous_format)
        spread(
            message_kernels(states.shape[-1]).sum_forward,
            _flat(states), _flat(boundary), _flat(out), _tables(weights), order.adjacency,
            None if factors is None else factors[order.positions],
        )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        from anykg.models.nbf.aggregate_kernels import Gradients, message_kernels

        (states, weights), edges, factors = ctx.saved_tensors, ctx.edges, ctx.factors
        kernels = message_kernels(states.shape[-1])
        order, pieces = edges.by_sender, _pieces(len(states))
        grad_states = torch.empty_like(states, memory_format=torch.contiguous_format)
        grad_weights = states.new_zeros(len(states), pieces, *weights.shape[1:])
        spread(
            kernels.sum_backward,
            _flat(states), Gradients(_flat(grad), _flat(grad_states), _flat(grad_weights)), pieces, _tables(weights),
            order.adjacency, None if factors is None else factors[order.positions],
        )  # fmt: skip
        grad_edges = None
        if ctx.needs_input_grad[3]:
            grad_edges = states.new_empty(edges.num_edges)
            spread(
                kernels.edge_backward,
                _flat(grad),
                _flat(states),
                _flat(grad_edges),
                edges.num_nodes,
                _tables(weights),
                edges.triplets,
                ctx.keep,
            )
        return grad_states, _gathered(grad_weights, weights), grad, grad_edges, None, None


def _gathered(grad_weights: Tensor, weights: Tensor) -> Tensor:
    """Sums of the pieces [B, P, K, D], in the shape of the weights."""
    summed = grad_weights.sum(1)
    return summed if len(weights) > 1 or len(summed) == 1 else summed.sum(0, keepdim=True)
