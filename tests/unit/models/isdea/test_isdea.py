"""ISDEA+: its forms are one function, every kernel and set function is double equivariant and tells relations apart."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.models.base import EncodedGraph
from anykg.models.isdea import gnn as isdea_gnn
from anykg.models.isdea import isdea, reference
from anykg.models.isdea.isdea import ISDEA, ISDEAConfig
from anykg.training.losses import labelled, loss_of

KERNELS = ["gcn", "gin", "gat", "graphconv", "sage", "torch_geometric.nn:GCNConv"]
AGGREGATIONS = ["sum", "mean", "max", "deepsets"]
SMALL = {"width": 4, "hidden": 8, "states": 6, "distance": 4, "scorer": 8}


def random_graph(seed: int, entities: int = 10, relations: int = 3, triplets: int = 25) -> KnowledgeGraph:
    random = np.random.default_rng(seed)
    rows = random.integers(0, [entities, relations, entities], size=(triplets, 3))
    names = (Vocabulary(kind, [f"{kind}{i}" for i in range(n)]) for kind, n in (("e", entities), ("r", relations)))
    return KnowledgeGraph(rows, *names)


def all_triplets(graph: KnowledgeGraph) -> torch.Tensor:
    sizes = (graph.num_entities, 2 * graph.num_relations, graph.num_entities)
    return torch.cartesian_prod(*(torch.arange(n) for n in sizes))


def model_of(seed: int = 0, **options: object) -> ISDEA:
    torch.manual_seed(seed)
    return ISDEA(ISDEAConfig(**SMALL, **options))


def twin_of(model: ISDEA, form: str) -> ISDEA:
    twin = ISDEA(ISDEAConfig(**{**vars(model.config), "form": form}))
    twin.load_state_dict(model.state_dict())
    return twin


def assert_same_function(model: ISDEA, graph: KnowledgeGraph) -> None:
    """Scores and gradients of both forms, the gradients of a random weighting of all scores."""
    rows = all_triplets(graph)
    weight = torch.randn(len(rows), generator=torch.Generator().manual_seed(1))
    results = []
    for form in ("folded", "literal"):
        twin = twin_of(model, form)
        scores = twin.training_scores(graph, rows[:, None], 0)[:, 0]
        (scores * weight).sum().backward()
        gradients = {name: p.grad for name, p in twin.named_parameters()}
        results.append((scores.detach(), gradients | twin.weights.named(gradients.pop("weights.flat"))))
    (folded, folded_gradients), (literal, literal_gradients) = results
    torch.testing.assert_close(folded, literal, rtol=1e-5, atol=1e-5)
    for name, gradient in folded_gradients.items():
        other = literal_gradients[name]
        if gradient is None or other is None:
            assert gradient is other, name
            continue
        scale = float(other.abs().max()) + 1.0
        torch.testing.assert_close(
            gradient / scale, other / scale, rtol=1e-5, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), triplets=st.integers(0, 30), layers=st.integers(1, 3))
def test_every_form_is_the_reference(seed: int, triplets: int, layers: int) -> None:
    graph, model = random_graph(seed, triplets=triplets), model_of(seed, layers=layers)
    rows = all_triplets(graph)
    with torch.no_grad():
        expected = reference.scores(model, graph, rows)
        for form in ("folded", "literal"):
            found = twin_of(model, form).score_triplets(EncodedGraph(graph), rows)
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    entities=st.integers(2, 9),
    relations=st.integers(1, 4),
    triplets=st.integers(0, 30),
    layers=st.integers(1, 4),
    aggregation=st.sampled_from(["sum", "mean"]),
    readout=st.sampled_from(["full", "plain"]),
)
def test_folded_is_literal(
    seed: int, entities: int, relations: int, triplets: int, layers: int, aggregation: str, readout: str
) -> None:
    graph = random_graph(seed, entities, relations, triplets)
    assert_same_function(model_of(seed, layers=layers, aggregation=aggregation, readout=readout), graph)


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_the_compiled_loss_is_the_loss(weight: float) -> None:
    """Value and gradient, with facts of the graph among the targets."""
    model, graph = model_of(5), random_graph(6)
    recipe = replace(ISDEA.recipe, positive_weight=weight)
    rows = all_triplets(graph)[torch.randperm(100, generator=torch.Generator().manual_seed(0))].view(20, 5, 3)
    rows[:10, 0] = torch.from_numpy(graph.triplets[:10].astype(np.int64))
    expected = loss_of(model.training_scores(graph, rows, 0), recipe)
    expected.backward()
    gradient, model.weights.flat.grad = model.weights.flat.grad, None
    found = model.compiled_loss(graph, rows, recipe)
    assert found is not None
    found.backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(model.weights.flat.grad, gradient, rtol=1e-4, atol=1e-7)
    assert model.compiled_loss(graph, rows, replace(recipe, loss="margin")) is None


def test_the_compiled_loss_takes_labels() -> None:
    model, graph = model_of(5), random_graph(6)
    rows = all_triplets(graph)[torch.randperm(60, generator=torch.Generator().manual_seed(0))][:, None]
    labels = torch.arange(60) % 3 == 1
    expected = labelled(model.training_scores(graph, rows, 0)[:, 0], labels, 2.0)
    found = model.compiled_loss(graph, rows, replace(ISDEA.recipe, positive_weight=2.0), labels=labels)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("gnn", KERNELS)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_near_is_literal(gnn: str, aggregation: str) -> None:
    assert_same_function(model_of(gnn=gnn, aggregation=aggregation), random_graph(3, 12, 4, 16))


@pytest.mark.parametrize("gnn", KERNELS)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("form", ["folded", "literal"])
@torch.no_grad()
def test_relabelling_changes_nothing(gnn: str, aggregation: str, form: str) -> None:
    graph, random = random_graph(4), np.random.default_rng(5)
    entity_order, relation_order = random.permutation(graph.num_entities), random.permutation(graph.num_relations)
    moved = graph.relabel(entity_order, relation_order)
    model = model_of(gnn=gnn, aggregation=aggregation, form=form)
    rows = all_triplets(graph)
    r = graph.num_relations
    kinds = torch.from_numpy(np.concatenate([relation_order, relation_order + r]))
    ends = torch.from_numpy(entity_order)
    there = torch.stack([ends[rows[:, 0]], kinds[rows[:, 1]], ends[rows[:, 2]]], dim=1)
    expected = model.score_triplets(model.encode(graph), rows)
    torch.testing.assert_close(model.score_triplets(model.encode(moved), there), expected, rtol=1e-4, atol=1e-5)
    by_relation = expected.view(graph.num_entities, 2 * r, graph.num_entities)
    assert (by_relation[:, 0] - by_relation[:, 1]).abs().max() > 1e-4, "it must tell relations apart"


def test_a_kernel_of_ones_own_is_used() -> None:
    graph = random_graph(6)
    model = model_of(gnn="torch_geometric.nn:GCNConv")
    scores = model.score_triplets(model.encode(graph), all_triplets(graph))
    scores.sum().backward()
    assert all(kernel.lin.weight.grad.abs().sum() > 0 for kernel in model.kernels)


@pytest.mark.parametrize("gnn", ["nothing", "torch:zeros"])
def test_an_unknown_kernel_is_refused(gnn: str) -> None:
    with pytest.raises(ConfigError, match=r"isdea: expected gnn to be gcn, gin, gat, graphconv, sage or MODULE:CLASS"):
        ISDEA(ISDEAConfig(gnn=gnn))


@pytest.mark.parametrize("options", [{}, {"readout": "plain"}, {"gnn": "gin"}, {"form": "literal"}])
@torch.no_grad()
def test_all_ways_to_ask_agree(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    graph, model = random_graph(7), model_of(**options)
    n, r = graph.num_entities, graph.num_relations
    encoded = model.encode(graph)
    scores = model.score_triplets(encoded, all_triplets(graph)).view(n, 2 * r, n)
    heads, relations, tails = torch.tensor([0, 3, 3, 9]), torch.tensor([1, 2 * r - 1, 1, 0]), torch.tensor([2, 3, 0, 9])
    torch.testing.assert_close(model.score_tails(encoded, heads, relations), scores[heads, relations])
    torch.testing.assert_close(model.score_relations(encoded, heads, tails), scores[heads, :r, tails])
    some = torch.tensor([[0, 1], [5, 5], [2, 9], [3, 4]])
    torch.testing.assert_close(
        model.score_tails(encoded, heads, relations, some), scores[heads[:, None], relations[:, None], some]
    )
    # Blocks bound memory and change nothing.
    monkeypatch.setattr(isdea, "ROWS", 16)
    monkeypatch.setattr(isdea_gnn, "PAIRS", 7)
    monkeypatch.setattr(isdea_gnn, "NODES", 2 * n)
    torch.testing.assert_close(model.score_tails(encoded, heads, relations), scores[heads, relations])
    torch.testing.assert_close(model.score_triplets(encoded, all_triplets(graph)).view(n, 2 * r, n), scores)


def test_distances_leave_out_the_triplet_asked_about() -> None:
    graph = KnowledgeGraph.from_names(["a", "b", "c"], ["r", "r", "s"], ["b", "c", "a"])
    triplets = np.array([[0, 0, 1], [0, 1, 1], [1, 2, 0], [1, 3, 0], [0, 0, 2], [0, 0, 0]])
    expected = np.array([[3, 2], [1, 2], [2, 3], [2, 1], [2, 1], [0, 0]]) / 3
    np.testing.assert_allclose(isdea.distance_features(graph, triplets), expected, rtol=1e-6)


def test_no_rows_have_no_scores() -> None:
    model, graph = model_of(), random_graph(0)
    assert model.score_triplets(model.encode(graph), torch.zeros(0, 3, dtype=torch.long)).shape == (0,)
