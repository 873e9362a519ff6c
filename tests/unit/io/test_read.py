"""Delimited text, Parquet and JSON lines: what is understood, what is reported, what is refused and how."""

from __future__ import annotations

import gzip
import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from anykg.errors import ConfigError, DataError
from anykg.io.batch import read_batch
from anykg.io.delimited import _parse_fast, _parse_lines
from anykg.io.dialect import Dialect
from anykg.io.read import read_graph, read_with_report
from anykg.io.source import Source
from anykg.io.tables import excel_of

FACTS = [("Paris", "capital of", "France"), ("Lyon", "located in", "France"), ("Zoë", "born in", "New York, NY")]


def facts_of(path: Path, **options: object) -> set[tuple[str, ...]]:
    return set(read_graph(path, **options).to_polars().iter_rows())  # type: ignore[arg-type]


def put(folder: Path, content: str | bytes, name: str = "facts.txt") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def quoted(separator: str) -> str:
    return "".join(separator.join(f'"{name}"' for name in fact) + "\n" for fact in FACTS)


TABBED = "".join("\t".join(fact) + "\n" for fact in FACTS)


@pytest.mark.parametrize(("name", "separator"), [("tab", "\t"), ("comma", ","), ("pipe", "|"), ("space", " ")])
def test_finds_the_separator(tmp_path: Path, name: str, separator: str) -> None:
    path = put(tmp_path, TABBED if separator == "\t" else quoted(separator))
    graph, report = read_with_report(path)
    assert set(graph.to_polars().iter_rows()) == set(FACTS)
    assert (report.separator, report.header, report.columns) == (name, False, "hrt")


@pytest.mark.parametrize("text", ["a b c\nd b e\n", "a  b   c\n d b e \n", "a b c \r\nd   b e\r\n"])
def test_runs_of_spaces_separate_once(tmp_path: Path, text: str) -> None:
    assert facts_of(put(tmp_path, text)) == {("a", "b", "c"), ("d", "b", "e")}


def test_names_with_spaces_that_would_split_evenly_stay_whole_between_tabs(tmp_path: Path) -> None:
    path = put(tmp_path, "New York\tin\tUSA now\nOld York\tin\tUK then\na bad\tline here\n")
    with pytest.raises(DataError, match=r"facts.txt:3: expected 3 tab-separated"):
        read_graph(path)


@pytest.mark.parametrize(
    ("first", "columns"),
    [
        ("head\trelation\ttail", "hrt"),
        ("Object\tPREDICATE\tsubject", "trh"),
        ("source\ttarget\tedge", "htr"),
        ("id\th\tscore\trel\tt", "_h_rt"),
    ],
)
def test_finds_the_header_and_the_order(tmp_path: Path, first: str, columns: str) -> None:
    fact = dict(zip("hrt", FACTS[0], strict=True)) | {"_": "0.5"}
    path = put(tmp_path, f"{first}\n" + "\t".join(fact[letter] for letter in columns) + "\n")
    graph, report = read_with_report(path)
    assert list(graph.to_polars().iter_rows()) == [FACTS[0]]
    assert report.header
    assert report.columns == columns


def test_header_can_be_forced_either_way(tmp_path: Path) -> None:
    path = put(tmp_path, "head\trelation\ttail\na\tb\tc\n")
    assert facts_of(path, header=False) == {("head", "relation", "tail"), ("a", "b", "c")}
    path = put(tmp_path, "one\ttwo\tthree\na\tb\tc\n")
    assert facts_of(path, header=True) == {("a", "b", "c")}


@pytest.mark.parametrize(
    ("first", "columns"),
    [
        ("source,target,type", "htr"),
        (":START_ID,:TYPE,:END_ID", "hrt"),
        ("entity1,what,entity2", "hrt"),
        ("what,from,to", "rht"),
    ],
)
def test_headers_of_other_tools(tmp_path: Path, first: str, columns: str) -> None:
    graph, report = read_with_report(put(tmp_path, f"{first}\nAnna,Bob,Carl\n", "facts.csv"))
    assert (report.header, report.columns, len(graph)) == (True, columns, 1)


def test_names_of_one_letter_are_no_header(tmp_path: Path) -> None:
    assert facts_of(put(tmp_path, "s r a\nb r t\n")) == {("s", "r", "a"), ("b", "r", "t")}


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (
            "facts.tsv",
            "New York\tin\tUSA\t0.9\nOld York\tin\tUK\t0.8\n",
            r":1: expected 3 tab-separated.*columns='hrt_'",
        ),
        ("facts.csv", "a,in,b\nWashington, D.C.,in,USA\n", r":2: expected 3 comma-separated.*put it in quotes"),
        ("facts.json", '[{"head": "a"}]', "expected at least a column of heads and one of tails"),
    ],
)
def test_files_of_other_widths_are_not_read_as_something_else(tmp_path: Path, name: str, text: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        read_graph(put(tmp_path, text, name))


@pytest.mark.parametrize("text", ["Anna, works for, Acme\n", "Anna | works for | Acme\n", 'Anna; "works for"; Acme\n'])
def test_spaces_around_separators_are_not_part_of_names(tmp_path: Path, text: str) -> None:
    assert facts_of(put(tmp_path, text, "facts.csv")) == {("Anna", "works for", "Acme")}


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("facts.nt", "<urn:a> <urn:b> <urn:c> .\n", {"columns": "htr"}),
        ("facts.nt", "<urn:a> <urn:b> <urn:c> .\n", {"header": True}),
        ("facts.tsv", "a\tb\tc\n", {"literals": "keep"}),
        ("facts.tsv", "a\tb\tc\n", {"literals": "kep"}),
    ],
)
def test_options_that_say_nothing_are_refused(tmp_path: Path, name: str, text: str, options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        read_graph(put(tmp_path, text, name), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", ["hrt", "htr", "trh", "h_rt", "_t_hr_"])
@pytest.mark.parametrize("separator", ["\t", ",", " "])
def test_any_order_of_columns(tmp_path: Path, columns: str, separator: str) -> None:
    field = {"h": "a", "r": "b", "t": "c", "_": "0"}
    path = put(tmp_path, separator.join(field[letter] for letter in columns) + "\n")
    assert facts_of(path, columns=columns) == {("a", "b", "c")}


@pytest.mark.parametrize("columns", ["hr", "hrtt", "hrx", ""])
def test_refuses_columns_that_make_no_sense(tmp_path: Path, columns: str) -> None:
    with pytest.raises(ConfigError, match="once each"):
        read_graph(put(tmp_path, TABBED), columns=columns)


def test_separator_by_word_or_character(tmp_path: Path) -> None:
    path = put(tmp_path, "a;b;c\n")
    assert facts_of(path, separator=";") == {("a", "b", "c")}
    with pytest.raises(ConfigError, match="separator"):
        read_graph(path, separator="dots")


@pytest.mark.parametrize("ending", ["\r\n", "\n", "\n\n", "\n\t\t\n", "\n   \n"])
@pytest.mark.parametrize("start", ["", "\ufeff", "\n\n"])
def test_line_ends_marks_and_blank_lines(tmp_path: Path, ending: str, start: str) -> None:
    path = put(tmp_path, start + "a\tb\tc" + ending + "d\tb\te" + ending)
    assert facts_of(path) == {("a", "b", "c"), ("d", "b", "e")}


def test_no_line_is_a_comment_and_quotes_between_tabs_are_characters(tmp_path: Path) -> None:
    fact = ("#a", '"Weird_Al"_Yankovic', 'c"')
    assert facts_of(put(tmp_path, "\t".join(fact))) == {fact}


def test_quotes_as_in_csv(tmp_path: Path) -> None:
    path = put(tmp_path, 'a,is,"x, ""y""\nz"\nb"b,is,c\n', "facts.csv")
    assert facts_of(path) == {("a", "is", 'x, "y"\nz'), ('b"b', "is", "c")}


@pytest.mark.parametrize("name", ["facts.tsv.gz", "facts.txt.zst", "facts.gz"])
def test_compressed(tmp_path: Path, name: str) -> None:
    pack = zstandard.compress if name.endswith("zst") else gzip.compress
    assert facts_of(put(tmp_path, pack(TABBED.encode()), name)) == set(FACTS)


def test_zstd_of_several_frames(tmp_path: Path) -> None:
    lines = TABBED.encode().splitlines(keepends=True)
    assert facts_of(put(tmp_path, b"".join(map(zstandard.compress, lines)), "facts.tsv.zst")) == set(FACTS)


def test_utf8_whatever_the_locale(tmp_path: Path) -> None:
    path = put(tmp_path, TABBED)
    code = f"import anykg; print(ascii(sorted(anykg.read_graph({str(path)!r}).entities)))"
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "Zo\\xeb" in out.stdout


def test_report_counts(tmp_path: Path) -> None:
    _, report = read_with_report(put(tmp_path, TABBED + TABBED))
    assert (report.triplets, report.duplicates, report.entities, report.relations) == (6, 3, 5, 3)
    assert report.first == tuple(FACTS)
    assert "left out: 3 duplicates" in report.lines()[-1]
    assert "tab-separated, no header, columns head, relation, tail" in report.lines()[0]


def test_labels_from_a_file(tmp_path: Path) -> None:
    path = put(tmp_path, "Q1\tP1\tQ2\n")
    labels = put(tmp_path, "id,label\nQ1,France\nQ2,New York\nP1,part of\nQ9,unknown\n", "labels.csv")
    graph, report = read_with_report(path, labels=labels)
    assert graph.entities.label(graph.entities.index("New York")) == "New York"
    assert graph.relations.index("part of") == graph.relations.index("P1") == 0
    assert report.labels == 3
    with pytest.raises(DataError, match="none of its 1 names"):
        read_graph(path, labels=put(tmp_path, "X\tsomething else\n", "other.tsv"))


@pytest.mark.parametrize("columns", [["head", "relation", "tail"], ["x", "y", "z"], ["subject", "predicate", "object"]])
@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_tables(tmp_path: Path, columns: list[str], format: str) -> None:
    path = tmp_path / f"facts.{format}"
    table = pl.DataFrame(FACTS, schema=columns, orient="row")
    table.write_parquet(path) if format == "parquet" else table.write_ndjson(path)
    assert facts_of(path) == set(FACTS)


def test_table_of_ids_in_another_order_with_more_columns(tmp_path: Path) -> None:
    path = tmp_path / "facts.parquet"
    pl.DataFrame({"x": [1], "score": [0.5], "y": ["b"], "z": [3]}).write_parquet(path)
    assert facts_of(path, columns="t_rh") == {("3", "b", "1")}


ALPHABET = st.text("ab\t, |'\r\n\u2028é", max_size=30)


@example(text="a a ", separator=" ")
@example(text="a a \t", separator=" ")
@given(text=ALPHABET, separator=st.sampled_from("\t,| "))
def test_the_fast_reader_reads_what_the_slow_one_reads(text: str, separator: str) -> None:
    source, dialect = Source(Path("facts"), text.encode(), ""), Dialect(separator, 3)
    fast = _parse_fast(source.data, dialect, range(3))
    if fast is not None:
        slow, comments, _ = _parse_lines(source, dialect, range(3), False)
        assert not comments
        assert fast.filter(~pl.all_horizontal(pl.all().is_null())).equals(slow)


GOOD = "a\tb\tc\n" * 5


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("facts.txt", "", r"facts.txt: the file is empty"),
        ("facts.txt", "\n \n", r"facts.txt: .*found only blank lines"),
        ("facts.txt", GOOD + "d\te\n" + GOOD, r"facts.txt:6: expected 3 tab-separated fields, found 2: 'd\\te'\. "),
        ("facts.txt", GOOD + "\n\nd\te\tf\tg\n", r"facts.txt:8: expected 3 .* found 4: .*columns='hrt_'"),
        ("facts.csv", "a,b,c\nd,b\n", r"facts.csv:2: expected 3 comma-separated fields, found 2"),
        ("facts.txt", "a b c\nNew York in USA\n", r"facts.txt:2: expected 3 space-separated .* in quotes"),
        ("facts.txt", "one\ntwo\n", r"facts.txt:1: expected 3 .* found 1: 'one'"),
        ("facts.csv", 'a,b,c\n"d,b,c\ne,f,g\n', r"facts.csv:2: the quotes or line ends"),
        ("facts.csv", 'a,b,c\n"d"e,b,c\n', r"facts.csv:2: the quotes or line ends"),
        ("facts.csv", "head,relation,tail\n", r"facts.csv: .*found nothing below the header"),
        ("facts.txt", GOOD.encode() + b"\xff\tb\tc\n", r"facts.txt:6: expected UTF-8 text, found the byte 0xff"),
        ("facts.txt", GOOD.encode("utf-16"), r"facts.txt: expected UTF-8 text, found UTF-16"),
        ("facts.txt", b"a\tb\tc\na\x00\tb\tc\n", r"facts.txt:2: .*binary"),
        ("facts.tsv.gz", gzip.compress(GOOD.encode() * 99, mtime=0)[:-12], r"facts.tsv.gz: .*cut short or damaged"),
        (
            "facts.tsv.zst",
            zstandard.compress(np.random.default_rng(0).bytes(999))[:-99],
            r"facts.tsv.zst: .*cut short or damaged",
        ),
        ("facts.parquet", GOOD, r"facts.parquet: expected Parquet by the extension"),
        ("facts.parquet", b"PAR1 and nothing else", r"facts.parquet: .*cut short or damaged"),
        ("facts.jsonl", '{"h":"a","r":"b","t":"c"}\nnot json\n', r"facts.jsonl:2: expected a JSON object"),
    ],
    ids=lambda value: value if isinstance(value, str) else "content",
)
def test_what_is_wrong_is_said_in_a_sentence(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_graph(put(tmp_path, content, name))
    assert "\n" not in str(caught.value)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere.tsv: there is no such file"):
        read_graph(tmp_path / "nowhere.tsv")
    with pytest.raises(DataError, match="expected a file, found a folder"):
        read_graph(tmp_path)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"a": ["x"], "b": ["y"]}, r"\(columns a, b\); give columns='a,b', relation='NAME'"),
        ({"head": ["x"], "relation": [0.5], "tail": ["y"]}, "'relation', found values of type Float64"),
    ],
)
def test_parquet_with_the_wrong_columns(tmp_path: Path, table: dict[str, list[object]], message: str) -> None:
    path = tmp_path / "facts.parquet"
    pl.DataFrame(table).write_parquet(path)
    with pytest.raises(DataError, match=message):
        read_graph(path)


BLANK = "a\tb\tc\nd\t\tf\n# a comment\ng\tb\th\n"


def test_blank_fields_and_comments_are_skipped_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, BLANK)
    _, report = read_with_report(path)
    assert (report.triplets, dict(report.left_out)) == (2, {"comments": 1, "rows with a blank field": 1})
    monkeypatch.setattr(logging.getLogger("anykg"), "propagate", True)
    read_graph(path)
    assert "rows with a blank field left out: 1" in caplog.text


def test_malformed_lines_are_refused_or_skipped_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, "a\tb\tc\nd\te\ng\tb\th\n1\t2\t3\t4\n")
    with pytest.raises(DataError, match=r":2: expected 3 .* found 2: 'd\\te'\. .* Use `skip_malformed` to skip"):
        read_graph(path)
    _, report = read_with_report(path, skip_malformed=True)
    assert (report.triplets, dict(report.left_out)) == (2, {"malformed lines": 2})
    monkeypatch.setattr(logging.getLogger("anykg"), "propagate", True)
    read_graph(path, skip_malformed=True)
    assert "malformed lines left out: 2" in caplog.text
    assert r"the first malformed line is line 2, which has 2 fields instead of 3: 'd\te'" in caplog.text
    with pytest.raises(ConfigError, match="found both"):
        read_graph(path, skip_malformed=True, strict=True)


def test_malformed_lines_in_a_folder_are_skipped_and_counted(tmp_path: Path) -> None:
    (tmp_path / "nodes.tsv").write_text("id\tname\n1\tAnn\n2\tBob\n")
    (tmp_path / "edges.tsv").write_text("subject\tpredicate\tobject\n1\tknows\t2\n2\tknows\n")
    with pytest.raises(DataError, match="Use `skip_malformed`"):
        read_graph(tmp_path)
    graph, report = read_with_report(tmp_path, skip_malformed=True)
    assert (len(graph), dict(report.left_out)) == (1, {"malformed lines": 1})


@pytest.mark.parametrize("name", ["questions.tsv", "questions.csv", "questions.parquet", "questions.xlsx"])
def test_columns_of_a_batch_are_not_guessed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    rows = [(f"person {i}", f"relation {i % 21}", "?") for i in range(63)]
    frame = pl.DataFrame(rows, schema=["1", "2", "3"], orient="row")
    if name.endswith("sv"):
        frame.write_csv(path, separator="\t" if name.endswith("tsv") else ",", include_header=False)
    elif name.endswith("parquet"):
        frame.write_parquet(path)
    else:
        path.write_bytes(excel_of(frame))
    found = [row.parts for row in read_batch(path, open_fields=True)]
    assert found[-63:] == rows


def test_a_header_may_reorder_the_columns_of_a_batch(tmp_path: Path) -> None:
    path = put(tmp_path, "tail\thead\trelation\n?\tAnn\tknows\n?\tBob\tknows\n")
    assert [row.parts for row in read_batch(path)] == [("Ann", "knows", "?"), ("Bob", "knows", "?")]


def test_the_first_question_of_a_batch_is_no_header(tmp_path: Path) -> None:
    """Start and end are words that headers have for heads and tails."""
    path = put(tmp_path, "start\tend\t?\nAnn\tend\t?\n")
    assert read_batch(path)[0].parts == ("start", "end", "?")


def test_a_batch_of_two_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected 3 tab-separated fields, found 2"):
        read_batch(put(tmp_path, "Ann\tknows\nknows\tAnn\n"))


@pytest.mark.parametrize("open_fields", [True, False])
def test_lines_of_a_batch_that_are_not_json_are_listed(tmp_path: Path, open_fields: bool) -> None:
    path = tmp_path / "batch.jsonl"
    good = '{"head": "Ann", "relation": "knows", "tail": 7}'
    path.write_text(f'{good}\n\n{{"head": "Ann", "relation"\n{good}\n# why\n', encoding="utf-8")
    rows = read_batch(path, open_fields=open_fields)
    assert [(row.line, row.parts) for row in rows if row.malformed is None] == [
        (1, ("Ann", "knows", "7")),
        (4, ("Ann", "knows", "7")),
    ]
    assert [(row.line, row.malformed) for row in rows if row.malformed] == [
        (3, """no valid JSON object: '{"head": "Ann", "relation"'"""),
        (5, "no valid JSON object: '# why'"),
    ]


def test_a_batch_without_any_json_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "batch.jsonl"
    path.write_text("Ann\n", encoding="utf-8")
    assert [row.line for row in read_batch(path)] == [1]


def test_rows_of_formats_that_are_no_lines_have_none(tmp_path: Path) -> None:
    path = tmp_path / "facts.ttl"
    path.write_text("@prefix e: <http://e.example/> .\ne:a e:r e:b ,\n  e:c , e:d .\n")
    assert [row.line for row in read_batch(path)] == [None] * 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("facts.txt", BLANK, r"facts.txt:2: expected a name in every field, found an empty one"),
        ("facts.txt", "a\tb\tc\n# why\n", r"facts.txt:2: expected a fact, found a comment"),
        ("facts.txt", "# why\na\tb\tc\n", r"facts.txt:1: expected a fact, found a comment"),
        ("facts.csv", 'a,b,c\n"",b,c\n', r"facts.csv:2: expected a name in every field"),
        ("facts.jsonl", '{"h":"a","r":"b","t":"c"}\n{"h":"a","r":"b"}\n', r"facts.jsonl: expected a tail .* row 2"),
    ],
)
def test_strict_refuses_them(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_graph(put(tmp_path, content, name), strict=True)


def test_content_is_believed_more_than_the_extension_of_packing(tmp_path: Path) -> None:
    assert facts_of(put(tmp_path, gzip.compress(TABBED.encode()), "facts.tsv")) == set(FACTS)
    assert facts_of(put(tmp_path, TABBED, "facts.tsv.gz")) == set(FACTS)
