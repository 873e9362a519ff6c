"""The package in examples/toy_model, installed: its model gets every command through its entry point."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anykg.cli.main import app
from anykg.models.registry import MODELS
from anykg.testing import check_model

PACKAGE = Path(__file__).parents[2] / "examples" / "toy_model"


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package in a folder of its own, on the import path for the tests of this file."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    for file in PACKAGE.iterdir():  # pip leaves files beside what it builds
        if file.is_file():
            (source / file.name).write_bytes(file.read_bytes())
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(target))
        yield target  # type: ignore[misc]


@pytest.fixture(scope="module")
def trained(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "toy"
    call("train", "toy", "atlas", "--out", out, "--hidden", 8)
    return out


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_it_is_short_and_keeps_the_contract() -> None:
    assert len((PACKAGE / "toy_model.py").read_text(encoding="utf-8").splitlines()) <= 65
    check_model(MODELS.load("toy"))


def test_it_is_listed_and_verified() -> None:
    assert "anykg-toy-model" in call("models")
    assert "Hidden units." in call("models", "toy")
    assert "The symmetry holds." in call("verify", "toy")


def test_it_is_trained_and_evaluated(trained: Path) -> None:
    described = json.loads((trained / "model.json").read_text(encoding="utf-8"))
    assert (described["model"], described["config"]) == ("toy", {"hidden": 8})
    result = json.loads(call("evaluate", trained, "atlas", "--format", "json"))
    random = json.loads(call("evaluate", "random", "atlas", "--format", "json"))
    assert result["summary"]["metrics"]["mrr"] > 2 * random["summary"]["metrics"]["mrr"]


def test_it_answers_and_explains(trained: Path) -> None:
    answers = call("predict", "atlas", "--head", "Kosovo", "--relation", "in UN regional group", "--model", trained)
    assert "Group" in answers
    explained = call("explain", "atlas", "France", "borders", "Germany", "--model", trained)
    assert "France <-borders- Germany" in explained
