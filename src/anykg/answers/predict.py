"""Answer questions about a graph by name: (head, relation, ?), (?, relation, tail) or (head, ?, tail).

>>> predict("atlas", head="Kosovo", relation="in UN regional group", k=1)
rank  score  head    relation              tail
   1   1.27  Kosovo  in UN regional group  Eastern European Group
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from anykg.answers import calibration
from anykg.answers.calibration import Calibration, evidence_of
from anykg.answers.check import FACTS, check
from anykg.answers.inputs import ModelLike, Name, graph_of, look_up, model_of
from anykg.answers.questions import Question, QuestionLike, as_questions, resolve
from anykg.answers.score import score
from anykg.answers.table import Answers, table_of
from anykg.errors import ConfigError, InputError, SettingError
from anykg.evaluation.protocol import Target
from anykg.evaluation.ranking import Best, Limits, best_answers, deduplicate
from anykg.graph.graph import RELATION, KnowledgeGraph
from anykg.io.catalog import GraphLike
from anykg.models.base import LinkPredictor
from anykg.models.mixture import Mixture
from anykg.models.store import DEFAULT_MODEL
from anykg.progress import Progress, ignore

logger = logging.getLogger("anykg")


def predict(
    graph: GraphLike,
    *,
    head: Name | None = None,
    relation: Name | None = None,
    tail: Name | None = None,
    questions: Iterable[QuestionLike] | Path | str | None = None,
    k: int = 10,
    known: bool = False,
    candidates: Iterable[Name] | None = None,
    like_tails: bool = False,
    calibrated: bool = False,
    strict: bool = False,
    model: ModelLike = DEFAULT_MODEL,
    progress: Progress = ignore,
) -> Answers:
    """Return the k best answers to one question, or to each of several.

    Args:
        graph: A graph, file, dataset name, DataFrame, NetworkX graph or list of triples.
        head: The subject. Give two of head, relation and tail; the third is asked for. With all three, the fact is
            scored and ranked as by `score`.
        relation: The relation.
        tail: The object.
        questions: Several questions instead: (head, relation, tail) with None or "?" for what is asked, mappings,
            Questions, or a file of them. Repeated questions are answered once; the column `query` says which question a
            row answers.
        k: Number of answers to each question.
        known: Include known facts, marked in the column `known`.
        candidates: The only names allowed as answers.
        like_tails: Allow only entities that the graph already has in that column of that relation.
        calibrated: Return probabilities instead of scores, from the curve of the last `check` of this graph and model;
            runs a check if there is none.
        strict: Raise at the first of several questions that cannot be asked, instead of listing them in `skipped`.
        model: A model, the name of a shipped one, a folder, or a hub id.
        progress: Called with (done, total) questions.
    """
    if k < 1:
        raise SettingError("k", f"expected at least 1, found {k}")
    given = (head, relation, tail)
    if questions is not None and any(part is not None for part in given):
        raise ConfigError("Expected one question (head, relation, tail) or questions, found both.")
    if head is not None and relation is not None and tail is not None:
        return score(graph, [(head, relation, tail)], model=model, progress=progress)
    asked = [Question.of(given)] if questions is None else as_questions(questions)
    loaded, info = graph_of(graph)
    scorer, name = model_of(model)
    ids, skipped = resolve(loaded, asked, strict=strict or questions is None)
    usable = np.flatnonzero((ids >= 0).any(1))
    first = usable[np.sort(deduplicate(ids[usable]).first)]
    limits = limits_of(loaded, ids[first], candidates, like_tails)
    best = best_answers(scorer, loaded, ids[first], k=k, known=known, limits=limits, progress=progress)
    measure = {"score": best.scores}
    if calibrated:
        measure = {"probability": probabilities(scorer, loaded, ids[first], best, progress)}
    columns = measure | {"rank": best.ranks, "known": best.known}
    if questions is not None:
        columns = {"query": first[best.questions] + 1} | columns
    warnings = _warnings(len(asked), len(skipped), len(usable) - len(first), len(first) - len(set(best.questions)))
    return table_of(
        loaded,
        best.triplets,
        columns,
        command="predict",
        info=info,
        model=name,
        skipped=tuple(skipped),
        warnings=(*(warnings if questions is not None else ()), *outgrown(scorer, loaded)),
    )


def outgrown(model: LinkPredictor, graph: KnowledgeGraph) -> list[str]:
    """A sentence for every component of a fitted model that does not know all names of the graph."""
    found = model.unknown_to(graph) if isinstance(model, Mixture) else {}
    return [
        f"{name} does not know {entities:,} of the entities and {relations:,} of the relations, which came after it "
        "was fitted; the other components answer about them. Run `anykg fit` again to include them."
        for name, (entities, relations) in found.items()
    ]


def calibration_of(
    model: LinkPredictor, graph: KnowledgeGraph, task: Target, progress: Progress = ignore
) -> Calibration:
    """The calibration that the model brings, the one kept from an earlier check, or one made now."""
    kept = kept_calibration(model, graph, task)
    return kept or check(graph, model=model, task=task, progress=progress).calibration


def kept_calibration(model: LinkPredictor, graph: KnowledgeGraph, task: Target) -> Calibration | None:
    """The calibration that the model brings or an earlier check has kept, of this graph or an earlier version of it."""
    own = calibration.own(model, task)
    if own is not None:
        return own
    kept = calibration.kept(graph, model, task)
    if kept is not None and kept.note is not None:
        logger.info("Probabilities are %s.", kept.note)
    return None if kept is None else kept.calibration


def announce_check(model: LinkPredictor, graph: KnowledgeGraph, task: Target, question: np.ndarray) -> None:
    """Say that a check comes first and about how long it takes, by the time that a question [3] takes."""
    started = time.perf_counter()
    best_answers(model, graph, question[None], k=1)
    questions = FACTS[task] * (1 if task == "relation" else 2)
    seconds = questions * (time.perf_counter() - started)
    logger.info(
        "No calibration of this model on this graph is kept, so a check comes first: %s questions about hidden facts, "
        "at most about %s. It is kept for later.",
        f"{questions:,}",
        f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min",
    )


def probabilities(
    model: LinkPredictor, graph: KnowledgeGraph, asked: np.ndarray, best: Best, progress: Progress = ignore
) -> np.ndarray:
    """Probabilities [A] of the best answers to questions asked [Q, 3]."""
    columns = np.argmin(asked, axis=1)[best.questions]  # -1 is what is asked for
    evidence = evidence_of(best, columns, graph.num_relations)
    result = np.zeros(len(best.scores), np.float32)
    tasks: list[tuple[Target, np.ndarray]] = [("relation", columns == RELATION), ("node", columns != RELATION)]
    for task, mine in tasks:
        if mine.any():
            found = kept_calibration(model, graph, task)
            if found is None:
                announce_check(model, graph, task, asked[best.questions[mine][0]])
                found = check(graph, model=model, task=task, progress=progress).calibration
            result[mine] = found.probabilities(evidence.take(np.flatnonzero(mine)), list(graph.relations))
    return result


def limits_of(graph: KnowledgeGraph, asked: np.ndarray, candidates: Iterable[Name] | None, like_tails: bool) -> Limits:
    """Candidates by name: entities for questions about entities, relations for those about relations."""
    of_relations = asked[:, RELATION] < 0
    if like_tails and of_relations.any():
        raise SettingError(
            "like_tails", "only applies to questions that ask for an entity, but one asks for a relation"
        )
    if candidates is None:
        return Limits(seen_only=like_tails)
    names = list(candidates)
    entities = [name for name in names if graph.entities.find(str(name)) is not None]
    relations = [name for name in names if graph.relations.find(str(name)) is not None]
    unknown = set(names) - set(entities) - set(relations)
    look_up(graph.relations if of_relations.all() else graph.entities, [name for name in names if name in unknown])
    for kind, wanted, found in (
        ("a relation", of_relations.any(), relations),
        ("an entity", not of_relations.all(), entities),
    ):
        if wanted and not found:
            raise InputError(f"A question asks for {kind}, but none of the {len(names)} candidates is one.")
    return Limits(look_up(graph.entities, entities), look_up(graph.relations, relations), like_tails)


def _warnings(questions: int, skipped: int, repeated: int, unanswered: int) -> list[str]:
    counts = {
        "could not be asked; see `skipped`": skipped,
        "are repeated; each is answered once": repeated,
        "have no answer": unanswered,
    }
    return [f"{count:,} of {questions:,} questions {what}." for what, count in counts.items() if count]
