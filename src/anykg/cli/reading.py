"""How to read a file of triples, as options of several commands."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from anykg.data.catalog import Reading


class Literals(StrEnum):
    """What becomes of statements about literals."""

    DROP = "drop"
    KEEP = "keep"


def reading_of(columns: str | None, separator: str | None, literals: Literals | None, labels: Path | None) -> Reading:
    """Only the options that were given."""
    reading: Reading = {}
    if columns is not None:
        reading["columns"] = columns
    if separator is not None:
        reading["separator"] = separator
    if literals is not None:
        reading["literals"] = literals.value
    if labels is not None:
        reading["labels"] = labels
    return reading
