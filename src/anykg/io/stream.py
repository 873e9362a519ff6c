"""Read the triplets of a file of any size, a part at a time, as names.

Yields what `read_names` returns for a whole file, in tables of at most some hundred thousand rows, so that a dump of
tens of millions of triplets takes the memory of one part. Formats that are not line-based (Turtle, RDF/XML) are read as
a whole; the dialect of a delimited file is detected from its first part.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Unpack

import polars as pl

from anykg.errors import ConfigError, DataError
from anykg.io.choices import names_of
from anykg.io.formats import detect, idle_options
from anykg.io.options import Reading, ReadOptions
from anykg.io.parsed import added
from anykg.io.read import notes_on
from anykg.io.source import PART_BYTES, Source, load_parts
from anykg.progress import Progress

logger = logging.getLogger("anykg")


def stream_names(
    path: Path | str,
    *,
    part_bytes: int = PART_BYTES,
    progress: Progress | None = None,
    **reading: Unpack[Reading],
) -> Iterator[pl.DataFrame]:
    """Yield tables with columns head, relation, tail: strings, none missing; repeated triplets stay.

    `progress` is called with the bytes read so far and the size of the file.
    """
    options = ReadOptions.of(**reading)

    def by_lines(source: Source) -> bool:
        return detect(source, options).stream is not None

    def quoted(source: Source) -> bool:
        return detect(source, options).name in ("tsv", "csv") and b"\t" not in source.start

    sources = load_parts(path, by_lines=by_lines, quoted=quoted, size=part_bytes, progress=progress)
    first = next(sources)
    format = detect(first, options)
    for name in idle_options(format, options):
        raise ConfigError(f"{path}: is read as {format.name}, where `{name}` has no effect; leave it out.")

    def all_parts() -> Iterator[Source]:
        yield first
        for source in sources:
            detect(source, options)  # raises if it is not text
            yield source

    parsed = (
        format.stream(all_parts(), options)
        if format.stream is not None
        else (format.read(source, options) for source in all_parts())
    )
    any_facts = False
    left_out: dict[str, int] = {}
    for part in parsed:
        names = names_of(part, options, path)
        left_out = added(left_out, names.left_out)
        if not names.table.is_empty():
            any_facts = True
            yield names.table
    for note in notes_on(left_out):
        logger.warning("%s: %s.", path, note)
    if not any_facts:
        raise DataError(f"{path}: expected facts between entities, found none; use literals='keep' to read literals.")
