"""Folders of the public benchmarks as tasks."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from anykg.errors import DataError
from anykg.graph.graph import KnowledgeGraph
from anykg.io.layouts import read_observed, read_task


def put(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


def facts(graph: KnowledgeGraph) -> set[tuple[str, ...]]:
    return set(graph.to_polars().iter_rows())


def test_transductive(tmp_path: Path) -> None:
    folder = put(tmp_path / "Toy", train="a\tr\tb\n", valid="a\tr\tc\n", test="d\ts\ta\n")
    (folder / "entities.dict").write_text("0 zzz\n")
    task = read_task(folder)
    assert task.name == "Toy"
    assert task.observed is task.train
    assert read_observed(folder) == task.train
    assert (facts(task.train), facts(task.valid), facts(task.test)) == (
        {("a", "r", "b")},
        {("a", "r", "c")},
        {("d", "s", "a")},
    )
    for graph in (task.train, task.valid, task.test):
        assert set(graph.entities) == {"a", "b", "c", "d"}
        assert graph.entities == task.train.entities
        assert graph.relations == task.train.relations


@pytest.mark.parametrize("given_as", ["X", "X-trans", "X-ind"])
def test_pair_of_folders(tmp_path: Path, given_as: str) -> None:
    put(tmp_path / "X-trans", train="a r b\n", valid="a s c\n")
    put(tmp_path / "X-ind", observe="é q y\n", test="y q z\n")
    task = read_task(tmp_path / given_as)
    assert task.name == "X"
    assert read_observed(tmp_path / given_as) == task.observed
    assert facts(task.train) == {("a", "r", "b")}
    assert facts(task.valid) == {("a", "s", "c")}
    assert facts(task.observed) == {("é", "q", "y")}
    assert facts(task.test) == {("y", "q", "z")}
    assert set(task.train.entities) == {"a", "b", "c"}
    assert task.train.relations == task.valid.relations
    assert set(task.observed.entities) == {"é", "y", "z"}
    assert task.observed.entities == task.test.entities


def test_pair_given_from_inside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "X-trans", train="a r b\n", valid="a s c\n")
    put(tmp_path / "X-ind", observe="x q y\n", test="y q z\n")
    monkeypatch.chdir(tmp_path / "X-ind")
    assert read_task(".").name == "X"


def test_message_layout(tmp_path: Path) -> None:
    put(tmp_path, train="a\tr\tb\n", msg="x\tq\ty\n", valid="y\tq\tw\nz\tp\tx\n", test="y\tp\tz\n")
    task = read_task(tmp_path, name="NL-100")
    assert task.name == "NL-100"
    assert read_observed(tmp_path) == task.observed
    assert facts(task.train) == {("a", "r", "b")}
    assert task.valid.num_triplets == 0
    assert task.valid.entities == task.train.entities
    assert facts(task.observed) == {("x", "q", "y")}
    assert facts(task.test) == {("y", "p", "z")}
    assert set(task.test.entities) == set(task.observed.entities) == {"x", "y", "z"}
    assert facts(task.known) == {("x", "q", "y"), ("y", "p", "z"), ("z", "p", "x")}


def test_other_extensions(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("a\tr\tb\n")
    (tmp_path / "valid.csv").write_text("head,relation,tail\na,r,c\n")
    (tmp_path / "test.txt.gz").write_bytes(gzip.compress(b"a r d\n"))
    assert set(read_task(tmp_path).train.entities) == {"a", "b", "c", "d"}


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    lonely = put(tmp_path / "Y-trans", train="a r b\n", valid="a r c\n")
    with pytest.raises(DataError, match=r"Y-ind: there is no such folder"):
        read_task(lonely)
    with pytest.raises(DataError, match=r"expected a task, found a single file; .*X-trans"):
        read_task(lonely / "train.txt")
    with pytest.raises(DataError, match="found nothing there"):
        read_task(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"expected a task, found none of these; .*train.txt"):
        read_task(put(tmp_path / "Z", train="a r b\n"))
    put(tmp_path / "Y-ind", observe="a r b\n")
    with pytest.raises(DataError, match=r"Y-ind: expected one file test.txt .*found none"):
        read_task(tmp_path / "Y")
    (tmp_path / "Y-trans" / "train.csv").write_text("a,r,b\n")
    with pytest.raises(DataError, match=r"found train.txt and train.csv"):
        read_task(tmp_path / "Y")


@pytest.mark.skipif("ANYKG_DATA" not in os.environ, reason="ANYKG_DATA is not set: the benchmarks are not here")
@pytest.mark.parametrize(
    ("folder", "entities", "relations", "observed", "test"),
    [
        ("PediaTypes/EN2FR-15K-V2", 4933, 101, 24165, 2485),
        ("WikiTopics/wikidata_locv2", 10000, 35, 80269, 8918),
        ("transductive/WN18RR", 40943, 11, 86835, 3134),
    ],
)
def test_real_benchmarks(folder: str, entities: int, relations: int, observed: int, test: int) -> None:
    task = read_task(Path(os.environ["ANYKG_DATA"]) / folder)
    graph = task.observed
    assert (graph.num_entities, graph.num_relations) == (entities, relations)
    assert (graph.num_triplets, task.test.num_triplets) == (observed, test)
