"""Hide facts of a graph and ask for them back.

A few facts at a time are hidden, so that the graph stays what it is; small graphs are asked several times over. No
entity and no relation is left without facts. A hidden fact is ranked as in the `full` protocol: among all entities (or
relations), other known facts left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from anykg.answers.ranking import HEAD, RELATION, TAIL, Progress, scored, top
from anykg.errors import DataError
from anykg.evaluation.protocol import PROTOCOLS, Task
from anykg.evaluation.ranks import rank
from anykg.evaluation.strata import half_links
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.seeds import stream

SHARE = 0.05
"""Of the facts, hidden at a time."""
TOP = 10
"""Answers of each question that probabilities are fitted to."""


@dataclass(frozen=True, eq=False)
class Asked:
    """Q questions about hidden facts and how they were answered, and the A best answers to all of them."""

    facts: np.ndarray  # int64 [Q, 3], the hidden fact
    places: np.ndarray  # int64 [Q], what was asked for: HEAD, RELATION or TAIL
    ranks: np.ndarray  # float64 [Q]
    candidates: np.ndarray  # int64 [Q]
    strata: np.ndarray  # int64 [Q], index into STRATA
    given_away: np.ndarray  # bool [Q], whether a relation that says the same stayed
    best_questions: np.ndarray  # int64 [A], equal for answers to one question
    best_scores: np.ndarray  # float32 [A]
    best_right: np.ndarray  # bool [A], whether the answer is a hidden fact


def hide(graph: KnowledgeGraph, facts: int, seed: int) -> list[tuple[KnowledgeGraph, KnowledgeGraph]]:
    """Rounds of (rest, hidden), about `facts` hidden ones together; raises where none can be hidden."""
    at_once = max(1, round(SHARE * len(graph)))
    rounds: list[tuple[KnowledgeGraph, KnowledgeGraph]] = []
    before = np.zeros(len(graph), bool)
    while facts > 0:
        chosen = _draw(graph, before, min(at_once, facts), stream(seed, "hide", len(rounds)))
        if not chosen.any():
            break
        facts -= int(chosen.sum())
        before |= chosen
        rounds.append((graph.subset(~chosen), graph.subset(chosen)))
    if not rounds:
        raise DataError(
            f"None of the {len(graph)} facts can be hidden without leaving an entity or a relation without any; "
            "a graph needs more facts for each of them to be checked."
        )
    return rounds


def _draw(graph: KnowledgeGraph, before: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """Bool [E]: at most `count` facts, one after the other from all that may go and were not hidden `before`.

    `split.hold_out` keeps the first fact of everything, which spares entities of few facts; those are asked about too.
    """
    chosen = np.zeros(len(graph), bool)
    entities = np.bincount(graph.triplets[:, [HEAD, TAIL]].ravel(), minlength=graph.num_entities)
    relations = np.bincount(graph.triplets[:, RELATION], minlength=graph.num_relations)
    left = count
    for place in random.permutation(len(graph)):
        if not left:
            break
        if before[place]:
            continue
        head, relation, tail = graph.triplets[place]
        loop = int(head == tail)
        if entities[head] > 1 + loop and entities[tail] > 1 + loop and relations[relation] > 1:
            entities[head] -= 1
            entities[tail] -= 1
            relations[relation] -= 1
            chosen[place] = True
            left -= 1
    return chosen


def ask_back(
    model: LinkPredictor,
    rounds: list[tuple[KnowledgeGraph, KnowledgeGraph]],
    task: Task,
    twins: np.ndarray,
    progress: Progress | None = None,
) -> Asked:
    """Ask for both ends (or the relation) of every hidden fact; `twins` [T, 2] are relations that say the same."""
    places = (RELATION,) if task == "relation" else (TAIL, HEAD)
    total, done = len(places) * sum(len(hidden) for _, hidden in rounds), 0
    parts: list[Asked] = []
    for rest, hidden in rounds:
        for place in places:

            def advance(count: int, before: int = done) -> None:
                if progress:
                    progress(before + count, total)

            parts.append(_ask(model, rest, hidden, place, twins, len(parts), advance))
            done += len(hidden)
    fields = {name: np.concatenate([getattr(part, name) for part in parts]) for name in Asked.__dataclass_fields__}
    return Asked(**fields)


def _ask(
    model: LinkPredictor,
    rest: KnowledgeGraph,
    hidden: KnowledgeGraph,
    place: int,
    twins: np.ndarray,
    number: int,
    advance: Progress,
) -> Asked:
    facts = hidden.triplets.astype(np.int64)
    questions = facts.copy()
    questions[:, place] = -1
    distinct, which = np.unique(questions, axis=0, return_inverse=True)
    which = which.reshape(-1)
    by_question = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[by_question], np.arange(len(distinct) + 1))
    ranks, candidates = np.zeros(len(facts)), np.zeros(len(facts), np.int64)
    best: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    done = 0
    for chunk in scored(model, rest, distinct):
        for index, row in enumerate(chunk.rows):
            mine = by_question[starts[row] : starts[row + 1]]
            answers = facts[mine, place]
            scores = chunk.scores[index]
            novel = np.ones(len(scores), bool)
            novel[chunk.known[index]] = False
            others = novel.copy()
            others[answers] = False
            found = rank(
                torch.from_numpy(scores).expand(len(mine), -1),
                torch.from_numpy(answers),
                torch.from_numpy(~others).expand(len(mine), -1),
            )
            ranks[mine], candidates[mine] = found.by(PROTOCOLS["full"].ties), found.candidates
            first = top(scores, novel, TOP)
            question = np.full(len(first), number * 2**40 + row, np.int64)
            best.append((question, scores[first], np.isin(first, answers)))
            done += len(mine)
        advance(done, len(facts))
    questions_of, scores_of, right = (np.concatenate(column) for column in zip(*best, strict=True))
    return Asked(
        facts=facts,
        places=np.full(len(facts), place),
        ranks=ranks,
        candidates=candidates,
        strata=half_links(rest, facts),
        given_away=_given_away(rest, facts, twins),
        best_questions=questions_of,
        best_scores=scores_of,
        best_right=right,
    )


def _given_away(rest: KnowledgeGraph, facts: np.ndarray, twins: np.ndarray) -> np.ndarray:
    """Bool [Q]: whether the two ends are still joined by a twin of the relation."""
    heads, relations, tails = facts.T
    width = 2 * rest.num_relations
    found = np.zeros(len(facts), bool)
    for first, second, offset in ((heads, tails, 0), (tails, heads, rest.num_relations)):
        between = rest.relations_between(first, second)
        same = np.isin(relations[between.rows] * width + between.values + offset, twins[:, 0] * width + twins[:, 1])
        found[between.rows[same]] = True
    return found
