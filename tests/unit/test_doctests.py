"""Examples in docstrings print what they say."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import anykg

ROOT = Path(anykg.__file__).parent
MODULES = sorted(
    ".".join(("anykg", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert not doctest.testmod(import_module(name)).failed
