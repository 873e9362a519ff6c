"""The questions of page, HTTP interface and tools, asked of the public API: names in, JSON-ready answers out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

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
CONTRASTED = 20
"""Answers among which the runner-up is looked for."""
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
    return calibration_of(graph, model, asked) is not None


def calibration_of(graph: KnowledgeGraph, model: LinkPredictor, asked: Asked | None) -> calibration.Calibration | None:
    """What turns scores into probabilities: brought by a fitted model, or kept from a check."""
    task: Literal["node", "relation"] = "relation" if asked == "relation" else "node"
    kept = calibration.kept(graph, model, task)
    return calibration.own(model, task) or (None if kept is None else kept.calibration)


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
    stated = probabilities(graph, model, facts, found["rows"])
    rows = [
        _answer(with_names(graph, row)) | {"probability": value}
        for row, value in zip(found["rows"], stated, strict=True)
    ]
    calibrated = any(value is not None for value in stated)
    return {
        "asked": None,
        "calibrated": calibrated,
        "answers": rows,
        "none_of_these": None,
        "warnings": found["warnings"],
    }


def probabilities(
    graph: KnowledgeGraph, model: LinkPredictor, facts: Sequence[Triple], rows: Sequence[dict[str, Any]]
) -> list[float | None]:
    """The probability of each of some scored facts; None without a check.

    A fact that is among the best answers to its question has the probability that it has there.
    """
    stated: list[float | None] = [row.get("probability") for row in rows]
    found = calibration_of(graph, model, "tail")
    if not facts or found is None or any(value is not None for value in stated):
        return stated
    pooled = found(np.array([row["score"] for row in rows], np.float32))
    questions: list[Question] = [(head, relation, None) for head, relation, _ in facts]
    answered = predict_all(graph, model, questions, k=CONTRASTED, known=False, calibrated=True)
    result: list[float | None] = []
    for (_, _, tail), answer, value in zip(facts, answered, pooled, strict=True):
        there = [one["probability"] for one in answer["answers"] if one["tail"]["name"] == tail]
        result.append(there[0] if there else float(value))
    return result


def _answer(row: dict[str, Any]) -> dict[str, Any]:
    wanted = (*COLUMNS, "score", "probability", "rank", "known", "tail_rank", "head_rank")
    return {name: row.get(name) for name in wanted} | {"decision": None}


def schema(graph: KnowledgeGraph) -> dict[str, Any]:
    """What the graph says of its relations; for `graph.derive`."""
    found = getattr(anykg, "schema")(graph)  # noqa: B009 - not in every version
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
            for row in found.schema.relations
        ]
    }


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
    ranked = predict_all(
        graph,
        model,
        [(fact[0], fact[1], None)],
        k=CONTRASTED,
        known=True,
        calibrated=has_probabilities(graph, model, "tail"),
        progress=lambda done, total: check(),
    )[0]["answers"]
    here = next((one for one in ranked if one["tail"]["name"] == fact[2]), None)
    other = next((one for one in ranked if one["tail"]["name"] != fact[2] and not one["known"]), None)
    removed, draws = found.removal, found.random
    mean = sum(one.score for one in draws) / len(draws) if draws else None
    words = _Words(graph, *(int(part) for part in found.triplet))
    rules = [
        {
            "text": words.rule(match.facts),
            "facts": [words.triple(row) for row in match.facts],
            "support": match.support,
            "body": match.body,
        }
        for match in found.matches
    ]
    return {
        **words.triple(found.triplet),
        "known": found.known,
        "score": found.score,
        "probability": here["probability"] if here and not found.known else None,
        "rank": found.rank,
        "candidates": found.candidates,
        "sentences": words.sentences(found.matches),
        "facts": [],
        "paths": [
            {
                "facts": [words.triple(row) for row in path.facts],
                "nodes": [named(graph.entities, int(node)) for node in path.nodes],
                "effect": path.effect,
                "shape": words.shape(path.facts, path.nodes),
            }
            for path in found.paths
        ],
        "rules": rules,
        "runner_up": None
        if other is None
        else other["tail"] | {"score": other["score"], "probability": other["probability"]},
        "without": {
            "count": len(removed.facts),
            "score": removed.score,
            "rank": removed.rank,
            "random_score": mean,
            "random_rank": sum(one.rank for one in draws) / len(draws) if draws else None,
        }
        if len(removed.facts)
        else None,
        "reliable": not len(removed.facts) or mean is None or removed.score < mean,
        "warnings": list(result.warnings),
    }


class _Words:
    """Facts around one triplet, told in the graph's words."""

    def __init__(self, graph: KnowledgeGraph, head: int, relation: int, tail: int) -> None:
        self.graph, self.head, self.relation, self.tail = graph, head, relation, tail

    def triple(self, row: Any) -> dict[str, Any]:
        """A fact with names and labels."""
        first, kind, last = (int(part) for part in row)
        ends = (named(self.graph.entities, first), named(self.graph.relations, kind), named(self.graph.entities, last))
        return dict(zip(COLUMNS, ends, strict=True))

    def rule(self, facts: Any) -> str:
        """The facts with letters for entities: X borders Z, Z in group Y: X in group Y."""
        letters = {self.head: "X", self.tail: "Y"}
        free = iter("ZWVUTSRQ")
        told = []
        for row in [*facts, (self.head, self.relation, self.tail)]:
            first, kind, last = (int(part) for part in row)
            for entity in (first, last):
                if entity not in letters:
                    letters[entity] = next(free, "N")
            told.append(f"{letters[first]} {self.graph.relations.label(kind)} {letters[last]}")
        return f"{', '.join(told[:-1])} ⇒ {told[-1]}"

    def shape(self, facts: Any, nodes: Any) -> str:
        """The relations of a path, with their directions."""
        steps = []
        for row, node in zip(facts, nodes[1:], strict=True):
            label = self.graph.relations.label(int(row[1]))
            steps.append(f"{label} →" if int(row[2]) == int(node) else f"← {label}")
        return " · ".join(steps)

    def sentences(self, matches: Any) -> list[str]:
        """The rule that holds most often, told with names."""
        counted = [match for match in matches if match.body]
        if not counted:
            return []
        best = max(counted, key=lambda match: match.share)
        graph = self.graph
        told = [
            f"{graph.entities.label(int(h))} {graph.relations.label(int(r))} {graph.entities.label(int(t))}"
            for h, r, t in best.facts
        ]
        return [f"{' and '.join(told)}; of {best.body:,} such pairs {best.support:,} agree."]


# -- long work: (graph, model, settings, folder, progress) -> what the result file of a job holds ---------------------

LongWork = Callable[[KnowledgeGraph, str, dict[str, Any], Path, Progress], dict[str, Any]]


def _check(graph: KnowledgeGraph, model: str, settings: dict[str, Any], _: Path, progress: Progress) -> dict[str, Any]:
    result: dict[str, Any] = anykg.check(graph, model=model, progress=progress, **settings).to_dict()
    return result


def _complete(
    graph: KnowledgeGraph, model: str, settings: dict[str, Any], folder: Path, progress: Progress
) -> dict[str, Any]:
    wanted = accepted_by(anykg.complete, settings)
    loaded = anykg.load_model(model)
    result: dict[str, Any] = anykg.complete(
        graph, model=loaded, state=folder / "state.npz", progress=progress, **wanted
    ).to_dict()
    facts = [(row["head"], row["relation"], row["tail"]) for row in result["rows"]]
    stated = probabilities(graph, loaded, facts, result["rows"])
    rows = [row | {"probability": value} for row, value in zip(result["rows"], stated, strict=True)]
    return result | {"rows": rows}


def _audit(graph: KnowledgeGraph, model: str, settings: dict[str, Any], _: Path, progress: Progress) -> dict[str, Any]:
    function = getattr(anykg, "audit")  # noqa: B009 - not in every version
    wanted = accepted_by(function, settings | {"model": model})
    result: dict[str, Any] = function(graph, progress=progress, **wanted).to_dict()
    return result


def _fit(graph: KnowledgeGraph, model: str, settings: dict[str, Any], _: Path, progress: Progress) -> dict[str, Any]:
    del model  # the foundation model is the shipped one: a fitted model is not fitted again
    function = getattr(anykg, "fit")  # noqa: B009 - not in every version
    fitted = function(graph, progress=progress, **accepted_by(function, settings))
    table = [dict(row) for row in fitted.config.table]
    by_name = {row["component"]: row for row in table}
    sentence = "Fitted."
    if "mixed" in by_name and "zero-shot" in by_name:
        before, after = by_name["zero-shot"]["mrr"], by_name["mixed"]["mrr"]
        sentence = f"On hidden facts of this graph the mean reciprocal rank rose from {before:.2f} to {after:.2f}."
    summary = {"sentence": sentence, "out": settings["out"]}
    return {"command": "fit", "summary": summary, "rows": table, "warnings": []}


def accepted_by(function: Callable[..., Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that a function takes; others are left out."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in settings.items() if name in parameters}


LONG_WORK: dict[str, LongWork] = {"check": _check, "complete": _complete, "audit": _audit, "fit": _fit}
