"""Data flows one way: a package imports only from the left of this line."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import anykg

ORDER = [
    ["errors", "seeds", "provenance", "printable", "progress", "tasks", "threads", "compiling"],
    ["atomic", "settings", "devices", "plugins"], ["cluster"], ["graph"], ["io"], ["rules"], ["models"], ["evaluation"],
    ["training"], ["answers"], ["benchmarks"], ["testing", "web"], ["cli"],
]  # fmt: skip
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}
ROOT = Path(anykg.__file__).parent
FILES = sorted(p for p in ROOT.rglob("*.py") if p.parent != ROOT or p.stem in LEVEL)


def imported(path: Path) -> set[str]:
    """Parts of anykg a file imports at run time."""
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    checking = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.dump(branch.test)
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if id(node) in checking:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("anykg."):
            found.add((node.module or "").split(".")[1])
        elif isinstance(node, ast.ImportFrom) and node.module == "anykg":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("anykg.")}
    return found & set(LEVEL)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_left(path: Path) -> None:
    part = path.relative_to(ROOT).parts[0].removesuffix(".py")
    wrong = {name for name in imported(path) if name != part and LEVEL[name] >= LEVEL[part]}
    assert not wrong, f"{part} must not import from {wrong}"


def test_import_is_light() -> None:
    """`import anykg` loads none of the heavy libraries; each waits until it is needed."""
    heavy = "torch polars numba scipy torch_geometric pyoxigraph matplotlib pykeen typer rich"
    code = f"import sys, anykg; print([m for m in {heavy.split()} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_question_about_a_small_graph_starts_fast() -> None:
    """An answer of the network needs neither compiled kernels nor scipy, which take longer to import than to ask."""
    code = (
        "import sys, anykg; anykg.predict('atlas', head='France', relation='borders', model='anykg-base');"
        "print([m for m in ('numba', 'scipy', 'matplotlib', 'pandas') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_no_conflict_markers() -> None:
    """A merge that went wrong can leave valid Python, as in a help text."""
    marked = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*.py") if "\n<<<<<<< " in p.read_text(encoding="utf-8")]
    assert not marked
