"""docs/paper.md names files, tests and commands that exist."""

import re
from pathlib import Path

import pytest

from anykg.benchmarks.experiment import experiment_names

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"`([^`]+)`", PAGE)


@pytest.mark.parametrize("path", sorted({q for q in QUOTED if re.fullmatch(r"[\w./+-]+/[\w./+-]+\.\w+", q)}))
def test_files_exist(path: str) -> None:
    assert (ROOT / path).exists()


def test_tests_exist() -> None:
    defined = {
        name
        for path in (ROOT / "tests" / "theory").glob("test_*.py")
        for name in (path.name, *re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))
    }
    named = {q for q in QUOTED if re.fullmatch(r"test_\w+(\.py)?", q)}
    assert len(named) > 30
    assert named <= defined


def test_every_statement_has_a_test() -> None:
    """Every file of tests/theory is on the page, by its name or that of one of its tests."""
    for path in (ROOT / "tests" / "theory").glob("test_*.py"):
        tests = re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert path.name in PAGE or any(test in PAGE for test in tests), path.name


def test_experiments_exist() -> None:
    named = set(re.findall(r"anykg reproduce ([\w-]+)", PAGE))
    assert named <= {*experiment_names(), "statistics"}
    assert set(experiment_names()) <= named
