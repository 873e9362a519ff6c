"""Many small tensors stored as one parameter, so that a training step computes one gradient and one update.

The state dict holds the tensors by name, as views of the parameter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Part(NamedTuple):
    """One of the tensors."""

    shape: tuple[int, ...]
    inputs: int
    """Input width of the linear map it belongs to, which scales its initialisation."""


class Packed(nn.Module):
    """Named tensors, one after the other in `flat`; reading one gives a view that gradients flow through."""

    def __init__(self, parts: Mapping[str, Part]) -> None:
        super().__init__()
        sizes = [math.prod(part.shape) for part in parts.values()]
        ends = torch.tensor(sizes).cumsum(0).tolist()
        self._layout = {
            name: (end - size, size, part.shape)
            for (name, part), size, end in zip(parts.items(), sizes, ends, strict=True)
        }
        drawn = [
            torch.empty(size).uniform_(-1, 1) * part.inputs**-0.5
            for part, size in zip(parts.values(), sizes, strict=True)
        ]
        self.flat = nn.Parameter(torch.cat(drawn))

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        flat = self.flat if keep_vars else self.flat.detach()
        destination.update({prefix + name: tensor for name, tensor in self.named(flat).items()})

    def _load_from_state_dict(self, state_dict: Mapping[str, Tensor], prefix: str, *arguments: Any) -> None:
        _, strict, missing, unexpected, errors = arguments
        given = {key.removeprefix(prefix): value for key, value in state_dict.items() if key.startswith(prefix)}
        missing += [prefix + name for name in self._layout if name not in given]
        if strict:
            unexpected += [prefix + name for name in given if name not in self._layout]
        for name, own in self.named(self.flat.detach()).items():
            if name in given and given[name].shape != own.shape:
                errors.append(f"size mismatch for {prefix}{name}: {list(given[name].shape)}, not {list(own.shape)}")
            elif name in given:
                own.copy_(given[name])

    def __getitem__(self, name: str) -> Tensor:
        return self._view(self.flat, name)

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """Views of another flat tensor, such as the gradient, by name."""
        return {name: self._view(flat, name) for name in self._layout}

    def _view(self, flat: Tensor, name: str) -> Tensor:
        start, size, shape = self._layout[name]
        return flat.narrow(0, start, size).view(shape)
