"""Randomness as an argument: a seed and the names of a purpose make a generator.

Generators with different names are independent of each other and of earlier draws, so an interrupted run resumes with
the same numbers.

>>> int(generator(0, "negatives", 3).integers(100)) == int(generator(0, "negatives", 3).integers(100))
True
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def derive(seed: int, *names: str | int) -> int:
    """Return a 63-bit seed for the generator called `names`."""
    text = "\x1f".join(str(part) for part in (seed, *names))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """Return a NumPy generator, named so that draws for different purposes are independent."""
    return np.random.default_rng(derive(seed, *names))


@contextmanager
def initialising(seed: int) -> Iterator[None]:
    """Seed torch's global generator, which initial weights are drawn from, and restore it afterwards."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "weights"))
        yield


def torch_generator(seed: int, *names: str | int) -> torch.Generator:
    """Return a torch generator (CPU), named so that draws for different purposes are independent."""
    import torch

    return torch.Generator().manual_seed(derive(seed, *names))
