"""Ultra: symmetry, equal answers by every way of asking, training, published names."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.errors import CheckpointError, ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.models.nbf import fast
from anykg.models.nbf import ultra as module
from anykg.models.nbf.published import import_ultra_weights
from anykg.models.nbf.queries import as_queries, without_facts
from anykg.models.nbf.ultra import Ultra, UltraConfig
from anykg.seeds import generator
from anykg.threads import threads

SMALL = UltraConfig(width=16, relation_layers=2, entity_layers=3)


def random_graph(seed=0, entities=40, relations=5, count=150):
    random = generator(seed, "graph")
    rows = np.stack([random.integers(size, size=count) for size in (entities - 2, relations, entities - 2)], axis=1)
    names = [Vocabulary(k, [f"{k}{i}" for i in range(n)]) for k, n in (("entity", entities), ("relation", relations))]
    return KnowledgeGraph(rows, *names)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Ultra(SMALL).eval()


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6))
@torch.no_grad()
def test_exactly_double_equivariant(seed):
    torch.manual_seed(seed)
    model, graph, random = Ultra(SMALL), random_graph(seed), generator(seed, "orders")
    entity_order, relation_order = random.permutation(graph.num_entities), random.permutation(graph.num_relations)
    other = graph.relabel(entity_order, relation_order)
    heads, relations = torch.arange(8), torch.arange(8) % 5
    moved_heads = torch.from_numpy(entity_order)[heads]
    moved_relations = torch.from_numpy(relation_order)[relations]
    for shift in (0, graph.num_relations):
        scores = model.score_tails(model.encode(graph), heads, relations + shift)
        moved = model.score_tails(model.encode(other), moved_heads, moved_relations + shift)
        torch.testing.assert_close(moved[:, torch.from_numpy(entity_order)], scores, atol=1e-4, rtol=1e-4)
    assert scores.std() > 1e-4


@torch.no_grad()
def test_every_way_of_asking_gives_the_same_score(model):
    graph = random_graph()
    encoded = model.encode(graph)
    heads, relations = torch.tensor([3, 3, 7, 39, 3]), torch.tensor([1, 1, 8, 0, 6])
    everything = model.score_tails(encoded, heads, relations)
    assert everything.shape == (5, 40)
    candidates = torch.randint(40, (5, 7), generator=torch.Generator().manual_seed(1))
    some = model.score_tails(encoded, heads, relations, candidates)
    torch.testing.assert_close(some, everything.gather(1, candidates), atol=1e-5, rtol=1e-5)
    between = model.score_relations(encoded, heads, candidates[:, 0])  # [5, R]
    asked = torch.arange(5).repeat(5)
    direct = model.score_tails(encoded, heads.repeat_interleave(5), asked)
    tails = candidates[:, 0].repeat_interleave(5)
    torch.testing.assert_close(between.flatten(), direct[torch.arange(25), tails], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_relations_read_at_both_ends_are_the_mean_of_the_fact_and_its_inverse(model):
    graph = random_graph()
    both = model.with_config(relation_ends="both")
    encoded = both.encode(graph)
    heads, tails = torch.tensor([3, 7, 39]), torch.tensor([5, 7, 0])
    scores = both.score_relations(encoded, heads, tails)  # [3, R]
    for relation in range(graph.num_relations):
        there = torch.stack([heads, torch.full((3,), relation), tails], dim=1)
        back = torch.stack([tails, torch.full((3,), relation + graph.num_relations), heads], dim=1)
        mean = (both.score_triplets(encoded, there) + both.score_triplets(encoded, back)) / 2
        torch.testing.assert_close(scores[:, relation], mean, atol=1e-5, rtol=1e-5)
    asked = torch.tensor([[1, 4], [0, 0], [2, 3]])
    some = both.score_relations(encoded, heads, tails, asked)
    torch.testing.assert_close(some, scores.gather(1, asked), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(scores, model.score_relations(encoded, heads, tails))


@torch.no_grad()
def test_blocks_are_smaller_without_kernels(model):
    encoded = model.encode(random_graph())
    wide = Ultra(UltraConfig(width=16))
    assert wide.query_bytes(encoded) == 2 * 4 * 16 * encoded.num_entities
    assert wide.double().query_bytes(encoded) == 8 * 4 * 16 * encoded.num_entities  # kernels take float32


def test_blocks_and_a_small_cache_change_nothing(model, monkeypatch):
    graph = random_graph()
    heads, relations = torch.arange(12), torch.arange(12) % 10
    whole = model.score_tails(model.encode(graph), heads, relations)
    monkeypatch.setattr("anykg.models.nbf.queries.BLOCK_BYTES", 1)
    monkeypatch.setattr("anykg.models.nbf.queries.KEPT_BYTES", 1)
    encoded = model.encode(graph)
    torch.testing.assert_close(model.score_tails(encoded, heads, relations), whole, atol=1e-5, rtol=1e-5)
    assert len(encoded.kept) == 1


@torch.no_grad()
def test_relation_vectors_are_made_once_for_both_sides(model, monkeypatch):
    encoded = model.encode(random_graph())
    model.score_tails(encoded, torch.tensor([0]), torch.tensor([2]))
    monkeypatch.setattr(model.relation_network, "forward", lambda *_: pytest.fail("computed again"))
    model.score_tails(encoded, torch.tensor([1]), torch.tensor([2 + 5]))


@torch.no_grad()
def test_head_queries_start_from_the_direct_relation(model):
    graph = random_graph()
    encoded = model.encode(graph)
    vectors = model.relation_network(encoded.relations, torch.tensor([2]))
    expected = model.entity_network(encoded.entities, vectors, torch.tensor([0]), torch.tensor([[4, 7]]))
    torch.testing.assert_close(model.score_tails(encoded, torch.tensor([4]), torch.tensor([7])), expected)


@torch.no_grad()
def test_graphs_without_facts_score(model):
    graph = random_graph(count=0)
    encoded = model.encode(graph)
    assert model.score_tails(encoded, torch.tensor([0]), torch.tensor([0])).isfinite().all()
    assert model.score_triplets(encoded, torch.zeros(0, 3, dtype=torch.long)).shape == (0,)


def batch_of(graph, negatives=6):
    random = generator(0, "batch")
    rows = np.repeat(graph.triplets[:6, None].astype(np.int64), 1 + negatives, axis=1)
    rows[:3, 1:, 2] = random.integers(graph.num_entities, size=(3, negatives))
    rows[3:, 1:, 0] = random.integers(graph.num_entities, size=(3, negatives))
    return torch.from_numpy(rows)


def test_training_never_reads_a_target_off_its_fact(model):
    graph = random_graph()
    rows = batch_of(graph)
    others = graph.subset(~np.isin(np.arange(graph.num_triplets), np.arange(6)))
    with torch.no_grad():
        scores = model.training_scores(graph, rows, 0)
        # The relation graph is the whole graph's; only the entity network must not see the targets.
        encoded = model.encode(others)
        encoded = module.Encoded(40, 5, encoded.entities, model.encode(graph).relations)
        expected = model.score_triplets(encoded, as_queries(rows, 5)).view(6, -1)
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=1e-5)


def test_training_gradients_equal_the_reference(model, monkeypatch):
    graph = random_graph()
    rows = batch_of(graph)

    def gradients():
        model.zero_grad()
        model.training_scores(graph, rows, 0).square().mean().backward()
        return [p.grad.clone() for p in model.parameters()]

    ours = gradients()
    again = gradients()
    assert all(torch.equal(a, b) for a, b in zip(ours, again, strict=True))
    monkeypatch.setattr(fast, "kernels_apply", lambda states: False)
    for mine, reference in zip(ours, gradients(), strict=True):
        torch.testing.assert_close(mine, reference, atol=1e-4, rtol=1e-3)


def test_results_do_not_depend_on_the_number_of_threads(model):
    graph = random_graph(4)
    rows = torch.from_numpy(graph.triplets[:6].astype(np.int64))[:, None].repeat(1, 3, 1)
    results = []
    for count in (1, 3):
        model.zero_grad()
        with threads(kernels=count):
            scores = model.training_scores(graph, rows, 0)
            scores.square().sum().backward()
        results.append([scores.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)])
    assert len(results[0]) > 10
    assert all(torch.equal(one, two) for one, two in zip(*results, strict=True))


def test_edge_weights_attribute_a_score(model):
    from dataclasses import replace

    graph = random_graph()
    encoded = model.encode(graph)
    weights = torch.ones(3, 2 * graph.num_triplets, requires_grad=True)
    triplets = torch.from_numpy(graph.triplets[:2].astype(np.int64))
    scores = model.score_triplets(replace(encoded, edge_weights=weights), triplets)
    torch.testing.assert_close(scores, model.score_triplets(encoded, triplets), atol=1e-4, rtol=1e-4)
    (grad,) = torch.autograd.grad(scores[0], weights)
    assert grad.abs().sum() > 0


def test_rows_are_turned_where_heads_vary():
    rows = torch.tensor([[[0, 1, 2], [0, 1, 3]], [[0, 1, 2], [4, 1, 2]], [[5, 1, 5], [5, 1, 5]]])
    assert as_queries(rows, 10).tolist() == [[0, 1, 2], [0, 1, 3], [2, 11, 0], [2, 11, 4], [5, 1, 5], [5, 1, 5]]


def test_facts_and_inverses_are_left_out():
    graph = random_graph()
    fact = graph.triplets[4]
    for asked in (fact[None], graph.inverted(fact[None])):
        keep = without_facts(graph, asked)
        assert np.flatnonzero(~keep).tolist() == [4, 4 + graph.num_triplets]
    absent = np.array([[39, 0, 39]])
    assert without_facts(graph, absent).all()


def test_foreign_weights_are_refused():
    with pytest.raises(CheckpointError, match="published Ultra"):
        import_ultra_weights({"some.weight": torch.zeros(1)})


def test_settings_below_one_are_refused():
    with pytest.raises(ConfigError, match="width of at least 1, found 0"):
        UltraConfig(width=0)
