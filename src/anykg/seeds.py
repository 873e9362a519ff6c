"""Randomness as an argument: a seed and the names of what is drawn make a stream.

Streams of different names are independent, and a stream depends on nothing that was drawn before it, so an
interrupted run goes on with the very numbers it would have seen.

>>> stream(0, "negatives", 3).integers(10) == stream(0, "negatives", 3).integers(10)
True
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import torch


def derive(seed: int, *names: str | int) -> int:
    """A 63-bit seed for the stream called `names`."""
    text = "\x1f".join(str(part) for part in (seed, *names))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """A numpy generator for the stream called `names`."""
    return np.random.default_rng(derive(seed, *names))


def torch_stream(seed: int, *names: str | int) -> torch.Generator:
    """A torch generator (CPU) for the stream called `names`."""
    return torch.Generator().manual_seed(derive(seed, *names))
