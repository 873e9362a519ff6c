"""Names, paths, and where things are looked for."""

import subprocess
import sys
from pathlib import Path

import pytest

from anykg.errors import ConfigError, DataError, InputError, UnknownName
from anykg.io.catalog import data_dirs, find, get_dataset, load_graph, load_task, locate
from anykg.io.datasets import DATASETS
from anykg.io.fetch import known_checksums

FACTS = "".join(f"e{i}\tr{j}\te{(i * j + 1) % 9}\n" for i in range(9) for j in range(5))


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """No data directory but those a test makes."""
    monkeypatch.delenv("ANYKG_DATA", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / "cache" / name)


def put(directory, name, text=FACTS):
    """A dataset whose files all hold `text`, and the row it belongs to."""
    row = get_dataset(name)
    for file in row.files:
        (directory / file).parent.mkdir(parents=True, exist_ok=True)
        (directory / file).write_text(text)
    return row


def test_the_catalog_holds_the_benchmarks():
    names = [row.name for row in DATASETS]
    assert len(set(map(str.casefold, names))) == len(names)
    families = {family: sum(row.family == family for row in DATASETS) for family in {row.family for row in DATASETS}}
    assert families == {"PediaTypes": 8, "WikiTopics": 11, "WikiTopics mixtures": 18, "transductive": 9, "embedded": 1}
    assert {row.name for row in DATASETS if not row.source and not row.parts} == {"nell-995", "atlas"}
    assert all(row.source.startswith("https://") for row in DATASETS if row.source)
    assert all(row.licence and row.citation and row.notes for row in DATASETS)


def test_files_are_in_the_public_layout():
    assert get_dataset("DB-YG").files[0] == "PediaTypes/DB2YG-15K-V2-trans/train.txt"
    assert "WikiTopics/wikidata_locv2-ind/observe.txt" in get_dataset("wikitopics:loc").files
    assert get_dataset("codex-m").files == tuple(f"transductive/CoDEx-M/{n}.txt" for n in ("train", "valid", "test"))
    assert all(len(known.sha256) == 64 for known in known_checksums().values())


def test_names_ignore_case():
    assert get_dataset("en-fr") is get_dataset("EN-FR")
    assert get_dataset("WikiTopics:Art").name == "wikitopics:art"


def test_a_mixture_is_its_topics_merged(data_dir):
    task = load_task("wikitopics:infra+sci", data_dir)
    infra, sci = (load_task(f"wikitopics:{topic}", data_dir) for topic in ("infra", "sci"))
    assert task.train.num_entities == 19802  # as in the public folder Run-1-InfSci-trans
    assert len(task.train) == len(infra.train) + len(sci.train) - 1  # a fact of both
    assert task.train.num_relations == infra.train.num_relations + sci.train.num_relations - 1  # and a relation
    assert len(load_graph("wikitopics:infra+sci", data_dir)) <= len(infra.observed) + len(sci.observed)


def test_a_mixture_is_not_here_without_its_topics(tmp_path, monkeypatch):
    monkeypatch.setenv("ANYKG_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"data fetch wikitopics:infra\+sci"):
        load_task("wikitopics:infra+sci")


@pytest.mark.parametrize("ask", [get_dataset, load_task, load_graph])
def test_an_unknown_name_comes_with_near_ones(ask):
    with pytest.raises(UnknownName, match="Did you mean 'fb15k-237'"):
        ask("fb15k237")
    with pytest.raises(UnknownName, match="'wikitopics:art'"):
        ask("art")


def test_a_dataset_not_here_says_how_to_fetch_it(tmp_path):
    with pytest.raises(InputError, match=f"{tmp_path}.*`anykg data fetch EN-FR`"):
        load_task("en-fr", tmp_path)
    with pytest.raises(InputError, match="no public address"):
        load_task("nell-995", tmp_path)


def test_directories_in_order(tmp_path, monkeypatch):
    cache = tmp_path / "cache" / "anykg" / "data"
    assert data_dirs() == [cache]
    monkeypatch.setenv("ANYKG_DATA", str(tmp_path / "variable"))
    assert data_dirs(tmp_path / "given") == [tmp_path / "given", tmp_path / "variable", cache]
    row = get_dataset("umls")
    for directory in (cache, tmp_path / "variable", tmp_path / "given"):
        assert find(row, tmp_path / "given") != directory / row.prefix
        put(directory, "umls")
        assert find(row, tmp_path / "given") == directory / row.prefix


def test_a_dataset_with_a_file_missing_is_not_here(tmp_path):
    row = put(tmp_path, "EN-FR")
    (tmp_path / "PediaTypes/EN2FR-15K-V2-ind/test.txt").unlink()
    assert find(row, tmp_path) is None


@pytest.mark.parametrize("name", ["EN-FR", "umls"])
def test_load_task_by_name_and_by_path(tmp_path, name):
    row = put(tmp_path, name)
    named, by_path = load_task(name.lower(), tmp_path), load_task(tmp_path / row.prefix)
    assert named.name == row.name
    assert by_path.name == Path(row.prefix).name
    assert named.train == by_path.train
    assert named.test == by_path.test
    assert load_graph(name, tmp_path) == named.observed


def test_a_file_is_a_graph_and_a_task(tmp_path):
    path = tmp_path / "facts.tsv"
    path.write_text(FACTS)
    graph, task = load_graph(path), load_task(str(path))
    assert task.name == "facts.tsv"
    assert task.observed is task.train
    assert len(task.train) + len(task.valid) + len(task.test) == len(graph)
    assert len(task.test) == pytest.approx(len(graph) / 10, abs=1)
    assert task.test == load_task(path).test


def test_reading_options_reach_a_file_and_are_refused_for_a_folder(tmp_path):
    path = tmp_path / "facts.txt"
    path.write_text("a;b;likes\nb;a;likes\n")
    graph = load_graph(path, columns="htr", separator=";")
    assert list(graph.relations) == ["likes"]
    put(tmp_path, "umls")
    with pytest.raises(ConfigError, match="columns"):
        load_task("umls", tmp_path, columns="htr")


def test_a_folder_named_like_a_dataset_needs_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    row = put(tmp_path, "umls")
    (tmp_path / row.prefix).rename(tmp_path / "umls")
    with pytest.raises(DataError, match="fetch umls"):
        locate("umls")
    assert load_task("./umls").name == "umls"


def test_atlas_is_there_without_any_directory():
    located = locate("Atlas")
    if not located.path.is_file():
        pytest.skip("atlas is not built")
    row = get_dataset("atlas")
    task, graph = load_task("atlas"), load_graph("atlas")
    assert len(task.train) + len(task.valid) + len(task.test) == len(graph)
    assert row.size is None or row.size == (graph.num_entities, graph.num_relations, len(task.observed), len(task.test))


def test_the_catalog_is_light():
    code = "import sys, anykg.io.catalog, anykg.io.fetch; print({'torch', 'polars', 'numpy'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"
