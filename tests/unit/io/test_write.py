"""What is written is read back as the same names, in every format, or refused."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anykg.errors import ConfigError, DataError, InputError
from anykg.graph.graph import KnowledgeGraph
from anykg.io.formats import by_name, formats
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


WRITABLE = sorted(f.name for f in formats().values() if f.write is not None)
NASTY = [
    ("a\tb", "x, y", 'say "hi"\r\n'),
    ("head", "relation", "tail"),
    ("node1", "label", "node2"),
    ("\ufeffa", " ", "\r"),
    (" ", " ", "  two  "),
    ("", "", ""),
    ("\U0001f600", "\u05e9\u05dc\u05d5\u05dd", "\u202eabc"),
    ("x" * 20_000, "12", "_:b-0.1"),
    ("# a", "%", "=1+1"),
    ("urn:anykg:a%20b", "http://x/1", "\x00\x1f"),
    ("<a>", "&amp;", "]]>"),
    ("null", "NaN", "1.0"),
]


def path_of(folder: str | Path, format: str) -> Path:
    suffixes = by_name(format).suffixes
    return Path(folder) / ("facts" + suffixes[0] if suffixes else "facts")


@pytest.mark.parametrize("format", WRITABLE)
@given(rows=ROWS)
@example(rows=NASTY)
@example(rows=NASTY[:1])
@example(rows=NASTY[1:2])
@example(rows=NASTY[2:3])
@example(rows=NASTY[3:4])
@example(rows=NASTY[4:5])
@example(rows=NASTY[5:6])
@example(rows=NASTY[8:9])
@settings(max_examples=40, deadline=None)
def test_every_format_gives_back_what_was_written(format: str, rows: list[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = path_of(folder, format)
        write_graph(graph_of(rows), path, format)
        assert facts_of(path) == set(rows)


@pytest.mark.parametrize("format", ["tsv", "csv", "nt", "jsonl"])
def test_round_trip_through_gzip(tmp_path: Path, format: str) -> None:
    path = tmp_path / f"facts.{format}.gz"
    write_graph(graph_of(NASTY), path)
    assert facts_of(path) == set(NASTY)


@pytest.mark.parametrize(
    "format", ["nt", "nq", "ttl", "trig", "rdf", "jsonld", "graphml", "gexf", "kgtk", "kgx", "neo4j"]
)
def test_labels_are_written_where_the_format_can_hold_them(tmp_path: Path, format: str) -> None:
    graph = graph_of([("Q1", "P1", "Q2")])
    labels = {"Q1": "one", "Q2": "two & more"}
    labelled = KnowledgeGraph(graph.triplets, graph.entities.with_labels(labels), graph.relations)
    path = path_of(tmp_path, format)
    write_graph(labelled, path, format)
    back = read_graph(path)
    assert [back.entities.label(back.entities.index(name)) for name in labels] == list(labels.values())


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
        write_rows(ANSWERS, tmp_path / "answers.docx")
    with pytest.raises(ConfigError, match="Expected a format of tsv"):
        write_rows(ANSWERS, tmp_path / "answers.tsv", "docx")
    with pytest.raises(ConfigError, match="Parquet is compressed already"):
        write_rows(ANSWERS, tmp_path / "answers.parquet.gz")
    with pytest.raises(DataError, match="N-Triples need columns head, relation, tail; found score"):
        write_rows(ANSWERS.select("score"), tmp_path / "answers.nt")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_rows(ANSWERS, tmp_path / "file" / "answers.tsv")


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "facts.xlsx"
    write_graph(graph_of([("a", "r", "b")]), path)
    with pytest.raises(DataError, match="Excel cannot hold the 40,000 characters"):
        write_graph(graph_of([("a" * 40_000, "r", "b")]), path)
    assert facts_of(path) == {("a", "r", "b")}
    assert list(tmp_path.iterdir()) == [path]
