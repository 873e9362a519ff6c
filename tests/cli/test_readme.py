"""What the README shows is what the program prints."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anykg.cli.main import app

README = Path(__file__).parents[2] / "README.md"
EXAMPLES = [
    (command, expected)
    for block in re.findall(r"```console\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    for command, expected in re.findall(r"^\$ anykg (.*?)\n(.*?)(?=^\$ |\Z)", block, re.S | re.M)
]


def words(text: str) -> list[list[str]]:
    """Lines without blank ones and without the width of columns."""
    return [line.split() for line in text.splitlines() if line.strip()]


def test_there_is_an_example() -> None:
    assert EXAMPLES


@pytest.mark.parametrize(("command", "expected"), EXAMPLES, ids=[c for c, _ in EXAMPLES])
def test_example(command: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    result = CliRunner().invoke(app, shlex.split(command), catch_exceptions=False)
    assert words(result.output) == words(expected)
