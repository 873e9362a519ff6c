"""Answer the questions of page, HTTP interface and tools with the public API: names in, JSON-ready answers out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

import anykg
from anykg.answers.calibrated import kept_calibration
from anykg.answers.calibration import Calibration
from anykg.errors import InputError
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.progress import Progress, ignore
from anykg.web.decisions import Triple

FEW_FACTS = 10
"""Number of hidden facts of a relation below which a share is uncertain."""
LISTED = 20
"""Best answers among which the probability of a fact is looked up."""
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
    """Whether scores of this model on this graph can be turned into probabilities without more work."""
    return calibration_for(graph, model, asked) is not None


def calibration_for(graph: KnowledgeGraph, model: LinkPredictor, asked: Asked | None) -> Calibration | None:
    """The calibration, stored with a fitted model or cached by a check."""
    return kept_calibration(model, graph, "relation" if asked == "relation" else "node")


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
    """The answers to each of several questions that ask for the same column."""
    distinct = list(dict.fromkeys(questions))
    answers = anykg.predict(
        graph, questions=distinct, k=k, known=known, calibrated=calibrated, model=model, progress=progress, strict=True
    ).to_dict()
    by_question: dict[Question, list[dict[str, Any]]] = {question: [] for question in distinct}
    for row in answers["rows"]:
        by_question[distinct[row["query"] - 1]].append(with_names(graph, row))
    left = _none_of_these(answers["summary"].get("none_of_these"), distinct)
    return [
        {
            "asked": open_column(question),
            "calibrated": calibrated,
            "answers": [_answer(row) for row in by_question[question]],
            "none_of_these": left[question],
            "warnings": answers["warnings"],
        }
        for question in questions
    ]


def _none_of_these(stated: Any, questions: Sequence[Question]) -> dict[Question, float | None]:
    """By question, the probability that no entity of the graph answers it; rows of (query from 1, probability)."""
    probabilities: dict[Question, float | None] = dict.fromkeys(questions)
    for row in stated or ():
        probabilities[questions[row["query"] - 1]] = row["probability"]
    return probabilities


def score_all(
    graph: KnowledgeGraph, model: LinkPredictor, facts: Sequence[Triple], *, progress: Progress = ignore
) -> dict[str, Any]:
    """How plausible given facts are."""
    scored = anykg.score(graph, facts, model=model, progress=progress).to_dict()
    stated = probabilities(graph, model, facts, scored["rows"])
    rows = [
        _answer(with_names(graph, row)) | {"probability": value}
        for row, value in zip(scored["rows"], stated, strict=True)
    ]
    calibrated = any(value is not None for value in stated)
    return {
        "asked": None,
        "calibrated": calibrated,
        "answers": rows,
        "none_of_these": None,
        "warnings": scored["warnings"],
    }


def probabilities(
    graph: KnowledgeGraph, model: LinkPredictor, facts: Sequence[Triple], rows: Sequence[dict[str, Any]]
) -> list[float | None]:
    """The probability of each of some scored facts; None without a check.

    A fact that is among the best answers to its question has the probability of that answer.
    """
    stated: list[float | None] = [row.get("probability") for row in rows]
    calibration = calibration_for(graph, model, "tail")
    if not facts or calibration is None or any(value is not None for value in stated):
        return stated
    pooled = calibration(np.array([row["score"] for row in rows], np.float32))
    questions: list[Question] = [(head, relation, None) for head, relation, _ in facts]
    answered = predict_all(graph, model, questions, k=LISTED, known=False, calibrated=True)
    result: list[float | None] = []
    for (_, _, tail), answer, value in zip(facts, answered, pooled, strict=True):
        there = [one["probability"] for one in answer["answers"] if one["tail"]["name"] == tail]
        result.append(there[0] if there else float(value))
    return result


def _answer(row: dict[str, Any]) -> dict[str, Any]:
    columns = (*COLUMNS, "score", "probability", "rank", "known", "tail_rank", "head_rank")
    return {name: row.get(name) for name in columns} | {"decision": None}


def schema(graph: KnowledgeGraph) -> dict[str, Any]:
    """The schema of a graph; for `graph.derive`."""
    result = anykg.schema(graph)
    return {
        "relations": [
            {
                "relation": row.relation,
                "facts": row.facts,
                "heads": row.heads,
                "tails": row.tails,
                "statements": [
                    {"property": one.holds, "other": one.other, "support": one.support, "cases": one.cases}
                    for one in row.statements
                ],
                "head_kinds": [{"kind": one.kind, "share": one.share} for one in row.head_kinds],
                "tail_kinds": [{"kind": one.kind, "share": one.share} for one in row.tail_kinds],
            }
            for row in result.schema.relations
        ]
    }


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
        sentence += " That is few facts: take it as a hint."
    return {"facts": facts, "first": first, "sentence": sentence}
