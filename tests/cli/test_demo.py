"""`anykg demo`: a check, three predictions, one completion."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from anykg.answers import check
from anykg.cli.main import app


def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(check, "FACTS", {"node": 60, "relation": 20})
    printed = CliRunner().invoke(app, ["demo"], catch_exceptions=False).stdout
    assert "Asked for both ends of 60 hidden facts" in printed
    assert printed.count("the best answers that are not in the graph") == 3
    assert "Eastern European Group" in printed
    assert printed.count("language  ") >= 8
    assert "it reads structure alone" in printed
