"""Several trained models, one of which answers about a graph: the one that is best at the graph's own facts.

Some facts of the graph are hidden and every expert is asked for them back, so the choice uses nothing but the graph
that questions are asked about. What one expert learnt badly cannot harm what another learnt well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from anykg.answers.hidden import hide
from anykg.evaluation.evaluate import evaluate
from anykg.evaluation.metrics import summarise
from anykg.evaluation.protocol import Protocol, Target
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor

HIDDEN = 500
"""Facts that are hidden; those that a row samples questions from are fewer."""


@dataclass(frozen=True)
class Experts:
    """Models by what they were trained on."""

    models: Mapping[str, LinkPredictor]

    def best(self, graph: KnowledgeGraph, kind: Target, protocol: Protocol, seed: int, limit: int | None) -> str:
        """The one with the highest MRR on hidden facts of the graph; of equals the first."""
        rounds = graph.derive(hide, HIDDEN, seed)
        means = {}
        for name, model in self.models.items():
            asked = [
                evaluate(model, rest, hidden, task=kind, protocol=protocol, seed=seed, limit=limit)
                for rest, hidden in rounds
            ]
            means[name] = summarise(np.concatenate([found.ranks.by(found.protocol.ties) for found in asked]))["mrr"]
        return max(means, key=lambda name: means[name])
