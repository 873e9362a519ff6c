"""The training step of folded ISDEA+ as one autograd node over the compiled kernels of `models.isdea.kernels`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from anykg.models.isdea import kernels
from anykg.models.isdea.folded import FoldedScalars
from anykg.threads import spread, threads

if TYPE_CHECKING:
    from anykg.models.isdea.isdea import ISDEA


one_blas_thread = threads(blas=1)
"""The products in the kernels are so small that a second thread makes a step ten times slower."""


def can_fuse(model: ISDEA) -> bool:
    """Whether the kernels support this model: the full read-out, in single precision on a CPU."""
    flat = model.weights.flat
    return model.config.readout == "full" and flat.dtype == torch.float32 and flat.device.type == "cpu"


@one_blas_thread
def fused_scores(
    model: ISDEA, moves: Tensor, scalars: FoldedScalars, triplets: np.ndarray, steps: np.ndarray
) -> Tensor:
    """Scores [B] of triplets [B, 3] with the distances [B, 2] of their ends."""
    arrays, flat, sizes = _arrays(scalars), model.weights.flat, _sizes(model)
    if not torch.is_grad_enabled():
        result = np.empty(len(triplets), np.float32)
        spread(kernels.score, triplets, arrays, moves.numpy(), steps, sizes, flat.detach().numpy(), result)
        return torch.from_numpy(result)
    features, positions = kernels.gather(triplets, arrays)
    scores: Tensor = _FusedScores.apply((moves.numpy(), features, positions, steps), sizes, flat)  # type: ignore[no-untyped-call]
    return scores


def fused_loss(
    model: ISDEA,
    moves: Tensor,
    scalars: FoldedScalars,
    triplets: np.ndarray,
    steps: np.ndarray,
    positive: np.ndarray,
    positive_weight: float,
) -> Tensor:
    """Cross-entropy of triplets [B, 3], those where `positive` [B] is False being negatives."""
    batch = (triplets, _arrays(scalars), moves.numpy(), steps, positive, positive_weight)
    loss: Tensor = _FusedLoss.apply(batch, _sizes(model), model.weights.flat)  # type: ignore[no-untyped-call]
    return loss


def _arrays(scalars: FoldedScalars) -> kernels.Scalars:
    return kernels.Scalars(scalars.entity.numpy(), scalars.pair.numpy())


def _sizes(model: ISDEA) -> tuple[int, ...]:
    c = model.config
    return c.layers, c.width, c.hidden, c.states, c.distance, c.scorer


class _FusedLoss(torch.autograd.Function):
    """Inputs: the batch, the model's sizes, its weights."""

    @staticmethod
    @one_blas_thread
    def forward(ctx: Any, batch: tuple[Any, ...], sizes: tuple[int, ...], flat: Tensor) -> Tensor:
        loss, ctx.gradient = kernels.loss(*batch, sizes, flat.detach().numpy())
        return torch.tensor(loss)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, torch.from_numpy(ctx.gradient).mul_(gradients[0])


class _FusedScores(torch.autograd.Function):
    """Inputs: the arrays of the batch, the model's sizes, its weights."""

    @staticmethod
    @one_blas_thread
    def forward(ctx: Any, batch: tuple[np.ndarray, ...], sizes: tuple[int, ...], flat: Tensor) -> Tensor:
        weights = flat.detach().numpy()
        scores, saved = kernels.forward(*batch, sizes, weights)
        ctx.batch, ctx.sizes, ctx.weights, ctx.saved = batch, sizes, weights, saved
        return torch.from_numpy(scores)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        with threads(blas=1):
            gradient = kernels.backward(gradients[0].numpy(), ctx.saved, *ctx.batch, ctx.sizes, ctx.weights)
        return None, None, torch.from_numpy(gradient)
