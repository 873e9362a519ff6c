"""Read a raw dump as a stream, keeping only the ids of names; see `GraphBuilder`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from anykg.graph.builder import GraphBuilder
from anykg.graph.graph import KnowledgeGraph
from anykg.io.source import PART_BYTES
from anykg.io.stream import stream_names
from anykg.progress import Progress

Keep = Callable[[pl.Series], np.ndarray]
"""Which rows to keep, bool [B], by the names of their relations."""


def read_raw(
    path: Path | str,
    *,
    wanted: Keep | None = None,
    part_bytes: int = PART_BYTES,
    progress: Progress | None = None,
    **reading: Any,
) -> tuple[KnowledgeGraph, int]:
    """The graph in a file of any size, and the number of rows left out by `wanted`."""
    builder = GraphBuilder()
    left_out = 0
    for table in stream_names(path, part_bytes=part_bytes, progress=progress, **reading):
        if wanted is not None:
            kept = wanted(table["relation"])
            left_out += int((~kept).sum())
            table = table.filter(pl.Series(kept))
        builder.add(table)
    return builder.graph(), left_out
