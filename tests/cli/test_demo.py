"""`anykg demo`: hidden facts, right and wrong answers alike."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anykg.answers import check
from anykg.cli.main import app


def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(check, "FACTS", {"node": 60, "relation": 20})
    printed = CliRunner().invoke(app, ["demo"], catch_exceptions=False).stdout
    assert "Asked for both ends of 60 hidden facts" in printed
    rows = [line for line in printed.splitlines() if re.search(r"\[.*\].* (right|wrong: ).* [\d.]+$", line)]
    assert len(rows) == 12
    ranks = [float(line.split()[-1]) for line in rows]
    assert [rank == 1 for rank in ranks] == ["wrong: " not in line for line in rows]
    assert sum(rank == 1 for rank in ranks) >= 3
    assert "the model only uses structure" in printed
