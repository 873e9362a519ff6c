"""Graphs in SQLite, DuckDB and PostgreSQL."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from anykg.errors import ConfigError, DataError
from anykg.io.read import read_graph, read_with_report
from servers import PASSWORD, Relay

FACTS = [("Anna", "works for", "Acme", 0.9), ("Bob", "knows", "Anna", 0.4), ("Bob", "works for", None, 0.8)]
EXPECTED = {("Anna", "works for", "Acme"), ("Bob", "knows", "Anna")}
TABLE = "CREATE TABLE facts (subject TEXT, predicate TEXT, object TEXT, confidence DOUBLE PRECISION)"


def facts_of(source: str | Path, **options: Any) -> set[tuple[str, ...]]:
    return set(read_graph(source, **options).to_polars().iter_rows())


def sqlite(path: Path) -> str:
    with sqlite3.connect(path) as connection:
        connection.execute(TABLE)
        connection.executemany("INSERT INTO facts VALUES (?, ?, ?, ?)", FACTS)
    connection.close()
    return f"sqlite:///{path}"


def duckdb(path: Path) -> str:
    module = pytest.importorskip("duckdb", reason="duckdb is not installed")
    with module.connect(str(path)) as connection:
        connection.execute(TABLE)
        connection.executemany("INSERT INTO facts VALUES (?, ?, ?, ?)", FACTS)
    return f"duckdb:///{path}"


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return sqlite(tmp_path / "facts.db")
    if request.param == "duckdb":
        return duckdb(tmp_path / "facts.db")
    import psycopg

    server = request.getfixturevalue("postgresql")
    name = f"db_{abs(hash(request.node.name)) % 10**9}"
    with psycopg.connect(f"postgresql://tester:{PASSWORD}@{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    address = f"postgresql://tester:{PASSWORD}@{server}/{name}"
    with psycopg.connect(address) as connection:
        connection.execute(TABLE)
        connection.cursor().executemany("INSERT INTO facts VALUES (%s, %s, %s, %s)", FACTS)
    return address


every = pytest.mark.parametrize("address", ["sqlite", "duckdb", "postgresql"], indirect=True)


@every
def test_the_only_table_of_facts_is_read(address: str) -> None:
    graph, report = read_with_report(address)
    assert set(graph.to_polars().iter_rows()) == EXPECTED
    assert report.left_out == {"rows with a blank field": 1}
    assert PASSWORD not in str(report.to_dict())


@every
def test_a_query_chooses(address: str, tmp_path: Path) -> None:
    query = "SELECT subject, predicate, object FROM facts WHERE confidence > 0.5"
    assert facts_of(address, query=query) == {("Anna", "works for", "Acme")}
    file = tmp_path / "facts.sql"
    file.write_text(query)
    assert facts_of(address, query=str(file)) == {("Anna", "works for", "Acme")}
    named = "SELECT confidence AS c, object AS tail, subject AS head, predicate AS relation FROM facts"
    assert facts_of(address, query=named, where="c < 0.5") == {("Bob", "knows", "Anna")}
    pair = "SELECT subject, object FROM facts"
    assert facts_of(address, query=pair, relation="linked") == {("Anna", "linked", "Acme"), ("Bob", "linked", "Anna")}


@every
@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT subject, object FROM facts WHERE 1 = 0", "(two|2) columns|gave no facts"),
        (
            "SELECT subject FROM facts",
            "expected a query that returns head, relation and tail, found 1 columns: subject",
        ),
        ("SELECT 1, 2, 3, 4", "found 4 columns"),
        ("SELECT nonsense FROM nowhere", "the query failed"),
        ("DELETE FROM facts", "the query failed|found 0 columns|read-only|found 1 columns"),
    ],
)
def test_what_is_wrong_with_a_query_is_said(address: str, query: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_graph(address, query=query)
    assert PASSWORD not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(read_graph(address)) == 2  # nothing was deleted


def test_several_tables_are_asked_about(tmp_path: Path) -> None:
    address = sqlite(tmp_path / "facts.db")
    with sqlite3.connect(tmp_path / "facts.db") as connection:
        connection.execute("CREATE TABLE more (head TEXT, relation TEXT, tail TEXT)")
    connection.close()
    with pytest.raises(DataError, match=r"expected a query, as in query=.*; there are facts \(subject, predicate"):
        read_graph(address)


def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        read_graph(f"sqlite:///{tmp_path}/nowhere.db")
    with pytest.raises(DataError, match="expected an address of http"):
        read_graph("mysql://localhost/kg")
    with pytest.raises(ConfigError, match="a query only applies to databases"):
        (tmp_path / "facts.tsv").write_text("a\tr\tb\n")
        read_graph(tmp_path / "facts.tsv", query="SELECT 1")


def test_a_wrong_password_is_said_and_not_shown(postgresql: str) -> None:
    with pytest.raises(DataError, match=r"cannot connect .*PGUSER and PGPASSWORD") as caught:
        read_graph(f"postgresql://tester:wrong-word@{postgresql}/postgres")
    assert "wrong-word" not in str(caught.value)


def test_credentials_come_from_the_environment(postgresql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGUSER", "tester")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert facts_of(f"postgresql://{postgresql}/postgres", query="SELECT 'a', 'r', 'b'") == {("a", "r", "b")}


def test_a_connection_that_breaks_in_mid_read_is_said(postgresql: str) -> None:
    relay = Relay(postgresql, 3_000_000)
    query = "SELECT 'head ' || i, 'r', 'tail ' || i FROM generate_series(1, 1000000) i"
    with pytest.raises(DataError, match=r"broke after [\d,]+ rows|the query failed") as caught:
        read_graph(f"postgresql://tester:{PASSWORD}@127.0.0.1:{relay.port}/postgres", query=query)
    assert "nothing was kept" in str(caught.value)
    relay.opened.close()


def test_rows_stream_in_parts(postgresql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []
    query = "SELECT i, i % 3, i + 1 FROM generate_series(1, 250000) i"
    graph, report = read_with_report(
        f"postgresql://tester:{PASSWORD}@{postgresql}/postgres",
        query=query,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert (len(graph), graph.num_relations, report.triplets) == (250_000, 3, 250_000)
    assert [done for done, _ in calls] == [100_000, 200_000, 250_000]
