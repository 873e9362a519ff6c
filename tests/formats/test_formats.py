"""Every file of `files/` gives the graph that `expected.toml` says, or the question."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from anykg.errors import InputError
from anykg.io.read import read_with_report

HERE = Path(__file__).parent
CASES = tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))["case"]


@pytest.mark.parametrize("case", CASES, ids=[f"{c['file']}-{'-'.join(c.get('options', {}))}" for c in CASES])
def test_file(case: dict[str, Any]) -> None:
    path, options = HERE / "files" / case["file"], case.get("options", {})
    if "error" in case:
        with pytest.raises(InputError) as caught:
            read_with_report(path, **options)
        assert re.search(case["error"], str(caught.value)), str(caught.value)
        assert "\n" not in str(caught.value)
        return
    graph, report = read_with_report(path, **options)
    assert sorted(map(list, graph.to_polars().iter_rows())) == sorted(fact.split(" | ") for fact in case["facts"])
    for name, label in case.get("labels", {}).items():
        vocabulary = graph.entities if name in graph.entities.names.to_list() else graph.relations
        assert vocabulary.label(vocabulary.index(name)) == label
    assert case.get("notes", "") in " ".join(report.notes)
    if "left_out" in case:
        assert dict(report.left_out) == case["left_out"]
    elif "where" not in options and "keep" not in options:
        assert not {"comments", "rows with a blank field"} & set(report.left_out)


def test_every_file_is_expected() -> None:
    named = {case["file"].split("/")[0] for case in CASES} | {"kgx_nodes.tsv"}
    assert {path.name for path in (HERE / "files").iterdir()} == named
