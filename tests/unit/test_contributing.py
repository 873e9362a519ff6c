"""CONTRIBUTING names files and functions that exist."""

import re
from pathlib import Path

import pytest

import anykg

PACKAGE = Path(anykg.__file__).parent
TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)(?:: (\w+))?`", TEXT)))


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[f"{path}:{name}" for path, name in NAMED])
def test_what_is_named_exists(path: str, name: str) -> None:
    file = PACKAGE / path
    if not file.exists():
        file = PACKAGE.parents[1] / path
    assert file.exists()
    assert not name or re.search(rf"^(def|class) {name}\b|^{name}\b", file.read_text(encoding="utf-8"), re.M)
