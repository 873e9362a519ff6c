"""Hide facts of a graph and predict them with a model.

A few facts are hidden at a time, so that the rest stays similar to the graph; small graphs need several rounds. No
entity and no relation is left without facts. A hidden fact is ranked as in the `full` protocol: among all entities (or
relations), other known facts filtered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anykg.answers.asking import asking_order
from anykg.answers.calibrating.calibration import Evidence, evidence_of, group_of
from anykg.answers.work import SLICE, Arrays, Store, Subject, results
from anykg.cluster import Cluster
from anykg.errors import DataError
from anykg.evaluation.protocol import PROTOCOLS, Target
from anykg.evaluation.reading import rank_facts
from anykg.evaluation.scoring import deduplicate, questions_about
from anykg.evaluation.strata import half_links
from anykg.graph.graph import HEAD, RELATION, TAIL, KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.models.store import digest_of
from anykg.progress import Progress, after, ignore
from anykg.seeds import generator

SHARE = 0.05
"""Share of the facts hidden at a time."""
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
        """The best answers in the form from which probabilities are learnt."""
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


class Hiding(NamedTuple):
    """Settings shared by all parts of a check."""

    rounds: list[np.ndarray]
    """Rows of the hidden facts of each round."""
    twins: np.ndarray


def ask_back(
    model: LinkPredictor,
    rounds: list[tuple[KnowledgeGraph, KnowledgeGraph]],
    task: Target,
    twins: np.ndarray,
    progress: Progress = ignore,
    *,
    whole: KnowledgeGraph | None = None,
    budget: int | None = None,
    cluster: Cluster | None = None,
) -> Recovery:
    """Predict both ends (or the relation) of every hidden fact, one slice of the questions at a time.

    `twins` [T, 2] are pairs of relations that duplicate or invert each other; r + R is the inverse of r. `whole` is the
    graph that the rounds were drawn from, `budget` the number of facts read per question, and `cluster` where to run.
    """
    rest, hidden = rounds[0]
    whole = rest.union(hidden) if whole is None else whole
    rows = [whole.positions(hidden.triplets) for _, hidden in rounds]
    slices = [
        (number, column, facts, questions)
        for number in range(len(rounds))
        for column in ((RELATION,) if task == "relation" else (TAIL, HEAD))
        for facts, questions in _slices(whole.triplets[rows[number]], column)
    ]
    common, subject = Hiding(rows, twins), Subject(whole, model, budget)
    store = None if cluster is None else Store("check", whole.digest, digest_of(model), task, budget, *rows, twins)
    answers = results(rank_part, subject, [part[:3] for part in slices], common=common, cluster=cluster, store=store)
    total, done = sum(len(facts) for _, _, facts, _ in slices), 0
    parts: dict[tuple[int, int], list[Arrays]] = {}
    for number, column, facts, questions in slices:
        subject.progress = after(progress, done, total)
        subject.without(rows[number], rounds[number][0])
        found = next(answers)
        found["questions"], found["best_questions"] = questions[found["questions"]], questions[found["best_questions"]]
        parts.setdefault((number, column), []).append(found | {"at": facts})
        done += len(facts)
        progress(done, total)
    if store is not None:
        store.clear()
    joined = [_joined(part, column, index) for index, ((_, column), part) in enumerate(parts.items())]
    fields = {name: np.concatenate([getattr(part, name) for part in joined]) for name in Recovery.__dataclass_fields__}
    return Recovery(**fields)


def _slices(facts: np.ndarray, column: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Group facts [F, 3] that ask the same question: rows of the facts, and the numbers of their questions."""
    distinct = deduplicate(questions_about(facts, column))
    order = asking_order(distinct.questions)
    for start in range(0, len(order), SLICE):
        questions = np.sort(order[start : start + SLICE])
        yield np.flatnonzero(np.isin(distinct.which, questions)), questions


def rank_part(subject: Subject, hiding: Hiding, number: int, column: int, rows: np.ndarray) -> Arrays:
    """Predict a column of some hidden facts of a round: those at rows [F]."""
    hidden = hiding.rounds[number]
    progress, whole, rest = subject.progress, subject.graph, subject.without(hidden)
    facts = whole.triplets[hidden[rows]].astype(np.int64)
    ranked = rank_facts(
        subject.model,
        rest.graph,
        facts,
        column,
        known=whole,
        encoded=rest.encoded,
        best=TOP,
        budget=subject.budget,
        progress=progress,
    )
    best = ranked.best
    assert best is not None
    answers = np.full(int(ranked.questions.max(initial=-1)) + 1, -1)
    first = best.ranks == 1
    answers[best.questions[first]] = best.triplets[first, column]
    return {
        "facts": facts,
        "ranks": ranked.ranks.by(PROTOCOLS["full"].ties),
        "scores": ranked.scores,
        "answers": answers[ranked.questions],
        "candidates": ranked.ranks.candidates,
        "strata": half_links(rest.graph, facts),
        "given_away": given_away(rest.graph, facts, hiding.twins),
        "questions": ranked.questions,
        "best_questions": best.questions,
        "best_facts": best.triplets,
        "best_scores": best.scores,
        "best_leading": evidence_of(best, column, whole.num_relations).leading,
        "best_following": best.following,
        "best_totals": best.totals,
        "best_answered": best.answered,
        "best_right": np.isin(whole.positions(best.triplets), hidden),
    }


def _joined(parts: list[Arrays], column: int, number: int) -> Recovery:
    """Concatenate the parts of one round that predict one column, in the order of the facts."""
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(whole.pop("at"))
    del whole["questions"]
    found = {name: array if name.startswith("best_") else array[order] for name, array in whole.items()}
    found["best_questions"] += number * 2**40
    columns = np.full(len(order), column)
    return Recovery(**found, columns=columns, best_columns=np.full(len(found["best_questions"]), column))


def given_away(rest: KnowledgeGraph, facts: np.ndarray, twins: np.ndarray) -> np.ndarray:
    """Bool [Q]: whether the two entities are still linked by a twin of the relation."""
    heads, relations, tails = facts.T
    width = 2 * rest.num_relations
    revealed = np.zeros(len(facts), bool)
    for first, second, offset in ((heads, tails, 0), (tails, heads, rest.num_relations)):
        between = rest.relations_between(first, second)
        same = np.isin(relations[between.rows] * width + between.values + offset, twins[:, 0] * width + twins[:, 1])
        revealed[between.rows[same]] = True
    return revealed
