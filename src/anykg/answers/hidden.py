"""Hide facts of a graph and ask for them back.

A few facts are hidden at a time, so that the rest stays like the graph; small graphs take several rounds. No entity
and no relation is left without facts. A hidden fact is ranked as in the `full` protocol: among all entities (or
relations), other known facts filtered.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anykg.answers.calibration import Evidence, evidence_of, group_of
from anykg.errors import DataError
from anykg.evaluation.protocol import PROTOCOLS, Target
from anykg.evaluation.reading import encode, rank_facts
from anykg.evaluation.strata import half_links
from anykg.graph.graph import HEAD, RELATION, TAIL, KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.progress import Progress, after, ignore
from anykg.seeds import generator

SHARE = 0.05
"""Of the facts, hidden at a time."""
TOP = 10
"""Answers to each question that probabilities are fitted to."""


@dataclass(frozen=True, eq=False)
class Recovery:
    """Q questions about hidden facts and the ranks of the right answers; and the A best answers to all questions."""

    facts: np.ndarray  # int64 [Q, 3], the hidden fact
    columns: np.ndarray  # int64 [Q], what was asked for: HEAD, RELATION or TAIL
    ranks: np.ndarray  # float64 [Q]
    scores: np.ndarray  # float32 [Q], of the right answer
    answers: np.ndarray  # int64 [Q], the best answer that is not a fact of the graph, -1 if there is none
    candidates: np.ndarray  # int64 [Q]
    strata: np.ndarray  # int64 [Q], index into STRATA
    given_away: np.ndarray  # bool [Q], whether a duplicate, inverse or symmetric fact of it stayed in the graph
    best_questions: np.ndarray  # int64 [A], equal for answers to one question
    best_facts: np.ndarray  # int64 [A, 3], the question with the answer filled in
    best_columns: np.ndarray  # int64 [A], what was asked for
    best_scores: np.ndarray  # float32 [A]
    best_leading: np.ndarray  # float32 [A]
    best_following: np.ndarray  # float32 [A]
    best_totals: np.ndarray  # float32 [A]
    best_answered: np.ndarray  # int64 [A]
    best_right: np.ndarray  # bool [A], whether the answer is a hidden fact

    def evidence(self, num_relations: int) -> Evidence:
        """The best answers as probabilities are learnt from them."""
        return Evidence(
            self.best_questions,
            group_of(self.best_facts, self.best_columns, num_relations),
            self.best_scores,
            self.best_leading,
            self.best_following,
            self.best_totals,
            self.best_answered,
        )


def hide(graph: KnowledgeGraph, facts: int, seed: int) -> list[tuple[KnowledgeGraph, KnowledgeGraph]]:
    """Rounds of (rest, hidden) with about `facts` hidden facts in all; raises `DataError` if none can be hidden."""
    at_once = max(1, round(SHARE * len(graph)))
    rounds: list[tuple[KnowledgeGraph, KnowledgeGraph]] = []
    before = np.zeros(len(graph), bool)
    while facts > 0:
        chosen = _draw(graph, before, min(at_once, facts), generator(seed, "hide", len(rounds)))
        if not chosen.any():
            break
        facts -= int(chosen.sum())
        before |= chosen
        rounds.append((graph.subset(~chosen), graph.subset(chosen)))
    if not rounds:
        raise DataError(
            f"None of the {len(graph)} facts can be hidden without leaving an entity or a relation without facts; "
            "a check needs a graph with more facts."
        )
    return rounds


def hide_together(graph: KnowledgeGraph, share: float, seed: int) -> tuple[KnowledgeGraph, KnowledgeGraph]:
    """(rest, hidden): a share of the facts hidden all at once; every entity and every relation keeps a fact."""
    chosen = _draw(graph, np.zeros(len(graph), bool), round(share * len(graph)), generator(seed, "hide together"))
    return graph.subset(~chosen), graph.subset(chosen)


def _draw(graph: KnowledgeGraph, before: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Bool [E]: at most `count` facts that were not hidden `before`, drawn one by one.

    Unlike `split.hold_out`, which keeps the first fact of everything, this also hides facts of entities with few facts.
    """
    chosen = np.zeros(len(graph), bool)
    entities = np.bincount(graph.triplets[:, [HEAD, TAIL]].ravel(), minlength=graph.num_entities)
    relations = np.bincount(graph.triplets[:, RELATION], minlength=graph.num_relations)
    left = count
    for row in rng.permutation(len(graph)):
        if not left:
            break
        if before[row]:
            continue
        head, relation, tail = graph.triplets[row]
        loop = int(head == tail)
        if entities[head] > 1 + loop and entities[tail] > 1 + loop and relations[relation] > 1:
            entities[head] -= 1
            entities[tail] -= 1
            relations[relation] -= 1
            chosen[row] = True
            left -= 1
    return chosen


def ask_back(
    model: LinkPredictor,
    rounds: list[tuple[KnowledgeGraph, KnowledgeGraph]],
    task: Target,
    twins: np.ndarray,
    progress: Progress = ignore,
    budget: int | None = None,
) -> Recovery:
    """Ask for both ends (or the relation) of every hidden fact.

    `twins` [T, 2] are pairs of relations that duplicate or invert each other; r + R is the inverse of r.
    """
    columns = (RELATION,) if task == "relation" else (TAIL, HEAD)
    total, done = len(columns) * sum(len(hidden) for _, hidden in rounds), 0
    parts: list[Recovery] = []
    for rest, hidden in rounds:
        encoded = encode(model, rest, budget)
        for column in columns:
            part = after(progress, done, total)
            parts.append(_ask(model, rest, hidden, column, twins, len(parts), encoded, part, budget))
            done += len(hidden)
    fields = {name: np.concatenate([getattr(part, name) for part in parts]) for name in Recovery.__dataclass_fields__}
    return Recovery(**fields)


def _ask(
    model: LinkPredictor,
    rest: KnowledgeGraph,
    hidden: KnowledgeGraph,
    column: int,
    twins: np.ndarray,
    number: int,
    encoded: object,
    progress: Progress,
    budget: int | None,
) -> Recovery:
    facts = hidden.triplets.astype(np.int64)
    known = rest.union(hidden)
    found = rank_facts(
        model, rest, facts, column, known=known, encoded=encoded, best=TOP, budget=budget, progress=progress
    )
    assert found.best is not None
    answers = np.full(int(found.questions.max(initial=-1)) + 1, -1)
    first = found.best.ranks == 1
    answers[found.best.questions[first]] = found.best.triplets[first, column]
    return Recovery(
        facts=facts,
        columns=np.full(len(facts), column),
        ranks=found.ranks.by(PROTOCOLS["full"].ties),
        scores=found.scores,
        answers=answers[found.questions],
        candidates=found.ranks.candidates,
        strata=half_links(rest, facts),
        given_away=given_away(rest, facts, twins),
        best_questions=number * 2**40 + found.best.questions,
        best_facts=found.best.triplets,
        best_columns=np.full(len(found.best.questions), column),
        best_scores=found.best.scores,
        best_leading=evidence_of(found.best, column, rest.num_relations).leading,
        best_following=found.best.following,
        best_totals=found.best.totals,
        best_answered=found.best.answered,
        best_right=hidden.contains(found.best.triplets),
    )


def given_away(rest: KnowledgeGraph, facts: np.ndarray, twins: np.ndarray) -> np.ndarray:
    """Bool [Q]: whether the two entities are still joined by a twin of the relation."""
    heads, relations, tails = facts.T
    width = 2 * rest.num_relations
    found = np.zeros(len(facts), bool)
    for first, second, offset in ((heads, tails, 0), (tails, heads, rest.num_relations)):
        between = rest.relations_between(first, second)
        same = np.isin(relations[between.rows] * width + between.values + offset, twins[:, 0] * width + twins[:, 1])
        found[between.rows[same]] = True
    return found
