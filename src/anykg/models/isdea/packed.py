"""Many small tensors kept as one parameter: a training step then has one gradient to make and one update to do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Part(NamedTuple):
    """One of the tensors."""

    shape: tuple[int, ...]
    inputs: int
    """Of the linear map it belongs to: it is drawn as that map's weight or bias usually is."""


class Packed(nn.Module):
    """Named tensors, one after the other in `flat`; reading one gives a view that gradients flow through."""

    def __init__(self, parts: Mapping[str, Part]) -> None:
        super().__init__()
        sizes = [math.prod(part.shape) for part in parts.values()]
        ends = torch.tensor(sizes).cumsum(0).tolist()
        self._places = {
            name: (end - size, size, part.shape)
            for (name, part), size, end in zip(parts.items(), sizes, ends, strict=True)
        }
        drawn = [
            torch.empty(size).uniform_(-1, 1) * part.inputs**-0.5
            for part, size in zip(parts.values(), sizes, strict=True)
        ]
        self.flat = nn.Parameter(torch.cat(drawn))

    def __getitem__(self, name: str) -> Tensor:
        return self._view(self.flat, name)

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """What each name stands for in another flat tensor, such as the gradient."""
        return {name: self._view(flat, name) for name in self._places}

    def pack(self, parts: Mapping[str, Tensor]) -> Tensor:
        """The flat tensor of these parts."""
        for name, (_, _, shape) in self._places.items():
            if parts[name].shape != shape:
                raise ValueError(f"Expected {name} of shape {list(shape)}, found {list(parts[name].shape)}.")
        return torch.cat([parts[name].reshape(-1) for name in self._places])

    def _view(self, flat: Tensor, name: str) -> Tensor:
        start, size, shape = self._places[name]
        return flat.narrow(0, start, size).view(shape)
