"""GAT, GIN and GraphConv: what torch-geometric's layers give on all-ones inputs."""

import numpy as np
import pytest
import torch

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.models.homogeneous import GAT, GraphConv, HomogeneousConfig, edge_index
from anykg.seeds import generator


def random_graph(entities: int = 20, relations: int = 3, count: int = 60) -> KnowledgeGraph:
    random = generator(0, "graph")
    rows = np.stack([random.integers(size, size=count) for size in (entities, relations, entities)], axis=1)
    names = [Vocabulary(k, [f"{k}{i}" for i in range(n)]) for k, n in (("entity", entities), ("relation", relations))]
    return KnowledgeGraph(rows, *names)


@pytest.mark.parametrize("normalize", [True, False])
@torch.no_grad()
def test_graphconv_equals_sage_with_sums(normalize: bool) -> None:
    """The public code has SAGEConv, normalised, in the place of GraphConv."""
    sage = pytest.importorskip("torch_geometric.nn").SAGEConv
    graph = random_graph()
    torch.manual_seed(0)
    model = GraphConv(HomogeneousConfig(normalize=normalize))
    states = torch.ones(graph.num_entities, 1)
    for i, own in enumerate(model.convolutions):
        other = sage(states.shape[1], 32, aggr="sum", normalize=normalize)
        other.lin_l.load_state_dict(own.lin_rel.state_dict())  # of the neighbours
        other.lin_r.load_state_dict(own.lin_root.state_dict())
        states = other(states, edge_index(graph))
        if i < 2:
            states = states.relu()
    torch.testing.assert_close(model.encode(graph).states, states, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_gat_is_the_same_with_and_without_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph()
    torch.manual_seed(0)
    model = GAT()
    states = model.encode(graph).states
    assert (states == states[0]).all()
    assert states[0].abs().max() > 0.01
    monkeypatch.setattr(GAT, "edges", staticmethod(edge_index))
    torch.testing.assert_close(model.encode(graph).states, states, atol=1e-5, rtol=1e-5)


def test_glorot_bounds_the_weights_by_their_widths() -> None:
    torch.manual_seed(0)
    model = GraphConv(HomogeneousConfig(glorot=True))
    first = model.convolutions[0].lin_rel
    for weight, fans in ((first.weight, 33), (model.readout[0].weight, 160), (model.distance.weight, 33)):
        bound = (6 / fans) ** 0.5
        assert 0.9 * bound < weight.abs().max() <= bound
    assert not first.bias.any()
