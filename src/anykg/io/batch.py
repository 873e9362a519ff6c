"""Read a file of questions or facts row by row, each with its line number, so that problems can be reported."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import polars as pl

from anykg.errors import DataError
from anykg.io import addresses
from anykg.io.choices import names_of
from anykg.io.dialect import COMMENT
from anykg.io.formats import detect
from anykg.io.options import ReadOptions
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
    """The number of fields of the line, if too few or too many, and its beginning."""


def read_batch(path: Path | str, *, open_fields: bool = False) -> list[Row]:
    """The rows of a file in any graph format, in order.

    With `open_fields`, objects in JSON lines may lack head, relation or tail.
    """
    if addresses.is_address(path) or is_graph_folder(Path(path)):
        return [Row(parts, None) for parts in _triplets(read_names(path, keep_blank=True).table)]
    source = load(path)
    format = detect(source)
    malformed: tuple[Malformed, ...]
    if open_fields and format.name == "jsonl":
        table, header, malformed = _json_lines(source), False, ()
    else:
        options = ReadOptions(skip_malformed="skip_malformed" in format.takes)
        parsed = format.read(source, options)
        table, header, malformed = (
            names_of(parsed, options, path, keep_blank=True).table,
            parsed.header,
            parsed.malformed,
        )
    lines = None if format.stream is None else _lines(decode(source), table.height, header, malformed)
    if table.is_empty() and not malformed:
        raise DataError(f"{path}: expected head, relation and tail on each line, found none.")
    rows = [Row(parts, None if lines is None else lines[row]) for row, parts in enumerate(_triplets(table))]
    rows += [Row((None, None, None), line, found) for line, found in malformed]
    return sorted(rows, key=lambda row: row.line or 0) if lines is not None else rows


def _triplets(table: pl.DataFrame) -> list[Parts]:
    return [(head, relation, tail) for head, relation, tail in table.select(TRIPLET).iter_rows()]


def _json_lines(source: Source) -> pl.DataFrame:
    try:
        return pl.read_ndjson(source.data, schema=dict.fromkeys(TRIPLET, pl.String))
    except pl.exceptions.PolarsError as error:
        raise DataError(
            f"{source.path}: expected a JSON object with two of head, relation and tail on each line."
        ) from error


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
