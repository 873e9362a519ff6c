"""Section 3.4: ISDEA+ makes a double equivariant model of any GNN for homogeneous graphs (Eq. 2, Lemma 3.3)."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from graphs import named, random_graph
from theory.actions import Renamed, act, build, close, move, renamed_graphs, scores, triplets_of, whole

KERNELS = ("gcn", "gin", "gat", "graphconv", "sage", "torch_geometric.nn:TAGConv")
SETS = ("sum", "mean", "max", "deepsets")


class ByPosition(nn.Module):
    """A "GNN" that is not equivariant: nodes weigh by their number."""

    def __init__(self, width: int, _: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, states: Tensor, edges: Tensor) -> Tensor:
        weight = torch.arange(1.0, len(states) + 1)[:, None]
        gathered = torch.zeros_like(states).index_add(0, edges[1], (states * weight)[edges[0]])
        return self.linear(gathered)  # type: ignore[no-any-return]


@pytest.mark.parametrize("gnn", KERNELS)
@settings(max_examples=10)
@given(renamed=renamed_graphs(max_entities=5))
def test_lemma_3_3_any_gnn_becomes_double_invariant(gnn: str, renamed: Renamed) -> None:
    graph, phi, tau, image = renamed
    model, every = build("isdea+", graph, gnn=gnn), triplets_of(graph)
    assert close(scores(model, graph, every), scores(model, image, move(every, phi, tau)))


@pytest.mark.parametrize("aggregation", SETS)
@settings(max_examples=10)
@given(renamed=renamed_graphs(max_entities=5))
def test_lemma_3_3_with_any_set_aggregation(aggregation: str, renamed: Renamed) -> None:
    graph, phi, tau, image = renamed
    model = build("isdea+", graph, aggregation=aggregation)
    assert close(act(phi, tau, whole(model, graph)), whole(model, image))


def test_lemma_3_3_needs_an_equivariant_gnn() -> None:
    graph = random_graph(6, 2, 12, seed=0)
    phi, tau = np.roll(np.arange(6), 1), np.array([1, 0])
    model = build("isdea+", graph, gnn=f"{__name__}:ByPosition", form="literal")
    assert not close(act(phi, tau, whole(model, graph)), whole(model, graph.relabel(phi, tau)))


@settings(max_examples=25)
@given(st.integers(0, 2**31), st.integers(0, 2**31))
def test_equation_2_sees_other_relations_as_one(seed: int, order: int) -> None:
    """Layer k reads A_k and the sum of all others: which of the others a fact belongs to makes no difference."""
    graph = random_graph(6, 4, 14, seed)
    model, every = build("isdea+", graph), triplets_of(graph)
    facts = graph.triplets.copy()
    pairs = np.unique(facts[:, ::2], axis=0, return_inverse=True)[1].reshape(-1)
    random = np.random.default_rng(order)
    for pair in np.unique(pairs):  # parallel facts keep different relations
        others = np.flatnonzero((pairs == pair) & (facts[:, 1] != 0))
        facts[others, 1] = 1 + random.permutation(3)[: len(others)]
    shuffled = graph.with_triplets(facts)
    about = every[(every[:, 1] == 0) & ~graph.contains(every)]  # of a fact, itself is left out of its distances
    assert close(scores(model, graph, about), scores(model, shuffled, about))


def test_equation_2_tells_a_relation_from_the_others() -> None:
    """Two triplets that differ in the relation alone, one of which the head is known to have."""
    graph = named("a r b", "c r d", "a s c", "b t d")
    rows = triplets_of(graph)
    found = scores(build("isdea+", graph), graph, rows)
    head, tail = graph.entities.index("a"), graph.entities.index("d")
    between = found[(rows[:, 0] == head) & (rows[:, 2] == tail)]
    assert len(np.unique(between.round(6))) == 3
