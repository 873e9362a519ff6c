"""Pairwise ISDEA+ against its definition."""

import numpy as np
import torch

from anykg.models.isdea.pairwise import (
    OTHER,
    OTHER_INVERSE,
    OWN,
    OWN_INVERSE,
    PairwiseConfig,
    PairwiseISDEA,
    triplet_types,
)
from graphs import random_graph


def test_a_relation_is_told_from_all_others_and_from_nothing_else() -> None:
    found = triplet_types(torch.tensor([0, 4]), 3)  # relation 0, and the inverse of relation 1
    assert found[0].tolist() == [OWN, OTHER, OTHER, OWN_INVERSE, OTHER_INVERSE, OTHER_INVERSE]
    assert found[1].tolist() == [OTHER_INVERSE, OWN_INVERSE, OTHER_INVERSE, OTHER, OWN, OTHER]


@torch.no_grad()
def test_scores_are_those_of_the_definition() -> None:
    graph = random_graph(9, 3, 30, 1)
    torch.manual_seed(0)
    model = PairwiseISDEA(PairwiseConfig(width=16, layers=2)).eval()
    edges = graph.with_inverses()
    for head, relation in ((0, 1), (4, 5)):
        types = triplet_types(torch.tensor([relation]), 3)[0]
        boundary = torch.zeros(9, 16)
        boundary[head] = model.start
        states = boundary
        for layer, weights in zip(model.layers, model.types, strict=True):
            received = boundary.clone()
            for u, r, v in edges.tolist():
                received[u] += weights[types[r]] * states[v]
            states = states + layer.norm(layer.linear(torch.cat([states, received], dim=1))).relu()
        rows = torch.cat([states, model.start.expand(9, -1)], dim=1)
        expected = model.last(model.hidden(rows).relu()).squeeze(1)
        found = model.score_tails(model.encode(graph), torch.tensor([head]), torch.tensor([relation]))[0]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert np.isfinite(found.numpy()).all()
