"""Read graphs from databases as streams of rows: SQL, SPARQL endpoints, Neo4j and others that speak Bolt, LadybugDB.

A query returns head, relation and tail; without a query, all links are read. Rows are converted to ids as they arrive,
so that only the graph and one part of the result are in memory. Databases are opened read-only.

| address | driver | credentials |
|---|---|---|
| `bolt://`, `neo4j://`, also `+s` | neo4j | in the address, or NEO4J_USERNAME and NEO4J_PASSWORD |
| `sparql+https://host/path` | none | in the address, or SPARQL_USERNAME and SPARQL_PASSWORD |
| `postgresql://` | psycopg | in the address, or libpq's environment (PGUSER, PGPASSWORD, ~/.pgpass) |
| `sqlite:///file`, a SQLite file | none | |
| `duckdb:///file`, a DuckDB file | duckdb | |
| `ladybug:///path`, a LadybugDB file | ladybug | |

Credentials are neither printed nor stored: see `anykg.io.addresses.shown`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from anykg.errors import ConfigError, DataError
from anykg.io.addresses import BOLT, EMBEDDED, SPARQL, database_file, scheme_of, shown
from anykg.io.columns import Roles, by_choice, by_header
from anykg.io.options import ReadOptions
from anykg.io.parsed import Parsed, frame_of, of_roles
from anykg.progress import Progress, ignore

PART_ROWS = 100_000
QUERY_FILES = (".sql", ".cypher", ".cql", ".rq", ".sparql", ".txt")


class Address(NamedTuple):
    """The parts of a database's address."""

    scheme: str
    host: str
    """Host and port, without user and password."""
    path: str
    """The path without its leading slash, so that `sqlite:////tmp/x` is /tmp/x and `sqlite:///x` is x."""
    user: str | None
    password: str | None
    options: dict[str, str]
    shown: str
    """The address without secrets, for messages."""


def stream_database(source: str, options: ReadOptions, progress: Progress | None = None) -> Iterator[Parsed]:
    """The links in a database, a part at a time."""
    address = address_of(source)
    report = progress or ignore
    if address.scheme in BOLT:
        from anykg.io.bolt import stream_bolt

        return stream_bolt(address, options, report)
    if address.scheme in SPARQL:
        from anykg.io.sparql import stream_sparql

        return stream_sparql(address, options, report)
    if address.scheme in EMBEDDED:
        return _stream_ladybug(address, options, report)
    return _stream_sql(address, options, report)


def address_of(source: str) -> Address:
    """The parts of an address, or of the path of a database's file."""
    kind = database_file(source)
    if kind is not None:
        return Address(kind, "", str(source), None, None, {}, str(source))
    parts = urlsplit(source)
    user, password = (None if part is None else unquote(part) for part in (parts.username, parts.password))
    host = parts.netloc.rpartition("@")[2]
    options = dict(parse_qsl(parts.query))
    return Address(scheme_of(source), host, unquote(parts.path)[1:], user, password, options, shown(source))


def query_text(options: ReadOptions) -> str | None:
    """The query that was given, or the content of its file."""
    query = options.query
    if query is None:
        return None
    path = Path(query)
    if path.suffix.lower() in QUERY_FILES and "\n" not in query and len(query) < 1000:
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path}: the query cannot be read ({error}).") from error
    return query


def roles_of(names: Sequence[str], options: ReadOptions, shown: str) -> Roles:
    """The columns of head, relation and tail in a result."""
    if options.columns is not None:
        return by_choice(options.columns, names, len(names), options.relation, shown)
    roles = by_header(names)
    if roles is not None and options.relation is not None:
        return roles._replace(relation=None, unclear=False)
    if roles is not None and not roles.unclear:
        return roles
    if len(names) == 3 and options.relation is None:
        return Roles(0, 1, 2)
    if len(names) == 2 and options.relation is not None:
        return Roles(0, None, 1)
    hint = "give relation='NAME' if these are heads and tails" if len(names) == 2 else "return these three"
    raise DataError(
        f"{shown}: expected a query that returns head, relation and tail, found {len(names)} columns: "
        f"{', '.join(names[:8])}; {hint}, or name them with `columns`."
    )


def parts_of(
    names: Sequence[str], rows: Iterable[Sequence[Any]], roles: Roles, format: str, progress: Progress, total: int = 0
) -> Iterator[Parsed]:
    """Yield the rows of a result in batches."""
    done, waiting = 0, []
    for row in rows:
        waiting.append(row)
        if len(waiting) >= PART_ROWS:
            done += len(waiting)
            yield _part(names, waiting, roles, format)
            progress(done, max(total, done))
            waiting = []
    if waiting or not done:
        done += len(waiting)
        yield _part(names, waiting, roles, format)
        progress(done, max(total, done))


def _part(names: Sequence[str], rows: list[Sequence[Any]], roles: Roles, format: str) -> Parsed:
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    frame = frame_of({name: list(values) for name, values in zip(names, columns, strict=True)})
    return of_roles(frame, roles, list(names), format=format, header=True)


def driver(module: str, extra: str, shown: str) -> Any:
    """Import an optional driver, or raise an error that says what to install."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{shown}: reading it needs {module}; install it with `pip install 'anykg[{extra}]'`."
        ) from error


def one_line(error: BaseException) -> str:
    """The first line of a driver's message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300].rstrip(".")


# -- SQL --------------------------------------------------------------------------------------------------------


class _Connection(NamedTuple):
    """The interface shared by the three SQL databases."""

    rows: Callable[[str], tuple[list[str], Iterator[Sequence[Any]]]]
    """The column names of a query's result, and its rows."""
    tables: Callable[[], list[tuple[str, list[str]]]]
    """Tables and views with their columns."""
    errors: type[Exception] | tuple[type[Exception], ...]
    close: Callable[[], None]


def _stream_sql(address: Address, options: ReadOptions, progress: Progress) -> Iterator[Parsed]:
    connection = _connect(address)
    query = query_text(options)
    read = 0
    try:
        if query is None:
            query = _whole_table(connection, address)
        names, rows = connection.rows(query)
        names = [name if names.index(name) == i else f"{name}{i + 1}" for i, name in enumerate(names)]
        roles = roles_of(names, options, address.shown)
        for part in parts_of(names, rows, roles, address.scheme, progress):
            read += part.frame.height
            yield part
    except connection.errors as error:
        where = f"the connection or the query broke after {read:,} rows" if read else "the query failed"
        raise DataError(f"{address.shown}: {where} ({one_line(error)}); nothing was kept.") from error
    finally:
        connection.close()


def _whole_table(connection: _Connection, address: Address) -> str:
    """A query for the only table that holds facts."""
    tables = connection.tables()
    fitting = [name for name, columns in tables if (roles := by_header(columns)) and not roles.unclear]
    if len(fitting) == 1:
        name = ".".join('"' + part.replace('"', '""') + '"' for part in fitting[0].split("."))
        return f"SELECT * FROM {name}"
    shown_tables = "; ".join(f"{name} ({', '.join(columns[:6])})" for name, columns in tables[:6]) or "no tables"
    raise DataError(
        f"{address.shown}: expected a query, as in query='SELECT person, role, company FROM jobs'; there are "
        f"{shown_tables}."
    )


def _connect(address: Address) -> _Connection:
    connect = {"sqlite": _sqlite, "duckdb": _duckdb}.get(address.scheme, _postgresql)
    return connect(address)


def _file(address: Address) -> Path:
    path = Path(address.path)
    if not path.is_file():
        raise DataError(f"{address.shown}: there is no such file; four slashes start an absolute path.")
    return path


def _sqlite(address: Address) -> _Connection:
    import sqlite3

    path = _file(address)
    connection = sqlite3.connect(f"file:{_quoted(path)}?mode=ro", uri=True)

    def rows(query: str) -> tuple[list[str], Iterator[Sequence[Any]]]:
        cursor = connection.execute(query)
        return [column[0] for column in cursor.description or ()], _fetched(cursor)

    def tables() -> list[tuple[str, list[str]]]:
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name"
        ).fetchall()
        return [
            (name, [row[1] for row in connection.execute("SELECT * FROM pragma_table_info(?)", (name,))])
            for (name,) in names
        ]

    return _Connection(rows, tables, sqlite3.Error, connection.close)


def _quoted(path: Path) -> str:
    from urllib.parse import quote

    return quote(str(path.resolve()))


def _duckdb(address: Address) -> _Connection:
    duckdb = driver("duckdb", "sql", address.shown)
    path = _file(address)
    try:
        connection = duckdb.connect(str(path), read_only=True)
    except duckdb.Error as error:
        raise DataError(f"{address.shown}: cannot be opened ({one_line(error)}).") from error

    def rows(query: str) -> tuple[list[str], Iterator[Sequence[Any]]]:
        cursor = connection.execute(query)
        return [column[0] for column in cursor.description or ()], _fetched(cursor)

    def tables() -> list[tuple[str, list[str]]]:
        columns = connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns ORDER BY table_name, ordinal_position"
        ).fetchall()
        return _grouped(columns)

    return _Connection(rows, tables, duckdb.Error, connection.close)


def _postgresql(address: Address) -> _Connection:
    psycopg = driver("psycopg", "sql", address.shown)
    host, _, port = address.host.partition(":")
    given = {"host": host, "port": port, "dbname": address.path, "user": address.user, "password": address.password}
    try:
        connection = psycopg.connect(
            **{name: value for name, value in given.items() if value}, **address.options, connect_timeout=30
        )
        connection.read_only = True
    except psycopg.Error as error:
        raise DataError(
            f"{address.shown}: cannot connect ({_reason(error)}); put user and password into the address or into "
            "PGUSER and PGPASSWORD."
        ) from error

    def rows(query: str) -> tuple[list[str], Iterator[Sequence[Any]]]:
        cursor = connection.cursor(name="anykg")  # a server-side cursor, so that the result is not held in memory
        cursor.itersize = PART_ROWS // 10
        cursor.execute(query)
        return [column.name for column in cursor.description or ()], iter(cursor)

    def tables() -> list[tuple[str, list[str]]]:
        columns = connection.execute(
            "SELECT table_schema || '.' || table_name, column_name FROM information_schema.columns "
            "WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, ordinal_position"
        ).fetchall()
        return _grouped(columns)

    return _Connection(rows, tables, psycopg.Error, connection.close)


def _reason(error: Exception) -> str:
    """The message of libpq without the host and user that it repeats."""
    return re.sub(r"^connection (to server )?(at|on|failed).*?(failed|: ):?\s*", "", one_line(error)) or one_line(error)


def _grouped(found: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    tables: dict[str, list[str]] = {}
    for table, column in found:
        tables.setdefault(table, []).append(column)
    return list(tables.items())


def _fetched(cursor: Any) -> Iterator[Sequence[Any]]:
    while rows := cursor.fetchmany(PART_ROWS // 10):
        yield from rows


# -- LadybugDB, once Kùzu ---------------------------------------------------------------------------------------


def _stream_ladybug(address: Address, options: ReadOptions, progress: Progress) -> Iterator[Parsed]:
    ladybug = driver("ladybug", "ladybug", address.shown)
    if not Path(address.path).exists():
        raise DataError(f"{address.shown}: there is no such database; four slashes start an absolute path.")
    try:
        database = ladybug.Database(address.path, read_only=True)
        connection = ladybug.Connection(database)
        query = query_text(options)
        if query is not None:
            answer = connection.execute(query)
            names = answer.get_column_names()
            roles = roles_of(names, options, address.shown)
            yield from parts_of(names, _answered(answer), roles, "ladybug", progress)
            return
        keys, qualify = _ladybug_keys(connection)
        answer = connection.execute("MATCH (a)-[r]->(b) RETURN a, label(r), b")
        titles: dict[str, str] = {}

        def rows() -> Iterator[tuple[str, str, str]]:
            for head, relation, tail in _answered(answer):
                yield _node(head, keys, qualify, titles), relation, _node(tail, keys, qualify, titles)

        names, roles = ["head", "relation", "tail"], Roles(0, 1, 2)
        for part in parts_of(names, rows(), roles, "ladybug", progress, answer.get_num_tuples()):
            yield part.but(labels=dict(titles))
            titles.clear()
    except RuntimeError as error:
        raise DataError(f"{address.shown}: the query failed ({one_line(error)}).") from error


def _answered(answer: Any) -> Iterator[Sequence[Any]]:
    while answer.has_next():
        yield answer.get_next()


def _ladybug_keys(connection: Any) -> tuple[dict[str, str], bool]:
    """The primary key of each table of nodes, and whether two tables share a value."""
    keys: dict[str, str] = {}
    seen: set[Any] = set()
    qualify = False
    for row in connection.execute("CALL show_tables() RETURN name, type").get_all():
        if row[1] != "NODE":
            continue
        for _, name, _, _, primary in connection.execute(f"CALL table_info('{row[0]}') RETURN *").get_all():
            if primary:
                keys[row[0]] = name
        values = {v for (v,) in _answered(connection.execute(f"MATCH (n:`{row[0]}`) RETURN n.`{keys[row[0]]}`"))}
        qualify = qualify or bool(seen & values)
        seen |= values
    return keys, qualify


def _node(node: dict[str, Any], keys: dict[str, str], qualify: bool, titles: dict[str, str]) -> str:
    kind = node["_LABEL"]
    key = keys[kind]
    name = f"{kind}/{node[key]}" if qualify else str(node[key])
    title = next((node[word] for word in ("name", "title", "label") if word != key and node.get(word)), None)
    if isinstance(title, str):
        titles[name] = title
    return name
