"""Tables of facts and answers, as `predict`, `score` and `complete` return them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from anykg.answers.results import SHOWN_ROWS, GraphInfo, Result, cell_text
from anykg.graph.graph import COLUMNS

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from anykg.answers.questions import Skipped
    from anykg.graph.graph import KnowledgeGraph


ASKED = ("predict", "score")
"""Commands whose scores are those of answers to different questions."""
NONE_OF_THESE = "none of these"
"""Represents the answer in the last row of a list."""
NOTE_ON_SCORES = "Compare scores within one question only; across questions, use probabilities."


class OpenList(NamedTuple):
    """The last row of a list of answers: the probability that none of them is right."""

    query: int
    """The number of the question, from 1."""
    names: tuple[str | None, ...]
    """Head, relation and tail of the question; None in the open column."""
    labels: tuple[str | None, ...]
    """The same with labels, as printed."""
    none_of_these: float
    """The probability that no entity (or relation) of the graph, beyond the known answers, is an answer."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Answers(Result):
    """Facts with scores and ranks: for `predict`, question by question, best first.

    Columns: head, relation, tail, score (or probability), rank and known; before them, if several questions were asked,
    `query`, the number of the question from 1.
    """

    frame: pl.DataFrame
    labels: pl.DataFrame | None = None
    """Labels of heads, relations and tails, if the graph has labels; printed instead of the names."""
    skipped: tuple[Skipped, ...] = ()
    """Questions that could not be answered, or facts that could not be scored."""
    open_lists: tuple[OpenList, ...] = ()
    """For `predict` with probabilities: the last row of every list."""
    left_out: Mapping[int, int] | None = None
    """For `predict`: the number of known answers left out, by the number of the question; None if they are listed."""
    batch_warnings: tuple[str, ...] = ()
    """The warnings that concern several questions together."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further entries of the summary."""

    def __len__(self) -> int:
        return self.frame.height

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.frame.iter_rows(named=True)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return self.frame.row(row, named=True)

    def without(self, column: str) -> Answers:
        """Return the same rows without a column."""
        return replace(self, frame=self.frame.drop(column))

    def of_question(self, number: int) -> Answers:
        """Return the answers to one of several questions, by its number from 1, as if it had been asked alone."""
        mine = self.frame["query"] == number
        left_out = None if self.left_out is None else self.left_out.get(number)
        return replace(
            self,
            frame=self.frame.filter(mine).drop("query"),
            labels=None if self.labels is None else self.labels.filter(mine),
            skipped=(),
            open_lists=tuple(end._replace(query=1) for end in self.open_lists if end.query == number),
            left_out=None if left_out is None else {1: left_out},
            warnings=tuple(warning for warning in self.warnings if warning not in self.batch_warnings),
            batch_warnings=(),
        )

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a polars DataFrame."""
        return self.frame

    def rows_of_file(self) -> pl.DataFrame:
        """Return the rows with the last row of every list: "none of these" as the answer, without a rank."""
        if not self.open_lists:
            return self.frame
        several = "query" in self.frame.columns
        ends = [
            ({"query": end.query} if several else {})
            | {name: NONE_OF_THESE if part is None else part for name, part in zip(COLUMNS, end.names, strict=True)}
            | {"probability": end.none_of_these}
            for end in self.open_lists
        ]
        last = pl.DataFrame(ends, schema_overrides={name: self.frame.schema[name] for name in ends[0]})
        rows = pl.concat([self.frame, last], how="diagonal")
        return rows.sort("query", maintain_order=True) if several else rows

    def to_list(self) -> list[dict[str, Any]]:
        """Return a dictionary for each row."""
        return self.frame.to_dicts()

    def summary(self) -> dict[str, Any]:
        """Return the number of rows, the skipped questions or facts, and the known answers left out."""
        skipped = {"skipped": [part._asdict() for part in self.skipped]} if self.skipped else {}
        ends = self._by_question("probability", {end.query: end.none_of_these for end in self.open_lists})
        known = self._by_question("count", self.left_out or {})
        lists = {"known_left_out": known, "none_of_these": ends}
        return {"count": len(self)} | skipped | {name: part for name, part in lists.items() if part != []} | self.extra

    def _by_question(self, name: str, values: Mapping[int, float]) -> Any:
        """The value of the only question, or a list with that of each; an empty list without any."""
        if values and "query" not in self.frame.columns:
            return next(iter(values.values()))
        return [{"query": query, name: value} for query, value in values.items()]

    def renderables(self) -> list[RenderableType]:
        """Return the table, the number of rows it leaves out, and a note on how scores can be compared."""
        from rich.text import Text

        if not len(self):
            ends = [self.as_rich()] if self.open_lists else []
            return ["No answers.", *ends, *self._known_answers()]
        left = len(self) - SHOWN_ROWS
        parts: list[RenderableType] = [self.as_rich(SHOWN_ROWS), *([f"... and {left:,} more"] if left > 0 else [])]
        only_scores = "score" in self.frame.columns and "probability" not in self.frame.columns
        if only_scores and self.command in ASKED:
            parts.append(Text(NOTE_ON_SCORES, style="dim"))
        return [*parts, *self._known_answers()]

    def _known_answers(self) -> list[str]:
        """A line on how many known answers were left out, if any."""
        counts = [count for count in (self.left_out or {}).values() if count]
        if not counts:
            return []
        answers = "1 known answer is" if sum(counts) == 1 else f"{sum(counts):,} known answers are"
        of = f", in {len(counts):,} of {len(self.left_out or {}):,} lists" if "query" in self.frame.columns else ""
        them = "it" if sum(counts) == 1 else "them"
        return [f"{answers} left out{of}; known=True includes {them}."]

    def _repr_html_(self) -> str:
        return str(self._shown(SHOWN_ROWS)._repr_html_())

    def as_rich(self, rows: int | None = None) -> Table:
        """Return the first rows as a table for a terminal: figures before names."""
        from rich.table import Table
        from rich.text import Text

        shown = self._shown(rows)
        figures: list[str] = [name for name in ("query", "rank") if name in shown.columns]
        figures += [name for name in shown.columns if name not in (*figures, *COLUMNS, "known")]
        mark = bool(shown["known"].any()) if "known" in shown.columns else False
        table = Table(box=None, pad_edge=False)
        for name in figures:
            words = name.split("_")
            table.add_column(" ".join(words), justify="right", min_width=max(map(len, words)))
        for column in COLUMNS:
            table.add_column(column, overflow="fold")
        if mark:
            table.add_column("", no_wrap=True, min_width=len("known"))
        ends = {end.query: end for end in self.open_lists}
        query = None
        for row in shown.iter_rows(named=True):
            if query is not None and row.get("query", 1) != query and query in ends:
                table.add_row(*_last_row(ends.pop(query), figures))
            query = row.get("query", 1)
            known = ["known" if row["known"] else ""] if mark else []
            values = (f"{row[name]:,g}" if name.endswith("rank") else cell_text(row[name]) for name in figures)
            cells = (*values, *(cell_text(row[name]) for name in COLUMNS), *known)
            table.add_row(*map(Text, cells))
        if len(shown) == len(self):
            for end in ends.values():
                table.add_row(*_last_row(end, figures))
        return table

    def _shown(self, rows: int | None) -> pl.DataFrame:
        frame = self.frame if self.labels is None else self.frame.with_columns(self.labels)
        return frame if rows is None else frame.head(rows)


def _last_row(end: OpenList, figures: Sequence[str]) -> list[Text]:
    """Cells of the last row of a list."""
    from rich.text import Text

    values = {"query": str(end.query), "rank": "-", "probability": cell_text(end.none_of_these)}
    parts = (NONE_OF_THESE if part is None else cell_text(part) for part in end.labels)
    return [Text(text) for text in (*(values.get(name, "") for name in figures), *parts)]


def table_of(
    graph: KnowledgeGraph,
    triplets: np.ndarray,
    columns: dict[str, Any],
    *,
    command: str,
    info: GraphInfo | None = None,
    model: str | None = None,
    **more: Any,
) -> Answers:
    """Answers from triplets [A, 3] as ids and other columns [A]; `query` comes first."""
    vocabularies = (graph.entities, graph.relations, graph.entities)
    parts = list(zip(COLUMNS, vocabularies, triplets.T, strict=True))
    front = {name: values for name, values in columns.items() if name == "query"}
    rest = {name: values for name, values in columns.items() if name != "query"}
    names = {column: vocabulary.gather(ids).alias(column) for column, vocabulary, ids in parts}
    labels = None
    if any(vocabulary.num_labels for vocabulary in vocabularies):
        labels = pl.DataFrame({column: vocabulary.gather_labels(ids) for column, vocabulary, ids in parts})
    frame = pl.DataFrame(front | names | rest)
    return Answers(command=command, graph=info, model=model, frame=frame, labels=labels, **more)
