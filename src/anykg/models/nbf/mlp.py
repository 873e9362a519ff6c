"""Two-layer MLPs of all states with fused layers, forward and backward: `reference.read_out` and `transform`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anykg.models.nbf import fast, reference
from anykg.models.nbf.fast import PIECES, flat, pieces_of
from anykg.threads import spread


def read_out(states: Tensor, query: Tensor, hidden: nn.Linear, last: nn.Linear) -> Tensor:
    """As `reference.read_out`, scores [B, N]; the query's half of the first product is computed once per query."""
    if not fast.kernels_apply(states) or fast.is_small(*states.shape):
        return reference.read_out(states, query, hidden, last)
    width = states.shape[-1]
    own, other = hidden.weight[:, :width], hidden.weight[:, width:]  # [2D, D] each
    offsets = F.linear(query, other, hidden.bias)  # [B, 2D]
    scores: Tensor = _ReadOut.apply(states, offsets, own, last.weight[0])  # type: ignore[no-untyped-call]
    return scores + last.bias


def transform(states: Tensor, hidden: nn.Linear, last: nn.Linear) -> Tensor:
    """As `reference.transform`, [B, N, D]; without gradients, the states may be overwritten."""
    if not fast.kernels_apply(states) or fast.is_small(*states.shape):
        return reference.transform(states, hidden, last)
    width = states.shape[-1]
    offsets = hidden.weight[:, width:].sum(1) + hidden.bias
    parameters = offsets, hidden.weight[:, :width], last.weight, last.bias
    if not torch.is_grad_enabled():
        states = states.contiguous()
        return _transformed(states, states, *parameters)
    result: Tensor = _Transform.apply(states, *parameters)  # type: ignore[no-untyped-call]
    return result


def _transformed(states: Tensor, out: Tensor, offsets: Tensor, first: Tensor, second: Tensor, bias: Tensor) -> Tensor:
    """Write the new states to `out`, which may be the states themselves."""
    from anykg.models.nbf.mlp_kernels import mlp_kernels

    arrays = (flat(tensor) for tensor in (states, out, offsets, first.T, second.T, bias))
    spread(mlp_kernels(states.shape[-1]).transform, *arrays)
    return out


class _ReadOut(torch.autograd.Function):
    """last . ReLU(own @ state + offset), [B, N]; keeps nothing but its inputs."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, offsets: Tensor, own: Tensor, last: Tensor) -> Tensor:
        from anykg.models.nbf.mlp_kernels import mlp_kernels

        ctx.save_for_backward(states, offsets, own, last)
        scores = states.new_empty(states.shape[:2])
        arrays = flat(states), flat(scores), states.shape[1], flat(offsets), flat(own.T), flat(last)
        spread(mlp_kernels(states.shape[-1]).read_out, *arrays)
        return scores

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        from anykg.models.nbf.mlp_kernels import Sums, Weights, mlp_kernels

        states, offsets, own, last = ctx.saved_tensors
        queries, _, width = states.shape
        pieces = pieces_of(queries)
        grad_states = torch.empty_like(states, memory_format=torch.contiguous_format)
        grad_own = states.new_empty(queries * pieces, width, 2 * width)
        grad_offsets, grad_last = (states.new_empty(queries, pieces, 2 * width) for _ in range(2))
        weights = Weights(flat(offsets), flat(own.T), flat(own), flat(last))
        sums = Sums(flat(grad_states), flat(grad_offsets), flat(grad_own), flat(grad_last), flat(grad_last[:0]))
        spread(mlp_kernels(width).read_out_backward, flat(states), flat(grad), weights, sums)
        return grad_states, grad_offsets.sum(1), grad_own.sum(0).T, grad_last.sum((0, 1))


class _Transform(torch.autograd.Function):
    """second @ ReLU(first @ state + offset) + bias, [B, N, D]; keeps nothing but its inputs."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, offsets: Tensor, first: Tensor, second: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(states, offsets, first, second)
        out = torch.empty_like(states, memory_format=torch.contiguous_format)
        return _transformed(states, out, offsets, first, second, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        from anykg.models.nbf.mlp_kernels import Sums, Weights, mlp_kernels

        states, offsets, first, second = ctx.saved_tensors
        width = states.shape[-1]
        grad_states = torch.empty_like(states, memory_format=torch.contiguous_format)
        grad_first = states.new_empty(PIECES, width, 2 * width)
        grad_offsets = states.new_empty(PIECES, 2 * width)
        grad_second = states.new_empty(PIECES, 2 * width, width)
        grad_bias = states.new_empty(PIECES, width)
        weights = Weights(flat(offsets), flat(first.T), flat(first), flat(second))
        sums = Sums(*(flat(tensor) for tensor in (grad_states, grad_offsets, grad_first, grad_second, grad_bias)))
        spread(mlp_kernels(width).transform_backward, flat(grad), flat(states), weights, sums)
        return grad_states, grad_offsets.sum(0), grad_first.sum(0).T, grad_second.sum(0).T, grad_bias.sum(0)
