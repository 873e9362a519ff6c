"""Torch devices by name."""

from __future__ import annotations

import torch

from anykg.errors import SettingError


def device_named(name: str) -> torch.device:
    """The device called `name` (cpu, cuda, cuda:1, mps), which must be available."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        there = ["cpu"]
        if torch.cuda.is_available():
            there += [f"cuda:{index}" for index in range(torch.cuda.device_count())]
        if torch.backends.mps.is_available():
            there.append("mps")
        raise SettingError(
            "device", f"expected one that this machine and its torch have ({', '.join(there)}), found {name!r}"
        ) from error
    return device
