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

GAP = ["..."]


def words(text: str) -> list[list[str]]:
    """Lines without blank ones and without the width of columns."""
    return [line.split() for line in text.splitlines() if line.strip()]


def parts(lines: list[list[str]]) -> list[list[list[str]]]:
    """Runs of lines between gaps."""
    found: list[list[list[str]]] = [[]]
    for line in lines:
        if line == GAP:
            found.append([])
        else:
            found[-1].append(line)
    return [part for part in found if part]


def test_there_is_an_example() -> None:
    assert EXAMPLES


@pytest.mark.parametrize(("command", "expected"), EXAMPLES, ids=[c for c, _ in EXAMPLES])
def test_example(command: str, expected: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = CliRunner().invoke(app, shlex.split(command), catch_exceptions=False)
    printed, shown = words(result.output), words(expected)
    for part in parts(shown):  # in this order; a line of dots stands for lines left out
        found = [at for at in range(len(printed)) if printed[at : at + len(part)] == part]
        assert found, (part, result.output)
        printed = printed[found[0] + len(part) :]
    assert shown[-1] == GAP or not printed
