"""Which of several models answers about a graph."""

import numpy as np
import pytest
import torch
from torch import Tensor

from anykg.benchmarks.experts import Experts
from anykg.evaluation.protocol import PROTOCOLS, Target
from anykg.graph.graph import KnowledgeGraph
from anykg.io.catalog import load_task
from anykg.models.base import LinkPredictor
from anykg.models.random import RandomScorer


class Knows(LinkPredictor):
    """Knows every fact of a graph, whatever part of it it is shown."""

    def __init__(self, facts: KnowledgeGraph) -> None:
        super().__init__()
        self.facts = facts

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> KnowledgeGraph:
        del seed
        return graph

    def score_triplets(self, encoded: KnowledgeGraph, triplets: Tensor) -> Tensor:
        del encoded
        return torch.from_numpy(self.facts.contains(triplets.numpy()).astype(np.float32))


@pytest.mark.parametrize("kind", ["node", "relation"])
@pytest.mark.parametrize("order", [("random", "knows"), ("knows", "random")])
def test_the_one_that_knows_the_graph_answers(kind: Target, order: tuple[str, str]) -> None:
    graph = load_task("atlas").observed
    models = {"knows": Knows(graph), "random": RandomScorer()}
    experts = Experts({name: models[name] for name in order})
    assert experts.best(graph, kind, PROTOCOLS["paper"], seed=0, limit=None) == "knows"
