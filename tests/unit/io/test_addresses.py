"""Addresses: downloads that are kept, secrets that are not shown, plug-in formats, standard input."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from anykg.errors import ConfigError, DataError, InputError
from anykg.io import addresses, formats
from anykg.io.catalog import load_graph, locate
from anykg.io.parsed import of_rows
from anykg.io.read import read_graph

seen: list[tuple[str, str]] = []


class Handler(SimpleHTTPRequestHandler):
    def send_head(self):  # type: ignore[no-untyped-def]
        seen.append((self.command, self.headers.get("Authorization", "")))
        return super().send_head()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / "cache" / name)
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "facts.tsv").write_text("a\tr\tb\n")
    serve = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=tmp_path / "public"))
    thread = threading.Thread(target=serve.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    seen.clear()
    yield f"127.0.0.1:{serve.server_port}"
    serve.shutdown()
    thread.join()
    serve.server_close()


def facts(source: str) -> set[tuple[str, ...]]:
    return set(load_graph(source).to_polars().iter_rows())


def test_a_download_is_kept_until_it_changes(server: str, tmp_path: Path) -> None:
    address = f"http://me:hidden-word@{server}/facts.tsv"
    assert facts(address) == facts(address) == {("a", "r", "b")}
    assert [command for command, _ in seen] == ["HEAD", "GET", "HEAD"]
    assert all(header.startswith("Basic ") for _, header in seen)
    (tmp_path / "public" / "facts.tsv").write_text("a\tr\tb\nb\tr\tc\n")
    assert len(facts(address)) == 2
    assert not any(b"hidden-word" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_without_a_network_the_copy_is_used(
    server: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"http://{server}/facts.tsv"
    kept = facts(address)

    def offline(*_: object, **__: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    assert facts(address) == facts(address) == kept
    assert "copy of an earlier download" in caplog.text


def test_a_missing_file_is_said_without_the_password(server: str) -> None:
    with pytest.raises(InputError, match="404") as caught:
        read_graph(f"http://me:hidden-word@{server}/nowhere.tsv")
    assert "hidden-word" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("bolt://neo4j:secret@localhost:7687/movies", "bolt://localhost:7687/movies"),
        ("https://host/x.csv?token=secret&page=2", "https://host/x.csv?token=...&page=2"),
        ("facts.tsv", "facts.tsv"),
        ("-", "standard input"),
    ],
)
def test_secrets_are_not_shown(source: str, expected: str) -> None:
    assert addresses.shown(source) == expected
    assert "secret" not in locate(source).name if "://" in source else True


def test_tables_in_the_cloud_are_read_by_polars(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pl.DataFrame({"head": ["a"], "relation": ["r"], "tail": ["b"]})
    monkeypatch.setattr(pl, "scan_parquet", lambda source: SimpleNamespace(collect=lambda: table))
    assert facts("hf://datasets/someone/kg/facts.parquet") == {("a", "r", "b")}
    with pytest.raises(DataError, match=r"expected a \.parquet, \.csv, \.tsv or \.jsonl file there, found \.ttl"):
        read_graph("s3://bucket/facts.ttl")


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"a,r,b\n")))
    assert facts("-") == {("a", "r", "b")}


def test_other_packages_add_formats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stars = formats.Format(
        "stars", "one fact", (".stars",), lambda source, options: of_rows([("a", "r", "b")], "stars")
    )
    for offered in (stars, "no format"):
        entry = SimpleNamespace(load=lambda offered=offered: offered, value="package:stars")
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group, entry=entry: [entry])
        formats.formats.cache_clear()
        (tmp_path / "facts.stars").write_text("***")
        if offered is stars:
            assert facts(str(tmp_path / "facts.stars")) == {("a", "r", "b")}
        else:
            with pytest.raises(ConfigError, match=r"expected an anykg\.io\.formats\.Format, found str"):
                formats.formats()
    monkeypatch.undo()
    formats.formats.cache_clear()
