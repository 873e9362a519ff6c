"""Query SPARQL endpoints: one request, whose response is parsed as a stream."""

from __future__ import annotations

import base64
import http.client
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from anykg.errors import ConfigError, DataError
from anykg.io.options import ReadOptions
from anykg.io.parsed import Parsed
from anykg.io.rdf import stream_terms
from anykg.io.sources import Address, one_line, parts_of, query_text, roles_of
from anykg.progress import Progress

ALL = "CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }"
TIMEOUT = 300
"""Timeout in seconds without any data from an endpoint."""
ROUND = (1_000, 10_000, 50_000, 100_000, 1_000_000)
"""Numbers of rows at which public endpoints truncate results."""
GRAPHS = {"application/n-triples": "nt", "text/plain": "nt", "text/turtle": "ttl", "application/rdf+xml": "rdf"}
TABLES = {
    "application/sparql-results+json": "JSON",
    "application/json": "JSON",
    "application/sparql-results+xml": "XML",
    "text/tab-separated-values": "TSV",
}
_FORM = re.compile(
    r"^\s*(?:(?:#.*|PREFIX\s+[^\n>]*>|BASE\s*<[^>]*>)\s*)*(CONSTRUCT|DESCRIBE|SELECT|ASK|\w+)", re.IGNORECASE
)


def stream_sparql(address: Address, options: ReadOptions, progress: Progress) -> Iterator[Parsed]:
    """The links in the answer of an endpoint."""
    query = query_text(options) or address.options.get("query") or ALL
    form = _form(query)
    if form not in ("CONSTRUCT", "DESCRIBE", "SELECT"):
        raise ConfigError(f"{address.shown}: expected a CONSTRUCT or SELECT query, found {form}.")
    graph = form != "SELECT"
    accept = "application/n-triples, text/turtle;q=0.8, application/rdf+xml;q=0.5" if graph else ", ".join(TABLES)
    response = request(address, {"query": query}, accept)
    kind = response.headers.get_content_type()
    read = 0
    with response:
        try:
            body = _Whole(response)
            parts = _facts(body, kind, address, options) if graph else _rows(body, kind, address, options)
            for part in parts:
                read += part.frame.height
                progress(read, read)
                if read in ROUND:
                    part = part.but(notes=(f"the answer has exactly {read:,} rows: the endpoint may have cut it off",))
                yield part
        except (OSError, http.client.HTTPException, SyntaxError, DataError) as error:
            if isinstance(error, DataError) and not read and "this is not" not in str(error):
                raise
            raise DataError(
                f"{address.shown}: the answer broke off or became unreadable after {read:,} rows ({one_line(error)}); "
                "the endpoint may have a time limit: ask for less, with LIMIT or a narrower pattern."
            ) from error


def request(address: Address, fields: dict[str, str], accept: str) -> http.client.HTTPResponse:
    """Post a form to an endpoint; raises an error that explains any response but success."""
    more = {
        name: value for name, value in address.options.items() if name not in ("query", "timeout", "update", "graph")
    }
    url = f"{address.scheme.removeprefix('sparql+')}://{address.host}/{address.path}"
    headers = {"Accept": accept, "User-Agent": "anykg", "Content-Type": "application/x-www-form-urlencoded"}
    user = address.user or os.environ.get("SPARQL_USERNAME")
    if user:
        password = address.password or os.environ.get("SPARQL_PASSWORD", "")
        headers["Authorization"] = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
    sent = urllib.request.Request(url, urlencode(fields | more).encode(), headers)
    try:
        answer: http.client.HTTPResponse = urllib.request.urlopen(
            sent, timeout=float(address.options.get("timeout", TIMEOUT))
        )
    except urllib.error.HTTPError as error:
        raise DataError(f"{address.shown}: {_refusal(error)}") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise DataError(f"{address.shown}: the endpoint cannot be reached ({reason}).") from error
    return answer


class _Whole:
    """A body that raises if the connection ends early, which http.client ignores."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.response = response

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data = self.response.read(size)
        if not data and self.response.length:
            raise ConnectionError("the connection ended early")
        return data


def _refusal(error: urllib.error.HTTPError) -> str:
    if error.code in (401, 403):
        return "the user or password was refused; put them into the address or SPARQL_USERNAME and SPARQL_PASSWORD."
    if error.code == 429 or error.code in (502, 503, 504):
        return f"the endpoint is busy or took too long ({error.code}); ask for less, or try again later."
    body = error.read(2000).decode("utf-8", errors="replace")
    reason = " ".join(re.sub(r"<[^>]*>", " ", body).split())[:200] or str(error.reason)
    return f"the endpoint refused the query ({error.code}: {reason})."


def _form(query: str) -> str:
    match = _FORM.match(query)
    return match.group(1).upper() if match else ""


def _facts(response: Any, kind: str, address: Address, options: ReadOptions) -> Iterator[Parsed]:
    format = GRAPHS.get(kind)
    if format is None:
        raise DataError(f"{address.shown}: expected N-Triples, Turtle or RDF/XML, found {kind}; is it an endpoint?")
    yield from stream_terms(response, options, format, address.shown)


def _rows(response: Any, kind: str, address: Address, options: ReadOptions) -> Iterator[Parsed]:
    import pyoxigraph

    format = TABLES.get(kind)
    if format is None:
        raise DataError(
            f"{address.shown}: expected SPARQL results as JSON, XML or TSV, found {kind}; is it an endpoint?"
        )
    solutions = pyoxigraph.parse_query_results(response, getattr(pyoxigraph.QueryResultsFormat, format))
    if not isinstance(solutions, pyoxigraph.QuerySolutions):
        raise DataError(f"{address.shown}: expected rows, found a yes/no answer; write a SELECT query.")
    names = [variable.value for variable in solutions.variables]
    roles = roles_of(names, options, address.shown)
    rows = (tuple(_name(term) for term in solution) for solution in solutions)
    yield from parts_of(names, rows, roles, "sparql", lambda done, total: None)


def _name(term: Any) -> str | None:
    """A resource's name, or the text of a literal, which other columns may hold."""
    import pyoxigraph

    if term is None:
        return None
    return f"_:{term.value}" if isinstance(term, pyoxigraph.BlankNode) else str(getattr(term, "value", term))
