"""Write graphs and tables of answers, in the formats of `anykg.io.formats` that can be written.

Names survive a round trip: `anykg.io.escapes` escapes those that a format cannot hold. Text can also be written as
`.gz`. Files are written atomically: see `anykg.atomic`.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from anykg.atomic import atomic_path
from anykg.errors import ConfigError, DataError, InputError
from anykg.graph.graph import KnowledgeGraph
from anykg.io.escapes import escape_where, escaped
from anykg.io.formats import by_name, formats
from anykg.io.parsed import TRIPLET

EXTENSIONS = {
    ".tsv": "tsv",
    ".txt": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".feather": "feather",
    ".xlsx": "excel",
    ".nt": "nt",
}
ROW_EXTENSIONS = EXTENSIONS | {".json": "json"}
"""Formats of tables of answers."""
BREAKS = r"[\t\r\n\x00]"


def graph_extensions() -> dict[str, str]:
    """The formats that graphs are written in, by extension."""
    extensions = {suffix: f.name for f in formats().values() if f.write is not None for suffix in f.suffixes}
    extensions.pop(".psv", None)  # it is read as CSV
    return extensions


def write_graph(graph: KnowledgeGraph, path: Path | str, format: str | None = None) -> None:
    """Write the facts of a graph as names, and its labels if the format can hold them.

    TSV has no header, as the benchmarks have none, unless a reader would mistake the first facts for one.
    """
    path = Path(path)
    chosen = by_name(format_of(path, format, graph_extensions()))
    if chosen.write is None:
        raise ConfigError(f"{path}: graphs are not written as {chosen.name}; choose another format.")
    content = chosen.write(graph)
    if isinstance(content, bytes):
        _write(path, content)
        return
    if path.is_file():
        raise InputError(f"{path}: {chosen.name} is a folder of files, but this is a file; choose another name.")
    for name, part in content.items():
        _write(path / name, part)


def write_rows(rows: pl.DataFrame, path: Path | str, format: str | None = None) -> None:
    """Write a table of answers, with its column names; N-Triples take the columns head, relation, tail."""
    path = Path(path)
    _write(path, encode_rows(rows, format_of(path, format, ROW_EXTENSIONS), path))


def encode_rows(rows: pl.DataFrame, format: str, path: Path | str = "answers") -> bytes:
    """The content of a file of answers."""
    if format == "json":
        lines = rows.write_ndjson().rstrip("\n").replace("\n", ",\n")
        return f"[\n{lines}\n]\n".encode() if lines else b"[]\n"
    if format == "nt":
        from anykg.io.rdf import to_lines

        if not set(TRIPLET) <= set(rows.columns):
            raise DataError(
                f"{path}: N-Triples need columns head, relation, tail; found {', '.join(rows.columns)}. "
                "Write TSV, CSV, JSON lines or Parquet."
            )
        return "".join(to_lines(rows.select(TRIPLET))).encode()
    if format == "excel":
        from anykg.io.tables import excel_of

        return excel_of(rows)
    buffer = io.BytesIO()
    if format in ("tsv", "csv"):
        return _text(rows, format, header=True)
    if format == "jsonl":
        rows.write_ndjson(buffer)
    elif format == "feather":
        rows.write_ipc(buffer)
    else:
        rows.write_parquet(buffer)
    return buffer.getvalue()


def format_of(path: Path, format: str | None = None, extensions: Mapping[str, str] = EXTENSIONS) -> str:
    """The requested format, or that of the extension."""
    if format is None:
        last = path.suffix.lower()
        format = extensions.get(Path(path.stem).suffix.lower() if last == ".gz" else last)
        if format is None:
            raise ConfigError(f"{path}: expected a file name ending in {', '.join(extensions)}, or a format.")
    allowed = dict.fromkeys(extensions.values())
    if extensions != EXTENSIONS and extensions != ROW_EXTENSIONS:
        allowed |= {f.name: None for f in formats().values() if f.write is not None}
    if format not in allowed:
        raise ConfigError(f"Expected a format of {', '.join(allowed)}; found {format!r}.")
    if format in ("parquet", "feather", "excel") and path.suffix.lower() == ".gz":
        name = {"parquet": "Parquet", "feather": "Feather", "excel": "Excel"}[format]
        raise ConfigError(f"{path}: {name} is compressed already; write it without .gz.")
    return format


def delimited_of(graph: KnowledgeGraph, kind: str) -> bytes:
    """The content of a TSV or CSV file with the facts of a graph."""
    table = graph.to_polars()
    if kind == "csv":
        return _text(table, kind, header=True)
    content = _text(table, kind, header=False)
    return _text(table, kind, header=True) if _misleads(content) else content


def _text(table: pl.DataFrame, kind: str, *, header: bool) -> bytes:
    buffer = io.BytesIO()
    breaks = kind == "tsv"  # TSV has no quotes
    held = _unlike_header(
        table.with_columns(pl.col(pl.String).map_batches(lambda n: escape_where(n, _breaks if breaks else _is_empty)))
    )
    if kind == "tsv":
        held.write_csv(buffer, separator="\t", include_header=header, quote_style="never")
        return buffer.getvalue()
    # Readers strip spaces around a name unless it is quoted.
    blank = held.select(pl.any_horizontal(pl.col(pl.String).str.contains(r"^[ \t]|[ \t]$").any())).item()
    held.write_csv(buffer, include_header=header, quote_style="always" if blank else "necessary")
    return buffer.getvalue()


def _is_empty(names: pl.Series) -> pl.Series:
    return (names == "") | names.str.contains("\x00", literal=True)


def _breaks(names: pl.Series) -> pl.Series:
    return (names == "") | names.str.contains(BREAKS)


def _unlike_header(table: pl.DataFrame) -> pl.DataFrame:
    """The table without rows equal to its header, which readers skip as a repeated header."""
    if not set(TRIPLET) <= set(table.columns):
        return table
    again = pl.all_horizontal(pl.col(name) == name for name in TRIPLET)
    return table.with_columns(pl.when(again).then(pl.lit(escaped("head"))).otherwise("head").alias("head"))


def _misleads(content: bytes) -> bool:
    """Whether a file without a header would be read differently than as columns h, r, t."""
    from anykg.io.dialect import choose_roles
    from anykg.io.dialect import detect as dialect_of
    from anykg.io.formats import detect
    from anykg.io.options import ReadOptions
    from anykg.io.source import SAMPLE_BYTES, of_bytes

    if not content:
        return False
    start = content[:SAMPLE_BYTES]
    start = start[: start.rfind(b"\n") + 1] or start
    try:
        source = of_bytes(Path("facts.tsv"), start)
        dialect = dialect_of(source, ReadOptions())
        roles = choose_roles(source, dialect, ReadOptions())
    except InputError:
        return True
    plain = dialect.separator == "\t" and dialect.width == 3 and not dialect.header and not dialect.skip
    return not plain or roles[:3] != (0, 1, 2) or detect(source).name != "tsv" or source.data != start


def _write(path: Path, content: bytes) -> None:
    if path.suffix.lower() == ".gz":
        content = gzip.compress(content, mtime=0)  # no timestamp: equal content gives equal files
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)
