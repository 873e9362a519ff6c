"""SPARQL endpoints: Oxigraph's server, and one that fails in the ways that public ones do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import polars as pl
import pytest

from anykg.errors import ConfigError, DataError
from anykg.io.read import read_graph, read_with_report
from anykg.io.write_back.origin import Origin
from anykg.io.write_back.write import write_back
from servers import put

TURTLE = """@prefix ex: <http://x/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:a ex:knows ex:b ; rdfs:label "Anna"@en ; ex:age 7 .
ex:b ex:likes ex:c .
"""
FACTS = {("http://x/a", "http://x/knows", "http://x/b"), ("http://x/b", "http://x/likes", "http://x/c")}


def facts_of(source: str, **options: Any) -> set[tuple[str, ...]]:
    return set(read_graph(source, **options).to_polars().iter_rows())


def test_read_everything_or_a_query(oxigraph: str, tmp_path: Any) -> None:
    put(oxigraph, TURTLE)
    endpoint = f"sparql+http://{oxigraph}/query"
    graph, report = read_with_report(endpoint)
    assert set(graph.to_polars().iter_rows()) == FACTS
    assert graph.entities.index("Anna") == graph.entities.index("http://x/a")
    assert report.literals == 1
    query = tmp_path / "likes.rq"
    query.write_text("PREFIX ex: <http://x/>\n# all that is liked\nSELECT ?s ?p ?o { ?s ?p ?o FILTER(?p = ex:likes) }")
    assert facts_of(endpoint, query=str(query)) == {("http://x/b", "http://x/likes", "http://x/c")}
    in_address = "SELECT%20?a%20?b%20{?a%20%3Chttp://x/knows%3E%20?b}"
    assert facts_of(f"{endpoint}?query={in_address}", relation="r") == {("http://x/a", "r", "http://x/b")}


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SELECT ?s { ?s ?p ?o }", DataError, "expected a query that returns head, relation and tail, found 1"),
        ("SELECT nonsense", DataError, "refused the query .400"),
        ("ASK { ?s ?p ?o }", ConfigError, "expected a CONSTRUCT or SELECT query, found ASK"),
        ("DELETE WHERE { ?s ?p ?o }", ConfigError, "found DELETE"),
        ("CONSTRUCT { ?s ?p ?o } WHERE { ?s <urn:none> ?o . ?s ?p ?o }", DataError, "gave no facts"),
    ],
)
def test_what_is_wrong_with_a_query_is_said(oxigraph: str, query: str, error: type[Exception], message: str) -> None:
    put(oxigraph, TURTLE)
    with pytest.raises(error, match=message) as caught:
        read_graph(f"sparql+http://{oxigraph}/query", query=query)
    assert "\n" not in str(caught.value)


def test_write_back_by_update_and_read_again(oxigraph: str) -> None:
    put(oxigraph, TURTLE)
    graph = "urn:test:predictions"
    answers = pl.DataFrame(
        {"head": ["http://x/a"], "relation": ["http://x/likes"], "tail": ["New York"], "score": [1.5], "known": [False]}
    )
    origin = Origin(model="tester", date="2026-01-02T03:04:05Z", graph=graph)
    update = f"sparql+http://{oxigraph}/update"
    dry = write_back(answers, update, origin=origin, dry_run=True)
    assert "INSERT DATA" in " ".join(dry.preview)
    assert facts_of(f"sparql+http://{oxigraph}/query") == FACTS
    count = "SELECT ?s ?p ?o { GRAPH <urn:test:predictions> { ?s ?p ?o } }"
    sizes = []
    for score in (1.5, 1.5, 2.5):
        write_back(answers.with_columns(score=pl.lit(score)), update, origin=origin)
        sizes.append(len(read_graph(f"sparql+http://{oxigraph}/query", query=count)))
    assert len(set(sizes)) == 1  # writing again repeats nothing, and a new score replaces the old
    facts = facts_of(f"sparql+http://{oxigraph}/query", query=count)
    assert ("http://x/a", "http://x/likes", "New York") in facts
    assert {tail for _, relation, tail in facts if relation.endswith("score")} == {"2.5"}
    assert any(relation.endswith("wasAssociatedWith") for _, relation, _ in facts)
    assert facts_of(f"sparql+http://{oxigraph}/query") == FACTS  # predictions are in a graph of their own


class Broken(BaseHTTPRequestHandler):
    """Answers as its path says."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        kind = self.path.strip("/").split("?")[0]
        if kind in ("401", "503", "400"):
            self.send_error(int(kind), "no")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if kind == "html" else "application/n-triples")
        if kind == "cut":
            self.send_header("Content-Length", "100000")
        self.end_headers()
        lines = "".join(f"<http://x/{i}> <http://x/r> <http://x/{i + 1}> .\n" for i in range(1000))
        self.wfile.write(
            lines.encode() + (b"java.util.concurrent.TimeoutException\n\tat x\n" if kind == "timeout" else b"")
        )

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def broken() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Broken)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("401", "the user or password was refused; put them into the address or SPARQL_USERNAME"),
        ("503", "busy or took too long"),
        ("400", "refused the query"),
        ("html", "expected N-Triples, Turtle or RDF/XML, found text/html; is it an endpoint"),
        ("cut", "broke off or became unreadable"),
        ("timeout", "may have a time limit: ask for less"),
    ],
)
def test_endpoints_that_fail(broken: str, path: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_graph(f"sparql+http://me:hidden-word@{broken}/{path}")
    assert "hidden-word" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_round_numbers_of_rows_are_noted(broken: str) -> None:
    _, report = read_with_report(f"sparql+http://{broken}/whole")
    assert "exactly 1,000 rows: the endpoint may have cut it off" in report.notes[0]


def test_an_endpoint_that_is_not_there() -> None:
    with pytest.raises(DataError, match="cannot be reached"):
        read_graph("sparql+http://127.0.0.1:9/query")
