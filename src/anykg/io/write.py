"""Write graphs and tables of answers: TSV, CSV, JSON lines, Parquet, N-Triples; the text ones also as `.gz`.

What is written is read back as the same names. Answers also as a JSON array, one row a line. Files are whole or
absent: see `anykg.atomic`.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from anykg.atomic import atomic_path
from anykg.errors import ConfigError, DataError
from anykg.graph.graph import KnowledgeGraph
from anykg.io.delimited import header_columns

EXTENSIONS = {
    ".tsv": "tsv",
    ".txt": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".nt": "nt",
}
FORMATS = tuple(dict.fromkeys(EXTENSIONS.values()))
ROW_EXTENSIONS = EXTENSIONS | {".json": "json"}
TRIPLET = ["head", "relation", "tail"]


def write_graph(graph: KnowledgeGraph, path: Path | str, format: str | None = None) -> None:
    """Write the facts of a graph as names; labels only go into N-Triples.

    TSV has no header, as the benchmarks have none, unless a reader would mistake the first fact for one.
    """
    path, table = Path(path), graph.to_polars()
    chosen = format_of(path, format)
    if chosen == "nt":
        from anykg.io.rdf import label_lines, to_lines

        content = "".join([*to_lines(table), *label_lines(graph)]).encode()
    else:
        header = chosen != "tsv" or _misleads(table)
        content = _encode(table, path, chosen, header)
    _write(path, content)


def write_rows(rows: pl.DataFrame, path: Path | str, format: str | None = None) -> None:
    """Write a table of answers, with its column names; N-Triples take the columns head, relation, tail."""
    path = Path(path)
    _write(path, encode_rows(rows, format_of(path, format, ROW_EXTENSIONS), path))


def encode_rows(rows: pl.DataFrame, format: str, path: Path | str = "answers") -> bytes:
    """The content of a file of answers."""
    if format == "json":
        lines = rows.write_ndjson().rstrip("\n").replace("\n", ",\n")
        return f"[\n{lines}\n]\n".encode() if lines else b"[]\n"
    return _encode(rows, Path(path), format, header=True)


def format_of(path: Path, format: str | None = None, extensions: Mapping[str, str] = EXTENSIONS) -> str:
    """The format asked for, or that of the extension."""
    if format is None:
        last = path.suffix.lower()
        format = extensions.get(Path(path.stem).suffix.lower() if last == ".gz" else last)
        if format is None:
            raise ConfigError(f"{path}: expected a file name ending in {', '.join(extensions)}, or a format.")
    if format not in extensions.values():
        raise ConfigError(f"Expected a format of {', '.join(dict.fromkeys(extensions.values()))}; found {format!r}.")
    if format == "parquet" and path.suffix.lower() == ".gz":
        raise ConfigError(f"{path}: Parquet is compressed already; write it without .gz.")
    return format


def _encode(table: pl.DataFrame, path: Path, format: str, header: bool) -> bytes:
    if format == "nt":
        from anykg.io.rdf import to_lines

        if not set(TRIPLET) <= set(table.columns):
            raise DataError(
                f"{path}: N-Triples need columns head, relation, tail; found {', '.join(table.columns)}. "
                "Write TSV, CSV, JSON lines or Parquet."
            )
        return "".join(to_lines(table.select(TRIPLET))).encode()
    buffer = io.BytesIO()
    if format == "tsv":
        _refuse_breaks(table, path)
        table.write_csv(buffer, separator="\t", include_header=header, quote_style="never")
    elif format == "csv":
        # Readers take spaces around a name for its surroundings, unless it is quoted.
        blank = table.select(pl.any_horizontal(pl.col(pl.String).str.contains(r"^[ \t]|[ \t]$").any())).item()
        table.write_csv(buffer, include_header=header, quote_style="always" if blank else "necessary")
    elif format == "jsonl":
        table.write_ndjson(buffer)
    else:
        table.write_parquet(buffer)
    return buffer.getvalue()


def _refuse_breaks(table: pl.DataFrame, path: Path) -> None:
    """TSV has no quotes, so that a name cannot hold what ends a field or a line."""
    for column in table.select(pl.col(pl.String)):
        broken = column.filter(column.str.contains(r"[\t\r\n]"))
        if len(broken):
            raise DataError(
                f"{path}: TSV cannot hold the tab or line break in {broken[0]!r}; "
                "write CSV, JSON lines, Parquet or N-Triples instead."
            )


def _misleads(table: pl.DataFrame) -> bool:
    """Would the first row be taken for a header, or lose a byte order mark?"""
    first = table.row(0) if table.height else ()
    return bool(first) and (header_columns(list(first)) is not None or first[0].startswith("\ufeff"))


def _write(path: Path, content: bytes) -> None:
    if path.suffix.lower() == ".gz":
        content = gzip.compress(content, mtime=0)  # the same content gives the same file
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)
