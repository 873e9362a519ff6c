"""`anykg predict` as a person types it."""

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from anykg.cli.main import app, message_of
from anykg.errors import InputError


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def errors(*arguments: object) -> str:
    with pytest.raises(InputError) as caught:
        CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    return message_of(caught.value)


ASK = ("predict", "atlas", "--head", "Kosovo", "--relation", "in UN regional group", "-k", 2)
COLUMNS = ["head", "relation", "tail", "score", "rank", "known"]


def test_formats(tmp_path: Path) -> None:
    rows = json.loads(call(*ASK, "--format", "json"))["rows"]
    assert [list(row) for row in rows] == [COLUMNS, COLUMNS]
    assert rows[0]["tail"] == "Eastern European Group"
    assert call(*ASK, "--format", "tsv").splitlines()[0].split("\t") == COLUMNS
    assert call(*ASK, "--format", "csv").splitlines()[0].split(",") == COLUMNS
    assert call(*ASK, "--format", "nt").count(" .\n") == 2
    for name in ("a.parquet", "a.json", "a.tsv"):
        assert f"Wrote 2 rows to {tmp_path / name}" in call(*ASK, "--out", tmp_path / name)
    assert pl.read_parquet(tmp_path / "a.parquet")["tail"].to_list() == [row["tail"] for row in rows]
    assert json.loads((tmp_path / "a.json").read_text())["rows"] == rows
    assert "give --out" in errors(*ASK, "--format", "parquet")
    assert "cannot be written to a file" in errors(*ASK, "--format", "table", "--out", tmp_path / "b.tsv")
    assert ".parquet" in errors(*ASK, "--out", tmp_path / "b.xyz")


def test_files_without_a_summary_end_lists_with_none_of_these(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    facts = tmp_path / "facts.tsv"
    lines = [f"p{i}\tlives in\ttown{i % 3}\np{i}\tknows\tp{(i + 1) % 30}\n" for i in range(30)]
    facts.write_text("".join(lines), encoding="utf-8")
    ask = ("predict", facts, "--head", "p1", "--relation", "lives in", "-k", 2, "--calibrated", "--model", "popularity")
    found = json.loads(call(*ask, "--format", "json"))
    assert len(found["rows"]) == 2
    for kind, separator in (("tsv", "\t"), ("csv", ",")):
        lines = call(*ask, "--format", kind).splitlines()
        assert len(lines) == 4
        *names, probability, rank, known = lines[-1].split(separator)
        assert names == ["p1", "lives in", "none of these"]
        assert (rank, known) == ("", "")
        assert float(probability) == pytest.approx(found["summary"]["none_of_these"], rel=1e-4)
    assert call(*ask, "--format", "nt").count(" .\n") == 2
    assert "Wrote 3 rows" in call(*ask, "--out", tmp_path / "a.parquet")


def test_batches(tmp_path: Path) -> None:
    queries, out = tmp_path / "q.tsv", tmp_path / "a.jsonl"
    queries.write_text("Kosovo\tborders\t?\n?\tmember of\tEuropean Union\nKosovo\tborders\t?\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["predict", "atlas", "--queries", str(queries), "-k", "3", "--out", str(out)])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["query"], row["rank"]) for row in rows] == [(q, k) for q in (1, 2, 3) for k in (1, 2, 3)]
    assert [row["tail"] for row in rows[:3]] == [row["tail"] for row in rows[6:]]
    candidates = tmp_path / "c.txt"
    candidates.write_text("Greece\nFrance\n", encoding="utf-8")
    printed = call("predict", "atlas", "--head", "Kosovo", "--relation", "borders", "--candidates", candidates)
    assert "Greece" in printed
    assert "Croatia" not in printed
    assert "found --head and --queries" in errors("predict", "atlas", "--queries", queries, "--head", "Kosovo")


def test_kindness() -> None:
    assert "'borders'" in errors("predict", "atlas", "--head", "Kosovo", "--relation", "bordes")
    assert "(cpu" in errors(*ASK, "--device", "abacus")
    assert "anykg-small" in errors(*ASK, "--model", "anykg-smal")
    assert "known" in call("predict", "atlas", "--head", "Kosovo", "--relation", "borders", "--known")


def test_what_is_read_is_not_overwritten(tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("a\tr\tb\nb\tr\tc\n")
    for command in (("predict", facts, "--head", "a", "--relation", "r"), ("complete", facts)):
        assert "would be overwritten" in errors(*command, "--out", facts)
    assert facts.read_text() == "a\tr\tb\nb\tr\tc\n"


def test_kinds_of_models_are_told_from_trained_ones() -> None:
    assert "anykg train gin" in errors(
        "predict", "atlas", "--model", "gin", "--head", "France", "--relation", "borders"
    )
    assert '"model": "ultra"' in call("models", "anykg-small")
    assert {"anykg-small", "anykg-base", "anykg-base+rules"} <= set(call("models").split())


def test_a_split_that_would_be_empty_is_refused(tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("a\tr\tb\nb\tr\tc\n")
    message = errors("data", "split", facts, "--kind", "transductive", "--out", tmp_path / "task")
    assert "would be empty" in message
    assert not (tmp_path / "task").exists()
    assert "has no test facts" in errors("evaluate", "random", facts)
