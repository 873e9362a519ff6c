"""Read the triplets of a file of any size, a part at a time, as names.

What `read_names` gives for a whole file, in tables of at most some hundred thousand rows, so that a dump of tens of
millions of triplets takes the memory of one part. Formats that are not lines (Turtle, RDF/XML) are read whole; how a
delimited file is written is told from its first part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import polars as pl

from anykg.errors import DataError
from anykg.io.delimited import parse_triplets
from anykg.io.read import RDF_FORMATS, names_of
from anykg.io.source import PART_BYTES, load_parts

Progress = Callable[[int, int], None]
"""Told (bytes read, bytes there are)."""


def stream_names(
    path: Path | str,
    *,
    columns: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
    literals: Literal["drop", "keep"] = "drop",
    part_bytes: int = PART_BYTES,
    progress: Progress | None = None,
) -> Iterator[pl.DataFrame]:
    """Tables with columns head, relation, tail: strings, none missing or empty. Repeated triplets stay.

    The arguments are those of `read_names`.
    """
    found = False
    for source in load_parts(path, size=part_bytes, progress=progress):
        if source.format == "delimited" or separator is not None:
            table, dialect = parse_triplets(source, columns, separator, header)
            columns, separator, header = dialect.columns, dialect.separator, False
        elif source.format in RDF_FORMATS:
            from anykg.io.rdf import parse_rdf

            table = parse_rdf(source, literals, may_be_empty=True).table
        else:
            table = names_of(source, columns).table
        found = found or not table.is_empty()
        if not table.is_empty():
            yield table
    if not found:
        raise DataError(f"{path}: expected facts between entities, found none; use --literals keep to read literals.")
