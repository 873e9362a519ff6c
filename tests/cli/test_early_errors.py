"""What is wrong with files, options and names is refused before torch is imported, which takes seconds."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anykg.cli.main import app
from anykg.errors import SettingError

RUN = """
import sys
from anykg.cli.main import run
sys.argv = ["anykg", *sys.argv[1:]]
try:
    run()
except SystemExit as stop:
    print(stop.code, "torch" in sys.modules)
"""
ATLAS = ("predict", "atlas", "--head", "France", "--relation", "capital")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("predict", "nofile.tsv", "--head", "a", "--relation", "b"), "no file, folder or dataset"),
        (("predict", "atlas", "--head", "Frnce", "--relation", "capital"), "Did you mean 'France'"),
        (("predict", "atlas", "--head", "Frnce", "--relation", "capital", "--tail", "Paris"), "Did you mean 'France'"),
        (("predict", "atlas", "--head", "France"), "Expected two of --head, --relation and --tail"),
        (("predict", "atlas", "--head", "France"), "or --queries FILE; found only --head."),
        (("predict", "atlas", "--head", "France", "--queries", "questions.tsv"), "found --head and --queries."),
        (("predict", "atlas", "--queries", "nofile.tsv"), "nofile.tsv"),
        (("predict", "atlas", "--queries", "questions.tsv", "--strict"), "Did you mean 'France'"),
        ((*ATLAS, "--candidates", "nofile.txt"), "nofile.txt"),
        ((*ATLAS, "--model", "anykg-bse"), "Did you mean 'anykg-base'"),
        ((*ATLAS, "--model", "ultra+rules"), "no weights for mixing"),
        ((*ATLAS, "--model", "."), "found no model.json"),
        ((*ATLAS, "--out", "answers.odd"), "answers.odd"),
        (("score", "atlas", "nofile.tsv"), "nofile.tsv"),
        (("score", "atlas", "questions.tsv", "--strict"), "no entity named 'Frnce'"),
        (("explain", "atlas", "France", "capitl", "Paris"), "Did you mean 'has capital'"),
        (("explain", "atlas", "France", "capital"), "Expected a fact"),
        (("complete", "atlas", "--relations", "capitl"), "Did you mean 'has capital'"),
        (("complete", "atlas", "--heads", "Frnce"), "Did you mean 'France'"),
        (("audit", "atlas", "--relations", "capitl"), "Did you mean 'has capital'"),
        (("check", "nofile.tsv"), "no file, folder or dataset"),
        (("check", "atlas", "--models", "anykg-base,anykg-bse"), "Did you mean 'anykg-base'"),
        (("fit", "atlas", "--out", "made", "--negatives", "nofile.tsv"), "nofile.tsv"),
        (("evaluate", "anykg-base", "nofile.tsv"), "nofile.tsv"),
        (("schema", "nofile.tsv"), "no file, folder or dataset"),
        (("data", "stats", "nofile.tsv"), "no file, folder or dataset"),
    ],
)
def test_wrong_input_is_refused_before_torch_is_imported(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    tail = "?" if arguments[0] == "predict" else "Paris"
    (tmp_path / "questions.tsv").write_text(f"Frnce\tcapital\t{tail}\n", encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", RUN, *arguments], capture_output=True, text=True, cwd=tmp_path)
    assert message in done.stderr
    assert done.stdout.split() == ["2", "False"]


def test_an_audit_without_time_prints_no_plan() -> None:
    result = CliRunner().invoke(app, ["audit", "atlas", "--minutes", "0"])
    assert isinstance(result.exception, SettingError)
    assert "parts" not in result.stderr
