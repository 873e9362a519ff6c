"""Questions about a graph: triplets with one column left open, by name and as ids.

As ids, questions are int64 [Q, 3] with -1 in the open column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import polars as pl

from anykg.answers.inputs import Name, as_name
from anykg.errors import ConfigError, DataError, InputError, UnknownName
from anykg.graph.graph import COLUMNS, KnowledgeGraph
from anykg.io.read import read_names
from anykg.io.source import decode, load

OPEN = "?"
"""Marks the open column."""
SUGGESTED = 5
"""Unknown names in a batch that get suggestions, which are slow to compute."""


@dataclass(frozen=True)
class Question:
    """A triplet with one column left open."""

    head: str | None = None
    relation: str | None = None
    tail: str | None = None
    line: int | None = field(default=None, compare=False, repr=False)
    """Its line in a file."""

    def __post_init__(self) -> None:
        missing = [name for name in COLUMNS if getattr(self, name) is None]
        if len(missing) != 1:
            problem = f"{', '.join(missing)} missing" if missing else "all three given"
            raise ConfigError(f"Expected two of head, relation and tail, so that the third is asked for; {problem}.")

    def __str__(self) -> str:
        return f"({', '.join(getattr(self, column) or OPEN for column in COLUMNS)})"

    @classmethod
    def of(cls, parts: Sequence[Name | None], line: int | None = None) -> Question:
        """A question from head, relation and tail, one of them None, "" or "?"."""
        if len(parts) != 3:
            raise ConfigError(f"Expected (head, relation, tail) with one of them open, found {len(parts)} parts.")
        head, relation, tail = (None if part is None or part in ("", OPEN) else as_name(part) for part in parts)
        return cls(head, relation, tail, line)


QuestionLike = Question | Mapping[str, Name | None] | Sequence[Name | None]
"""A Question, a mapping with head, relation and tail, or a sequence of the three; None, "" or "?" is what is asked."""


class Skipped(NamedTuple):
    """A question that could not be asked."""

    query: int
    """Its number, from 1."""
    line: int | None
    """Its line in the file of questions."""
    question: str
    reason: str

    def __str__(self) -> str:
        return f"{f'line {self.line}' if self.line else f'question {self.query}'}: {self.reason}"


def as_questions(questions: Iterable[QuestionLike] | QuestionLike | Path | str) -> list[Question | Skipped]:
    """Questions from any of their forms, numbered in order; a malformed one is `Skipped`."""
    if isinstance(questions, str | Path):
        return read_questions(questions)
    if isinstance(questions, Question | Mapping) or (
        isinstance(questions, Sequence) and any(isinstance(part, str) for part in questions)
    ):
        questions = [cast(QuestionLike, questions)]
    return [_question(cast(QuestionLike, item), number) for number, item in enumerate(questions, 1)]


def read_questions(path: Path | str) -> list[Question | Skipped]:
    """The questions in a file: head, relation, tail with ? for what is asked, or JSON lines without that field."""
    source = load(path)
    if source.format == "jsonl":
        table, header = _json_lines(Path(path), source.data), False
    else:
        names = read_names(path)
        table, header = names.table, names.header
    lines = _line_numbers(decode(source), table.height, header) if source.format != "parquet" else None
    return [
        _question(parts, number, None if lines is None else lines[number - 1])
        for number, parts in enumerate(table.select(COLUMNS).iter_rows(), 1)
    ]


def _question(item: QuestionLike, number: int, line: int | None = None) -> Question | Skipped:
    if isinstance(item, Question):
        return item
    if isinstance(item, Mapping):
        unknown = sorted(set(item) - set(COLUMNS))
        if unknown:
            raise ConfigError(f"A question has head, relation and tail; found {', '.join(unknown)}.")
        item = [item.get(column) for column in COLUMNS]
    try:
        return Question.of(item, line)
    except ConfigError as error:
        text = ", ".join(OPEN if part is None else str(part) for part in item)
        return Skipped(number, line, f"({text})", str(error))


def _json_lines(path: Path, data: bytes) -> pl.DataFrame:
    try:
        return pl.read_ndjson(data, schema=dict.fromkeys(COLUMNS, pl.String))
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path}: expected a JSON object with two of head, relation and tail on each line.") from error


def _line_numbers(text: str, rows: int, header: bool) -> list[int] | None:
    """The line of each row; None if rows are not lines, as with line breaks in quotes."""
    filled = [number for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    filled = filled[1:] if header else filled
    return filled if len(filled) == rows else None


def read_name_list(path: Path | str) -> list[str]:
    """Names from a file, one per line; blank lines are skipped."""
    names = [line.rstrip("\r") for line in decode(load(path)).split("\n")]
    return [name for name in names if name.strip()]


def resolve(
    graph: KnowledgeGraph, questions: Sequence[Question | Skipped], *, strict: bool = False
) -> tuple[np.ndarray, list[Skipped]]:
    """The questions as ids [Q, 3], and those that cannot be asked, whose ids are all -1.

    The first of these raises if `strict`, or if no question can be asked.
    """
    ids = np.full((len(questions), 3), -1, dtype=np.int64)
    skipped: list[Skipped] = []
    first: InputError | None = None
    for row, question in enumerate(questions):
        try:
            if isinstance(question, Skipped):
                raise DataError(str(question))
            ids[row] = _ids(graph, question, suggest=len(skipped) < SUGGESTED)
        except InputError as error:
            first = first or error
            if strict:
                break
            asked = Skipped(row + 1, getattr(question, "line", None), str(question), str(error))
            skipped.append(question if isinstance(question, Skipped) else asked)
    if first is not None and (strict or len(skipped) == len(questions)):
        raise first
    return ids, skipped


def _ids(graph: KnowledgeGraph, question: Question, *, suggest: bool) -> list[int]:
    ids = []
    for column, vocabulary in zip(COLUMNS, (graph.entities, graph.relations, graph.entities), strict=True):
        name = getattr(question, column)
        found = -1 if name is None else vocabulary.find(name)
        if found is None:
            raise UnknownName(vocabulary.kind, name, vocabulary.nearest(name) if suggest else ())
        ids.append(found)
    return ids
