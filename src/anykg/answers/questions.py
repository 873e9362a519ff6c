"""Questions about a graph: triplets with one column left open, by name and as ids; and facts to score, with none open.

As ids, questions are int64 [Q, 3] with -1 in the open column. A row of a batch that cannot be used, because it is
malformed or has an unknown name, is skipped and listed with its line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from anykg.answers.inputs import Name, as_name
from anykg.errors import ConfigError, DataError, InputError, UnknownName
from anykg.graph.graph import COLUMNS, KnowledgeGraph
from anykg.io.batch import Row, read_batch
from anykg.io.dialect import OPEN
from anykg.io.source import decode, load

if TYPE_CHECKING:
    import polars as pl

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
            found = f"found only {given[0]}" if (given := [n for n in COLUMNS if n not in missing]) else "found none"
            problem = "found all three" if not missing else found
            raise ConfigError(f"Expected two of head, relation and tail, to predict the third; {problem}.")

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
"""A Question, a mapping with head, relation and tail, or a sequence of the three; None, "" or "?" marks the open
column."""


class Fact(NamedTuple):
    """A triplet to score."""

    head: str
    relation: str
    tail: str
    line: int | None = None
    """Its line in a file."""

    def __str__(self) -> str:
        return f"({self.head}, {self.relation}, {self.tail})"


class Skipped(NamedTuple):
    """A question that could not be answered, or a fact that could not be scored."""

    query: int
    """Its number, from 1, as in the rows of answers: blank lines, comments and a header have none."""
    line: int | None
    """Its line in the file."""
    question: str
    reason: str

    @property
    def where(self) -> str:
        """Its number, and its line if it has one."""
        return self._where("question")

    def _where(self, kind: str) -> str:
        return f"{kind} {self.query} (line {self.line})" if self.line else f"{kind} {self.query}"

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class SkippedFact(Skipped):
    """A fact that could not be scored."""

    @property
    def where(self) -> str:
        """Its number, and its line if it has one."""
        return self._where("fact")


FactLike = Fact | Skipped | Sequence[Name]
"""A Fact, or head, relation and tail."""


def asked_for(
    head: Name | None,
    relation: Name | None,
    tail: Name | None,
    questions: Iterable[QuestionLike | Skipped] | QuestionLike | Path | str | None,
) -> list[Question | Fact | Skipped]:
    """The questions: one (or a fact to score) from head, relation and tail, or several."""
    given = (head, relation, tail)
    if questions is not None:
        if any(part is not None for part in given):
            raise ConfigError("Expected one question (head, relation, tail) or questions, found both.")
        return [*as_questions(questions)]
    whole = [part for part in given if part is not None]
    return [*as_facts([whole])] if len(whole) == len(given) else [Question.of(given)]


def as_questions(questions: Iterable[QuestionLike | Skipped] | QuestionLike | Path | str) -> list[Question | Skipped]:
    """Questions from any of their forms, numbered in order; a malformed one is `Skipped`.

    What it returns is taken as it is.
    """
    if isinstance(questions, str | Path):
        return read_questions(questions)
    if isinstance(questions, Question | Mapping) or (
        isinstance(questions, Sequence) and any(isinstance(part, str) for part in questions)
    ):
        questions = [cast(QuestionLike, questions)]
    return [_question(cast(QuestionLike, item), number) for number, item in enumerate(questions, 1)]


def read_questions(path: Path | str) -> list[Question | Skipped]:
    """The questions in a file: head, relation, tail with ? in the open column, or JSON lines without that field."""
    return [
        _question(row.parts, number, row.line) if row.malformed is None else _malformed(row, number)
        for number, row in enumerate(read_batch(path, open_fields=True), 1)
    ]


def as_facts(facts: Iterable[FactLike] | pl.DataFrame | Path | str) -> list[Fact | Skipped]:
    """Facts from a file, a DataFrame or (head, relation, tail) rows; one with a blank field is `Skipped`.

    What it returns is taken as it is.
    """
    if isinstance(facts, str | Path):
        return [
            _fact(row.parts, number, row.line) if row.malformed is None else _malformed(row, number, SkippedFact)
            for number, row in enumerate(read_batch(facts), 1)
        ]
    frame: Any = facts
    if hasattr(facts, "columns"):
        named = set(COLUMNS) <= set(frame.columns)
        columns = [list(frame[name]) for name in (COLUMNS if named else frame.columns)]
        if len(columns) != 3:
            raise DataError(f"Expected the columns head, relation and tail, found {len(columns)} columns.")
        rows: list[Any] = list(zip(*columns, strict=True))
    else:
        rows = list(facts)
        if len(rows) == 3 and all(isinstance(part, str) for part in rows):
            rows = [rows]
        rest = (row for row in rows if not isinstance(row, Fact | Skipped))
        wrong = next((row for row in rest if isinstance(row, str) or len(row) != 3), None)
        if wrong is not None:
            raise DataError(f"Expected (head, relation, tail) for each fact, found {wrong!r}.")
    return [_fact(row, number) for number, row in enumerate(rows, 1)]


def _fact(parts: Sequence[Any], number: int, line: int | None = None) -> Fact | Skipped:
    if isinstance(parts, Fact | Skipped):
        return parts
    blank = [name for name, part in zip(COLUMNS, parts, strict=True) if part is None or part == ""]
    if blank:
        text = ", ".join("" if part is None else str(part) for part in parts)
        return SkippedFact(
            number, line, f"({text})", f"Expected head, relation and tail; {' and '.join(blank)} missing."
        )
    head, relation, tail = (as_name(part) for part in parts)
    return Fact(head, relation, tail, line)


def _malformed(row: Row, number: int, kind: type[Skipped] = Skipped) -> Skipped:
    count, _, text = (row.malformed or "").partition(": ")
    return kind(number, row.line, text, f"The line has {count}.")


def _question(item: QuestionLike | Skipped, number: int, line: int | None = None) -> Question | Skipped:
    if isinstance(item, Question | Skipped):
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


def read_name_list(path: Path | str) -> list[str]:
    """Names from a file, one per line; blank lines are skipped."""
    names = [line.rstrip("\r") for line in decode(load(path)).split("\n")]
    return [name for name in names if name.strip()]


def resolve(
    graph: KnowledgeGraph, rows: Sequence[Question | Fact | Skipped], *, strict: bool = False
) -> tuple[np.ndarray, list[Skipped]]:
    """Questions or facts as ids [Q, 3], and those that cannot be used, whose ids are all -1.

    The first of these raises if `strict`, or if no row can be used.
    """
    ids = np.full((len(rows), 3), -1, dtype=np.int64)
    skipped: list[Skipped] = []
    first: InputError | None = None
    for index, row in enumerate(rows):
        try:
            if isinstance(row, Skipped):
                raise DataError(row.reason)
            ids[index] = _ids(graph, row, suggest=len(skipped) < SUGGESTED)
        except InputError as error:
            kind = SkippedFact if isinstance(row, Fact) else Skipped
            bad = row if isinstance(row, Skipped) else kind(index + 1, row.line, str(row), str(error))
            first = first or _located(error, bad, alone=len(rows) == 1)
            skipped.append(bad)
            if strict:
                break
    if first is not None and (strict or len(skipped) == len(rows)):
        raise first
    return ids, skipped


def _located(error: InputError, row: Skipped, *, alone: bool) -> InputError:
    """The error with the number and line of the row, unless it is the only one and has no line."""
    if row.line is None and alone:
        return error
    if isinstance(error, UnknownName):
        return UnknownName(error.kind, error.name, error.near, error.others, where=row.where, note=error.note)
    return DataError(str(row))


def _ids(graph: KnowledgeGraph, row: Question | Fact, *, suggest: bool) -> list[int]:
    ids = []
    for column, vocabulary in zip(COLUMNS, (graph.entities, graph.relations, graph.entities), strict=True):
        name = getattr(row, column)
        found = -1 if name is None else vocabulary.find(name)
        if found is None:
            raise vocabulary.unknown(name, suggest=suggest)
        ids.append(found)
    return ids
