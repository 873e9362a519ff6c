"""The probability that a proposed fact is true, for lists of new facts of a whole graph.

Unlike the questions of a check, most questions that `complete` asks have no further answer. Therefore a tenth of the
facts is hidden, all at once, the questions of `complete` are asked, and a logistic regression learns which of the
answers are true, taking into account that only some of the true ones are hidden and others are missing from the graph
already. Its features are the probability of the answer if one is missing (`answers.calibrating.calibration`), the
chance that one is missing at either end (`answers.calibrating.missing`), the scores, and shrunk effects of relation and
direction. The most confident of these answers, scored by a regression on other questions, are also scored from the
other end (`both_ends`). When nothing is hidden, fewer facts are missing, and the odds of all answers are lowered
accordingly.

A model that was fitted to the graph has seen the facts that would be hidden. The probability of its answers is the
chance that one is missing, times the probability of the answer if so, as in `predict`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from anykg.answers.asking import ask_many
from anykg.answers.calibrating.cache import path_of
from anykg.answers.calibrating.calibration import (
    Calibration,
    evidence_of,
    expit,
    falling,
    features,
    first_rows,
    log_odds,
    logistic,
)
from anykg.answers.calibrating.missing import (
    MISSING,
    at_least,
    chance_at,
    chance_of_first,
    chance_of_missing,
    not_visible,
)
from anykg.answers.completing.both_ends import ANSWERS, FEWEST, BothEnds, learn, other_end
from anykg.answers.fitting.asked_before import has_seen
from anykg.answers.hiding.recovery import hide_together
from anykg.answers.work import Subject
from anykg.atomic import write_json
from anykg.cluster import Cluster
from anykg.evaluation.ranking import Best
from anykg.graph.graph import HEAD, RELATION, TAIL, KnowledgeGraph
from anykg.graph.keys import distinct
from anykg.graph.schema import functional_shares, one_way_relations, symmetric_relations
from anykg.models.base import LinkPredictor
from anykg.progress import Progress, ignore
from anykg.seeds import generator

VERSION = 3
"""Version of the cached form. Increase it whenever cached weights would give other probabilities; they are then learnt
again."""
HIDDEN = 0.1
"""Share of the facts that is hidden to learn from."""
QUESTIONS = 1000
"""Questions asked to learn from."""
STRENGTH = 10.0
"""Shrinkage of the effects of relations."""
ASKED_AGAIN = 500
"""Number of the most confident answers that are also scored from the other end."""
SUREST = 32
"""Minimum number of most confident answers from which the share of hidden facts is estimated."""


@dataclass(frozen=True)
class Proposals:
    """Coefficients of the features, and effects of relations by name."""

    coefficients: tuple[float, ...]
    effects: Mapping[str, tuple[float, ...]]
    """Effects by relation: of tails, of first answers among tails, and the same for heads."""
    missing: float
    """Assumed share of all true facts that the graph lacks."""
    both_ends: BothEnds | None = None
    """Probabilities of facts that are scored from both ends; None if that is not informative."""

    def __call__(self, columns: np.ndarray, groups: np.ndarray, relations: Sequence[str]) -> np.ndarray:
        """Probabilities [A] of answers with features [A, F] about groups [A]."""
        nothing = (0.0,) * 4
        both = np.array([self.effects.get(name, nothing) for name in relations]).reshape(-1, 2, 2)
        added = both.transpose(1, 0, 2).reshape(-1, 2)[groups]
        return np.asarray(expit(columns @ np.asarray(self.coefficients) + added[:, 0] + columns[:, 1] * added[:, 1]))


def questions_of(graph: KnowledgeGraph, relations: np.ndarray | None, heads: np.ndarray | None) -> np.ndarray:
    """The questions [Q, 3] in the order they are asked."""
    facts, r = graph.triplets, max(graph.num_relations, 1)
    if relations is not None:
        facts = facts[np.isin(facts[:, RELATION], relations)]
    if heads is not None:
        kinds = np.unique(facts[:, RELATION])
        pairs = np.stack(np.meshgrid(np.unique(heads), kinds, indexing="ij"), axis=-1).reshape(-1, 2)
        return np.column_stack([pairs, np.full(len(pairs), -1)]).astype(np.int64)
    either = graph.derive(symmetric_relations)[facts[:, RELATION]]
    facts = np.concatenate([facts, facts[either][:, ::-1]])  # the other half of a symmetric relation may be missing
    parts = []
    for given in (TAIL, HEAD):
        part = np.stack(np.divmod(distinct(facts[:, given].astype(np.int64) * r + facts[:, RELATION]), r), axis=1)
        opened = np.full(len(part), -1)
        parts.append(np.column_stack([opened, part[:, 1], part[:, 0]] if given == TAIL else [part, opened]))
    counts = [np.bincount(part[:, RELATION], minlength=graph.num_relations) for part in parts]
    heads_open = counts[0] <= counts[1]  # ask for heads where there are no more tails than heads
    kept = [part[heads_open[part[:, RELATION]] == (index == 0)] for index, part in enumerate(parts)]
    asked = np.concatenate(kept)
    return asked[np.lexsort((asked[:, TAIL], asked[:, HEAD], asked[:, RELATION]))]


def backwards(graph: KnowledgeGraph, facts: np.ndarray) -> np.ndarray:
    """Bool [F]: facts [F, 3] that are the inverse of a known fact of a one-way relation."""
    opposite: np.ndarray = graph.derive(one_way_relations)[facts[:, RELATION]] & graph.contains(facts[:, ::-1])
    return opposite


def mirrored(graph: KnowledgeGraph, facts: np.ndarray) -> np.ndarray:
    """Bool [F]: facts [F, 3] that are the inverse of a known fact of a symmetric relation."""
    other_half: np.ndarray = graph.derive(symmetric_relations)[facts[:, RELATION]] & graph.contains(facts[:, ::-1])
    return other_half


def ends(graph: KnowledgeGraph, best: Best, columns: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
    """The chances [A] that the entity asked from, and the answer, lack a fact; NaN without a known fact."""
    table, r = graph.derive(chance_of_missing, share), graph.num_relations
    heads, relations, tails = best.triplets.T
    of_heads = chance_at(table, heads, relations, graph)
    of_tails = chance_at(table, tails, relations + r, graph)
    from_head = columns == TAIL
    return np.where(from_head, of_heads, of_tails), np.where(from_head, of_tails, of_heads)


def judged(
    found: Proposals | None,
    known: Calibration,
    graph: KnowledgeGraph,
    best: Best,
    columns: np.ndarray,
    share: float,
) -> np.ndarray:
    """Probabilities [A] of answers to questions that ask for columns [A], if a share of all facts is missing.

    NaN where neither end has such a fact, except for the missing direction of a symmetric relation.
    """
    start, end = ends(graph, best, columns, MISSING if found is not None else share)
    evidence = evidence_of(best, columns, graph.num_relations)
    names = list(graph.relations)
    answers = known.probabilities(evidence, names)
    nothing_known = np.isnan(start) & ~mirrored(graph, best.triplets)
    values = np.full(len(answers), np.nan)
    if found is None or nothing_known.any():  # the regression has not seen entities without such a fact
        begins = first_rows(evidence.questions)
        chances = np.where(np.isnan(start[begins]), 0.5, start[begins])
        first = nothing_known[begins]
        entities = np.where(columns == TAIL, best.triplets[:, HEAD], best.triplets[:, TAIL])[begins[first]]
        chances[first] = chance_of_first(graph, entities, evidence.groups[begins[first]], share)
        sizes = np.diff(np.append(begins, len(answers)))
        values = answers * np.repeat(known.present(evidence, chances), sizes)
    if found is not None:
        learnt = falling(found(_features(best, evidence, answers, start, end), evidence.groups, names), best.questions)
        values = np.where(nothing_known, values, learnt)
    return np.asarray(np.where(nothing_known & np.isnan(end), np.nan, values))


def limited(graph: KnowledgeGraph, facts: np.ndarray, probabilities: np.ndarray, missing: float) -> np.ndarray:
    """Scale the probabilities [F] of proposed facts [F, 3] so that their sum is at most the number of further answers.

    Each fact was scored independently. A functional relation has one answer: the proposals exclude each other, and if
    one is known, only the share of entities with more than one may have a second. For other relations, the expected
    number of missing answers follows from the known ones and the share of missing facts; the bound is two standard
    deviations and one above that. If the sum is larger, the bound is divided in proportion to the odds.
    """
    heads, relations, tails = facts.T.astype(np.int64)
    shares, r = graph.derive(functional_shares), graph.num_relations
    probabilities = probabilities.copy()
    for start, kind in ((heads, relations), (tails, relations + r)):
        questions, which = np.unique(start * 2 * r + kind, return_inverse=True)
        which = which.reshape(-1)
        entities, kinds = np.divmod(questions, 2 * r)
        known = np.diff(graph.answers(entities, kinds).offsets)
        mean = known * missing / (1 - missing)
        most = np.where(shares[kinds] > 0, np.where(known > 0, 1 - shares[kinds], 1.0), mean + 2 * np.sqrt(mean) + 1)
        odds = np.exp(log_odds(probabilities))
        divided = (most / np.bincount(which, odds))[which] * odds
        too_much = (np.bincount(which, probabilities) > most)[which]
        probabilities = np.where(too_much, np.minimum(divided, probabilities), probabilities)
    return probabilities


def _features(best: Best, evidence: Any, answers: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """[A, F]: the features of a calibration, and the probabilities that a fact is missing."""
    chances = [np.where(np.isnan(part), 0.0, log_odds(np.where(np.isnan(part), 0.5, part))) for part in (start, end)]
    unknown = [np.isnan(part).astype(float) for part in (start, end)]
    return np.column_stack(
        [
            features(evidence),
            *chances,
            *unknown,
            evidence.totals,
            evidence.scores,
            np.log(best.ranks),
            log_odds(answers),
        ]
    )


def proposals_of(
    model: LinkPredictor,
    graph: KnowledgeGraph,
    known: Calibration,
    missing: float | None,
    progress: Progress = ignore,
    *,
    budget: int | None = None,
    cluster: Cluster | None = None,
) -> Proposals | None:
    """The cached or newly learnt weights; None if the model was fitted to the graph, or if there are too few facts.

    Args:
        model: The model.
        graph: The graph to complete.
        known: The model's calibration on it.
        missing: Assumed share of all true facts that the graph lacks; None estimates it (`_missing`).
        progress: Called with (done, total) questions.
        budget: Number of facts read per question, as in `predict`.
        cluster: Where to compute; None for this process.
    """
    if has_seen(model, graph):
        return None
    content = blake2b(json.dumps(known.to_dict(), sort_keys=True).encode(), digest_size=6).hexdigest()
    path = path_of(graph, model, f"proposals-{HIDDEN:g}-{missing}-{content}", budget)
    kept = _load(path)
    if kept is not None:
        return kept
    rest, hidden = hide_together(graph, HIDDEN, seed=0)
    asked = questions_of(rest, None, None)
    asked = asked[np.sort(generator(0, "proposals").permutation(len(asked))[:QUESTIONS])]
    subject, rows = Subject(graph, model, budget), graph.positions(hidden.triplets)
    subject.without(rows, rest)
    best = ask_many(subject, asked, k=ANSWERS, hidden=rows, cluster=cluster, progress=progress)
    columns = np.argmin(asked, axis=1)[best.questions]
    evidence = evidence_of(best, columns, graph.num_relations)
    start, end = ends(rest, best, columns, MISSING)
    unrelated = np.isnan(start) & np.isnan(end) & ~mirrored(rest, best.triplets)
    right, usable = hidden.contains(best.triplets), ~backwards(rest, best.triplets) & ~unrelated
    if right[usable].sum() < FEWEST:
        return None
    right, groups, r = right[usable], evidence.groups[usable], graph.num_relations
    answers = known.probabilities(evidence, list(graph.relations))
    table = _features(best, evidence, answers, start, end)[usable]

    def learnt(told: float | None, rows: np.ndarray | slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and effects if a true answer is a hidden fact with this chance."""
        mine = table[rows]
        chance = None if told is None else np.full(len(mine), told)
        return logistic(mine, mine[:, 1], groups[rows], right[rows], 2 * r + 1, STRENGTH, chance)

    def odds(weights: tuple[np.ndarray, np.ndarray], rows: np.ndarray | slice = slice(None)) -> np.ndarray:
        """The log-odds of answers."""
        (coefficients, effects), mine = weights, table[rows]
        return np.asarray(mine @ coefficients + effects[groups[rows], 0] + mine[:, 1] * effects[groups[rows], 1])

    if missing is None:
        missing = _missing(odds(learnt(None)), right)
    lacking = not_visible(HIDDEN, missing)
    told, shift = HIDDEN * (1 - missing) / lacking, np.log(missing / lacking)  # nothing is hidden in completing
    coefficients, effects = learnt(told)
    coefficients[0] += shift
    both_ends, held_out = None, np.zeros(len(table))
    half = evidence.questions[usable] % 2 == 0
    if all(right[part].any() for part in (half, ~half)):
        for part in (half, ~half):
            held_out[part] = odds(learnt(told, ~part), part) + shift
        shared = np.intersect1d(groups[half], groups[~half])  # others lose their effect
        surest = np.flatnonzero(np.isin(groups, shared))
        surest = surest[np.argsort(-held_out[surest], kind="stable")][:ASKED_AGAIN]
        facts, opened = best.triplets[usable][surest], HEAD + TAIL - columns[usable][surest]
        other = other_end(subject, known, facts, opened, hidden=rows, cluster=cluster)
        both_ends = learn(expit(held_out[surest]), other, right[surest], told, shift)
    by_name = {
        name: tuple(float(x) for x in (*effects[index], *effects[index + r]))
        for index, name in enumerate(graph.relations)
        if np.any(effects[[index, index + r]])
    }
    made = Proposals(tuple(float(x) for x in coefficients), by_name, missing, both_ends)
    write_json(path, {"version": VERSION} | asdict(made))
    return made


def _missing(surer: np.ndarray, right: np.ndarray) -> float:
    """The share of all true facts that a graph lacks, at most `MISSING`, from the hidden share of the best answers.

    All of the most confident answers may be true; those that are not hidden are then missing. The more of them are
    hidden, the fewer are missing.

    Args:
        surer: Log-odds [A] of answers.
        right: Bool [A], whether an answer is a hidden fact.
    """
    hits, cases = np.cumsum(right[np.argsort(-surer, kind="stable")]), np.arange(1, len(right) + 1)
    told = at_least(hits[SUREST - 1 :], cases[SUREST - 1 :]).max(initial=0.0)
    return float(min(MISSING, 1 - told / (HIDDEN + told * (1 - HIDDEN))))


def _load(path: Path) -> Proposals | None:
    """The cached weights; None if there are none that can be read."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values["version"] != VERSION:
            return None
        return Proposals(
            tuple(float(x) for x in values["coefficients"]),
            {str(name): tuple(float(x) for x in part) for name, part in values["effects"].items()},
            float(values["missing"]),
            None if values["both_ends"] is None else BothEnds(*(float(x) for x in values["both_ends"])),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
