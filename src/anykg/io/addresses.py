"""Addresses of remote files and databases, and their display without secrets."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from anykg.errors import DataError

if TYPE_CHECKING:
    from anykg.io.options import ReadOptions
    from anykg.io.parsed import Parsed

WEB = ("http", "https")
CLOUD = ("s3", "hf", "gs", "gcs", "az", "abfs", "abfss")
BOLT = ("bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc")
SPARQL = ("sparql+http", "sparql+https")
SQL = ("postgresql", "postgres", "sqlite", "duckdb")
EMBEDDED = ("ladybug", "kuzu")
DATABASES = (*BOLT, *SPARQL, *SQL, *EMBEDDED)
DATABASE_FILES = {
    ".duckdb": "duckdb",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".lbug": "ladybug",
    ".kuzu": "ladybug",
}
_SCHEME = re.compile(r"^([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_SECRET = re.compile(r"(pass|secret|token|key|auth|credential|sig)", re.IGNORECASE)


def scheme_of(source: Path | str) -> str:
    """The scheme of an address, in lower case; empty for a path."""
    match = _SCHEME.match(str(source)) if isinstance(source, str) else None
    return match.group(1).lower() if match else ""


def is_address(source: Path | str) -> bool:
    """Whether a source is the address of a remote file."""
    scheme = scheme_of(source)
    if scheme and scheme not in (*WEB, *CLOUD, *DATABASES):
        raise DataError(
            f"{shown(source)}: expected an address of http, https, s3, hf, bolt, neo4j, sparql+https, postgresql, "
            f"sqlite, duckdb or ladybug; found {scheme}."
        )
    return scheme in (*WEB, *CLOUD)


def is_database(source: Path | str) -> bool:
    """Whether a source is the address of a database, or a database file."""
    return scheme_of(source) in DATABASES or database_file(source) is not None


def database_file(source: Path | str) -> str | None:
    """The kind of database that a file holds, by its first bytes or extension; None if it is not a database."""
    if scheme_of(source):
        return None
    path = Path(source)
    if not path.is_file():
        return DATABASE_FILES.get(path.suffix.lower()) if path.is_dir() else None
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError:
        return None
    if start.startswith(b"SQLite format 3\0"):
        return "sqlite"
    if start[8:12] == b"DUCK":
        return "duckdb"
    return "ladybug" if start[:4] in (b"LBUG", b"KUZU") else None


def shown(source: Path | str) -> str:
    """A source without user, password, tokens and keys, safe to print and store.

    >>> shown("bolt://neo4j:secret@localhost:7687/movies?token=abc")
    'bolt://localhost:7687/movies?token=...'
    """
    if not scheme_of(source):
        return "standard input" if str(source) == "-" else str(source)
    parts = urlsplit(str(source))
    query = [(name, "..." if _SECRET.search(name) else value) for name, value in parse_qsl(parts.query)]
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, urlencode(query, safe=".:/ "), ""))


def name_of(source: str) -> str:
    """A short name for an address: its last part, or its host."""
    parts = urlsplit(source)
    return PurePosixPath(parts.path).name or parts.hostname or parts.scheme


def read_cloud(source: str, options: ReadOptions) -> Parsed | None:
    """A table in cloud storage, read by polars; None for a web address."""
    if scheme_of(source) not in CLOUD:
        return None
    import polars as pl

    from anykg.io.tables import of_frame

    suffix = PurePosixPath(source.split("?")[0]).suffix.lower()
    try:
        if suffix in (".parquet", ".pq"):
            frame = pl.scan_parquet(source).collect()
        elif suffix in (".csv", ".tsv", ".tab"):
            separator = "," if suffix == ".csv" else "\t"
            header = options.header is not False
            frame = pl.scan_csv(source, separator=separator, has_header=header, infer_schema=False).collect()
        elif suffix in (".jsonl", ".ndjson"):
            frame = pl.scan_ndjson(source, infer_schema_length=None).collect()
        else:
            raise DataError(
                f"{shown(source)}: expected a .parquet, .csv, .tsv or .jsonl file there, found "
                f"{suffix or 'no extension'}; download other formats first."
            )
    except (pl.exceptions.PolarsError, OSError, RuntimeError) as error:
        problem = " ".join(str(error).split())[:200]
        raise DataError(
            f"{shown(source)}: cannot be read ({problem}); check the address and the credentials in the environment."
        ) from error
    return of_frame(frame, options, suffix[1:], shown(source))
