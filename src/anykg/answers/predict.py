"""Answer questions about a graph by name: (head, relation, ?), (?, relation, tail) or (head, ?, tail).

>>> predict("atlas", head="Kosovo", relation="in UN regional group", k=1)       # doctest: +SKIP
rank  score  head    relation              tail
   1   1.85  Kosovo  in UN regional group  Eastern European Group
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from anykg.answers import calibration
from anykg.answers.calibration import Curve
from anykg.answers.check import check
from anykg.answers.questions import Question, as_questions, ids_of, look_up
from anykg.answers.ranking import RELATION, Limits, Progress, best_answers
from anykg.answers.table import Answers, table_of
from anykg.errors import ConfigError, InputError
from anykg.evaluation.protocol import Task
from anykg.graph.graph import KnowledgeGraph
from anykg.io.catalog import load_graph
from anykg.models.base import LinkPredictor
from anykg.models.store import DEFAULT_MODEL, load_model

Asked = Question | Mapping[str, str | None] | Sequence[str | None]


def predict(
    graph: KnowledgeGraph | Path | str,
    *,
    head: str | None = None,
    relation: str | None = None,
    tail: str | None = None,
    questions: Iterable[Asked] | None = None,
    k: int = 10,
    known: bool = False,
    candidates: Iterable[str] | None = None,
    like_tails: bool = False,
    calibrated: bool = False,
    model: LinkPredictor | Path | str = DEFAULT_MODEL,
    progress: Progress | None = None,
) -> Answers:
    """The k best answers to one question, or to each of several.

    Args:
        graph: A graph, a file of triples, or a dataset's name.
        head: The subject. Two of head, relation and tail are given; the third is asked for.
        relation: The relation.
        tail: The object.
        questions: Many questions instead: (head, relation, tail) with None or "?" for what is asked, mappings, or
            Questions. One that is repeated is answered once; the column `query` says which a row belongs to.
        k: How many answers to each.
        known: Show known facts too, marked.
        candidates: Names of the only answers.
        like_tails: Answer only with entities that are already seen at that place of that relation.
        calibrated: Probabilities instead of scores, from the curve that `check` keeps; without one, it checks first.
        model: A model, a folder, the name of a shipped one, or a hub id.
        progress: Called with (done, total) questions.
    """
    if k < 1:
        raise ConfigError(f"Expected k of at least 1, found {k}.")
    several = questions is not None
    if questions is None:
        asked_by_name = [Question(head, relation, tail)]
    elif (head, relation, tail) != (None, None, None):
        raise ConfigError("Expected one question (head, relation, tail) or questions, found both.")
    else:
        asked_by_name = as_questions(questions)
    graph = graph if isinstance(graph, KnowledgeGraph) else load_graph(graph)
    model = model if isinstance(model, LinkPredictor) else load_model(model)
    asked = ids_of(graph, asked_by_name)
    first = _first_of_equals(asked)
    limits = limits_of(graph, asked, candidates, like_tails)
    best = best_answers(model, graph, asked[first], k=k, known=known, limits=limits, progress=progress)
    measure = {"score": best.scores}
    if calibrated:
        measure = {"probability": _probabilities(model, graph, asked[first][best.questions], best.scores, progress)}
    columns = measure | {"rank": best.ranks, "known": best.known}
    if several:
        columns = {"query": first[best.questions] + 1} | columns
    return table_of(graph, best.triplets, columns)


def curve_of(model: LinkPredictor, graph: KnowledgeGraph, task: Task, progress: Progress | None) -> Curve:
    """The curve kept from an earlier check, or from one made now."""
    kept = calibration.load(calibration.place_of(graph, model, task))
    return kept or check(graph, model=model, task=task, progress=progress).calibration


def _probabilities(
    model: LinkPredictor, graph: KnowledgeGraph, asked: np.ndarray, scores: np.ndarray, progress: Progress | None
) -> np.ndarray:
    """Probabilities [A] of scores [A] of answers to the questions asked [A, 3]."""
    result = np.zeros(len(scores), np.float32)
    of_relations = asked[:, RELATION] < 0
    tasks: list[tuple[Task, np.ndarray]] = [("relation", of_relations), ("node", ~of_relations)]
    for task, mine in tasks:
        if mine.any():
            result[mine] = curve_of(model, graph, task, progress)(scores[mine])
    return result


def limits_of(graph: KnowledgeGraph, asked: np.ndarray, candidates: Iterable[str] | None, like_tails: bool) -> Limits:
    """Candidates by name: entities for questions about entities, relations for those about relations."""
    of_relations = asked[:, 1] < 0
    if like_tails and of_relations.any():
        raise ConfigError(
            "--like-tails: is for questions that ask for an entity, but one asks for a relation; leave it out."
        )
    if candidates is None:
        return Limits(like=like_tails)
    names = list(candidates)
    entities = [name for name in names if name in graph.entities]
    relations = [name for name in names if name in graph.relations]
    vocabulary = graph.relations if of_relations.all() else graph.entities
    look_up(vocabulary, [name for name in names if name not in graph.entities and name not in graph.relations])
    for kind, wanted, found in (
        ("relation", of_relations.any(), relations),
        ("entity", not of_relations.all(), entities),
    ):
        if wanted and not found:
            raise InputError(f"A question asks for {_article(kind)}, but none of the {len(names)} candidates is one.")
    return Limits(look_up(graph.entities, entities), look_up(graph.relations, relations), like_tails)


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _first_of_equals(asked: np.ndarray) -> np.ndarray:
    """The rows that no earlier row equals, in order."""
    _, first = np.unique(asked, axis=0, return_index=True)
    return np.sort(first)
