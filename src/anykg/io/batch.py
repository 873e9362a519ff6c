"""Read a file of questions or facts row by row, each with its line number, so that problems can be reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import polars as pl

from anykg.errors import DataError
from anykg.io import addresses
from anykg.io.choices import names_of
from anykg.io.dialect import COMMENT, SHOWN
from anykg.io.formats import detect
from anykg.io.options import BatchOptions
from anykg.io.parsed import TRIPLET, Malformed
from anykg.io.property_graphs import is_graph_folder
from anykg.io.read import read_names
from anykg.io.source import Source, decode, load

Parts = tuple[str | None, str | None, str | None]
_BLANK = " \t\r,;|"
"""Characters of lines without a name."""


class Row(NamedTuple):
    """A row of a file, or a malformed line."""

    parts: Parts
    """Head, relation and tail; None for a blank field."""
    line: int | None
    """Its line; None if rows are not lines."""
    malformed: str | None = None
    """What is wrong with the line, such as its number of fields, and its beginning."""


def read_batch(path: Path | str, *, open_fields: bool = False) -> list[Row]:
    """The rows of a file in any graph format, in order.

    Columns are head, relation and tail unless a header names them in another order. With `open_fields`, objects in JSON
    lines may lack head, relation or tail.
    """
    if addresses.is_address(path) or is_graph_folder(Path(path)):
        return [Row(parts, None) for parts in _triplets(read_names(path, keep_blank=True).table)]
    source = load(path)
    format = detect(source)
    given = source
    malformed: tuple[Malformed, ...] = ()
    json_lines = format.name == "jsonl"
    if json_lines:
        source, malformed = _whole_objects(source)
    if json_lines and (open_fields or not source.data):
        table, header = _objects(source), False
    else:
        options = BatchOptions(skip_malformed="skip_malformed" in format.takes)
        parsed = format.read(source, options)
        table = names_of(parsed, options, path, keep_blank=True).table
        header, malformed = parsed.header and not json_lines, malformed + parsed.malformed
    lines = None if format.stream is None else _lines(decode(given), table.height, header, malformed)
    if table.is_empty() and not malformed:
        raise DataError(f"{path}: expected head, relation and tail on each line, found none.")
    rows = [Row(parts, None if lines is None else lines[row]) for row, parts in enumerate(_triplets(table))]
    rows += [Row((None, None, None), line, found) for line, found in malformed]
    return sorted(rows, key=lambda row: row.line or 0) if lines is not None else rows


def _triplets(table: pl.DataFrame) -> list[Parts]:
    return [(head, relation, tail) for head, relation, tail in table.select(TRIPLET).iter_rows()]


def _whole_objects(source: Source) -> tuple[Source, tuple[Malformed, ...]]:
    """JSON lines without those that are not JSON objects or arrays, and these."""
    kept: list[str] = []
    malformed: list[Malformed] = []
    for number, line in enumerate(decode(source).split("\n"), 1):
        if not line.strip():
            continue
        try:
            whole = isinstance(json.loads(line), dict | list)
        except (json.JSONDecodeError, RecursionError):
            whole = False
        if whole:
            kept.append(line)
        else:
            malformed.append(Malformed(number, f"no valid JSON object: {line.strip()[:SHOWN]!r}"))
    return source._replace(data="\n".join(kept).encode()), tuple(malformed)


def _objects(source: Source) -> pl.DataFrame:
    """Objects on lines with some of head, relation and tail; other values than names become JSON."""
    objects = [json.loads(line) for line in decode(source).split("\n") if line.strip()]
    rows = [[_name(each.get(name)) if isinstance(each, dict) else None for name in TRIPLET] for each in objects]
    return pl.DataFrame(rows, schema=dict.fromkeys(TRIPLET, pl.String), orient="row")


def _name(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _lines(text: str, rows: int, header: bool, malformed: tuple[Malformed, ...]) -> list[int] | None:
    """The line of each row of a format of lines; None if rows are not lines, as with line breaks in quotes."""
    other = {one.line for one in malformed}
    filled = [
        (number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip(_BLANK) and number not in other
    ]
    without_comments = [(number, line) for number, line in filled if not line.startswith(COMMENT)]
    for found in (filled, without_comments):
        numbers = [number for number, _ in found[int(header) :]]
        if len(numbers) == rows:
            return numbers
    return None
