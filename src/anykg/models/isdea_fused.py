"""The training step of folded ISDEA+ as one autograd node over the compiled kernels of `ops.folded_step`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg  # noqa: F401 - loads the BLAS that numba calls
import torch
from threadpoolctl import ThreadpoolController
from torch import Tensor

from anykg.ops import folded_step

if TYPE_CHECKING:
    from anykg.models.isdea import ISDEA


def _calm_scipy_blas() -> None:
    """Give scipy's BLAS, which compiled `np.dot` calls, one thread: more cost ten times a step of these small products.

    torch and numpy have BLAS libraries of their own, which stay as they are.
    """
    for library in ThreadpoolController().lib_controllers:
        if library.user_api == "blas" and "scipy.libs" in str(library.filepath):
            library.set_num_threads(1)


_calm_scipy_blas()


def can_fuse(model: ISDEA) -> bool:
    """Whether the kernels know this model: the full read-out, in single precision on a CPU."""
    weight = model.self_weight
    return model.config.readout == "full" and weight.dtype == torch.float32 and weight.device.type == "cpu"


def fused_scores(model: ISDEA, moves: Tensor, features: Tensor, places: np.ndarray, steps: np.ndarray) -> Tensor:
    """Scores [B] from scalars of pairs [P, F], places of heads and then tails among them [2B], and distances [B, 2]."""
    scores: Tensor = _FusedScores.apply(  # type: ignore[no-untyped-call]
        (moves.numpy(), features.numpy(), places, steps), *_parameters(model)
    )
    return scores


def _parameters(model: ISDEA) -> list[Tensor]:
    """The parameters in the kernels' order; walking a module for them anew is a tenth of a step."""
    known = model.fused_parameters
    if not known or known[0] is not model.self_weight:  # moved to another device and back, they are others
        known[:] = [model.self_weight, model.hop_weight, model.self_bias, *model.stream_weights, *model.stream_biases]
        for part in (model.combine, model.embed_distance, model.scorer):
            layers = list(part.parameters())
            known += [*layers[::2], *layers[1::2]]
    return known


class _FusedScores(torch.autograd.Function):
    """Inputs: the arrays of the batch; self, hop and bias of the maps; 3 weights and 3 biases of each of 4 MLPs."""

    @staticmethod
    def forward(ctx: Any, batch: tuple[np.ndarray, ...], *parameters: Tensor) -> Tensor:
        maps = torch.cat([parameters[0], parameters[1]], dim=2).numpy()  # [T, 2, 2D, D]
        arrays = [parameter.detach().numpy() for parameter in parameters[2:]]
        mlps = [(tuple(arrays[i : i + 3]), tuple(arrays[i + 3 : i + 6])) for i in range(1, 25, 6)]
        scores, saved = folded_step.forward(*batch, maps, arrays[0], *mlps)
        ctx.batch, ctx.maps, ctx.mlps, ctx.saved = batch, maps, mlps, saved
        return torch.from_numpy(scores)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        of_maps, of_bias, *of_mlps = folded_step.backward(
            gradients[0].numpy(), ctx.saved, *ctx.batch, ctx.maps, *ctx.mlps
        )
        width = of_maps.shape[3]
        flat = [array for weights, biases in of_mlps for array in (*weights, *biases)]
        parts = (of_maps[:, :, :width], of_maps[:, :, width:], of_bias, *flat)
        return (None, *(torch.from_numpy(part) for part in parts))
