"""Fixtures that every test may use."""

import os
from pathlib import Path

# Workers of pytest share the cores: one thread each, and waiting threads that sleep. Read when torch and numba load.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest
from hypothesis import settings

settings.register_profile("anykg", deadline=None)  # how long an example takes says more of the machine than of us
settings.load_profile("anykg")


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
