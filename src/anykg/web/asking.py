"""The questions of page, HTTP interface and tools, asked of the public API: names in, JSON-ready answers out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import anykg
from anykg.answers import calibration
from anykg.errors import InputError
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.progress import Progress, ignore
from anykg.web.decisions import Triple
from anykg.web.explore import named

FEW_FACTS = 10
"""Hidden facts of a relation below which a share says little."""
COLUMNS = ("head", "relation", "tail")
Asked = Literal["head", "relation", "tail"]
Question = tuple[str | None, str | None, str | None]

FEATURES = {
    "fit": "Fitting needs a newer version of anykg.",
    "schema": "The schema needs a newer version of anykg.",
    "audit": "Auditing known facts needs a newer version of anykg.",
    "complete": "",
}


def features() -> dict[str, dict[str, Any]]:
    """Which parts of the public API are there, with a sentence for those that are not."""
    found = {}
    for name, sentence in FEATURES.items():
        available = hasattr(anykg, name)
        found[name] = {"available": available, "sentence": "" if available else sentence}
    return found


def open_column(question: Question) -> Asked | None:
    """What a question asks for; None if all three are given."""
    missing = [name for name, part in zip(COLUMNS, question, strict=True) if part is None]
    if len(missing) > 1:
        raise InputError(f"Expected two of head, relation and tail, found {3 - len(missing)}; {missing[0]} is missing.")
    return missing[0] if missing else None  # type: ignore[return-value]


def has_probabilities(graph: KnowledgeGraph, model: LinkPredictor, asked: Asked | None) -> bool:
    """Whether scores of this model on this graph can be turned into probabilities without more work."""
    task: Literal["node", "relation"] = "relation" if asked == "relation" else "node"
    return calibration.load(calibration.place_of(graph, model, task)) is not None


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
    found = anykg.predict(
        graph, questions=distinct, k=k, known=known, calibrated=calibrated, model=model, progress=progress, strict=True
    ).to_dict()
    by_question: dict[Question, list[dict[str, Any]]] = {question: [] for question in distinct}
    for row in found["rows"]:
        by_question[distinct[row["query"] - 1]].append(with_names(graph, row))
    return [
        {
            "asked": open_column(question),
            "calibrated": calibrated,
            "answers": [_answer(row) for row in by_question[question]],
            "none_of_these": None,
            "warnings": [],
        }
        for question in questions
    ]


def score_all(
    graph: KnowledgeGraph, model: LinkPredictor, facts: Sequence[Triple], *, progress: Progress = ignore
) -> dict[str, Any]:
    """How plausible given facts are."""
    found = anykg.score(graph, facts, model=model, progress=progress).to_dict()
    rows = [_answer(with_names(graph, row)) for row in found["rows"]]
    return {"asked": None, "calibrated": False, "answers": rows, "none_of_these": None, "warnings": found["warnings"]}


def _answer(row: dict[str, Any]) -> dict[str, Any]:
    wanted = (*COLUMNS, "score", "probability", "rank", "known", "tail_rank", "head_rank")
    return {name: row.get(name) for name in wanted} | {"decision": None}


def schema(graph: KnowledgeGraph) -> dict[str, Any]:
    """What the graph says of its relations; for `graph.derive`."""
    result: dict[str, Any] = getattr(anykg, "schema")(graph).to_dict()  # noqa: B009 - not in every version
    return result


def trust(report: dict[str, Any] | None, graph: KnowledgeGraph, relation: str) -> dict[str, Any] | None:
    """How a check went for one relation; None if it hid no fact of it."""
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


def explain(
    graph: KnowledgeGraph, model: LinkPredictor, fact: Triple, check: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Why the model believes a fact, with names and labels for everything that is drawn.

    `check` raises if nobody waits for the answer any more.
    """
    result = anykg.explain(graph, *fact, model=model)
    check()
    found = result.explanation
    content = result.summary()
    head, relation, tail = (int(part) for part in found.triplet)

    def triple(row: Any) -> dict[str, Any]:
        first, kind, last = (int(part) for part in row)
        return {
            "head": named(graph.entities, first),
            "relation": named(graph.relations, kind),
            "tail": named(graph.entities, last),
        }

    def shape(path: Any) -> str:
        steps = []
        for row, node in zip(path.facts, path.nodes[1:], strict=True):
            label = graph.relations.label(int(row[1]))
            steps.append(f"{label} →" if int(row[2]) == node else f"← {label}")
        return " ".join(steps)

    random_scores = [other.score for other in found.random]
    removed = found.removal
    reliable = not len(removed.facts) or not random_scores or removed.score < sum(random_scores) / len(random_scores)
    return {
        "head": named(graph.entities, head),
        "relation": named(graph.relations, relation),
        "tail": named(graph.entities, tail),
        "known": found.known,
        "score": found.score,
        "probability": None,
        "rank": found.rank,
        "candidates": found.candidates,
        "sentences": content.get("sentences", []),
        "facts": [],
        "paths": [
            {
                "facts": [triple(row) for row in path.facts],
                "nodes": [named(graph.entities, int(node)) for node in path.nodes],
                "effect": path.effect,
                "shape": shape(path),
            }
            for path in found.paths
        ],
        "rules": [
            {
                "text": str(match.clause),
                "facts": [triple(row) for row in match.facts],
                "support": match.support,
                "body": match.body,
            }
            for match in found.matches
        ],
        "runner_up": None,
        "without": {
            "count": len(removed.facts),
            "score": removed.score,
            "rank": removed.rank,
            "random_score": sum(random_scores) / len(random_scores) if random_scores else None,
            "random_rank": sum(other.rank for other in found.random) / len(random_scores) if random_scores else None,
        }
        if len(removed.facts)
        else None,
        "reliable": reliable,
        "warnings": list(result.warnings),
    }


# -- long work: (graph, model, settings, folder, progress) -> what the job's result file holds --------------------------

LongWork = Callable[[KnowledgeGraph, str, dict[str, Any], Path, Progress], dict[str, Any]]


def _check(graph: KnowledgeGraph, model: str, settings: dict[str, Any], _: Path, progress: Progress) -> dict[str, Any]:
    result: dict[str, Any] = anykg.check(graph, model=model, progress=progress, **settings).to_dict()
    return result


def _complete(
    graph: KnowledgeGraph, model: str, settings: dict[str, Any], folder: Path, progress: Progress
) -> dict[str, Any]:
    wanted = accepted_by(anykg.complete, settings)
    result: dict[str, Any] = anykg.complete(
        graph, model=model, state=folder / "state.npz", progress=progress, **wanted
    ).to_dict()
    return result


def _audit(graph: KnowledgeGraph, model: str, settings: dict[str, Any], _: Path, progress: Progress) -> dict[str, Any]:
    function = getattr(anykg, "audit")  # noqa: B009 - not in every version
    wanted = accepted_by(function, settings)
    result: dict[str, Any] = function(graph, model=model, progress=progress, **wanted).to_dict()
    return result


def _fit(graph: KnowledgeGraph, model: str, settings: dict[str, Any], _: Path, progress: Progress) -> dict[str, Any]:
    del model
    function = getattr(anykg, "fit")  # noqa: B009 - not in every version
    wanted = accepted_by(function, settings)
    result: dict[str, Any] = function(graph, progress=progress, **wanted).to_dict()
    return result


def accepted_by(function: Callable[..., Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that a function takes; others are left out."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in settings.items() if name in parameters}


LONG_WORK: dict[str, LongWork] = {"check": _check, "complete": _complete, "audit": _audit, "fit": _fit}
