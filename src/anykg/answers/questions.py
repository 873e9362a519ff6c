"""Questions about a graph: triplets with one place left open, by name and as ids.

Asked ids are int64 [Q, 3] with -1 at the open place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from anykg.errors import ConfigError, DataError, UnknownName
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.io.read import read_names
from anykg.io.source import load

PLACES = ("head", "relation", "tail")
HEAD, RELATION, TAIL = range(3)
OPEN = "?"
"""Stands for what is asked in a file of questions."""


@dataclass(frozen=True)
class Question:
    """A triplet with one place left open."""

    head: str | None = None
    relation: str | None = None
    tail: str | None = None

    def __post_init__(self) -> None:
        missing = [name for name in PLACES if getattr(self, name) is None]
        if len(missing) != 1:
            found = f"left out {', '.join(missing)}" if missing else "all three were given"
            raise ConfigError(f"Expected two of head, relation and tail, so that the third is asked for; {found}.")

    def __str__(self) -> str:
        return f"({', '.join(getattr(self, place) or OPEN for place in PLACES)})"


def as_questions(asked: Iterable[Question | Mapping[str, str | None] | Sequence[str | None]]) -> list[Question]:
    """Questions from what stands for one: a Question, a mapping, or (head, relation, tail) with None or "?"."""
    if isinstance(asked, Question | Mapping) or (
        isinstance(asked, Sequence) and any(isinstance(p, str) for p in asked)
    ):
        asked = [asked]  # one question instead of several
    questions = []
    for item in asked:
        if isinstance(item, Question):
            questions.append(item)
            continue
        if isinstance(item, Mapping):
            unknown = sorted(set(item) - set(PLACES))
            if unknown:
                raise ConfigError(f"A question has head, relation and tail; found {', '.join(unknown)}.")
            parts = [item.get(place) for place in PLACES]
        else:
            parts = list(item)
        if len(parts) != 3:
            raise ConfigError(f"Expected (head, relation, tail) with one of them open, found {len(parts)} parts.")
        questions.append(Question(*(None if part in (None, "", OPEN) else part for part in parts)))
    return questions


def read_questions(path: Path | str) -> list[Question]:
    """The questions in a file: head, relation, tail with ? for what is asked, or JSON lines without that field."""
    source = load(path)
    table = _json_lines(Path(path), source.data) if source.format == "jsonl" else read_names(path).table
    questions = []
    for number, parts in enumerate(table.select(PLACES).iter_rows(), 1):
        open_places = [part for part in parts if part in (None, "", OPEN)]
        if len(open_places) != 1:
            found = ", ".join(str(part or OPEN) for part in parts)
            raise DataError(
                f"{path}: expected a ? for one of head, relation and tail in question {number}; found {found}."
            )
        questions.append(Question(*(None if part in (None, "", OPEN) else part for part in parts)))
    return questions


def _json_lines(path: Path, data: bytes) -> pl.DataFrame:
    try:
        table = pl.read_ndjson(data, schema=dict.fromkeys(PLACES, pl.String))
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path}: expected a JSON object with two of head, relation and tail on each line.") from error
    return table


def read_name_list(path: Path | str) -> list[str]:
    """Names from a file, one a line; blank lines are skipped."""
    from anykg.io.delimited import decode

    names = [line.rstrip("\r") for line in decode(load(path)).split("\n")]
    return [name for name in names if name.strip()]


def ids_of(graph: KnowledgeGraph, questions: Sequence[Question]) -> np.ndarray:
    """The asked ids [Q, 3]; the first unknown name raises, saying how many others there are."""
    asked = np.full((len(questions), 3), -1, dtype=np.int64)
    for place, vocabulary in zip(range(3), (graph.entities, graph.relations, graph.entities), strict=True):
        given = [(row, getattr(question, PLACES[place])) for row, question in enumerate(questions)]
        given = [(row, name) for row, name in given if name is not None]
        if given:
            asked[[row for row, _ in given], place] = look_up(vocabulary, [name for _, name in given])
    return asked


def look_up(vocabulary: Vocabulary, names: Sequence[str]) -> np.ndarray:
    """The ids [len(names)] of names or labels; unknown ones raise, the first with its nearest and the rest counted."""
    unknown = [name for name in dict.fromkeys(names) if name not in vocabulary]
    if len(unknown) > 1:
        try:
            vocabulary.index(unknown[0])
        except UnknownName as error:
            raise DataError(f"{error} {len(unknown) - 1:,} more of the names given are not there either.") from error
    return vocabulary.ids(names).astype(np.int64)
