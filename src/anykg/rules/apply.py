"""Predict with rules alone: the unknown triplets that they imply, most confident first.

Rules are clauses over any relations, or clauses whose relations are named. A triplet's confidence is that of the best
rule that implies it, as measured on the graph where the rule was mined, or on the graph at hand for a rule that was not
mined; ties are broken by the next best rules. There is no training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from anykg.errors import DataError, SettingError
from anykg.graph.graph import KnowledgeGraph
from anykg.progress import Progress, ignore
from anykg.rules.clause import Clause
from anykg.rules.kernels.bodies import joined_pairs
from anykg.rules.kernels.joins import NONE, adjacency
from anykg.rules.kernels.paths import LONGEST
from anykg.rules.match import groundings, implied
from anykg.rules.shapes import path_clauses, path_steps

MOST = 20_000_000
"""Upper bound on the triplets implied by one rule."""
REASONS = 1000
"""Number of reasons that are computed between updates of the progress."""


@dataclass(frozen=True)
class Applied:
    """A rule to apply."""

    text: str
    clause: Clause
    confidence: float | None
    """The confidence measured where the rule was mined; None to measure it on the graph it is applied to."""
    relations: tuple[int | None, ...] = ()
    """Ids of C1, C2, ..; None, or nothing, for any relation."""

    @cached_property
    def named(self) -> dict[int, int]:
        """The ids of the relations that are given, by the number of the variable."""
        return {number: relation for number, relation in enumerate(self.relations) if relation is not None}

    @cached_property
    def is_named_path(self) -> bool:
        """Whether all relations are given and the body is a path, which is followed faster than any body is matched."""
        steps = len(self.clause.body)
        all_named = len(self.named) == self.clause.num_relations
        return all_named and 1 <= steps <= LONGEST and self.clause in path_clauses(steps).values()


class Implications(NamedTuple):
    """The triplets that rules imply."""

    best: pl.DataFrame
    total: int
    """Number of new triplets that they imply."""


def apply(
    rules: Sequence[Applied],
    graph: KnowledgeGraph,
    *,
    k: int | None = 20,
    min_confidence: float = 0.0,
    progress: Progress = ignore,
) -> Implications:
    """The k best new triplets that rules imply, or all: head, relation, tail, confidence, rule, because.

    `rule` is the most confident one that implies the triplet, `because` the facts of one of its groundings. Rules below
    a confidence are left out; if all are, a `SettingError` names the best confidence.
    """
    parts, which = [np.empty((0, 3), np.int64)], [np.empty(0, np.int64)]
    confidences = np.array([-1.0 if rule.confidence is None else rule.confidence for rule in rules])
    for number, rule in enumerate(rules):
        if rule.confidence is None or rule.confidence >= min_confidence:
            triplets = _implied_by(rule, graph)
            known = graph.contains(triplets)
            if rule.confidence is None:
                confidences[number] = known.mean() if len(known) else 0.0
            if confidences[number] >= min_confidence:
                parts.append(triplets[~known])
                which.append(np.full(len(parts[-1]), number))
        progress(number + 1, len(rules))
    if len(which) == 1:
        best = confidences.max(initial=0.0)
        raise SettingError("min_confidence", f"no rule reaches {min_confidence:g}; the best one has {best:.3g}")
    triplets, row = np.unique(np.concatenate(parts), axis=0, return_inverse=True)
    by, row = np.concatenate(which), row.reshape(-1)
    best_rule = np.zeros(len(triplets), np.int64)
    order = np.argsort(confidences[by], kind="stable")
    best_rule[row[order]] = by[order]  # the last one written is the most confident
    doubts = np.bincount(row, np.log1p(-np.minimum(confidences[by], 1 - 1e-9)), len(triplets))
    highest = confidences[best_rule] if len(triplets) else np.zeros(0)
    chosen = np.lexsort((doubts, -highest))[:k]
    heads, relations, tails = triplets[chosen].T
    reasons = []
    for index in chosen:
        reasons.append(_because(rules[best_rule[index]], graph, triplets[index]))
        if len(reasons) % REASONS == 0:
            progress(len(reasons), len(chosen))
    frame = pl.DataFrame(
        {
            "head": graph.entities.names.gather(heads),
            "relation": graph.relations.names.gather(relations),
            "tail": graph.entities.names.gather(tails),
            "confidence": highest[chosen],
            "rule": pl.Series([rules[best_rule[i]].text for i in chosen], dtype=pl.String),
            "because": pl.Series(reasons, dtype=pl.String),
        }
    )
    return Implications(frame, len(triplets))


def facts_by_name(graph: KnowledgeGraph, facts: np.ndarray) -> list[tuple[str, str, str]]:
    """Facts [L, 3] as text, by name."""
    return [(graph.entities.label(h), graph.relations.label(r), graph.entities.label(t)) for h, r, t in facts]


def _steps(rule: Applied, num_relations: int) -> np.ndarray:
    """The path of a rule with named relations: steps [3] over 2R, NONE after the last."""
    directions, variables = path_steps(rule.clause)
    steps = np.full(3, NONE, np.int64)
    for number, variable in enumerate(variables):
        steps[number] = rule.named[variable] + (num_relations if directions >> number & 1 else 0)
    return steps


def _implied_by(rule: Applied, graph: KnowledgeGraph) -> np.ndarray:
    if not rule.is_named_path:
        return implied(rule.clause, graph, rule.named)
    pairs = joined_pairs(graph.derive(adjacency), _steps(rule, graph.num_relations), MOST)
    if len(pairs) > MOST:
        raise DataError(f"{rule.text}: implies more than {MOST:,} triplets; use a higher minimal confidence.")
    return np.stack([pairs[:, 0], np.full(len(pairs), rule.named[0]), pairs[:, 1]], axis=1)


def _because(rule: Applied, graph: KnowledgeGraph, triplet: np.ndarray) -> str:
    head, relation, tail = (int(part) for part in triplet)
    if rule.is_named_path:
        facts = _one_path(graph, _steps(rule, graph.num_relations).tolist(), head, tail)
    else:
        matches = groundings(rule.clause, graph, (head, relation, tail), limit=1, relations=rule.named)
        facts = matches[0].facts(rule.clause) if matches else np.empty((0, 3), np.int64)
    return " & ".join(f"({h}, {r}, {t})" for h, r, t in facts_by_name(graph, facts))


def _one_path(graph: KnowledgeGraph, steps: list[int], head: int, tail: int) -> np.ndarray:
    """The facts [L, 3] of the first path over these relations."""
    wanted = [step for step in steps if step != NONE]

    def search(at: int, left: list[int], visited: tuple[int, ...]) -> list[tuple[int, int, int]] | None:
        if not left:
            return [] if at == tail else None
        for entity in graph.answers(np.array([at]), np.array([left[0]])).values.tolist():
            last = len(left) == 1
            if entity in visited or (entity == tail) != last:
                continue
            rest = search(entity, left[1:], (*visited, entity))
            if rest is not None:
                return [(at, left[0], entity), *rest]
        return None

    path = np.array(search(head, wanted, (head,)) or np.empty((0, 3)), np.int64).reshape(-1, 3)
    turned = path[:, 1] >= graph.num_relations
    path[turned] = graph.inverted(path[turned])
    return path
