"""Answer questions of the page, the HTTP API and the tools with the public API: names in, JSON-ready answers out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import anykg
from anykg.answers.calibrating.lookup import kept_calibration
from anykg.errors import InputError
from anykg.evaluation.protocol import Target
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.progress import Progress, ignore
from anykg.web.decisions import Triple

FEW_FACTS = 10
"""Number of hidden facts of a relation below which a share is uncertain."""
COLUMNS = ("head", "relation", "tail")
Asked = Literal["head", "relation", "tail"]
Question = tuple[str | None, str | None, str | None]


def open_column(question: Question) -> Asked | None:
    """The open column of a question; None if all three are given."""
    missing = [name for name, part in zip(COLUMNS, question, strict=True) if part is None]
    if len(missing) > 1:
        raise InputError(f"Expected two of head, relation and tail, found {3 - len(missing)}; {missing[0]} is missing.")
    return missing[0] if missing else None  # type: ignore[return-value]


def has_probabilities(graph: KnowledgeGraph, model: LinkPredictor, asked: Asked | None) -> bool:
    """Whether this model is calibrated on this graph: by a check, or when it was fitted.

    The probability of a relation is also compared with that of its fact, for which entities are asked.
    """
    tasks: tuple[Target, ...] = ("relation", "node") if asked == "relation" else ("node",)
    return all(kept_calibration(model, graph, task) is not None for task in tasks)


def with_names(graph: KnowledgeGraph, row: dict[str, Any]) -> dict[str, Any]:
    """A row whose head, relation and tail are names, with their labels."""
    vocabularies = (graph.entities, graph.relations, graph.entities)
    ends = {
        column: {"name": row[column], "label": vocabulary.label(vocabulary.index(row[column]))}
        for column, vocabulary in zip(COLUMNS, vocabularies, strict=True)
    }
    return row | ends


def predict_all(
    graph: KnowledgeGraph,
    model: LinkPredictor,
    questions: Sequence[Question],
    *,
    k: int,
    known: bool,
    calibrated: bool,
    progress: Progress = ignore,
) -> list[dict[str, Any]]:
    """The results of `predict` for several questions that predict the same column, as `to_dict()` returns them."""
    distinct = list(dict.fromkeys(questions))
    ask = partial(anykg.predict, graph, k=k, known=known, calibrated=calibrated, model=model, progress=progress)
    if len(distinct) == 1:
        [(head, relation, tail)] = distinct
        return [ask(head=head, relation=relation, tail=tail).to_dict()] * len(questions)
    together = ask(questions=distinct, strict=True)
    found = {question: together.of_question(number).to_dict() for number, question in enumerate(distinct, 1)}
    return [found[question] for question in questions]


def score_all(
    graph: KnowledgeGraph, model: LinkPredictor, facts: Sequence[Triple], *, progress: Progress = ignore
) -> dict[str, Any]:
    """The plausibility of given facts, by `score`."""
    return anykg.score(graph, facts, model=model, strict=True, progress=progress).to_dict()


def labels_of(
    graph: KnowledgeGraph, rows: Sequence[dict[str, Any]], question: Question = (None, None, None)
) -> dict[str, dict[str, str]]:
    """Labels, by name, of the entities and relations in rows and in a question, where they differ from the names."""
    triples = [question, *(tuple(row[column] for column in COLUMNS) for row in rows)]
    names = {
        "entities": {part for head, _, tail in triples for part in (head, tail) if part is not None},
        "relations": {relation for _, relation, _ in triples if relation is not None},
    }
    found: dict[str, dict[str, str]] = {}
    for kind, vocabulary in (("entities", graph.entities), ("relations", graph.relations)):
        labels = (
            {name: vocabulary.label(vocabulary.index(name)) for name in names[kind]} if vocabulary.num_labels else {}
        )
        found[kind] = {name: label for name, label in labels.items() if label != name}
    return found


def schema(graph: KnowledgeGraph) -> dict[str, Any]:
    """The schema of a graph, as `to_dict()` returns it; for `graph.derive`."""
    return anykg.schema(graph).to_dict()


def trust(report: dict[str, Any] | None, graph: KnowledgeGraph, relation: str) -> dict[str, Any] | None:
    """The result of a check for one relation; None if it hid no fact of it."""
    if report is None:
        return None
    label = graph.relations.label(graph.relations.index(relation))
    row = next((row for row in report["rows"] if row["group"] == "relation" and row["name"] == label), None)
    if row is None:
        return None
    facts, first = row["facts"], row["hits@1"]
    sentence = f"Of {facts:,} hidden facts of {label!r}, the check put the right answer first in {first:.0%}."
    if facts < FEW_FACTS:
        sentence += " With so few facts, this is only a rough estimate."
    return {"facts": facts, "first": first, "sentence": sentence}
