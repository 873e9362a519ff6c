"""Calibrate scores to probabilities, by relation and direction, from the best answers to questions about hidden facts.

The probability of an answer is that it is true, given that the question has a true answer that the graph does not know;
other missing answers count as true as well. Questions about hidden facts have such an answer, but only the hidden facts
are known to be true. Their share of the missing true answers to a question follows from the number of hidden facts, the
number of facts missing from the graph (`missing.missing_share`) and the number of known answers. The likelihood of a
hidden fact among the best answers is therefore (probability of being true) x (chance of being hidden if true).

The probability of being true is a logistic regression on features of a list of answers (`features`): the softmax of the
score among all candidates, per expected missing answer; the gap to the next answer; and the distance to the first.
Every relation and direction adds two random effects, one for all answers and one for the first, with a shrinkage chosen
by cross-validation.

Whether a list contains a missing answer at all (`present`) is learnt from the same lists: as they are, and with the
right answers removed, as if these were not in the graph.

A calibration is valid for one model on one graph, read within one budget of facts. Calibrations of plain models are
kept in the user's cache under the digests of both and the budget, with a sketch of the graph
(`anykg.graph.versions`); a model made by `fit` has its own. A graph in which a few per cent of the facts changed reuses
the calibration of its earlier version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from anykg.answers.calibrating.missing import MISSING, chance_hidden, expected_missing, not_visible
from anykg.evaluation.ranking import Best
from anykg.graph.graph import HEAD, RELATION
from anykg.seeds import generator

VERSION = 2
"""Version of the stored form. Increase it whenever stored calibrations would give other probabilities; they are then
recomputed."""
BINS = 15
FOLDS = 4
STRENGTHS = (0.3, 1.0, 3.0, 10.0)
"""Candidate values for the shrinkage of the effects of relations."""
RIDGE = 0.05
FARTHEST = 8.0
"""Gaps between scores are clipped at this value."""
LEAST, MOST_ODDS = 1e-4, 4.0
"""Bounds that keep the prior of a missing answer away from 0 and 1, and that clip what a list adds to its log-odds."""
PRIOR = 2.0
"""Pseudo-counts of answers, half of them right and half wrong."""
TOTAL = 4
"""The column of `list_features` with the sum over all candidates."""


class Evidence(NamedTuple):
    """The inputs of the calibration, for A answers."""

    questions: np.ndarray  # int64 [A], equal for the answers to one question
    groups: np.ndarray  # int64 [A], the relation asked about, + R if heads are asked for; -1 if relations are
    scores: np.ndarray  # float [A]
    leading: np.ndarray  # float [A], score of the first answer to the same question
    following: np.ndarray  # float [A], score of the next answer to the same question; -inf without one
    totals: np.ndarray  # float [A], log of the summed exponentials of the scores of all candidates
    answered: np.ndarray  # int64 [A], known answers to the question

    def take(self, rows: np.ndarray) -> Evidence:
        """Some of the answers."""
        return Evidence(*(column[rows] for column in self))


@dataclass(frozen=True)
class Group:
    """How first answers about one relation and direction compare with their stated probabilities, on held-out folds."""

    relation: str
    asked: str
    """What was predicted: head, tail or relation."""
    questions: int
    stated: float
    """Mean probability of the first answer."""
    right: float
    """Share of first answers that were right: hidden facts, plus the expected number of other missing facts."""

    @property
    def error(self) -> float:
        """The distance between the two."""
        return abs(self.stated - self.right)


@dataclass(frozen=True)
class Calibration:
    """Coefficients of the features, and effects of relations by name."""

    coefficients: tuple[float, ...]
    effects: Mapping[str, tuple[float, ...]]
    """Effects by relation: for tails, for first answers among tails, and the same for heads."""
    answers: int
    """Number of answers that it was fitted to."""
    error: float | None
    """Expected calibration error on held-out folds."""
    groups: tuple[Group, ...] = ()
    """By relation and direction, most questions first."""
    curve: tuple[tuple[float, ...], tuple[float, ...]] = ((0.0,), (0.5,))
    """Scores and probabilities, both increasing: for an answer of which only the score is known."""
    presence: tuple[float, ...] = ()
    """Coefficients of the features of a whole list; empty if lists are not informative about whether an answer is
    missing."""
    missing: float = MISSING
    """Assumed share of all true facts that the graph lacks."""

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """Probabilities of scores alone, the same for all relations."""
        found: np.ndarray = np.interp(scores, *self.curve).astype(np.float32)
        return found

    def probabilities(self, evidence: Evidence, relations: Sequence[str]) -> np.ndarray:
        """Probabilities [A] of answers; `relations` are the names of the graph's relations."""
        columns = features(evidence, self.missing)
        both = np.zeros((2 * len(relations) + 1, 2))  # the last row is for questions about relations
        for index, name in enumerate(relations):
            if name in self.effects:
                tails, first_tails, heads, first_heads = self.effects[name]
                both[index], both[index + len(relations)] = (tails, first_tails), (heads, first_heads)
        added = both[evidence.groups]
        total = columns @ np.asarray(self.coefficients) + added[:, 0] + np.where(columns[:, 1] > 0, added[:, 1], 0.0)
        return np.asarray(expit(total), np.float32)

    def present(self, evidence: Evidence, chances: np.ndarray) -> np.ndarray:
        """The probability [Q] that there is a missing answer, for the questions of `evidence` in their order.

        `chances` [Q] is the prior of the questions, before their answers are considered.
        """
        odds = logit(np.clip(chances, LEAST, 1 - LEAST))
        if self.presence:
            odds = odds + np.clip(list_features(evidence) @ np.asarray(self.presence), -MOST_ODDS, MOST_ODDS)
        return np.asarray(expit(odds))

    def worst(self, count: int = 5, fewest: int = 10) -> list[Group]:
        """The groups with the largest calibration error, of those with enough questions."""
        enough = [group for group in self.groups if group.questions >= fewest]
        return sorted(enough, key=lambda group: -group.error)[:count]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {"version": VERSION} | asdict(self)


def features(evidence: Evidence, share: float = MISSING) -> np.ndarray:
    """[A, F]: 1, whether it is the first answer, softmax as log-odds and log, gap, distance to the first.

    The softmax is multiplied by the expected number of missing answers of a question, since several right answers share
    it.
    """
    chance = np.exp(np.minimum(evidence.scores - evidence.totals, 0.0)) * expected_missing(evidence.answered, share)
    chance = np.clip(chance, 1e-9, 1 - 1e-3)
    columns = (
        np.ones(len(chance)),
        (evidence.scores >= evidence.leading).astype(float),
        logit(chance),
        np.log(chance),
        np.clip(evidence.scores - evidence.following, 0.0, FARTHEST),
        np.clip(evidence.leading - evidence.scores, 0.0, FARTHEST),
    )
    return np.stack(columns, axis=1)


def list_features(evidence: Evidence) -> np.ndarray:
    """[Q, F] of whole lists: 1, softmax of the first answer as log-odds and log, its gap, the sum of all, known."""
    first = evidence.take(first_rows(evidence.questions))
    chance = np.clip(np.exp(np.minimum(first.scores - first.totals, 0.0)), 1e-9, 1 - 1e-4)
    gap = np.clip(first.scores - first.following, 0.0, FARTHEST)
    columns = (np.ones(len(gap)), logit(chance), np.log(chance), gap, first.totals, np.log1p(first.answered))
    return np.stack(columns, axis=1)


def first_rows(questions: np.ndarray) -> np.ndarray:
    """The rows where the answers to a question begin, if those of one question follow each other."""
    return np.flatnonzero(np.append(True, questions[1:] != questions[:-1])[: len(questions)])


def struck_out(evidence: Evidence, right: np.ndarray) -> Evidence:
    """The same lists without the right answers [A]; lists without other answers are left out."""
    begins = first_rows(evidence.questions)
    number = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(right))))
    shares = np.exp(np.minimum(evidence.scores - evidence.totals, 0.0)) * right
    lost = np.bincount(number, shares, minlength=len(begins))[number]
    left = evidence._replace(totals=evidence.totals + np.log(np.maximum(1 - lost, 1e-6))).take(np.flatnonzero(~right))
    begins = first_rows(left.questions)
    sizes = np.diff(np.append(begins, len(left.questions)))
    following = np.append(left.scores[1:], -np.inf)
    last = begins + sizes - 1
    following[last] = left.following[last]
    return left._replace(leading=np.repeat(left.scores[begins], sizes), following=following)


def _presence(evidence: Evidence, right: np.ndarray) -> tuple[float, ...]:
    """Coefficients that tell lists with the right answers from the same lists without them."""
    there, gone = list_features(evidence), list_features(struck_out(evidence, right))
    if len(there) < FOLDS or not right.any():
        return ()
    if not np.ptp(there[:, TOTAL]):  # kept as log-probabilities: a total would only tell what was struck out
        there[:, TOTAL] = gone[:, TOTAL] = 0.0
    columns, target = np.concatenate([there, gone]), np.arange(len(there) + len(gone)) < len(there)
    nothing = np.zeros(len(columns))
    found, _ = logistic(columns, nothing, nothing.astype(np.int64), target, 1, 1.0)
    return tuple(float(x) for x in found)


def fit(
    evidence: Evidence, right: np.ndarray, relations: Sequence[str], *, hidden: float = 0.0, missing: float = 0.0
) -> Calibration:
    """Learn from the best answers to questions about hidden facts.

    Args:
        evidence: A answers; each question once.
        right: Bool [A], whether an answer is a hidden fact.
        relations: Names of the graph's relations.
        hidden: Share of the graph's facts that were hidden at a time.
        missing: Share of all true facts that the graph lacks; with 0, every answer that is not hidden counts as wrong.
    """
    columns, count = features(evidence, not_visible(hidden, missing)), 2 * len(relations) + 1
    told = chance_hidden(evidence.answered, hidden, missing)
    first = columns[:, 1] > 0
    asked, question = np.unique(evidence.questions, return_inverse=True)
    fold = (generator(0, "calibration", "folds").permutation(len(asked)) % FOLDS)[question.reshape(-1)]
    best: tuple[float, float, np.ndarray] | None = None
    for strength in STRENGTHS:
        stated = np.full(len(right), 0.5)
        for left_out in range(FOLDS):
            mine = fold == left_out
            if mine.any() and not mine.all():
                rest = columns[~mine]
                groups = evidence.groups[~mine]
                fitted = logistic(rest, rest[:, 1], groups, right[~mine], count, strength, told[~mine])
                stated[mine] = _stated(columns[mine], evidence.groups[mine], *fitted)
        loss = -np.log(np.where(right, stated * told, 1 - stated * told)).mean() if len(right) else 0.0
        if best is None or loss < best[0]:
            best = float(loss), strength, stated
    assert best is not None
    _, strength, stated = best
    coefficients, effects = logistic(columns, columns[:, 1], evidence.groups, right, count, strength, told)
    by_name = {
        name: tuple(float(x) for x in (*effects[index], *effects[index + len(relations)]))
        for index, name in enumerate(relations)
        if np.any(effects[[index, index + len(relations)]])
    }
    return Calibration(
        tuple(float(x) for x in coefficients),
        by_name,
        len(right),
        expected_calibration_error(stated, right, told) if len(np.unique(fold)) > 1 else None,
        _groups(evidence.groups[first], stated[first], right[first], told[first], relations),
        _isotonic(evidence.scores, right),
        _presence(evidence, right),
        missing,
    )


def expit(values: np.ndarray) -> np.ndarray:
    """The logistic function; imports scipy on first use."""
    from scipy.special import expit as compute

    return np.asarray(compute(values))


def logit(values: np.ndarray) -> np.ndarray:
    """The inverse of `expit`."""
    from scipy.special import logit as compute

    return np.asarray(compute(values))


def log_odds(probabilities: np.ndarray) -> np.ndarray:
    """The logit of probabilities that may be 0 or 1."""
    return logit(np.clip(probabilities, 1e-6, 1 - 1e-6))


def _stated(columns: np.ndarray, groups: np.ndarray, coefficients: np.ndarray, effects: np.ndarray) -> np.ndarray:
    added = effects[groups]
    return np.asarray(
        np.clip(expit(columns @ coefficients + added[:, 0] + columns[:, 1] * added[:, 1]), 1e-6, 1 - 1e-6)
    )


def logistic(
    columns: np.ndarray,
    first: np.ndarray,
    groups: np.ndarray,
    right: np.ndarray,
    count: int,
    strength: float,
    told: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients [F] and effects [count, 2], for all and where `first` [A] is 1, of a ridge logistic regression.

    With `told` [A], a right answer is only labelled as right with this chance.
    """
    width = columns.shape[1]
    scale = np.maximum(np.abs(columns).mean(0), 1e-3) if len(columns) else np.ones(width)
    scaled, target = columns / scale, right.astype(float)
    asked, group = np.unique(groups, return_inverse=True)
    group = group.reshape(-1)

    # L-BFGS sees coordinates in which the curvature is about the same in all directions; otherwise it takes over a
    # thousand steps where columns are nearly collinear.
    curvature = max(float(target.mean()) * (1 - float(target.mean())), 1e-4) if len(target) else 1.0
    root = np.linalg.cholesky(curvature * scaled.T @ scaled + RIDGE * np.eye(width))
    sizes = np.stack([np.bincount(group, part, minlength=len(asked)) for part in (np.ones(len(group)), first)], 1)
    steepness = np.sqrt(curvature * sizes + strength)  # [G, 2]

    def unpacked(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.linalg.solve(root.T, flat[:width]), flat[width:].reshape(len(asked), 2) / steepness

    def objective(flat: np.ndarray, chance: np.ndarray) -> tuple[float, np.ndarray]:
        weights, effects = unpacked(flat)
        total = scaled @ weights + effects[group, 0] + first * effects[group, 1]
        true = expit(total)
        unknown = np.maximum(1 - chance * true, 1e-12)
        loss = target @ np.logaddexp(0, -total) - (1 - target) @ np.log(unknown)
        slope = np.where(right, true - 1, chance * true * (1 - true) / unknown)
        d_weights = scaled.T @ slope + RIDGE * weights
        d_effects = strength * effects
        d_effects[:, 0] += np.bincount(group, slope, minlength=len(asked))
        d_effects[:, 1] += np.bincount(group, slope * first, minlength=len(asked))
        penalty = (RIDGE * weights @ weights + strength * (effects**2).sum()) / 2
        gradient = np.concatenate([np.linalg.solve(root, d_weights), (d_effects / steepness).ravel()])
        return float(loss + penalty), gradient

    from scipy.optimize import minimize

    found = np.zeros(width + 2 * len(asked))
    # With chances below 1 the loss is not convex and is flat where answers are certain, so the fit with 1 comes first.
    for chance in (np.ones(len(columns)),) if told is None else (np.ones(len(columns)), told):
        found = minimize(objective, found, (chance,), jac=True, method="L-BFGS-B").x
    weights, found_effects = unpacked(found)
    effects = np.zeros((count, 2))
    effects[asked] = found_effects
    return weights / scale, effects


def _groups(
    groups: np.ndarray, stated: np.ndarray, right: np.ndarray, told: np.ndarray, relations: Sequence[str]
) -> tuple[Group, ...]:
    """Predicted and actual shares of right first answers, by relation and direction."""
    found = []
    for group in np.unique(groups):
        mine = groups == group
        name = "" if group < 0 else relations[int(group) % len(relations)]
        asked = "relation" if group < 0 else "head" if group >= len(relations) else "tail"
        weight = told[mine].sum()
        said, true = float(stated[mine] @ told[mine] / weight), float(min(right[mine].sum() / weight, 1.0))
        found.append(Group(name, asked, int(mine.sum()), said, true))
    return tuple(sorted(found, key=lambda group: -group.questions))


def falling(values: np.ndarray, questions: np.ndarray) -> np.ndarray:
    """Probabilities [A] of answers in order of rank, made non-increasing within each question [A].

    >>> falling(np.array([0.5, 0.2, 0.3, 0.4]), np.array([0, 0, 0, 1])).tolist()
    [0.5, 0.2, 0.2, 0.4]
    """
    result = values.copy()
    for low, high in pairwise(np.append(first_rows(questions), len(values))):
        result[low:high] = np.minimum.accumulate(result[low:high])
    return result


def evidence_of(best: Best, columns: np.ndarray | int, num_relations: int) -> Evidence:
    """The evidence in lists of answers [A] to questions that ask for a column."""
    first = best.ranks == 1
    leading = best.scores[first][np.cumsum(first) - 1] if len(first) else best.scores
    groups = group_of(best.triplets, columns, num_relations)
    return Evidence(best.questions, groups, best.scores, leading, best.following, best.totals, best.answered)


def group_of(triplets: np.ndarray, columns: np.ndarray | int, num_relations: int) -> np.ndarray:
    """The group [A] of answers [A, 3] to questions that ask for a column."""
    columns = np.broadcast_to(columns, len(triplets))
    relations = np.where(columns == HEAD, triplets[:, RELATION] + num_relations, triplets[:, RELATION])
    return np.asarray(np.where(columns == RELATION, -1, relations))


def expected_calibration_error(
    probabilities: np.ndarray, right: np.ndarray, told: np.ndarray | None = None, bins: int = BINS
) -> float:
    """The mean over answers of |stated - found| in bins of equal count; right answers are `told` [A] with a chance."""
    chance = np.ones(len(probabilities)) if told is None else told
    parts = np.array_split(np.argsort(probabilities, kind="stable"), bins)
    gaps = [
        len(part) * abs(probabilities[part] @ chance[part] - right[part].sum()) / chance[part].sum()
        for part in parts
        if len(part)
    ]
    return float(sum(gaps) / max(len(right), 1))


def _isotonic(scores: np.ndarray, right: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Scores and the shares of right answers at them, made monotone by pooling adjacent violators."""
    if not len(scores):
        return (0.0,), (0.5,)
    order = np.argsort(scores, kind="stable")
    blocks: list[tuple[float, float, float]] = []  # answers, their mean score, how many were right
    for part in np.array_split(order, int(np.clip(len(scores) // 20, 1, 100))):
        blocks.append((float(len(part)), float(scores[part].mean()), float(right[part].sum())))
        while len(blocks) > 1 and blocks[-2][2] / blocks[-2][0] >= blocks[-1][2] / blocks[-1][0]:
            (n, score, hits), (m, other, more) = blocks[-2:]
            blocks[-2:] = [(n + m, (n * score + m * other) / (n + m), hits + more)]
    means = np.maximum.accumulate([(hits + PRIOR / 4) / (n + PRIOR / 2) for n, _, hits in blocks])
    return tuple(score for _, score, _ in blocks), tuple(float(mean) for mean in means)


def from_dict(values: Mapping[str, Any]) -> Calibration:
    """Load a calibration from `to_dict`; raises ValueError if another version of this module made it."""
    if values.get("version") != VERSION:
        raise ValueError("not a calibration of this version")
    scores, probabilities = (tuple(float(x) for x in part) for part in values["curve"])
    return Calibration(
        tuple(float(x) for x in values["coefficients"]),
        {str(name): tuple(float(x) for x in part) for name, part in values["effects"].items()},
        int(values["answers"]),
        values["error"],
        tuple(Group(**part) for part in values["groups"]),
        (scores, probabilities),
        tuple(float(x) for x in values.get("presence", ())),
        float(values["missing"]),
    )
