"""Fixtures that every test may use."""

import os
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)


def _folder(variable: str) -> Path:
    value = os.environ.get(variable)
    if not value or not Path(value).is_dir():
        pytest.skip(f"{variable} is not set to a folder")
    return Path(value)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The public benchmarks."""
    return _folder("ANYKG_DATA")


@pytest.fixture(scope="session")
def golden_dir() -> Path:
    """Weights and outputs of the public implementations."""
    return _folder("ANYKG_GOLDEN")
