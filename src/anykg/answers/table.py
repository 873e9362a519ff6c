"""A small table of answers that prints well and turns into what people use.

Columns: head, relation, tail, score (or probability), rank, known; before them, where several questions were asked,
`query`, the number of the question from 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from anykg.graph.graph import KnowledgeGraph
    from anykg.graph.vocabulary import Vocabulary

SHOWN_ROWS = 50
PLACES = ("head", "relation", "tail")


@dataclass(frozen=True, eq=False)
class Answers:
    """Rows in order: question by question, best first."""

    frame: pl.DataFrame
    labels: pl.DataFrame | None = None
    """What people call heads, relations and tails, where the graph says so; printed instead of the names."""

    def __len__(self) -> int:
        return self.frame.height

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.frame.iter_rows(named=True)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return self.frame.row(row, named=True)

    def without(self, column: str) -> Answers:
        """The same rows without a column."""
        return Answers(self.frame.drop(column), self.labels)

    def to_polars(self) -> pl.DataFrame:
        """The table as polars has it."""
        return self.frame

    def to_pandas(self) -> pd.DataFrame:
        """The table as pandas has it."""
        import pandas as pd

        return pd.DataFrame(self.frame.to_dict(as_series=False))

    def to_list(self) -> list[dict[str, Any]]:
        """A dictionary for each row."""
        return self.frame.to_dicts()

    def __repr__(self) -> str:
        from io import StringIO

        from rich.console import Console

        if not len(self):
            return "No answers."
        text = StringIO()
        Console(file=text, width=120).print(self.as_rich(SHOWN_ROWS))
        lines = [line.rstrip() for line in text.getvalue().splitlines()]
        if len(self) > SHOWN_ROWS:
            lines.append(f"... and {len(self) - SHOWN_ROWS:,} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return str(self._shown(SHOWN_ROWS)._repr_html_())

    def as_rich(self, rows: int | None = None) -> Table:
        """The first rows as a table for a terminal."""
        from rich.table import Table
        from rich.text import Text

        shown = self._shown(rows)
        measure = "probability" if "probability" in shown.columns else "score"
        numbers = [name for name in ("query", "rank", measure) if name in shown.columns]
        mark = bool(shown["known"].any()) if "known" in shown.columns else False
        table = Table(box=None, pad_edge=False)
        for name in numbers:
            table.add_column(name, justify="right")
        for name in (*PLACES, *([""] if mark else [])):
            table.add_column(name, overflow="fold")
        for row in shown.iter_rows(named=True):
            cells = [f"{row[name]:.2f}" if name == measure else f"{row[name]:,}" for name in numbers]
            known = ["known" if row["known"] else ""] if mark else []
            table.add_row(*cells, *(Text(row[place]) for place in PLACES), *known)
        return table

    def _shown(self, rows: int | None) -> pl.DataFrame:
        frame = self.frame if self.labels is None else self.frame.with_columns(self.labels)
        return frame if rows is None else frame.head(rows)


def table_of(graph: KnowledgeGraph, triplets: np.ndarray, columns: dict[str, Any]) -> Answers:
    """Answers from triplets [A, 3] as ids and other columns [A]."""
    vocabularies = (graph.entities, graph.relations, graph.entities)
    pairs = list(zip(PLACES, vocabularies, triplets.T, strict=True))
    front = {name: columns.pop(name) for name in ("query",) if name in columns}
    names = {place: vocabulary.names.gather(ids).alias(place) for place, vocabulary, ids in pairs}
    labels = None
    if any(vocabulary.labels is not None for vocabulary in vocabularies):
        labels = pl.DataFrame({place: _labels(vocabulary, ids) for place, vocabulary, ids in pairs})
    return Answers(pl.DataFrame(front | names | columns), labels)


def _labels(vocabulary: Vocabulary, ids: np.ndarray) -> pl.Series:
    names: pl.Series = vocabulary.names.gather(ids)
    return names if vocabulary.labels is None else vocabulary.labels.gather(ids).fill_null(names)
