"""`anykg data` from the outside."""

import json
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from anykg.cli.data import app
from anykg.errors import InputError
from anykg.io import catalog
from anykg.io.catalog import get_dataset
from anykg.io.datasets import DATASETS

FACTS = "a,likes,b\nb,likes,a\nb,knows,c\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command that must succeed, without any data but what a test makes; returns what it printed."""
    monkeypatch.delenv("ANYKG_DATA", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / "cache" / name)
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=True)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.stdout

    return command


@pytest.fixture
def facts(tmp_path):
    path = tmp_path / "facts.csv"
    path.write_text(FACTS)
    return path


def put_umls(directory):
    folder = directory / "transductive" / "UMLS"
    folder.mkdir(parents=True)
    for name in ("train", "valid", "test"):
        (folder / f"{name}.txt").write_text(FACTS.replace(",", "\t"))


def line_of(text, name):
    return next(line for line in text.splitlines() if f" {name} " in line)


def test_list_says_where_each_dataset_is(run, tmp_path):
    put_umls(tmp_path)
    text = run("list", "--data-dir", tmp_path)
    assert all(f" {row.name} " in text for row in DATASETS)
    assert "5,216" in line_of(text, "umls")
    assert str(tmp_path) in line_of(text, "umls")
    assert "not here" in line_of(text, "EN-FR")
    assert "embedded" in line_of(text, "atlas")


def test_stats_of_a_file_tell_how_it_was_read(run, facts):
    text = run("stats", facts)
    assert "comma-separated" in text
    assert text.index("comma-separated") < text.index("average degree")
    assert line_of(text, "entities").split()[-2] == "3"
    assert "66.7%" in line_of(text, "facts with a fact back")


def test_stats_as_json_is_json_alone(run, facts, tmp_path):
    result = json.loads(run("stats", facts, "--format", "json", "--plot", tmp_path / "d.svg"))
    (graph,) = result["graphs"]
    assert (graph["entities"], graph["relations"], graph["observed_facts"]) == (3, 2, 3)
    assert graph["in_degrees"] == [0, 3]
    assert (tmp_path / "d.svg").exists()


def test_stats_show_white_space_in_names(run, tmp_path):
    path = tmp_path / "facts.tsv"
    path.write_text("Ann\tlives in\tTown\nBob\tlives in\tTown\nCid\tlives in\tTown \n")
    assert "entity 'Town ' (facts: 1; Town: 2)" in run("stats", path)


def test_stats_take_the_options_for_files(run, tmp_path):
    path = tmp_path / "facts.txt"
    path.write_text("a;b;likes\nb;a;likes\n")
    labels = tmp_path / "labels.tsv"
    labels.write_text("a\tAnna\nb\tBen\n")
    options = ("--columns", "htr", "--separator", ";", "--no-header", "--labels", labels)
    (graph,) = json.loads(run("stats", path, *options, "--format", "json"))["graphs"]
    assert (graph["entities"], graph["relations"]) == (2, 1)


def test_stats_of_a_dataset(run, tmp_path):
    put_umls(tmp_path)
    text = run("stats", "UMLS", "--data-dir", tmp_path)
    assert line_of(text, "asked facts").split()[-2] == "3"


def test_stats_of_two_graphs_stand_side_by_side(run, data_dir):
    cells = line_of(run("stats", "EN-FR", "--data-dir", data_dir), "entities").split()
    assert [cell for cell in cells if cell[0].isdigit()] == ["4,962", "4,933"]


def test_errors_are_left_to_the_caller(run, tmp_path):
    with pytest.raises(InputError, match="Did you mean 'umls'"):
        run("stats", "ulms")
    with pytest.raises(InputError, match="anykg data fetch umls"):
        run("stats", "umls")
    with pytest.raises(InputError, match="no public address"):
        run("fetch", "nell-995", "--data-dir", tmp_path)
    with pytest.raises(InputError, match="no dataset"):
        run("fetch", "umls", "nope", "--data-dir", tmp_path)


def test_fetch_checks_what_is_there(run, data_dir):
    text = run("fetch", "umls", "EN-FR", "--data-dir", data_dir)
    assert "umls: all 3 files already present (verified)" in text
    assert "EN-FR: all 8 files already present (verified)" in text


def test_fetch_downloads_then_stats_read_it(run, tmp_path, monkeypatch):
    public = tmp_path / "public"
    put_umls(public)
    serve = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=public))
    row = replace(get_dataset("umls"), source=f"http://127.0.0.1:{serve.server_port}/transductive/UMLS")
    monkeypatch.setitem(catalog._BY_NAME, "umls", row)
    monkeypatch.setattr("anykg.io.fetch.known_checksums", dict)
    thread = threading.Thread(target=serve.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        text = run("fetch", "UMLS", "--data-dir", tmp_path / "here")
    finally:
        serve.shutdown()
        thread.join()
        serve.server_close()
    assert "umls: 3 of 3 files downloaded (not verified" in text
    assert "average degree" in run("stats", "umls", "--data-dir", tmp_path / "here")


def test_fetch_says_what_is_not_verified(run, tmp_path):
    folder = tmp_path / "transductive" / "YAGO3-10"
    folder.mkdir(parents=True)
    for name in ("train", "valid", "test"):
        (folder / f"{name}.txt").write_text("")
    assert "not verified" in run("fetch", "yago3-10", "--data-dir", tmp_path)


def test_stats_as_json_says_how_the_file_was_parsed(run, facts):
    read = json.loads(run("stats", facts, "--format", "json", "--drop", "knows"))["read"]
    assert (read["format"], read["separator"], read["columns"]) == ("delimited", "comma", "hrt")
    assert read["left_out"] == {"facts of relations that were not selected": 1}


def test_formats_are_listed(run):
    assert {"tsv", "ttl", "graphml", "kgtk"} <= {row["name"] for row in json.loads(run("formats", "--format", "json"))}
    assert "GraphML" in run("formats")


def test_convert_and_diff(run, facts, tmp_path):
    assert "Wrote 3 facts" in run("convert", facts, tmp_path / "facts.ttl")
    assert "0 facts added, 0 removed" in run("diff", facts, tmp_path / "facts.ttl")
    (tmp_path / "new.csv").write_text("a,likes,b\nb,knows,c\nd,knows,c\n")
    result = json.loads(run("diff", facts, tmp_path / "new.csv", "--format", "json"))
    assert result["summary"]["new_entities"] == ["d"]
    assert [(row["change"], row["head"], row["tail"]) for row in result["rows"]] == [
        ("added", "d", "c"),
        ("removed", "b", "a"),
    ]
    with pytest.raises(InputError, match="is also an input"):
        run("convert", facts, facts)


def test_write_shows_first_and_then_writes(run, tmp_path):
    answers = tmp_path / "new.tsv"
    answers.write_text("head\trelation\ttail\tscore\nQ1\tP2\tQ3\t2.5\nQ1\tP2\tQ4\t0.5\n")
    target = tmp_path / "new.qs"
    text = run("write", answers, target, "--where", "score >= 1", "--dry-run")
    assert "Would write 1 rows" in text
    assert "Q1\\tP2\\tQ3\\tS887\\tQ11660" in text
    assert not target.exists()
    assert json.loads(run("write", answers, target, "--format", "json"))["rows"] == 2
    assert target.read_text().startswith("Q1\tP2\tQ3\tS887\tQ11660")


@pytest.mark.parametrize("command", ["list", "stats", "fetch", "formats", "convert", "diff", "write"])
def test_help_has_an_example(run, command):
    assert f"anykg data {command}" in run(command, "--help")
