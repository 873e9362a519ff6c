"""Appendix A: the design of ISDEA+ in detail, and its time complexity."""

import time
from collections import deque
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, nn

from anykg.graph.distances import triplet_distances
from anykg.graph.graph import KnowledgeGraph
from anykg.models.isdea.folded import folded_scalars
from anykg.models.registry import MODELS
from anykg.training.losses import balanced
from graphs import random_graph
from theory.actions import Renamed, build, close, renamed_graphs, scores, triplets_of

# -- Eq. 4: shortest distances that do not use the triplet asked about ------------------------------------------


def distance(graph: KnowledgeGraph, triplet: list[int], *, back: bool) -> int:
    """Steps from i to j (or back) over directed facts other than (i, k, j); -1 where there is no path."""
    facts = [fact for fact in graph.triplets.tolist() if fact != triplet]
    start, goal = (triplet[2], triplet[0]) if back else (triplet[0], triplet[2])
    steps, queue = {start: 0}, deque([start])
    while queue:
        here = queue.popleft()
        for head, _, tail in facts:
            if head == here and tail not in steps:
                steps[tail] = steps[here] + 1
                queue.append(tail)
    return steps.get(goal, -1)


@settings(max_examples=30)
@given(renamed_graphs(max_entities=5, max_relations=2))
def test_equation_4_distances_do_not_use_the_triplet_itself(renamed: Renamed) -> None:
    graph = renamed.graph
    every = triplets_of(graph)
    expected = [[distance(graph, row, back=back) for back in (False, True)] for row in every.tolist()]
    found = triplet_distances(graph, every, directed=True, leave_out="triplet")
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("readout", ["plain", "full"])
@settings(max_examples=15)
@given(renamed=renamed_graphs(max_entities=5))
def test_equation_4_both_read_outs_are_double_invariant(readout: str, renamed: Renamed) -> None:
    """[X_ik, X_jk, d(i, j), d(j, i)] as in the text, and the public code's with the product of the two."""
    graph, phi, tau, image = renamed
    model, every = build("isdea+", graph, readout=readout), triplets_of(graph)
    moved = np.stack([phi[every[:, 0]], tau[every[:, 1]], phi[every[:, 2]]], axis=1)
    assert close(scores(model, graph, every), scores(model, image, moved))


# -- Eq. 5: the loss --------------------------------------------------------------------------------------------


def test_equation_5_is_the_loss_with_averaged_negatives() -> None:
    logits = torch.randn(7, 1 + 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gamma = torch.sigmoid(logits)
    expected = -(gamma[:, 0].log() + (1 - gamma[:, 1:]).log().sum(1) / 4).sum()
    torch.testing.assert_close(7 * balanced(logits), expected)


def test_equation_5_corrupts_two_entities_and_two_relations() -> None:
    recipe = MODELS.load("isdea+").recipe
    assert (recipe.negative_entities, recipe.negative_relations) == (2, 2)


# -- time complexity: O(L (|S| d + |V| d^2)) a relation, twice the GNN ------------------------------------------


class Counted(nn.Module):
    """A convolution that counts its work: messages over edges, and updates of nodes."""

    messages: ClassVar[int] = 0
    updates: ClassVar[int] = 0
    multiplications: ClassVar[int] = 0
    seconds: ClassVar[float] = 0.0

    def __init__(self, width: int, _: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, states: Tensor, edges: Tensor) -> Tensor:
        begin, (nodes, width) = time.perf_counter(), states.shape
        Counted.messages += edges.shape[1]
        Counted.updates += nodes
        Counted.multiplications += edges.shape[1] * width + nodes * width**2
        gathered: Tensor = self.linear(torch.zeros_like(states).index_add(0, edges[1], states[edges[0]]))
        Counted.seconds += time.perf_counter() - begin
        return gathered


def work(graph: KnowledgeGraph, relations: list[int], layers: int = 3, width: int = 16) -> tuple[int, int, int]:
    """Messages, updates and multiplications of the GNN in scoring all tails of one head for each relation."""
    model = build("isdea+", graph, gnn=f"{__name__}:Counted", form="literal", layers=layers, width=width)
    Counted.messages = Counted.updates = Counted.multiplications = 0
    with torch.no_grad():
        model.score_tails(model.encode(graph), torch.zeros(len(relations), dtype=torch.long), torch.tensor(relations))
    return Counted.messages, Counted.updates, Counted.multiplications


def gnn_work(graph: KnowledgeGraph, layers: int = 3, width: int = 16) -> tuple[int, int, int]:
    """What L layers of the GNN cost on the graph with both directions of every fact."""
    edges, nodes = 2 * graph.num_triplets, graph.num_entities
    return layers * edges, layers * nodes, layers * (edges * width + nodes * width**2)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_time_complexity_is_at_most_twice_the_gnn_for_each_relation(layers: int) -> None:
    """One layer less: in the first, the two streams share the facts between them."""
    graph = random_graph(40, 4, 150, seed=0)
    messages, updates, _ = work(graph, [1], layers)
    alone = gnn_work(graph, layers)
    assert messages == 2 * alone[0] - 2 * graph.num_triplets
    assert updates == 2 * alone[1]


def test_time_complexity_grows_with_the_relations_asked_for() -> None:
    """The paper's factor of two is for one relation: each step of its training considers one against all others."""
    graph = random_graph(40, 4, 150, seed=0)
    one, three = work(graph, [1]), work(graph, [0, 1, 2])
    assert three == tuple(3 * count for count in one)


def test_time_complexity_is_linear_in_facts_and_entities_and_quadratic_in_width() -> None:
    graph = random_graph(40, 4, 150, seed=0)
    facts, entities, layers = graph.num_triplets, 40, 3
    for width in (8, 16, 32):
        expected = (2 * layers - 1) * 2 * facts * width + 2 * layers * entities * width**2
        assert work(graph, [2], layers, width)[2] == expected
    twice = random_graph(80, 4, 300, seed=0)
    ratio = work(twice, [2])[2] / work(graph, [2])[2]
    assert ratio == pytest.approx(2, rel=0.02)  # duplicates among random facts are left out


def test_time_complexity_folded_keeps_a_few_numbers_for_each_entity_and_relation() -> None:
    """With the GCN kernel no graph is left in a step: T numbers a pair, T + 1 an entity, whatever the facts."""
    for entities, relations, facts in ((40, 4, 150), (80, 4, 150), (40, 8, 150), (40, 4, 600)):
        scalars = folded_scalars(random_graph(entities, relations, facts), 3)
        assert scalars.pair.numel() == 3 * 2 * entities * relations
        assert scalars.entity.numel() == 4 * entities


def test_time_complexity_measured() -> None:
    """Seconds inside the GNN as the graph grows, beside L layers of it alone: printed (`pytest -s`), not asserted."""
    for entities, relations, facts in ((2000, 8, 10_000), (4000, 8, 10_000), (2000, 8, 20_000), (2000, 16, 10_000)):
        graph = random_graph(entities, relations, facts)
        ends = torch.from_numpy(graph.with_inverses()[:, [2, 0]].T.astype(np.int64))
        layers = [Counted(16, 16) for _ in range(3)]
        Counted.seconds = 0.0
        with torch.no_grad():
            for _ in range(5):
                states = torch.ones(entities, 16)
                for layer in layers:
                    states = layer(states, ends)
            alone = Counted.seconds / 5
            model = build("isdea+", graph, gnn=f"{__name__}:Counted", form="literal")
            Counted.seconds = 0.0
            for _ in range(5):
                model.score_tails(model.encode(graph), torch.tensor([0]), torch.tensor([0]))
        both = Counted.seconds / 5
        print(f"N {entities} R {relations} E {facts}: {1000 * both:.1f} ms, {both / alone:.2f} times the GNN alone")
        assert both > 0
