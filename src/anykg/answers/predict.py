"""Answer questions about a graph by name: (head, relation, ?), (?, relation, tail) or (head, ?, tail).

>>> answers = predict("atlas", head="Malta", relation="on continent", k=1, known=True)
>>> answers.to_list()[0]["tail"]
'Europe'
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anykg.answers.asking import ask_many
from anykg.answers.calibrating.calibration import LEAST, evidence_of, falling, first_rows
from anykg.answers.calibrating.lookup import calibration_of
from anykg.answers.calibrating.missing import chance_for_kinds, chance_of_answer, room_for
from anykg.answers.inputs import ModelLike, Name, graph_of, look_up, model_of
from anykg.answers.questions import Fact, Question, QuestionLike, Skipped, asked_for, resolve
from anykg.answers.score import probabilities_of, score
from anykg.answers.table import Answers, OpenList, table_of
from anykg.answers.work import Subject
from anykg.cluster import Cluster, connected
from anykg.errors import InputError, SettingError
from anykg.evaluation.protocol import Target
from anykg.evaluation.ranking import Best, Limits
from anykg.evaluation.reading import note_on
from anykg.evaluation.scoring import deduplicate, known_answers
from anykg.graph.graph import RELATION, KnowledgeGraph
from anykg.io.catalog import GraphLike
from anykg.models.base import LinkPredictor
from anykg.models.folders import DEFAULT_MODEL
from anykg.models.mixture import Mixture
from anykg.progress import Progress, ignore

LIKELY = 0.05
"""Probability of a relation from which on it is compared with that of its fact."""
AT_ONCE = 256
"""Number of questions whose known answers are looked up together."""


def predict(
    graph: GraphLike,
    *,
    head: Name | None = None,
    relation: Name | None = None,
    tail: Name | None = None,
    questions: Iterable[QuestionLike | Skipped] | Path | str | None = None,
    k: int = 10,
    known: bool = False,
    candidates: Iterable[Name] | None = None,
    like_tails: bool = False,
    calibrated: bool = False,
    strict: bool = False,
    budget: int | None = None,
    model: ModelLike = DEFAULT_MODEL,
    cluster: Cluster | str | None = None,
    progress: Progress = ignore,
) -> Answers:
    """Return the k best answers to one question, or to each of several.

    Args:
        graph: A graph, file, dataset name, DataFrame, NetworkX graph or list of triples.
        head: The subject. Give two of head, relation and tail to predict the third. With all three, the fact is scored
            and ranked as by `score`.
        relation: The relation.
        tail: The object.
        questions: Several questions instead: (head, relation, tail) with None or "?" in the position to predict,
            mappings, Questions, or a file of them. The column `query` is the number of the question; duplicate
            questions are computed once.
        k: Number of answers to each question.
        known: Include known facts, marked in the column `known`. Otherwise `known_left_out` of the summary is their
            number.
        candidates: The only names allowed as answers.
        like_tails: Allow only entities that the graph already has in that column of that relation.
        calibrated: Return probabilities instead of scores, from the last `check` of this graph and model; runs a check
            if there is none. Every list then ends with `none_of_these`: the probability that no entity of the graph,
            beyond the known answers, is an answer. A tenth of all facts is assumed to be missing; the prior of a
            question without known answers follows from the entities of the same kind.
        strict: Raise at the first of several questions that cannot be answered, instead of listing them in `skipped`.
        budget: Number of facts read near the entities of a question, 0 for all. By default all facts of graphs of up to
            2,000,000 facts, and 200,000 of larger ones (with a warning), unless the model passes no messages or was
            made by `fit`. Entities outside cannot be answers.
        model: A model, the name of a shipped one, a folder, or a hub id.
        cluster: Address of a Ray cluster to run on: "auto", HOST:PORT, or "local" for all cores of this machine.
        progress: Called with (done, total) questions.
    """
    if k < 1:
        raise SettingError("k", f"expected at least 1, found {k}")
    asked = asked_for(head, relation, tail, questions)
    facts = [fact for fact in asked if not isinstance(fact, Question)]
    if questions is None and facts:
        if candidates is not None or like_tails:
            what = "like_tails" if candidates is None else "candidates"
            raise SettingError(what, "only applies to questions; found a complete fact")
        return score(graph, facts, model=model, calibrated=calibrated, budget=budget, progress=progress)
    loaded, info = graph_of(graph)
    scorer, name = model_of(model)
    ids, skipped = resolve(loaded, asked, strict=strict or questions is None)
    usable = np.flatnonzero((ids >= 0).any(1))
    ids = ids[usable]
    limits = limits_of(loaded, ids, candidates, like_tails)
    with connected(cluster) as workers:
        subject = Subject(loaded, scorer, budget)
        best = ask_many(subject, ids, k=k, known=known, limits=limits, cluster=workers, progress=progress)
        how: dict[str, Any] = {"budget": budget, "cluster": workers}
        stated = probabilities(scorer, loaded, ids, best, progress, **how) if calibrated else None
    measure, none = {"score": best.scores}, np.full(len(ids), np.nan)
    if stated is not None:
        measure = {"probability": stated.answers}
        none = stated.none if candidates is None and not like_tails else none
    columns = measure | {"rank": best.ranks, "known": best.known}
    if questions is not None:
        columns = {"query": usable[best.questions] + 1} | columns
    counts = (len(skipped), len(usable) - len(set(best.questions)))
    batch_warnings = () if questions is None else _warnings(len(asked), *counts)
    return table_of(
        loaded,
        best.triplets,
        columns,
        command="predict",
        info=info,
        model=name,
        skipped=tuple(skipped),
        open_lists=_open_lists(loaded, ids, usable + 1, none),
        left_out=None if known else dict(zip((usable + 1).tolist(), _known(loaded, ids, limits).tolist(), strict=True)),
        batch_warnings=batch_warnings,
        warnings=(
            *batch_warnings,
            *_note(loaded, asked[0] if questions is None else None, budget, scorer),
            *_unknown_names(scorer, loaded),
        ),
    )


def _note(
    graph: KnowledgeGraph, question: Question | Fact | Skipped | None, budget: int | None, model: LinkPredictor
) -> list[str]:
    """How much of the graph was read, if not all."""
    ends = [name for name in (question.head, question.tail) if name] if isinstance(question, Question) else []
    note = note_on(graph, budget, " and ".join(ends) or "each question's entities", model)
    return [] if note is None else [note]


def _unknown_names(model: LinkPredictor, graph: KnowledgeGraph) -> list[str]:
    """A warning for every component of a fitted model that does not know all names of the graph."""
    unknown = model.unknown_to(graph) if isinstance(model, Mixture) else {}
    return [
        f"{name} does not know {entities:,} of the entities and {relations:,} of the relations, which were added "
        "after it was fitted; the other components are used for them. Run `anykg fit` again to include them."
        for name, (entities, relations) in unknown.items()
    ]


class Stated(NamedTuple):
    """Probabilities of the best answers to Q questions."""

    answers: np.ndarray  # float32 [A]
    none: np.ndarray  # float64 [Q], that none of the graph's entities (or relations) is a missing answer


def probabilities(
    model: LinkPredictor,
    graph: KnowledgeGraph,
    asked: np.ndarray,
    best: Best,
    progress: Progress = ignore,
    *,
    budget: int | None = None,
    cluster: Cluster | None = None,
) -> Stated:
    """Probabilities of the best answers to questions asked [Q, 3], and of no further answer.

    The probability of an unknown answer is that of any missing answer, times that of this one if so. A functional
    relation whose one answer is known hardly has another one.
    """
    columns = np.argmin(asked, axis=1)  # -1 marks the open column
    chances = chance_of_answer(graph, asked)
    result, present = np.zeros(len(best.scores), np.float32), chances.copy()
    tasks: list[tuple[Target, np.ndarray]] = [("relation", columns == RELATION), ("node", columns != RELATION)]
    for task, questions in tasks:
        mine = np.flatnonzero(questions[best.questions])
        if not len(mine):
            continue
        calibration = calibration_of(model, graph, task, progress, budget=budget, cluster=cluster)
        evidence = evidence_of(best, columns[best.questions], graph.num_relations).take(mine)
        result[mine] = calibration.probabilities(evidence, list(graph.relations))
        novel = evidence.take(np.flatnonzero(~best.known[mine]))
        rows = novel.questions[first_rows(novel.questions)]
        present[rows] = calibration.present(novel, chances[rows])
    new = ~best.known
    result[new] *= present[best.questions[new]]
    related = np.flatnonzero((columns == RELATION)[best.questions] & new)
    if len(related):
        before = np.bincount(best.questions[related], result[related], minlength=len(asked))
        facts = best.triplets[related].astype(np.int64)
        result[related] *= room_for(graph, facts) * chance_for_kinds(graph, facts)
        likely = related[result[related] >= LIKELY]
        if len(likely):
            facts = best.triplets[likely].astype(np.int64)
            result[likely] = np.minimum(result[likely], probabilities_of(model, graph, facts, budget=budget))
        left = np.bincount(best.questions[related], result[related], minlength=len(asked))
        present *= np.where(before > 0, left / np.maximum(before, LEAST), 1.0)
    result[new] = falling(result[new], best.questions[new])
    np.maximum.at(present, best.questions[new], result[new])
    return Stated(result, 1 - present)


def _open_lists(
    graph: KnowledgeGraph, asked: np.ndarray, numbers: np.ndarray, none: np.ndarray
) -> tuple[OpenList, ...]:
    """The last rows of the lists of answers to questions asked [Q, 3] by their numbers [Q]."""
    vocabularies = (graph.entities, graph.relations, graph.entities)
    lists = []
    for row in np.flatnonzero(np.isfinite(none)):
        given = [(part, int(i)) for part, i in zip(vocabularies, asked[row], strict=True)]
        names = tuple(None if i < 0 else part[i] for part, i in given)
        labels = tuple(None if i < 0 else part.label(i) for part, i in given)
        lists.append(OpenList(int(numbers[row]), names, labels, float(none[row])))
    return tuple(lists)


def _known(graph: KnowledgeGraph, asked: np.ndarray, limits: Limits) -> np.ndarray:
    """The number of known answers [Q] to questions asked [Q, 3], among the allowed candidates."""
    distinct = deduplicate(asked)
    questions = distinct.questions
    counts = np.zeros(len(questions), np.int64)
    columns = np.argmin(questions, axis=1)
    for column in np.unique(columns):
        only = limits.relations if column == RELATION else limits.entities
        all_of = np.flatnonzero(columns == column)
        for first in range(0, len(all_of), AT_ONCE):
            mine = all_of[first : first + AT_ONCE]
            facts = known_answers(graph, questions[mine], int(column))
            usable = np.ones(len(facts.values), bool) if only is None else np.isin(facts.values, only)
            counts[mine] = np.bincount(facts.rows[usable], minlength=len(mine))
    found: np.ndarray = counts[distinct.which]
    return found


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
            raise InputError(f"A question asks for {kind}, but none of the {len(names)} candidates qualifies.")
    return Limits(look_up(graph.entities, entities), look_up(graph.relations, relations), like_tails)


def _warnings(questions: int, skipped: int, unanswered: int) -> tuple[str, ...]:
    counts = {"could not be answered": skipped, "have no answer": unanswered}
    return tuple(f"{count:,} of {questions:,} questions {what}." for what, count in counts.items() if count)
