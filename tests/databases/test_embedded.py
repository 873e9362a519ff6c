"""LadybugDB, once Kùzu: a database in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from anykg.errors import DataError
from anykg.io.read import read_graph, read_with_report

ladybug = pytest.importorskip("ladybug", reason="ladybug is not installed")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "kg.lbug"
    connection = ladybug.Connection(ladybug.Database(str(path)))
    connection.execute("CREATE NODE TABLE Person(name STRING, PRIMARY KEY(name))")
    connection.execute("CREATE NODE TABLE City(id INT64, title STRING, PRIMARY KEY(id))")
    connection.execute("CREATE REL TABLE LivesIn(FROM Person TO City, since INT64)")
    connection.execute("CREATE REL TABLE Knows(FROM Person TO Person)")
    connection.execute("CREATE (:Person {name: 'Anna'})-[:LivesIn {since: 1990}]->(:City {id: 7, title: 'Paris'})")
    connection.execute("MATCH (a:Person) CREATE (:Person {name: 'Bob'})-[:Knows]->(a)")
    connection.close()
    return path


def test_everything_or_a_query(path: Path) -> None:
    graph, report = read_with_report(path)
    assert set(graph.to_polars().iter_rows()) == {("Anna", "LivesIn", "7"), ("Bob", "Knows", "Anna")}
    assert graph.entities.label(graph.entities.index("7")) == "Paris"
    assert report.format == "ladybug"
    query = "MATCH (a:Person)-[r:LivesIn]->(b:City) RETURN a.name, label(r), b.title"
    assert set(read_graph(f"ladybug:///{path}", query=query).to_polars().iter_rows()) == {("Anna", "LivesIn", "Paris")}


def test_ids_that_two_tables_share_say_their_table(path: Path) -> None:
    connection = ladybug.Connection(ladybug.Database(str(path)))
    connection.execute("CREATE NODE TABLE Country(id INT64, PRIMARY KEY(id))")
    connection.execute("CREATE REL TABLE LiesIn(FROM City TO Country)")
    connection.execute("MATCH (c:City) CREATE (c)-[:LiesIn]->(:Country {id: 7})")
    connection.close()
    assert ("City/7", "LiesIn", "Country/7") in set(read_graph(path).to_polars().iter_rows())


def test_what_is_wrong_is_said(path: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the query failed"):
        read_graph(path, query="nonsense")
    with pytest.raises(DataError, match="there is no such database"):
        read_graph(f"ladybug:///{tmp_path}/nowhere.lbug")
