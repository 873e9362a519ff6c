"""Read rejected triples from a list or a file, and look them up in a graph by name."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from anykg.answers.inputs import as_name
from anykg.errors import DataError, InputError
from anykg.graph.graph import KnowledgeGraph
from anykg.io.catalog import as_graph

Triple = tuple[str, str, str]
Negatives = Iterable[tuple[str, str, str]] | Path | str
"""Triples of names, a file of triples, or the decisions file of the web page, whose rejected facts are used."""


def read_negatives(source: Negatives) -> list[Triple]:
    """The rejected triples by name, each once."""
    if not isinstance(source, str | Path):
        rows = [tuple(as_name(part) for part in row) for row in source]
        wrong = next((row for row in rows if len(row) != 3), None)
        if wrong is not None:
            raise InputError(f"negatives: expected triples (head, relation, tail), found {wrong!r}.")
        return list(dict.fromkeys((head, relation, tail) for head, relation, tail in rows))
    path = Path(source)
    if not path.is_file():
        raise InputError(f"{path}: no such file; expected a file of rejected triples or of decisions.")
    decided = _decisions(path)
    return list(as_graph(path).to_polars().rows()) if decided is None else decided


def _decisions(path: Path) -> list[Triple] | None:
    """The triples of a decisions file whose latest decision is to reject; None if it is another kind of file."""
    stacks: dict[Triple, list[str]] = {}
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file):
            try:
                row = json.loads(line)
                triple, verdict = (str(row["head"]), str(row["relation"]), str(row["tail"])), row["verdict"]
            except (ValueError, KeyError, TypeError):
                if number == 0:
                    return None
                continue  # a line that was cut short was never acknowledged
            stack = stacks.setdefault(triple, [])
            if verdict != "undo":
                stack.append(verdict)
            elif stack:
                stack.pop()
    return [triple for triple, stack in stacks.items() if stack and stack[-1] == "reject"]


def find_negatives(graph: KnowledgeGraph, triples: list[Triple]) -> np.ndarray:
    """Ids [K, 3] of the triples whose names the graph has; raises `DataError` if it has none of them."""
    ids = [
        (graph.entities.find(head), graph.relations.find(relation), graph.entities.find(tail))
        for head, relation, tail in triples
    ]
    known = [row for row in ids if None not in row]
    if triples and not known:
        raise DataError(
            f"negatives: none of the {len(triples)} triples has names of the graph; the first is {triples[0]!r}. "
            "Use the "
            "names of the graph."
        )
    return np.array(known, np.int64).reshape(-1, 3)
