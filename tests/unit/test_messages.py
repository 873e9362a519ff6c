"""The library speaks Python: only the command line names options (`anykg.cli.wording` translates)."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import anykg

ROOT = Path(anykg.__file__).parent
FILES = [path for path in sorted(ROOT.rglob("*.py")) if path.relative_to(ROOT).parts[0] != "cli"]
OPTION = re.compile(r"(?<![\w-])--(?:[a-z][a-z-]*|$|(?=\{))")
COMMAND = re.compile(r"`anykg [^`]*`")
"""A command to type at a shell, which may have options."""
EXCEPTIONS = {
    "provenance.py": "options of git",
    "errors.py": "SettingError.as_option",
    "answers/check.py": "names the Python argument as well",
    "answers/complete.py": "names the Python argument as well",
}


def texts(path: Path) -> Iterator[str]:
    """The string literals of a file without docstrings; the values in an f-string are shown as {}."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_library_names_no_options(path: Path) -> None:
    named = [text for text in texts(path) if OPTION.search(COMMAND.sub("", text))]
    assert not named or path.relative_to(ROOT).as_posix() in EXCEPTIONS
