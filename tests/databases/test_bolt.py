"""Bolt: read, predict, write back, read again, with the driver of Neo4j and a server that speaks its protocol."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from anykg.errors import DataError
from anykg.io.read import read_graph, read_with_report
from anykg.io.write_back.origin import Origin
from anykg.io.write_back.write import write_back
from servers import PASSWORD, Relay

FACTS = {("Keanu", "ACTED_IN", "Matrix"), ("Lana", "DIRECTED", "Matrix"), ("Carrie", "ACTED_IN", "Matrix")}
ORIGIN = Origin(model="tester", date="2026-01-02T00:00:00Z")


def run(bolt: str, query: str, **values: Any) -> list[Any]:
    import neo4j

    user, _, rest = bolt.partition(":")
    word, _, host = rest.partition("@")
    with neo4j.GraphDatabase.driver(f"bolt://{host}", auth=(user, word)) as driver, driver.session(database="kg") as s:
        return list(s.execute_write(lambda tx: [record.values() for record in tx.run(query, **values)]))


@pytest.fixture
def movies(bolt: str) -> str:
    """The address of a database with a few facts."""
    run(bolt, "MATCH (n) DETACH DELETE n")
    people = [{"name": name} for name in ("Keanu", "Lana", "Carrie")]
    run(bolt, "UNWIND $rows AS row CREATE (n:Person {name: row.name})", rows=people)
    run(bolt, "CREATE (n:Movie {title: 'Matrix'})")
    for head, relation, tail in sorted(FACTS):
        run(
            bolt,
            "MATCH (a:Person {name: $head}), (b:Movie {title: $tail}) "
            f"CREATE (a)-[r:{relation} {{since: 1999}}]->(b)",
            head=head,
            tail=tail,
        )
    return f"bolt://{bolt}/kg"


def facts_of(source: str, **options: Any) -> set[tuple[str, ...]]:
    return set(read_graph(source, **options).to_polars().iter_rows())


def test_everything_is_read_by_the_names_that_are_unique(movies: str) -> None:
    graph, report = read_with_report(movies)
    assert set(graph.to_polars().iter_rows()) == FACTS
    assert "the first of name, title" in report.notes[0]
    assert PASSWORD not in str(report.to_dict())


def test_names_that_are_not_unique_become_labels(bolt: str, movies: str) -> None:
    run(bolt, "CREATE (n:Person {name: 'Keanu'})")
    graph, report = read_with_report(movies)
    assert {graph.entities.label(i) for i in range(graph.num_entities)} == {"Keanu", "Lana", "Carrie", "Matrix"}
    assert "element id" in report.notes[0]


def test_a_query_chooses(movies: str) -> None:
    query = "MATCH (a)-[r:ACTED_IN]->(b) RETURN a, r, b"
    assert facts_of(movies, query=query) == {fact for fact in FACTS if fact[1] == "ACTED_IN"}
    columns = "MATCH (a)-[r]->(b) RETURN r.since AS since, a.name AS head, type(r) AS relation, b.title AS tail"
    assert facts_of(movies, query=columns, where="since > 1990", keep="DIRECTED") == {("Lana", "DIRECTED", "Matrix")}
    with pytest.raises(DataError, match="expected a query that returns head, relation and tail, found 1 columns: a"):
        read_graph(movies, query="MATCH (a) RETURN a")
    with pytest.raises(DataError, match="the query failed") as caught:
        read_graph(movies, query="MATCH nonsense")
    assert "\n" not in str(caught.value)


def test_read_predict_write_back_and_read_again(movies: str, bolt: str) -> None:
    import anykg

    graph = read_graph(movies)
    answers = anykg.predict(graph, head="Carrie", relation="DIRECTED", k=1).to_polars()
    dry = write_back(answers, movies, origin=ORIGIN, dry_run=True)
    assert (dry.rows, dry.dry_run) == (1, True)
    assert "MERGE (a)-[r:`PREDICTED_DIRECTED`]->(b)" in dry.preview[0]
    assert PASSWORD not in str(dry.to_dict())
    assert run(bolt, "MATCH ()-[r]->() RETURN count(r)") == [[3]]
    for _ in range(2):  # the second time changes nothing
        write_back(answers, movies, origin=ORIGIN)
    written = run(bolt, "MATCH (a)-[r:PREDICTED_DIRECTED]->(b) RETURN a.name, r.model, r.date, r.score, r.predicted_by")
    assert [row[:3] for row in written] == [["Carrie", "tester", "2026-01-02"]]
    assert written[0][3] == pytest.approx(answers["score"][0])
    again, report = read_with_report(movies)
    assert set(again.to_polars().iter_rows()) == FACTS  # a prediction is no fact
    assert report.left_out == {"relationships that are predictions": 1}


def test_accepted_decisions_become_facts(movies: str) -> None:
    decisions = pl.DataFrame(
        {
            "head": ["Carrie", "Keanu", "Nobody"],
            "relation": ["DIRECTED", "DIRECTED", "DIRECTED"],
            "tail": ["Matrix", "Matrix", "Matrix"],
            "decision": ["accepted", "rejected", "accepted"],
        }
    )
    origin = Origin(accepted=True, date="2026-01-02")
    for _ in range(2):
        written = write_back(decisions, movies, origin=origin)
    assert (written.rows, written.skipped) == (
        1,
        {"rows that were not accepted": 1, "rows with nodes that do not exist": 1},
    )
    assert facts_of(movies) == FACTS | {("Carrie", "DIRECTED", "Matrix")}


def test_a_wrong_password_is_said_and_not_shown(bolt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host = bolt.rpartition("@")[2]
    with pytest.raises(
        DataError, match="the user or password was refused; put them into the address or NEO4J"
    ) as caught:
        read_graph(f"bolt://root:wrong-word@{host}/kg")
    assert "wrong-word" not in str(caught.value)
    monkeypatch.setenv("NEO4J_USERNAME", "root")
    monkeypatch.setenv("NEO4J_PASSWORD", PASSWORD)
    assert read_graph(f"bolt://{host}/kg", query="RETURN 'a' AS head, 'r' AS relation, 'b' AS tail")


def test_a_database_that_is_not_there() -> None:
    pytest.importorskip("neo4j", reason="the neo4j driver is not installed")
    with pytest.raises(DataError, match="cannot be reached"):
        read_graph("bolt://127.0.0.1:9/kg")


def test_a_connection_that_breaks_in_mid_read_is_said(bolt: str) -> None:
    user, _, host = bolt.rpartition("@")
    relay = Relay(host, 1_500_000)
    query = "UNWIND range(1, 150000) AS i RETURN 'head ' + i AS head, 'r' AS relation, 'tail ' + i AS tail"
    with pytest.raises(DataError, match=r"the connection broke after 100,000 rows were read|cannot be reached"):
        read_graph(f"bolt://{user}@127.0.0.1:{relay.port}/kg", query=query)
    relay.opened.close()
