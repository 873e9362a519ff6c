"""Export accepted facts in the formats of other tools; most are written by `anykg.io.write_back`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import polars as pl

from anykg.errors import DataError, InputError
from anykg.io.write_back.origin import Origin
from anykg.io.write_back.write import write_back
from anykg.web.decisions import Decision

COLUMNS = {
    "head": pl.String,
    "relation": pl.String,
    "tail": pl.String,
    "probability": pl.Float64,
    "model": pl.String,
    "decision": pl.String,
}
WRITTEN_BACK = {
    "nquads": ("application/n-quads", ".nq"),
    "quickstatements": ("text/plain; charset=utf-8", ".qs"),
    "kgx": ("text/tab-separated-values; charset=utf-8", "_edges.tsv"),
}
FORMATS = ("tsv", *WRITTEN_BACK, "jsonl")


class Export(NamedTuple):
    """A file to download."""

    content: bytes
    media_type: str
    suffix: str


def export(decisions: Sequence[Decision], format: str) -> Export:
    """Write decisions as tsv, nquads, quickstatements, kgx or jsonl."""
    if format not in FORMATS:
        raise InputError(f"format: expected {', '.join(FORMATS)}, found {format!r}.")
    if format == "jsonl":
        lines = "".join(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in decisions)
        return Export(lines.encode(), "application/jsonl", ".decisions.jsonl")
    if not decisions:
        raise InputError("There is nothing to export: no decision of this kind has been made yet.")
    return _tsv(decisions) if format == "tsv" else _written_back(decisions, format)


def _tsv(decisions: Sequence[Decision]) -> Export:
    """head, relation, tail, without a header, like the benchmarks."""
    for one in decisions:
        if any(mark in part for part in one.triple for mark in "\t\r\n"):
            raise InputError(
                f"TSV cannot hold the tab or line break in {' '.join(one.triple)!r}; export N-Quads or JSON lines."
            )
    text = "".join("\t".join(one.triple) + "\n" for one in decisions)
    return Export(text.encode(), "text/tab-separated-values; charset=utf-8", ".tsv")


def _written_back(decisions: Sequence[Decision], format: str) -> Export:
    rows = [(*one.triple, one.probability, one.model or None, "accepted") for one in decisions]
    table = pl.DataFrame(rows, schema=COLUMNS, orient="row")
    origin = Origin(date=max(one.time for one in decisions), accepted=True)
    media_type, suffix = WRITTEN_BACK[format]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"export{suffix}"
        try:
            write_back(table, path, origin=origin, format=format)
        except DataError as error:
            sentence = str(error).replace(f"{path}: ", "")
            raise DataError(sentence[:1].upper() + sentence[1:]) from error
        return Export(path.read_bytes(), media_type, suffix)
