"""Select one of several trained models for a graph: the one that is best on the graph's own facts.

Some facts of the graph are hidden and predicted by every expert, so the selection only uses the graph itself. A bad
expert cannot harm the answers of a good one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from anykg.answers.hiding.recovery import hide
from anykg.evaluation.evaluate import evaluate
from anykg.evaluation.metrics import summarise
from anykg.evaluation.protocol import Protocol, Target
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor

HIDDEN = 500
"""Number of hidden facts; fewer for rows that sample their questions."""


@dataclass(frozen=True)
class Experts:
    """Models by what they were trained on."""

    models: Mapping[str, LinkPredictor]

    def best(self, graph: KnowledgeGraph, kind: Target, protocol: Protocol, seed: int, limit: int | None) -> str:
        """The expert with the highest MRR on hidden facts of the graph; ties go to the first."""
        rounds = graph.derive(hide, HIDDEN, seed)
        means = {}
        for name, model in self.models.items():
            asked = [
                evaluate(model, rest, hidden, task=kind, protocol=protocol, seed=seed, limit=limit)
                for rest, hidden in rounds
            ]
            means[name] = summarise(np.concatenate([one.ranks.by(one.protocol.ties) for one in asked]))["mrr"]
        return max(means, key=lambda name: means[name])
