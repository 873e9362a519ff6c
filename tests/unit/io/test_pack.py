"""Packed graphs: the same graph, opened without reading it; damage is found; copies of large files are kept."""

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anykg.errors import ConfigError, DataError, UnknownName
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.io import cache, pack
from anykg.io.catalog import as_graph
from anykg.io.read import read_with_report
from anykg.models.nbf.edges import RelationalEdges
from anykg.models.nbf.relation_graph import entity_graph, relation_graph, to_arrays

NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=12, unique=True)


def small() -> KnowledgeGraph:
    entities = Vocabulary(
        "entity", ["Q142", "Q183", "Q38", "Cafe\u0301"], ["France", None, "France", None], {"wd": "Q"}
    )
    triplets = np.array([[0, 0, 1], [1, 1, 2], [3, 0, 0]])
    return KnowledgeGraph(triplets, entities, Vocabulary("relation", ["borders", "likes"]))


def packed(graph: KnowledgeGraph, folder: Path) -> KnowledgeGraph:
    pack.write_pack(graph, folder / "g.anykg")
    return as_graph(folder / "g.anykg")


@given(NAMES, NAMES, st.data())
def test_a_packed_graph_is_the_same_graph(entities: list[str], relations: list[str], data: st.DataObject) -> None:
    rows = st.tuples(*(st.integers(0, len(names) - 1) for names in (entities, relations, entities)))
    facts = np.array(data.draw(st.lists(rows)), np.int64).reshape(-1, 3)
    graph = KnowledgeGraph(facts, Vocabulary("entity", entities), Vocabulary("relation", relations))
    content = pack.to_bytes(graph)
    header, start = pack._header(content, "g.anykg")
    back = pack._graph(content, header, start)
    assert back.digest == graph.digest
    assert list(back.entities) == entities
    assert list(back.relations) == relations
    assert [back.entities[i] for i in range(len(entities))] == entities
    assert [back.entities.find(name) for name in entities] == list(range(len(entities)))
    assert back.entities.find("\0not there\0") is None
    assert np.array_equal(back.triplets, graph.triplets)
    assert back.contains(graph.triplets).all()
    del back.__dict__["digest"]
    assert back.digest == graph.digest, "names and facts, not only the number in the header"
    for heads, kinds in (([0], [0]), ([0], [len(relations)])):
        assert back.answers(heads, kinds)[0].tolist() == graph.answers(heads, kinds)[0].tolist()


def test_labels_prefixes_and_accents_are_looked_up_alike(tmp_path: Path) -> None:
    for graph in (small(), packed(small(), tmp_path)):
        entities = graph.entities
        assert entities.find("Q183") == 1
        assert entities.find("wd:38") == 2
        assert entities.find("Caf\xe9") == 3, "composed or not"
        assert [entities.label(i) for i in range(4)] == ["France", "Q183", "France", "Cafe\u0301"]
        assert entities.gather_labels(np.array([0, 1])).to_list() == ["France", "Q183"]
        assert entities.num_labels == 2
        with pytest.raises(DataError, match="label of 2 entity names: 'Q142', 'Q38'"):
            entities.find("France")
        with pytest.raises(UnknownName, match="'Q183'"):
            entities.index("Q18")
        assert "Q38" in entities
        assert "France" not in entities, "which stands for two"
    assert as_graph(tmp_path / "g.anykg", drop="likes").num_triplets == 2
    with pytest.raises(ConfigError, match="`columns` has no effect"):
        as_graph(tmp_path / "g.anykg", columns="hrt")


def test_damage_is_found(tmp_path: Path) -> None:
    path = tmp_path / "g.anykg"
    pack.write_pack(small(), path)
    pack.verify_pack(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(DataError, match="cut short or damaged"):
        as_graph(path)
    path.write_bytes(whole[:60] + b"~" + whole[61:])
    with pytest.raises(DataError, match="header of the packed graph is damaged"):
        as_graph(path)
    header, start = pack._header(whole, path)
    at = start + next(row["at"] for row in header["sections"] if row["name"] == "inverse_keys")
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    as_graph(path)  # opening looks at the header only
    with pytest.raises(DataError, match="section inverse_keys is damaged"):
        pack.verify_pack(path)
    path.write_bytes(whole[:8] + b"\2" + whole[9:])
    with pytest.raises(DataError, match="version 2"):
        as_graph(path)


def test_sorted_edges_are_brought_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = small()
    pack.write_pack(graph, tmp_path / "g.anykg", arrays=to_arrays(graph))
    monkeypatch.setattr(RelationalEdges, "_ordered", lambda *_: pytest.fail("sorted again"))
    monkeypatch.setattr("anykg.models.nbf.relation_graph._meeting", lambda *_: pytest.fail("computed again"))
    back = as_graph(tmp_path / "g.anykg")
    orders = [one.derive(entity_graph).by_receiver for one in (graph, back)]
    for mine, theirs in zip(*orders, strict=True):
        assert np.array_equal(mine, theirs)
        assert mine.flags.writeable == theirs.flags.writeable, "or kernels are compiled again"
    assert np.array_equal(back.derive(relation_graph).triplets, graph.derive(relation_graph).triplets)
    assert not back.subset(np.array([0])).arrays, "which are those of all facts"
    pack.verify_pack(tmp_path / "g.anykg")


def test_opening_reads_no_names(tmp_path: Path) -> None:
    graph = packed(small(), tmp_path)
    assert graph.entities.find("Q38") == 2
    assert graph.entities.gather(np.array([1])).to_list() == ["Q183"]
    assert "names" not in graph.entities.__dict__


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that counts as large, and an empty cache."""
    monkeypatch.setattr(cache, "SMALLEST", 1)
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "cache")
    monkeypatch.delenv(cache.LIMIT, raising=False)
    path = tmp_path / "facts.tsv"
    write(path, "a\tr\tb\n\na\tr\tb\nb\ts\tc\n")
    return path


def write(path: Path, text: str, age: float = 100.0) -> None:
    path.write_text(text)
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age))


def test_a_large_file_is_parsed_once(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, report = read_with_report(source)
    assert len(cache.entries()) == 1
    assert cache.entries()[0].source == str(source)
    assert cache.folder().stat().st_mode & 0o077 == 0, "nobody else can read the copy"
    monkeypatch.setattr("anykg.io.read._read_source", lambda *_: pytest.fail("parsed again"))
    again, same = read_with_report(source)
    assert again.digest == graph.digest
    assert same == report
    assert same.duplicates == 1


def test_copies_follow_the_file_and_the_options(source: Path) -> None:
    assert as_graph(source).num_triplets == 2
    assert as_graph(source, drop="s").num_triplets == 1
    assert as_graph(source, cache=False).num_triplets == 2
    assert len(cache.entries()) == 2
    write(source, "a\tr\tb\nb\ts\tc\nc\ts\ta\n", age=50.0)
    assert as_graph(source).num_triplets == 3
    write(source, "x\tr\ty\n", age=0.0)  # it may change again within the clock's tick
    assert as_graph(source).num_triplets == 1
    assert len(cache.entries()) == 3
    assert cache.clear()[0] == 3
    assert cache.entries() == []


def test_a_damaged_copy_is_made_again(source: Path) -> None:
    as_graph(source)
    (entry,) = cache.entries()
    entry.path.write_bytes(entry.path.read_bytes()[:-5])
    assert as_graph(source).num_triplets == 2
    pack.verify_pack(entry.path)


def test_the_cache_is_bounded(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_graph(source)
    size = cache.entries()[0].size
    monkeypatch.setenv(cache.LIMIT, f"{2.5 * size / 1000:.3f}KB")
    as_graph(source, drop="r")
    for age, entry in enumerate(cache.entries()):
        os.utime(entry.path, (1e9 - age, 1e9 - age))
    as_graph(source)  # used now
    as_graph(source, drop="s")
    assert len(cache.entries()) == 2, "the one not used for longest has gone"
    monkeypatch.setattr("anykg.io.read._read_source", lambda *_: pytest.fail("parsed again"))
    as_graph(source)
    monkeypatch.undo()
    monkeypatch.setattr(cache, "SMALLEST", 1)
    monkeypatch.setattr(cache, "folder", lambda: source.parent / "cache")
    monkeypatch.setenv(cache.LIMIT, "0")
    as_graph(source, keep="s")
    assert len(cache.entries()) == 2
    monkeypatch.setenv(cache.LIMIT, "much")
    with pytest.raises(ConfigError, match="ANYKG_CACHE_LIMIT: expected a size such as 5GB"):
        as_graph(source)


def test_a_file_in_use_is_not_evicted(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_graph(source)
    as_graph(source, drop="r")
    _, other = cache.entries()
    monkeypatch.setenv(cache.LIMIT, "0")
    cache.evict(keep=other.path)
    assert [entry.path for entry in cache.entries()] == [other.path]


def test_a_cache_that_cannot_be_written_is_no_error(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = source.with_name("blocked")
    blocked.write_text("a file where a folder is expected")
    monkeypatch.setattr(cache, "folder", lambda: blocked)
    assert as_graph(source).num_triplets == 2


def _open(path: Path) -> int:
    return len(pack.open_pack(path)[0])


def test_processes_share_a_file_that_is_replaced(source: Path) -> None:
    """A reader sees the old file or the new one, never a part."""
    as_graph(source)
    (entry,) = cache.entries()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map_async(_open, [entry.path] * 40, chunksize=1)
        for _ in range(40):
            pack.write_pack(small(), entry.path)
        assert set(found.get(60)) <= {2, 3}


def test_commands(source: Path) -> None:
    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "anykg", *arguments]
        environment = os.environ | {"XDG_CACHE_HOME": str(source.parent / "home")}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    target = source.with_suffix(".anykg")
    assert "Packed 2 facts, 3 entities" in run("data", "pack", str(source), "-o", str(target))
    assert "sections are intact" in run("data", "verify", str(target))
    assert "0 files" in run("cache")
    listed = json.loads(run("cache", "--format", "json"))
    assert (listed["command"], listed["rows"], listed["summary"]["bytes"]) == ("cache", [], 0)
    assert "Removed 0 files" in run("cache", "clear")
