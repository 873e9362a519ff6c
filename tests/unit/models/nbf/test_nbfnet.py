"""NBFNet: what its relation vectors make equivariant, and training on the fast and slow path."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.models.base import Symmetry
from anykg.models.nbf import pna
from anykg.models.nbf.nbfnet import NBFNet, NBFNetConfig
from anykg.models.nbf.queries import as_queries
from anykg.seeds import generator


def random_graph(relations=4, count=120, entities=30):
    random = generator(0, "graph")
    rows = np.stack([random.integers(size, size=count) for size in (entities, relations, entities)], axis=1)
    names = [Vocabulary(k, [f"{k}{i}" for i in range(n)]) for k, n in (("entity", entities), ("relation", relations))]
    return KnowledgeGraph(rows, *names)


def build(aggregation="pna", relation_vectors="trained", graph=None):
    torch.manual_seed(0)
    config = NBFNetConfig(width=16, layers=2, aggregation=aggregation, relation_vectors=relation_vectors)
    return NBFNet.build(config, graph or random_graph())


def batch_of(graph, negatives=5):
    rows = np.repeat(graph.triplets[:6, None].astype(np.int64), 1 + negatives, axis=1)
    rows[:3, 1:, 2] = generator(1, "tails").integers(graph.num_entities, size=(3, negatives))
    rows[3:, 1:, 0] = generator(1, "heads").integers(graph.num_entities, size=(3, negatives))
    return torch.from_numpy(rows)


@pytest.mark.parametrize("aggregation", ["pna", "sum"])
@torch.no_grad()
def test_relabelling_entities_is_harmless_and_relations_is_not(aggregation):
    graph, model = random_graph(), build(aggregation)
    assert model.symmetry is Symmetry.ENTITIES_ONLY
    order, same = generator(2, "order").permutation(30), np.arange(4)
    heads, relations = torch.arange(6), torch.arange(6)
    scores = model.score_tails(model.encode(graph), heads, relations)
    moved = model.score_tails(model.encode(graph.relabel(order, same)), torch.from_numpy(order)[heads], relations)
    torch.testing.assert_close(moved[:, torch.from_numpy(order)], scores, atol=1e-4, rtol=1e-4)
    swapped = model.encode(graph.relabel(np.arange(30), np.array([1, 2, 3, 0])))
    other = model.score_tails(swapped, heads[:3], relations[:3] + 1)
    assert (other - scores[:3]).abs().max() > 1e-3


@torch.no_grad()
def test_random_vectors_depend_on_the_seed_alone():
    model = build(relation_vectors="random")
    assert model.symmetry is Symmetry.IN_EXPECTATION
    graph = random_graph(relations=7)  # more relations than in training

    def scores(seed):
        return model.score_tails(model.encode(graph, seed), torch.tensor([0, 1]), torch.tensor([2, 9]))

    assert torch.equal(scores(3), scores(3))
    assert not torch.allclose(scores(3), scores(4))


def test_trained_vectors_refuse_other_relations():
    with pytest.raises(ConfigError, match="4 relations it was trained on, but this graph has 7"):
        build().encode(random_graph(relations=7))


def test_tables_have_the_training_graphs_size():
    model = build(relation_vectors="random")
    assert model.config.num_relations == 4
    assert NBFNet(model.config).load_state_dict(model.state_dict())
    assert model.query.shape == (8, 16)


@pytest.mark.parametrize("aggregation", ["pna", "sum"])
@torch.no_grad()
def test_every_way_of_asking_gives_the_same_score(aggregation):
    graph, model = random_graph(), build(aggregation)
    encoded = model.encode(graph)
    heads, relations = torch.tensor([3, 3, 7]), torch.tensor([1, 1, 6])
    candidates = torch.tensor([[0, 1], [5, 3], [29, 2]])
    everything = model.score_tails(encoded, heads, relations)
    some = model.score_tails(encoded, heads, relations, candidates)
    torch.testing.assert_close(some, everything.gather(1, candidates), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("aggregation", ["pna", "sum"])
def test_training_leaves_the_targets_out_and_learns_vectors(aggregation):
    graph, model = random_graph(), build(aggregation, "random")
    rows = batch_of(graph)
    scores = model.training_scores(graph, rows, 0)
    others = graph.subset(np.arange(6, graph.num_triplets))
    trained = NBFNet(replace(model.config, relation_vectors="trained"))
    trained.load_state_dict(model.state_dict())
    expected = trained.score_triplets(trained.encode(others), as_queries(rows, 4)).view(6, -1)
    torch.testing.assert_close(scores, expected, atol=1e-4, rtol=1e-4)
    scores.square().mean().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


def test_gradients_equal_the_reference(monkeypatch):
    graph, model = random_graph(), build("pna")
    rows = batch_of(graph)

    def gradients():
        model.zero_grad()
        model.training_scores(graph, rows, 0).square().mean().backward()
        return [p.grad.clone() for p in model.parameters()]

    ours = gradients()
    monkeypatch.setattr(pna, "kernels_apply", lambda states: False)
    for mine, reference in zip(ours, gradients(), strict=True):
        torch.testing.assert_close(mine, reference, atol=1e-3, rtol=1e-2)


def dependent(aggregation="pna", relation_vectors="trained"):
    torch.manual_seed(0)
    config = NBFNetConfig(16, 2, aggregation, relation_vectors, query_dependent=True)
    return NBFNet.build(config, random_graph())


@pytest.mark.parametrize("aggregation", ["pna", "sum"])
@torch.no_grad()
def test_vectors_that_depend_on_the_query_are_those_of_its_relation(aggregation):
    graph, model = random_graph(), dependent(aggregation)
    heads, relations = torch.tensor([3, 4, 9, 3, 0]), torch.tensor([6, 1, 6, 1, 0])
    scores = model.score_tails(model.encode(graph), heads, relations)
    for i, (head, relation) in enumerate(zip(heads, relations, strict=True)):
        fixed = build(aggregation)
        fixed.load_state_dict({k: v for k, v in model.state_dict().items() if k != "maps"})
        fixed.vectors.copy_(model.vectors + torch.einsum("lrij,j->lri", model.maps, model.query[relation]))
        expected = fixed.score_tails(fixed.encode(graph), head[None], relation[None])
        torch.testing.assert_close(scores[i], expected[0], atol=1e-4, rtol=1e-4)
    unsorted = model.answers(model.encode(graph), torch.stack([heads, relations], dim=1), None)
    torch.testing.assert_close(unsorted, scores, atol=1e-4, rtol=1e-4)
    candidates = torch.tensor([[0, 1], [5, 3], [29, 2], [7, 7], [4, 6]])
    some = model.score_tails(model.encode(graph), heads, relations, candidates)
    torch.testing.assert_close(some, scores.gather(1, candidates), atol=1e-4, rtol=1e-4)


def test_maps_of_the_query_are_learned_and_drawn_for_other_relations():
    graph, model = random_graph(), dependent(relation_vectors="random")
    model.training_scores(graph, batch_of(graph), 0).square().mean().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
    encoded = model.encode(random_graph(relations=7), seed=1)
    assert encoded.maps.shape == (2, 14, 16, 16)
    assert encoded.maps.abs().max() <= 0.25  # 1 / sqrt(16)
