"""Predict with clauses alone: every triplet that some of them imply and that is not known, best first.

A triplet's score is 1 - the product of (1 - confidence) over the clauses that imply it, as if they erred independently;
the confidences are those measured where the clauses were mined. Nothing is learnt.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from anykg.graph.graph import KnowledgeGraph
from anykg.progress import Progress
from anykg.rules.clause import Clause
from anykg.rules.match import groundings, implied


def apply(
    clauses: Sequence[tuple[Clause, float]],
    graph: KnowledgeGraph,
    *,
    k: int = 20,
    progress: Progress | None = None,
) -> pl.DataFrame:
    """The k best new triplets of clauses with confidences: head, relation, tail, score, clause, because.

    `clause` is the most confident one that implies the triplet, `because` the facts of one of its groundings.
    """
    parts, which = [np.empty((0, 3), np.int64)], [np.empty(0, np.int64)]
    for place, (clause, _) in enumerate(clauses):
        found = implied(clause, graph)
        parts.append(found[~graph.contains(found)])
        which.append(np.full(len(parts[-1]), place))
        if progress:
            progress(place + 1, len(clauses))
    triplets, row = np.unique(np.concatenate(parts), axis=0, return_inverse=True)
    by, row = np.concatenate(which), row.reshape(-1)
    confidences = np.array([confidence for _, confidence in clauses])
    doubts = np.bincount(row, np.log1p(-np.minimum(confidences[by], 1 - 1e-9)), len(triplets))
    best = np.zeros(len(triplets), np.int64)
    order = np.argsort(confidences[by], kind="stable")
    best[row[order]] = by[order]  # the last one written is the most confident
    chosen = np.argsort(doubts, kind="stable")[:k]
    because = [_because(clauses[best[i]][0], graph, triplets[i]) for i in chosen]
    heads, relations, tails = triplets[chosen].T
    return pl.DataFrame(
        {
            "head": graph.entities.names.gather(heads),
            "relation": graph.relations.names.gather(relations),
            "tail": graph.entities.names.gather(tails),
            "score": -np.expm1(doubts[chosen]),
            "clause": pl.Series([str(clauses[best[i]][0]) for i in chosen], dtype=pl.String),
            "because": pl.Series(because, dtype=pl.String),
        }
    )


def facts_by_name(graph: KnowledgeGraph, facts: np.ndarray) -> list[tuple[str, str, str]]:
    """Facts [L, 3] with the names of what they are about."""
    return [(graph.entities.label(h), graph.relations.label(r), graph.entities.label(t)) for h, r, t in facts]


def _because(clause: Clause, graph: KnowledgeGraph, triplet: np.ndarray) -> str:
    head, relation, tail = (int(part) for part in triplet)
    found = groundings(clause, graph, (head, relation, tail), limit=1)
    facts = facts_by_name(graph, found[0].facts(clause)) if found else []
    return " & ".join(f"({h}, {r}, {t})" for h, r, t in facts)
