"""Determine how much of a graph is read per question: all of it, or a neighbourhood within a budget of facts.

The budget is a number of facts; 0 means all. With None it depends on the size of the graph: all facts up to `LARGE`,
`BUDGET` of them in larger graphs, unless the model reads whole graphs (`reads_whole_graphs`). A question is answered on
the neighbourhood of its entities (`graph.neighbourhood`) like on any graph; entities outside cannot be answers and are
ranked, tied, below all others. Questions about the same entities share a neighbourhood.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from anykg.errors import SettingError
from anykg.evaluation import ranking, scoring
from anykg.evaluation.ranking import Best, Limits, Ranked, Standing, relations_with_loops
from anykg.evaluation.ranks import Ranks
from anykg.evaluation.scoring import deduplicate, known_answers, questions_about
from anykg.graph.graph import HEAD, RELATION, TAIL, KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.progress import Progress, ignore
from anykg.threads import num_threads, threads

if TYPE_CHECKING:
    from anykg.graph.neighbourhood import Neighbourhood

T = TypeVar("T")

LARGE = 2_000_000
"""Graphs with more facts than this are only read in part, unless a budget is given."""
BUDGET = 200_000
"""The default budget for these graphs."""
AT_ONCE = 8
"""Maximum number of neighbourhoods read in parallel; each takes some hundred megabytes."""


def budget_of(graph: KnowledgeGraph, budget: int | None, model: LinkPredictor | None = None) -> int | None:
    """The number of facts of a graph that are read per question with a model; None for all."""
    if budget is not None and budget < 0:
        raise SettingError("budget", f"expected a number of facts, or 0 for all, found {budget}")
    if budget is None:
        whole = model is not None and model.reads_whole_graphs
        budget = BUDGET if len(graph) > LARGE and not whole else 0
    return None if budget == 0 or budget >= len(graph) else budget


def note_on(graph: KnowledgeGraph, budget: int | None, near: str, model: LinkPredictor | None = None) -> str | None:
    """Warnings for results: how much of the graph was read, if not all, and remarks of the model."""
    most, notes = budget_of(graph, budget, model), []
    if most is not None:
        notes.append(f"Answered from about {most:,} of {len(graph):,} facts near {near}; budget=0 reads all of them.")
    remark = None if model is None else model.remark(graph)
    return " ".join(notes + ([] if remark is None else [remark])) or None


def encode(model: LinkPredictor, graph: KnowledgeGraph, budget: int | None = None) -> Any:
    """The model's encoding of a graph; None if neighbourhoods are read, which are encoded individually."""
    return scoring.encode(model, graph) if budget_of(graph, budget, model) is None else None


def neighbourhoods(
    graph: KnowledgeGraph, triplets: np.ndarray, budget: int, also: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, Neighbourhood]]:
    """The rows of triplets [Q, 3], -1 in open columns, about the same entities, and the part of the graph near them.

    The entities `also` are in every part.
    """
    return _from_parts(graph, triplets, budget, also, lambda rows, part: (rows, part))


def _from_parts(
    graph: KnowledgeGraph,
    triplets: np.ndarray,
    budget: int,
    also: np.ndarray | None,
    answer: Callable[[np.ndarray, Neighbourhood], T],
) -> Iterator[T]:
    """`answer(rows, part)` for each of the `neighbourhoods`, in their order.

    Several parts are chosen and read at once, each on one thread: a part is too small to occupy more.
    """
    from anykg.graph.neighbourhood import adjacency, neighbourhood

    ends = np.sort(triplets[:, [HEAD, TAIL]], axis=1)
    groups, which = np.unique(ends, axis=0, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    bounds = np.searchsorted(which.reshape(-1)[order], np.arange(len(groups) + 1))

    def read(index: int) -> T:
        entities, rows = groups[index], order[bounds[index] : bounds[index + 1]]
        relations = triplets[rows, RELATION]
        asked = None if (relations < 0).any() else relations
        return answer(rows, neighbourhood(graph, entities[entities >= 0], asked, budget, also=also))

    def read_alone(index: int) -> T:
        with threads(torch=1, kernels=1):
            return read(index)

    count = min(num_threads(), AT_ONCE, len(groups))
    if count <= 1:
        yield from map(read, range(len(groups)))
        return
    graph.derive(adjacency)  # once, before the threads ask for it
    with ThreadPoolExecutor(count) as pool:
        started: deque[Future[T]] = deque()
        try:
            for index in range(len(groups)):
                started.append(pool.submit(read_alone, index))
                if len(started) > count:
                    yield started.popleft().result()
            while started:
                yield started.popleft().result()
        finally:
            for waiting in started:
                waiting.cancel()


def best_answers(
    model: LinkPredictor,
    graph: KnowledgeGraph,
    questions: np.ndarray,
    *,
    k: int = 10,
    known: bool = False,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    budget: int | None = None,
    encoded: Any = None,
    progress: Progress = ignore,
) -> Best:
    """Like `ranking.best_answers`, within a budget."""
    most = budget_of(graph, budget, model)
    if most is None:
        return ranking.best_answers(
            model, graph, questions, k=k, known=known, limits=limits, encoded=encoded, progress=progress
        )
    model = graph.derive(_fixed, model)
    distinct = deduplicate(questions)

    def answer(rows: np.ndarray, part: Neighbourhood) -> tuple[int, Best]:
        asked = distinct.questions[rows]
        best = ranking.best_answers(
            model, part.graph, part.inside(asked), k=k, known=known, limits=_inside(graph, limits, asked, part)
        )
        answered = np.zeros(len(asked), np.int64)
        for column in (HEAD, RELATION, TAIL):
            mine = np.flatnonzero(asked[:, column] < 0)
            answered[mine] = _answered(graph, asked[mine], column)
        moved = best._replace(
            questions=rows[best.questions],
            triplets=part.outside(best.triplets),
            answered=answered[best.questions],
        )
        return len(rows), moved

    parts: list[Best] = []
    done = 0
    for count, best in _from_parts(graph, distinct.questions, most, limits.entities, answer):
        parts.append(best)
        done += count
        progress(done, len(distinct.questions))
    return ranking.in_order(parts, distinct)


def rank_facts(
    model: LinkPredictor,
    graph: KnowledgeGraph,
    facts: np.ndarray,
    column: int,
    *,
    known: KnowledgeGraph,
    budget: int | None = None,
    seen: bool = False,
    encoded: Any = None,
    best: int = 0,
    standing: bool = False,
    progress: Progress = ignore,
) -> Ranked:
    """Like `ranking.rank_facts`, within a budget.

    A fact whose answer is outside the neighbourhood of its question has the score -inf. With `seen`, neighbourhoods
    are chosen around the answers as well, so that every fact has a score.
    """
    most = budget_of(graph, budget, model)
    if most is None:
        return ranking.rank_facts(
            model, graph, facts, column, known=known, encoded=encoded, best=best, standing=standing, progress=progress
        )
    model = graph.derive(_fixed, model)
    distinct = deduplicate(questions_about(facts, column))
    ranks, scores = np.zeros((len(facts), 3), np.int64), np.zeros(len(facts), np.float32)
    stand = np.zeros((len(facts), len(Standing._fields)), np.float32)
    limits = Limits(loops=graph.derive(relations_with_loops))
    triplets = facts.astype(np.int64) if seen else distinct.questions[distinct.which]

    def answer(rows: np.ndarray, part: Neighbourhood) -> tuple[int, Best | None]:
        local, behind = _known_inside(known, triplets[rows], column, part)
        asked = part.inside(facts[rows])
        found = ranking.rank_facts(
            model, part.graph, asked, column, known=local, best=best, standing=standing, limits=limits
        )
        absent = asked[:, column] < 0
        behind -= absent & ~known.contains(facts[rows])  # the others: known answers are not among them
        ties = np.where(absent, behind, found.ranks.ties)
        ranks[rows] = np.stack([found.ranks.better, ties, found.ranks.candidates + behind], axis=1)
        scores[rows] = found.scores
        answered = _answered(graph, questions_about(facts[rows], column), column)
        if found.standing is not None:
            stand[rows] = np.stack(found.standing._replace(answered=answered), axis=1)
        if found.best is None:
            return len(rows), None
        number = np.zeros(int(found.questions.max(initial=-1)) + 1, np.int64)
        number[found.questions] = distinct.which[rows]
        of_question = np.zeros(len(number), np.int64)
        of_question[found.questions] = answered
        top, asks = found.best, found.best.questions
        whole = part.outside(top.triplets)
        return len(rows), top._replace(questions=number[asks], triplets=whole, answered=of_question[asks])

    tops: list[Best] = []
    done = 0
    for count, top in _from_parts(graph, triplets, most, None, answer):
        tops += [] if top is None else [top]
        done += count
        progress(done, len(facts))
    leading, following, totals, second, answered = stand.T
    where = Standing(leading, following, totals, second, answered.astype(np.int64)) if standing else None
    return Ranked(Ranks(*ranks.T), scores, distinct.which, ranking.joined(tops) if best else None, where)


def _fixed(graph: KnowledgeGraph, model: LinkPredictor) -> LinkPredictor:
    """The model for parts of a graph; anything it learns from a graph is learnt once, from the whole graph."""
    return model.fixed_to(graph)


def _answered(graph: KnowledgeGraph, questions: np.ndarray, column: int) -> np.ndarray:
    """The number of answers [B] to questions [B, 3] that are known in the whole graph."""
    return np.diff(known_answers(graph, questions, column).offsets)


def _inside(graph: KnowledgeGraph, limits: Limits, asked: np.ndarray, part: Neighbourhood) -> Limits:
    """The limits on answers to questions [B, 3] with the ids of a part; facts are those of the whole graph."""
    from anykg.graph.neighbourhood import facts_of

    entities = None if limits.entities is None else np.searchsorted(part.entities, limits.entities)
    seen = {}
    for column in (HEAD, TAIL) if limits.seen_only else ():
        for relation in np.unique(asked[asked[:, column] < 0, RELATION]):
            ends = graph.triplets[facts_of(graph, int(relation)), column]
            seen[int(relation), column] = np.flatnonzero(np.isin(part.entities, ends))
    loops = graph.derive(relations_with_loops)
    return replace(limits, entities=entities, seen=seen if limits.seen_only else None, loops=loops)


def _known_inside(
    known: KnowledgeGraph, asked: np.ndarray, column: int, part: Neighbourhood
) -> tuple[KnowledgeGraph, np.ndarray]:
    """The known answers to questions [B, 3] in a part, as a graph, and the number [B] of other candidates outside."""
    questions = questions_about(asked, column)
    answers = known_answers(known, questions, column)
    facts = questions[answers.rows]
    facts[:, column] = answers.values
    facts = part.inside(facts)
    there = (facts >= 0).all(1)
    if column == RELATION:
        return part.graph.with_triplets(facts), np.zeros(len(asked), np.int64)
    taken = np.bincount(answers.rows[~there], minlength=len(asked))
    return part.graph.with_triplets(facts[there]), known.num_entities - len(part.entities) - taken
