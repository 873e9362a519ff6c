"""What is written is read back as the same names, in every format, or refused."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anykg.errors import ConfigError, DataError, InputError
from anykg.graph.graph import KnowledgeGraph
from anykg.io.read import read_graph
from anykg.io.write import write_graph, write_rows

ODD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6)
NAMES = ODD | st.text("ab \"',|\\_:<>%#é\u2028\ufeff", min_size=1, max_size=4) | st.sampled_from(["head", "http://x/a"])
ROWS = st.lists(st.tuples(NAMES, NAMES, NAMES), min_size=1, max_size=5)
ANSWERS = pl.DataFrame(
    {"head": ["a b", "é,"], "relation": ["r", "r"], "tail": ['"c"', "d"], "score": [0.5, -1.25], "known": [True, False]}
)


def graph_of(rows: list[tuple[str, str, str]]) -> KnowledgeGraph:
    return KnowledgeGraph.from_names(*([row[i] for row in rows] for i in range(3)))


def facts_of(path: Path) -> set[tuple[str, ...]]:
    return set(read_graph(path).to_polars().iter_rows())


@pytest.mark.parametrize("extension", ["csv", "csv.gz", "jsonl", "parquet", "nt", "nt.gz"])
@given(rows=ROWS)
@example(rows=[("a\tb", "x, y", 'say "hi"\r\n')])
@example(rows=[("head", "relation", "tail")])
@example(rows=[("\ufeffa", " ", "\r")])
def test_round_trip(extension: str, rows: list[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"facts.{extension}"
        write_graph(graph_of(rows), path)
        assert facts_of(path) == set(rows)


@given(rows=ROWS)
@example(rows=[("head", "relation", "tail")])
@example(rows=[("\ufeffa", " ", '"')])
@example(rows=[(" ", " ", " ")])
def test_tsv_round_trip_or_refusal(rows: list[tuple[str, str, str]]) -> None:
    breaks = any(character in name for row in rows for name in row for character in "\t\r\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "facts.tsv"
        if breaks:
            with pytest.raises(DataError, match=r"TSV cannot hold the tab or line break"):
                write_graph(graph_of(rows), path)
            assert not path.exists()
        else:
            write_graph(graph_of(rows), path)
            assert facts_of(path) == set(rows)


def test_labels_go_into_ntriples(tmp_path: Path) -> None:
    graph = graph_of([("Q1", "P1", "Q2")])
    labelled = KnowledgeGraph(graph.triplets, graph.entities.with_labels({"Q1": "one"}), graph.relations)
    write_graph(labelled, tmp_path / "facts.nt")
    assert read_graph(tmp_path / "facts.nt").entities.index("one") == 0


def test_plain_tsv_is_what_other_tools_expect(tmp_path: Path) -> None:
    write_graph(graph_of([("a", "r", "b")]), tmp_path / "facts.tsv")
    assert (tmp_path / "facts.tsv").read_bytes() == b"a\tr\tb\n"


def test_the_same_graph_gives_the_same_compressed_file(tmp_path: Path) -> None:
    for name in ("one.tsv.gz", "two.tsv.gz"):
        write_graph(graph_of([("a", "r", "b")]), tmp_path / name)
    assert (tmp_path / "one.tsv.gz").read_bytes() == (tmp_path / "two.tsv.gz").read_bytes()


@pytest.mark.parametrize("format", ["tsv", "csv", "jsonl", "parquet", "nt"])
def test_rows(tmp_path: Path, format: str) -> None:
    path = tmp_path / "answers"
    write_rows(ANSWERS, path, format)
    back = path.rename(tmp_path / f"answers.{format}")
    assert facts_of(back) == set(ANSWERS.select("head", "relation", "tail").iter_rows())
    if format == "csv":
        assert pl.read_csv(back).equals(ANSWERS)
    if format == "tsv":
        assert back.read_text(encoding="utf-8").splitlines()[0] == "head\trelation\ttail\tscore\tknown"
    if format == "jsonl":
        assert [json.loads(line) for line in back.read_text(encoding="utf-8").splitlines()] == ANSWERS.to_dicts()


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a file name ending in \.tsv"):
        write_rows(ANSWERS, tmp_path / "answers.xlsx")
    with pytest.raises(ConfigError, match="Expected a format of tsv"):
        write_rows(ANSWERS, tmp_path / "answers.tsv", "xlsx")
    with pytest.raises(ConfigError, match="Parquet is compressed already"):
        write_rows(ANSWERS, tmp_path / "answers.parquet.gz")
    with pytest.raises(DataError, match="N-Triples need columns head, relation, tail; found score"):
        write_rows(ANSWERS.select("score"), tmp_path / "answers.nt")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_rows(ANSWERS, tmp_path / "file" / "answers.tsv")


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "facts.tsv"
    write_graph(graph_of([("a", "r", "b")]), path)
    with pytest.raises(DataError, match="tab"):
        write_graph(graph_of([("a\t", "r", "b")]), path)
    assert path.read_bytes() == b"a\tr\tb\n"
    assert list(tmp_path.iterdir()) == [path]
