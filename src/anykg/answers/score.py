"""Score given facts: a score, a probability, and the rank of each end among all entities.

A known fact is scored on the graph without it, so that the model does not see the answer. Known facts are left out in
groups of at most 5% of the graph, so that the rest stays similar to the graph.

Each fact has two probabilities: that of the tail as an answer to (head, relation, ?), and that of the head as an answer
to (?, relation, tail). One of these questions is often more informative than the other: that someone lacks a birthplace
says more than that a city may lack one of many natives. The larger probability is returned, unless an end already has
its only fact of the relation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anykg.answers.calibrating.calibration import Calibration, Evidence, group_of
from anykg.answers.calibrating.lookup import calibration_of, kept_calibration
from anykg.answers.calibrating.missing import chance_of_answer, room_for
from anykg.answers.fitting.asked_before import has_seen
from anykg.answers.inputs import ModelLike, graph_of, model_of
from anykg.answers.questions import FactLike, as_facts, resolve
from anykg.answers.table import Answers, table_of
from anykg.evaluation.ranking import Ranked
from anykg.evaluation.ranks import Ties
from anykg.evaluation.reading import encode, note_on, rank_facts
from anykg.evaluation.scoring import questions_about
from anykg.graph.graph import HEAD, TAIL, KnowledgeGraph
from anykg.graph.schema import functional_shares
from anykg.io.catalog import GraphLike
from anykg.models.base import LinkPredictor
from anykg.models.folders import DEFAULT_MODEL
from anykg.progress import Progress, after, ignore

if TYPE_CHECKING:
    import polars as pl

SHARE = 0.05
"""Share of the facts that is left out at a time."""
SHOWN = 3
"""Number of facts that are shown with what they contradict."""


def score(
    graph: GraphLike,
    facts: Iterable[FactLike] | pl.DataFrame | Path | str,
    *,
    model: ModelLike = DEFAULT_MODEL,
    calibrated: bool = False,
    strict: bool = False,
    budget: int | None = None,
    progress: Progress = ignore,
) -> Answers:
    """Score facts, known or not, and rank both ends of each among all entities.

    Args:
        graph: A graph, file, dataset name, DataFrame, NetworkX graph or list of triples.
        facts: (head, relation, tail) rows, a DataFrame with these columns, or a file of facts.
        model: A model, the name of a shipped one, a folder, or a hub id.
        calibrated: Run a check first if the model has not been calibrated on this graph. Otherwise probabilities are
            only returned if it has.
        strict: Raise at the first of several facts with an unknown name, instead of listing them in `skipped`.
        budget: Number of facts read near each fact, as in `predict`.
        progress: Called with (done, total) questions.

    Returns:
        A row for each fact that is not skipped, in order: head, relation, tail, score, probability, if the model is
        calibrated, tail_rank, head_rank (1 is best, ties count half, other known facts do not count), known.
    """
    loaded, info = graph_of(graph)
    scorer, name = model_of(model)
    given = as_facts(facts)
    ids, skipped = resolve(loaded, given, strict=strict)
    triplets = ids[ids[:, HEAD] >= 0]
    known = loaded.contains(triplets) if len(triplets) else np.zeros(0, bool)
    curve = (calibration_of if calibrated else kept_calibration)(scorer, loaded, "node", budget=budget)
    scores, ranks = np.zeros(len(triplets), np.float32), {column: np.zeros(len(triplets)) for column in (TAIL, HEAD)}
    stated = {column: np.zeros(len(triplets), np.float32) for column in (TAIL, HEAD)}
    room, done = np.ones(len(triplets), np.float32), 0
    for rest, rows in _rounds(loaded, triplets, known):
        encoded = encode(scorer, rest, budget)
        if curve is not None:
            room[rows] = room_for(rest, triplets[rows].astype(np.int64))
        for column in (TAIL, HEAD):
            ranked = rank_facts(
                scorer,
                rest,
                triplets[rows],
                column,
                known=loaded,
                encoded=encoded,
                budget=budget,
                seen=True,
                standing=curve is not None,
                progress=after(progress, done, 2 * len(triplets)),
            )
            ranks[column][rows] = ranked.ranks.by(Ties.REALISTIC)
            if column == TAIL:
                scores[rows] = ranked.scores
            if curve is not None:
                stated[column][rows] = _probabilities(curve, rest, triplets[rows], column, ranked)
            done += len(rows)
    columns = {"score": scores, "tail_rank": ranks[TAIL], "head_rank": ranks[HEAD], "known": known}
    no_room = np.zeros(0, np.int64)
    if curve is not None:
        larger = np.maximum(stated[TAIL], stated[HEAD])
        no_room = np.flatnonzero(~known & (room < 0.5))
        columns = {"score": scores, "probability": np.minimum(larger, room)} | columns
    note = note_on(loaded, budget, "each fact", scorer)
    warnings = [f"{len(skipped):,} of {len(given):,} facts could not be scored."] if skipped else []
    warnings += _contradictions(loaded, triplets[no_room].astype(np.int64))
    warnings += [] if note is None else [note]
    if known.any() and has_seen(scorer, loaded):
        warnings.append(
            f"The model may have been fitted to {known.sum():,} of these facts, which then partly support "
            "themselves; `anykg audit` judges known facts by the other facts only."
        )
    return table_of(
        loaded,
        triplets,
        columns,
        command="score",
        info=info,
        model=name,
        skipped=tuple(skipped),
        warnings=tuple(warnings),
    )


def probabilities_of(
    model: LinkPredictor, graph: KnowledgeGraph, facts: np.ndarray, *, budget: int | None = None
) -> np.ndarray:
    """The probabilities [F] that `score` states for facts [F, 3] that the graph does not have."""
    curve, encoded = calibration_of(model, graph, "node", budget=budget), encode(model, graph, budget)
    tails, heads = (
        _probabilities(
            curve,
            graph,
            facts,
            column,
            rank_facts(
                model, graph, facts, column, known=graph, encoded=encoded, budget=budget, seen=True, standing=True
            ),
        )
        for column in (TAIL, HEAD)
    )
    return np.asarray(np.minimum(np.maximum(tails, heads), room_for(graph, facts)))


def _probabilities(
    curve: Calibration, graph: KnowledgeGraph, facts: np.ndarray, column: int, found: Ranked
) -> np.ndarray:
    """The probabilities [F] of facts as answers to questions that predict a column, at most that of the first."""
    assert found.standing is not None
    leading, following, totals, second, answered = found.standing
    rows = np.arange(len(facts))
    groups = group_of(facts, column, graph.num_relations)
    answers = Evidence(rows, groups, found.scores, leading, following, totals, answered)
    lists = Evidence(rows, groups, leading, leading, second, totals, answered)
    chances = chance_of_answer(graph, questions_about(facts, column))
    own, first = (curve.probabilities(part, list(graph.relations)) for part in (answers, lists))
    stated: np.ndarray = np.minimum(own, first) * curve.present(lists, chances).astype(np.float32)
    return stated


def _contradictions(graph: KnowledgeGraph, facts: np.ndarray) -> list[str]:
    """A warning about facts [F, 3] whose relation gives an end one answer, where another one is known."""
    if not len(facts):
        return []
    functional, r = graph.derive(functional_shares) > 0, graph.num_relations
    shown = []
    for head, relation, tail in facts[:SHOWN].tolist():
        known = graph.answers(np.array([head, tail]), np.array([relation, relation + r]))
        tails, heads = known[0], known[1]
        other = (head, int(tails[0])) if functional[relation] and len(tails) else (int(heads[0]), tail)
        names = [
            ", ".join((graph.entities.label(h), graph.relations.label(relation), graph.entities.label(t)))
            for h, t in ((head, tail), other)
        ]
        shown.append(f"({names[0]}), but ({names[1]}) is known")
    contradict = "1 fact contradicts" if len(facts) == 1 else f"{len(facts):,} facts contradict"
    more = f"; and {len(facts) - SHOWN:,} more" if len(facts) > SHOWN else ""
    return [f"{contradict} a known one, as the relation gives only one answer: {'; '.join(shown)}{more}."]


def _rounds(
    graph: KnowledgeGraph, triplets: np.ndarray, known: np.ndarray
) -> Iterator[tuple[KnowledgeGraph, np.ndarray]]:
    """Graphs to score on, and the rows of `triplets` [F, 3] to score on each."""
    unknown = np.flatnonzero(~known)
    if len(unknown):
        yield graph, unknown
    rows = np.flatnonzero(known)
    size = max(1, int(SHARE * len(graph)))
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        yield graph.without(triplets[part]), part
