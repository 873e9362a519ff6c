"""The clauses that imply a triplet, each with the facts that match its body.

Clauses whose relations are instantiated are rules of this graph. The confidence of those with a path is counted, from
all entities or a sample. For each clause, the grounding that holds most often is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.models.uqer import UQER
from anykg.rules.clause import Clause
from anykg.rules.evidence import features
from anykg.rules.kernels.bodies import count_bodies
from anykg.rules.kernels.joins import NONE, adjacency
from anykg.rules.match import groundings, is_implied
from anykg.rules.named import LONGEST
from anykg.rules.shapes import HALF_LINKS, path_clauses, path_steps

TRIED = 16
"""Number of groundings of a clause among which the best is chosen."""
STARTS, WORK = 2000, 1_000_000
"""Upper bounds on the entities from which a rule is counted and on the facts read."""


@dataclass(frozen=True)
class Match:
    """A clause that implies the triplet."""

    clause: Clause
    facts: np.ndarray  # int64 [L, 3]: the body, filled in
    support: int | None = None
    """Number of entity pairs linked by such facts that have the relation; None if not counted."""
    body: int | None = None
    """Number of entity pairs linked by such facts."""
    weight: float | None = None
    """The clause's contribution to the score, for a model made of clauses."""

    @property
    def share(self) -> float:
        """The share of pairs for which the rule holds."""
        return self.support / self.body if self.support is not None and self.body else 0.0


def matches(
    model: LinkPredictor | None, graph: KnowledgeGraph, triplet: np.ndarray, count: int, longest: int = 3
) -> list[Match]:
    """The clauses that imply a triplet of `graph`, sorted by weight, or by how often they hold in the graph.

    Clauses with a path have up to `longest` steps.
    """
    head, relation, tail = (int(part) for part in triplet)
    result = []
    paths = {clause: steps for steps in range(1, longest + 1) for clause in path_clauses(steps).values()}
    for clause in (*paths, *HALF_LINKS):
        if not is_implied(clause, graph, np.array([triplet]))[0]:
            continue
        tried = [
            Match(clause, grounding.facts(clause), *_held(graph, clause, paths.get(clause, 0), grounding.relations))
            for grounding in groundings(clause, graph, (head, relation, tail), TRIED)
        ]
        result.append(max(tried, key=lambda match: match.share))
    weights = _weights(model, graph, triplet)
    result = [replace(match, weight=weights.get(match.clause)) for match in result]
    if weights:
        result.sort(key=lambda match: -(match.weight or 0.0))
    else:
        result.sort(key=lambda match: (-match.share, not _names_head(match.clause), len(match.facts)))
    return result[:count]


def _held(
    graph: KnowledgeGraph, clause: Clause, steps: int, relations: tuple[int, ...]
) -> tuple[int, int] | tuple[None, None]:
    """The number of pairs linked by the path that have the head's relation, and of all pairs linked by the path."""
    if not steps:
        return None, None
    directions, variables = path_steps(clause)
    body = np.full((1, LONGEST), NONE, np.int64)
    for step, variable in enumerate(variables):
        body[0, step] = relations[variable] + (graph.num_relations if directions >> step & 1 else 0)
    pairs, rows, _ = count_bodies(graph.derive(adjacency), body, STARTS, WORK)
    mine = rows[rows[:, 1] == relations[0], 2]
    return int(mine.sum()), int(pairs[0])


def _names_head(clause: Clause) -> bool:
    """Whether C1 occurs in the body: otherwise any relation matches."""
    return any(atom.relation == 0 for atom in clause.body)


def _weights(model: LinkPredictor | None, graph: KnowledgeGraph, triplet: np.ndarray) -> Mapping[Clause, float]:
    """The contribution of each clause to the score of a model made of clauses, its repetition included."""
    if not isinstance(model, UQER):
        return {}
    import torch

    terms = (model.evidence(graph, torch.from_numpy(triplet)[None])[0] * model.weight).tolist()
    by_clause: dict[Clause, float] = {}
    for feature, term in zip(features(model.config.length, model.config.evidence == "graded"), terms, strict=True):
        by_clause[feature.clause] = by_clause.get(feature.clause, 0.0) + term
    return by_clause
