"""What every command prints: the version, notes that can be silenced, and no control characters from a file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import anykg

ESCAPE = "\x1b[2Jgone"
FACTS = "".join(
    f"p{i}\tknows\tp{(i * 7 + 1) % 30}\np{i}\tlikes\t{ESCAPE if i % 5 == 0 else f't{i % 5}'}\n" for i in range(30)
)


@pytest.fixture
def facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "facts.tsv"
    path.write_text(FACTS, encoding="utf-8")
    return path


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "anykg", *map(str, arguments)], capture_output=True, text=True, encoding="utf-8"
    )


def test_version() -> None:
    assert run("--version").stdout == f"anykg {anykg.__version__}\n"


@pytest.mark.parametrize(
    "command",
    [
        ["predict", "--head", "p1", "--relation", "likes", "--known", "--model", "random"],
        ["check", "--facts", "20", "--models", "random", "--examples", "40"],
        ["complete", "--top", "200", "--model", "random", "--relations", "likes"],
        ["explain", "p1", "likes", ESCAPE, "--draws", "1", "--model", "random"],
        ["predict", "--head", "gone", "--relation", "likes"],
    ],
    ids=lambda command: command[0],
)
def test_names_cannot_steer_the_terminal(facts: Path, command: list[str]) -> None:
    done = run(command[0], facts, *command[1:])
    assert done.returncode == (2 if "gone" in command else 0), done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "\\x1b[2Jgone" in done.stdout + done.stderr


def test_quiet_leaves_results_and_errors(facts: Path, tmp_path: Path) -> None:
    questions = tmp_path / "questions.tsv"
    questions.write_text("p1\tknows\t?\nnobody\tknows\t?\np1\tknows\t?\n")
    ask = ("predict", facts, "--queries", questions, "--model", "random", "-k", "1", "--format", "json")
    loud, quiet = run(*ask), run(*ask, "--quiet")
    assert "(line 2): There is no entity named 'nobody'" in loud.stderr
    assert "1 of 3 questions could not be answered" in loud.stderr
    assert quiet.stderr == ""
    assert quiet.stdout == loud.stdout
    assert [part["line"] for part in json.loads(quiet.stdout)["summary"]["skipped"]] == [2]
    strict = run("--quiet", *ask, "--strict")
    assert strict.returncode == 2
    assert "nobody" in strict.stderr


def test_errors_are_one_line_about_options(facts: Path, tmp_path: Path) -> None:
    done = run("train", "gin", facts, "--out", tmp_path / "run", "--epoch", "3")
    assert done.returncode == 2
    assert done.stderr == "Error: --epoch: there is no such setting; did you mean --epochs?\n"
    (tmp_path / ".new.tsv.resume").mkdir()
    done = run("complete", facts, "--model", "random", "--out", tmp_path / "new.tsv")
    assert done.returncode == 2
    assert "found a folder" in done.stderr
