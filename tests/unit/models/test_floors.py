"""The baselines score what their names say."""

from __future__ import annotations

import numpy as np
import torch

from anykg.graph.graph import KnowledgeGraph
from anykg.models.floors import Degree

GRAPH = KnowledgeGraph.from_names(
    ["hub", "hub", "hub", "a", "b"], ["r", "r", "s", "s", "s"], ["a", "b", "c", "hub", "b"]
)


def test_degree_counts_both_ends_of_facts_whatever_their_relation() -> None:
    model = Degree()
    encoded = model.encode(GRAPH)
    hub, a, b, c = GRAPH.entities.ids(["hub", "a", "b", "c"])
    ends = {hub: 4, a: 2, b: 3, c: 1}  # a loop has two ends
    shares = encoded.log_shares.exp().numpy()
    assert np.allclose([shares[entity] for entity in ends], [(count + 1) / 14 for count in ends.values()])
    scores = model.score_tails(encoded, torch.tensor([a, c]), torch.tensor([0, 1]))
    assert (scores.argmax(1) == int(hub)).all()
    assert torch.allclose(scores[0] - scores[0, hub], scores[1] - scores[1, hub])


def test_degree_answers_relations_by_chance() -> None:
    model = Degree()
    scores = model.score_relations(model.encode(GRAPH), torch.tensor([0]), torch.tensor([1]))
    assert scores.shape == (1, GRAPH.num_relations)
    assert len(scores.unique()) == 1
