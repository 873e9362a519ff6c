"""Reading in parts gives what reading whole gives, whatever the size of the parts."""

import gzip

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.benchmarks.build.raw import read_raw
from anykg.errors import DataError
from anykg.graph.builder import Interner
from anykg.graph.intern import intern, intern_reference
from anykg.io.read import read_graph
from anykg.io.write import write_graph
from graphs import random_graph


def rows(graph):
    return set(graph.to_polars().iter_rows())


@given(st.lists(st.lists(st.text(max_size=3), max_size=20), max_size=5))
@settings(max_examples=100, deadline=None)
def test_names_are_numbered_by_first_appearance(batches):
    interner, expected = Interner(), {}
    for batch in batches:
        for name in batch:
            expected.setdefault(name, len(expected))
        ids = interner.ids(pl.Series(batch, dtype=pl.String))
        assert ids.tolist() == [expected[name] for name in batch]
    assert list(interner.vocabulary("entity")) == list(expected)


def test_interner_grows():
    interner, names = Interner(), [f"name {i}" for i in range(20_000)]
    for start in range(0, 20_000, 3_000):
        interner.ids(pl.Series(names[start : start + 3_000]))
    assert interner.ids(pl.Series(names)).tolist() == list(range(20_000))


@given(st.lists(st.integers(0, 6), max_size=30), st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_kernel_agrees_with_its_reference(values, cut):
    """Keys that share a slot, and keys that differ in their second half alone."""
    keys = np.array([[(v % 2) * 64, v] for v in values], np.uint64).reshape(-1, 2)
    found = []
    for number in (intern, intern_reference):
        slots, known, count, out = np.full(64, -1, np.int32), np.zeros((32, 2), np.uint64), 0, []
        for batch in (keys[:cut], keys[cut:]):
            ids, fresh = np.empty(len(batch), np.int32), np.empty(len(batch), np.int64)
            new = number(batch, slots, known, count, ids, fresh)
            out += [ids.tolist(), fresh[:new].tolist(), new]
            count += new
        found.append(out)
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["g.tsv", "g.csv", "g.jsonl", "g.parquet", "g.nt", "g.tsv.gz", "g.tsv.zst"])
@pytest.mark.parametrize("part_bytes", [50, 1_000, 1 << 20])
def test_parts_make_the_whole(tmp_path, name, part_bytes):
    graph, path = random_graph(40, 5, 200), tmp_path / name
    if name.endswith(".zst"):
        import zstandard

        write_graph(graph, tmp_path / "plain.tsv")
        data = (tmp_path / "plain.tsv").read_bytes()
        path.write_bytes(zstandard.compress(data[:900]) + zstandard.compress(data[900:]))
    else:
        write_graph(graph, path)
    calls = []
    read, left_out = read_raw(path, part_bytes=part_bytes, progress=lambda done, total: calls.append((done, total)))
    assert rows(read) == rows(graph)
    assert left_out == 0
    if name != "g.parquet":
        assert calls[-1] == (path.stat().st_size,) * 2


def test_a_quoted_line_break_does_not_end_a_part(tmp_path):
    path = tmp_path / "g.csv"
    path.write_text('a,likes,"b\nb"\n' * 3 + 'c,likes,"d\n""d"""\n' + "e,likes,f\n" * 5)
    assert rows(read_raw(path, part_bytes=12)[0]) == rows(read_graph(path))


def test_space_separated_parts_keep_what_the_first_told(tmp_path):
    path = tmp_path / "g.txt"
    path.write_text("a r b\n" * 20 + "c r d\n" * 20)
    assert rows(read_raw(path, part_bytes=30)[0]) == {("a", "r", "b"), ("c", "r", "d")}


def test_a_header_is_taken_once(tmp_path):
    path = tmp_path / "g.tsv"
    path.write_text("head\ttail\trelation\n" + "a\tb\tr\n" * 30 + "head\ttail\trelation\n")
    assert rows(read_raw(path, part_bytes=40)[0]) == rows(read_graph(path)) == {("a", "r", "b")}


@pytest.mark.parametrize("ending", ["a\tb\n", "a\tb\t\udcff\n"])
def test_errors_name_the_line_of_the_file(tmp_path, ending):
    path = tmp_path / "g.tsv"
    path.write_bytes(("a\tr\tb\n" * 99 + ending).encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=r"g\.tsv:100: expected"):
        read_raw(path, part_bytes=60)


def test_rdf_errors_name_the_line_of_the_file(tmp_path):
    path = tmp_path / "g.nt"
    path.write_text("<a:a> <r:r> <b:b> .\n" * 99 + "<a:a> nonsense .\n")
    with pytest.raises(DataError, match=r"g\.nt:100"):
        read_raw(path, part_bytes=200)


def test_parts_of_literals_alone_are_passed_over(tmp_path):
    path = tmp_path / "g.nt"
    path.write_text("<a:a> <r:r> <b:b> .\n" + '<a:a> <r:r> "text" .\n' * 50)
    assert rows(read_raw(path, part_bytes=100)[0]) == {("a:a", "r:r", "b:b")}
    path.write_text('<a:a> <r:r> "text" .\n' * 50)
    with pytest.raises(DataError, match="literals='keep'"):
        read_raw(path, part_bytes=100)


def test_rows_can_be_left_out_before_they_are_numbered(tmp_path):
    path = tmp_path / "g.tsv"
    path.write_text("a\tr\tb\nc\ts\td\n")
    graph, left_out = read_raw(path, wanted=lambda names: (names == "s").to_numpy())
    assert rows(graph) == {("c", "s", "d")}
    assert (list(graph.entities), left_out) == (["c", "d"], 1)


@pytest.mark.parametrize("content", [b"", b"\n\n", gzip.compress(b"a\tr\tb\n" * 1_000)[:-20]])
def test_empty_and_cut_files_are_refused(tmp_path, content):
    path = tmp_path / ("g.tsv.gz" if content.startswith(b"\x1f") else "g.tsv")
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"empty|cut short|expected a fact"):
        read_raw(path)


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_raw(tmp_path / "nothing.tsv")
    with pytest.raises(DataError, match="found a folder"):
        read_raw(tmp_path)
