"""`anykg schema`."""

import json

from typer.testing import CliRunner

from anykg.cli.main import app


def test_the_atlas_has_a_schema() -> None:
    printed = CliRunner().invoke(app, ["schema", "atlas", "-k", "3"], env={"COLUMNS": "200"})
    assert printed.exit_code == 0, printed.output
    assert "symmetric (648 of 648)" in printed.output
    assert "13 more relations" in printed.output
    found = json.loads(CliRunner().invoke(app, ["schema", "atlas", "--format", "json"]).output)
    holds = {row["holds"] for row in found["rows"] if row["relation"] == "has capital"}
    assert {"functional", "inverse functional", "one-way"} <= holds
    assert {kind["kind"] for kind in found["summary"]["kinds"]} >= {"tail of has capital"}
