"""`anykg check` as a person types it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anykg.cli.main import app


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_check_then_probabilities(tmp_path: Path) -> None:
    printed = call("check", "atlas", "--facts", 60, "--out", tmp_path / "check.json")
    assert "Asked for both ends of" in printed
    assert "'borders' is symmetric" in printed
    found = json.loads((tmp_path / "check.json").read_text())["summary"]
    assert found["overall"]["mrr"]["low"] < found["overall"]["mrr"]["value"] < found["overall"]["mrr"]["high"]
    kept = list(tmp_path.rglob("calibration/*.json"))
    assert len(kept) == 1
    ask = ("predict", "atlas", "--head", "Kosovo", "--relation", "in UN regional group", "-k", 1, "--format", "json")
    row = json.loads(call(*ask, "--calibrated"))["rows"][0]
    assert 0 < row["probability"] < 1
    assert "score" not in row
    assert list(tmp_path.rglob("calibration/*.json")) == kept


def test_models_are_compared() -> None:
    printed = call("check", "atlas", "--facts", 20, "--models", "anykg-small,anykg-small", "--format", "json")
    assert json.loads(printed)["model"] == "anykg-small"  # named twice, checked once
    assert "models" not in json.loads(printed)["summary"]
    printed = call("check", "atlas", "--facts", 20, "--models", "anykg-small,random", "--format", "json")
    found = json.loads(printed)
    assert found["summary"]["best"] == "anykg-small"
    assert {row["model"] for row in found["rows"]} == {"anykg-small", "random"}
