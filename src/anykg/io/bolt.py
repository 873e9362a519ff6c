"""Read Neo4j and other databases that speak Bolt.

An entity is named by a property that every node has and that is unique: `name`, `title`, `id` and similar, or the first
of these that a node has. If there is none, it is named by its element id, and such a property becomes its label.
`?key=PROPERTY` in the address chooses one. Relationships that anykg wrote as predictions are not facts and are skipped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from anykg.errors import DataError
from anykg.io.columns import Roles
from anykg.io.options import ReadOptions
from anykg.io.parsed import Parsed
from anykg.io.sources import Address, driver, one_line, parts_of, query_text, roles_of
from anykg.progress import Progress

PROPERTIES = ("name", "title", "id", "uri", "iri", "key", "label")
"""Properties that may name a node, in this order."""
MARK = "predicted_by"
"""The property that marks predictions."""
FETCH = 10_000


class Naming(NamedTuple):
    """How nodes are named."""

    expression: str
    """Cypher, with {} for the node."""
    label: str | None
    """Cypher for a node's label, if names are element ids."""
    description: str
    """How nodes are named, for messages."""

    def of(self, node: str) -> str:
        """Cypher for the name of a node."""
        return self.expression.format(node)


def stream_bolt(address: Address, options: ReadOptions, progress: Progress) -> Iterator[Parsed]:
    """The relationships of a database, or the rows of a query."""
    read = 0
    with session(address) as (run, errors):
        try:
            query = query_text(options)
            if query is not None:
                parts = _asked(run, query, address, options, progress)
            else:
                parts = _everything(run, address, progress)
            for part in parts:
                read += part.frame.height
                yield part
        except errors as error:
            raise failure(error, address, read) from error


@contextmanager
def session(address: Address, *, write: bool = False) -> Iterator[tuple[Any, Any]]:
    """A session's `run` and the errors it raises; closed at the end."""
    neo4j = driver("neo4j", "neo4j", address.shown)
    user = address.user or os.environ.get("NEO4J_USERNAME") or os.environ.get("NEO4J_USER")
    password = address.password or os.environ.get("NEO4J_PASSWORD", "")
    database = address.path or address.options.get("database") or os.environ.get("NEO4J_DATABASE") or None
    mode = neo4j.WRITE_ACCESS if write else neo4j.READ_ACCESS
    errors = (neo4j.exceptions.Neo4jError, neo4j.exceptions.DriverError, OSError)
    try:
        connection = neo4j.GraphDatabase.driver(
            f"{address.scheme}://{address.host}",
            auth=(user, password) if user else None,
            connection_timeout=30,
            max_transaction_retry_time=30,
            notifications_min_severity="OFF",
        )
    except (ValueError, neo4j.exceptions.DriverError) as error:
        raise DataError(f"{address.shown}: cannot be opened ({one_line(error)}).") from error
    try:
        with connection.session(database=database, default_access_mode=mode, fetch_size=FETCH) as opened:
            yield opened.execute_write if write else opened.run, errors
    finally:
        connection.close()


def failure(error: Exception, address: Address, done: int, verb: str = "read") -> DataError:
    """An error message for an exception of the driver."""
    kind = type(error).__name__
    if kind in ("AuthError", "TokenExpired", "Forbidden"):
        return DataError(
            f"{address.shown}: the user or password was refused; put them into the address or NEO4J_USERNAME and "
            "NEO4J_PASSWORD."
        )
    if kind in ("ServiceUnavailable", "SessionExpired", "IncompleteCommit") or isinstance(error, OSError):
        if done:
            kept = (
                "nothing was kept"
                if verb == "read"
                else "the written rows remain, and writing again creates no duplicates"
            )
            return DataError(f"{address.shown}: the connection broke after {done:,} rows were {verb}; {kept}.")
        return DataError(f"{address.shown}: the database cannot be reached; is it running, and is the address right?")
    message = getattr(error, "message", None) or one_line(error)
    return DataError(f"{address.shown}: the query failed ({' '.join(str(message).split())[:300].rstrip('.')}).")


def naming_of(run: Any, address: Address) -> Naming:
    """Choose how to name the nodes of a database, by counting their properties."""
    asked = address.options.get("key")
    if asked is not None:
        if not re.fullmatch(r"\w+", asked):
            raise DataError(f"{address.shown}: expected the name of a property as key, found {asked!r}.")
        return Naming(f"toString({{}}.{asked})", None, f"property {asked}")
    either = f"coalesce({', '.join(f'n.{name}' for name in PROPERTIES)})"
    counts = ", ".join(f"count(DISTINCT n.{name}) AS {name}" for name in PROPERTIES)
    row = next(iter(run(f"MATCH (n) RETURN count(n) AS nodes, count(DISTINCT {either}) AS either, {counts}")))
    unique = next((name for name in PROPERTIES if row[name] == row["nodes"]), None)
    if unique is not None:
        return Naming(f"toString({{}}.{unique})", None, f"property {unique}")
    inside = f"coalesce({', '.join(f'{{0}}.{name}' for name in PROPERTIES)})"
    if row["either"] == row["nodes"]:
        return Naming(f"toString({inside})", None, f"the first of {', '.join(PROPERTIES)}")
    return Naming("elementId({})", f"toString({inside})", "element id, since no property is unique")


def _everything(run: Any, address: Address, progress: Progress) -> Iterator[Parsed]:
    naming = naming_of(run, address)
    facts = f"MATCH (a)-[r]->(b) WHERE r.{MARK} IS NULL"
    counted = next(iter(run("MATCH ()-[r]->() RETURN count(r) AS links, count(r.predicted_by) AS predicted")))
    total, predicted = counted["links"] - counted["predicted"], counted["predicted"]
    columns = [f"{naming.of('a')} AS head", "type(r) AS relation", f"{naming.of('b')} AS tail"]
    names, roles = ["head", "relation", "tail"], Roles(0, 1, 2)
    if naming.label is not None:
        columns += [f"{naming.label.format('a')} AS head_label", f"{naming.label.format('b')} AS tail_label"]
        names, roles = [*names, "head_label", "tail_label"], Roles(0, 1, 2, (3, None, 4))
    answer = run(f"{facts} RETURN {', '.join(columns)}")
    first = True
    for part in parts_of(names, (record.values() for record in answer), roles, "bolt", progress, total):
        notes = (f"nodes are named by {naming.description}",) if first else ()
        left_out = {"relationships that are predictions": predicted} if first else {}
        yield part.but(notes=notes, left_out=left_out)
        first = False


def _asked(run: Any, query: str, address: Address, options: ReadOptions, progress: Progress) -> Iterator[Parsed]:
    answer = run(query)
    names = list(answer.keys())
    roles = roles_of(names, options, address.shown)
    labels: dict[str, str] = {}

    def rows() -> Iterator[Sequence[Any]]:
        for record in answer:
            yield [_value(value, labels) for value in record.values()]

    for part in parts_of(names, rows(), roles, "bolt", progress):
        yield part.but(labels=dict(labels))
        labels.clear()


def _value(value: Any, labels: dict[str, str]) -> Any:
    """A node by its name or element id, a relationship by its type, anything else unchanged."""
    if hasattr(value, "labels") and hasattr(value, "element_id"):
        return next((str(value[name]) for name in PROPERTIES if value.get(name) is not None), value.element_id)
    return value.type if hasattr(value, "nodes") and hasattr(value, "type") else value
