"""Predict with rules alone: the unknown triplets that they imply, most confident first.

Rules are clauses over any relations, or clauses whose relations are named. A triplet's confidence is that of the best
rule that implies it, as measured where the rule was mined; ties are broken by the next best rules. Nothing is learnt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from anykg.errors import DataError
from anykg.graph.graph import KnowledgeGraph
from anykg.progress import Progress, ignore
from anykg.rules.clause import Clause
from anykg.rules.kernels.bodies import joined_pairs
from anykg.rules.kernels.joins import NONE, adjacency
from anykg.rules.match import groundings, implied
from anykg.rules.shapes import path_steps

MOST = 20_000_000
"""Upper bound on the triplets implied by one rule."""


@dataclass(frozen=True)
class Applied:
    """A rule to apply."""

    text: str
    clause: Clause
    confidence: float
    relations: tuple[int, ...] | None = None
    """Ids of C1, C2, ..; None for any."""


def apply(rules: Sequence[Applied], graph: KnowledgeGraph, *, k: int = 20, progress: Progress = ignore) -> pl.DataFrame:
    """The k best new triplets that rules imply: head, relation, tail, confidence, rule, because.

    `rule` is the most confident one that implies the triplet, `because` the facts of one of its groundings.
    """
    parts, which = [np.empty((0, 3), np.int64)], [np.empty(0, np.int64)]
    for number, rule in enumerate(rules):
        implied_triplets = implied(rule.clause, graph) if rule.relations is None else _implied_by_name(rule, graph)
        parts.append(implied_triplets[~graph.contains(implied_triplets)])
        which.append(np.full(len(parts[-1]), number))
        progress(number + 1, len(rules))
    triplets, row = np.unique(np.concatenate(parts), axis=0, return_inverse=True)
    by, row = np.concatenate(which), row.reshape(-1)
    confidences = np.array([rule.confidence for rule in rules])
    best = np.zeros(len(triplets), np.int64)
    order = np.argsort(confidences[by], kind="stable")
    best[row[order]] = by[order]  # the last one written is the most confident
    doubts = np.bincount(row, np.log1p(-np.minimum(confidences[by], 1 - 1e-9)), len(triplets))
    highest = confidences[best] if len(triplets) else np.zeros(0)
    chosen = np.lexsort((doubts, -highest))[:k]
    heads, relations, tails = triplets[chosen].T
    return pl.DataFrame(
        {
            "head": graph.entities.names.gather(heads),
            "relation": graph.relations.names.gather(relations),
            "tail": graph.entities.names.gather(tails),
            "confidence": highest[chosen],
            "rule": pl.Series([rules[best[i]].text for i in chosen], dtype=pl.String),
            "because": pl.Series([_because(rules[best[i]], graph, triplets[i]) for i in chosen], dtype=pl.String),
        }
    )


def facts_by_name(graph: KnowledgeGraph, facts: np.ndarray) -> list[tuple[str, str, str]]:
    """Facts [L, 3] as text, by name."""
    return [(graph.entities.label(h), graph.relations.label(r), graph.entities.label(t)) for h, r, t in facts]


def _steps(rule: Applied, num_relations: int) -> np.ndarray:
    """The path of a rule with named relations: steps [3] over 2R, NONE after the last."""
    assert rule.relations is not None
    directions, variables = path_steps(rule.clause)
    steps = np.full(3, NONE, np.int64)
    for number, variable in enumerate(variables):
        steps[number] = rule.relations[variable] + (num_relations if directions >> number & 1 else 0)
    return steps


def _implied_by_name(rule: Applied, graph: KnowledgeGraph) -> np.ndarray:
    assert rule.relations is not None
    pairs = joined_pairs(graph.derive(adjacency), _steps(rule, graph.num_relations), MOST)
    if len(pairs) > MOST:
        raise DataError(f"{rule.text}: implies more than {MOST:,} triplets; use a higher minimal confidence.")
    return np.stack([pairs[:, 0], np.full(len(pairs), rule.relations[0]), pairs[:, 1]], axis=1)


def _because(rule: Applied, graph: KnowledgeGraph, triplet: np.ndarray) -> str:
    head, relation, tail = (int(part) for part in triplet)
    if rule.relations is None:
        matches = groundings(rule.clause, graph, (head, relation, tail), limit=1)
        facts = matches[0].facts(rule.clause) if matches else np.empty((0, 3), np.int64)
    else:
        facts = _one_path(graph, _steps(rule, graph.num_relations).tolist(), head, tail)
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
