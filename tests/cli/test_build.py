"""`anykg data build` and `anykg data split` from the outside."""

import json

import pytest
from typer.testing import CliRunner

from anykg.cli.data import app
from anykg.errors import ConfigError, DataError
from anykg.io.layouts import read_task
from anykg.io.write import write_graph
from graphs import random_graph


def run(*arguments):
    """Run a command that must succeed; returns what it printed."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def raw(tmp_path):
    """Two raw graphs."""
    paths = [tmp_path / "EN.tsv", tmp_path / "FR.tsv.gz"]
    for seed, path in enumerate(paths):
        write_graph(random_graph(200, 6, 1_500, seed), path)
    return paths


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_pediatypes_of_a_pair_can_be_read_and_follows_its_seed(raw, tmp_path):
    size = ("--nodes", 50, "--edges", 300, "--max-degree", 10)
    for out, seed in (("one", 0), ("again", 0), ("other", 1)):
        text = run("build", "pediatypes", *raw, "--out", tmp_path / out, *size, "--seed", seed)
        assert "moved to train" in text
    task, back = (read_task(tmp_path / "one" / name) for name in ("EN2FR", "FR2EN"))
    assert 0 < len(task.train) + len(task.valid) <= 300
    assert set(task.observed.to_polars().iter_rows()) == set(back.train.to_polars().iter_rows())
    assert contents(tmp_path / "one") == contents(tmp_path / "again") != contents(tmp_path / "other")
    assert json.loads((tmp_path / "one" / "build.json").read_text())["max_degree"] == 10


def test_pediatypes_of_one_graph_asks_about_itself(raw, tmp_path):
    run("build", "pediatypes", raw[0], "--out", tmp_path / "out")
    task = read_task(tmp_path / "out" / "EN")
    assert set(task.train.to_polars().iter_rows()) == set(task.observed.to_polars().iter_rows())


def test_pediatypes_refuses_three_graphs_and_equal_names(raw, tmp_path):
    for wrong in ([raw[0], raw[0]], [*raw, raw[0]]):
        with pytest.raises(ConfigError, match="one raw graph, or two"):
            run("build", "pediatypes", *wrong, "--out", tmp_path / "out")


def test_wikitopics_writes_a_task_for_each_topic(raw, tmp_path):
    topics = tmp_path / "topics.tsv"
    topics.write_text("r0\tart\nr1\tart\nr2\tloc\nr3\tloc\n")
    for out in ("one", "again"):
        text = run("build", "wikitopics", raw[0], "--topics", topics, "--out", tmp_path / out, "--nodes", 80)
    assert "facts of relations without a topic left out" in text
    art, loc = (read_task(tmp_path / "one" / name) for name in ("art", "loc"))
    assert set(art.train.relations) | set(art.test.relations) <= {"r0", "r1"}
    assert set(loc.train.relations) | set(loc.test.relations) <= {"r2", "r3"}
    assert len(art.test) == round(0.1 * (len(art.observed) + len(art.test)))
    assert contents(tmp_path / "one") == contents(tmp_path / "again")


def test_wikitopics_without_a_known_relation_says_so(raw, tmp_path):
    topics = tmp_path / "topics.tsv"
    topics.write_text("unknown\tart\n")
    with pytest.raises(DataError, match="none of its 1 relations"):
        run("build", "wikitopics", raw[0], "--topics", topics, "--out", tmp_path / "out")


@pytest.mark.parametrize("kind", ["transductive", "inductive", "fully-inductive"])
def test_split_writes_a_task_and_a_report(raw, tmp_path, kind):
    text = run("split", raw[0], "--kind", kind, "--out", tmp_path / "out")
    task = read_task(tmp_path / "out" / "EN")
    report = json.loads((tmp_path / "out" / "EN-split.json").read_text())
    assert report["kind"] == kind
    assert report["task"]["test"]["triplets"] == len(task.test) > 0
    shared = {"transductive": (200, 6), "inductive": (0, 6), "fully-inductive": (0, 0)}[kind]
    assert (report["leakage"]["shared_entities"], report["leakage"]["shared_relations"]) == shared
    assert f"share {shared[0]} entities, {shared[1]} relations" in text
    assert "kept" in text


def test_names_with_spaces_survive(tmp_path):
    path = tmp_path / "facts.tsv"
    path.write_text("".join(f"New York {i % 9}\tlies in\tthe {i % 7}\n" for i in range(63)))
    run("split", path, "--kind", "transductive", "--out", tmp_path / "out")
    assert "lies in" in read_task(tmp_path / "out" / "facts").train.relations


@pytest.mark.parametrize("command", [["build", "pediatypes"], ["build", "wikitopics"], ["split"]])
def test_help_has_an_example(command):
    assert f"anykg data {' '.join(command)}" in " ".join(run(*command, "--help").split())
