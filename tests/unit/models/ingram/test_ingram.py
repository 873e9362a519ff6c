"""InGram and DEq-InGram."""

from functools import partial

import numpy as np
import pytest
import torch

from anykg.errors import CheckpointError, ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.models.base import Symmetry
from anykg.models.ingram import reference
from anykg.models.ingram.ingram import InGram, InGramConfig, build_edges, import_ingram_weights
from anykg.seeds import generator
from anykg.training.spanning import resplit

SMALL = InGramConfig(
    entity_width=8,
    relation_width=8,
    entity_ratio=2,
    relation_ratio=2,
    entity_layers=2,
    relation_layers=2,
    heads=2,
    bins=4,
)


def _graph(seed=0, entities=20, relations=4, triplets=70, spare=1):
    """Facts over all entities and relations but the last `spare` ones."""
    draw = generator(seed, "graph")
    sizes = (entities - spare, relations - spare, entities - spare)
    rows = np.stack([draw.integers(high, size=triplets) for high in sizes], axis=1)
    names = (Vocabulary(kind, map(str, range(n))) for kind, n in (("entity", entities), ("relation", relations)))
    return KnowledgeGraph(rows, *names)


def _model(**changes):
    torch.manual_seed(0)
    return InGram(InGramConfig(**{**vars(SMALL), **changes})).eval()


def _all_triplets(graph):
    sizes = (graph.num_entities, graph.num_relations, graph.num_entities)
    return torch.cartesian_prod(*map(torch.arange, sizes))


def _relabelled(graph, seed=1):
    """The graph under other labels, and the same for triplets."""
    draw = generator(seed, "labels")
    orders = [torch.from_numpy(draw.permutation(n)) for n in (graph.num_entities, graph.num_relations)]
    moved = graph.relabel(*(order.numpy() for order in orders))
    return moved, lambda t: torch.stack([orders[0][t[:, 0]], orders[1][t[:, 1]], orders[0][t[:, 2]]], dim=1)


@torch.no_grad()
def _draws(model, graph, triplets, seed):
    """Scores [B, M] of each sample."""
    return model._score_draws(model.encode(graph, seed), triplets)


def test_ones_are_exactly_equivariant_and_tell_relations_apart():
    model, graph = _model(inputs="ones"), _graph(triplets=120)
    assert model.symmetry == Symmetry.EXACT
    moved, move = _relabelled(graph)
    triplets = _all_triplets(graph)
    with torch.no_grad():
        before = model.score_triplets(model.encode(graph), triplets)
        after = model.score_triplets(model.encode(moved), move(triplets))
    torch.testing.assert_close(before, after, rtol=1e-4, atol=1e-5)
    assert before.std() > 1e-2


@pytest.mark.parametrize("triplets", [0, 5, 70])
def test_vectors_and_gradients_are_those_of_the_reference(triplets):
    model, graph = _model(), _graph(triplets=triplets)
    edges = build_edges(graph, model.config.bins)
    inputs = [torch.randn(n, 8, generator=torch.Generator().manual_seed(n)) for n in (20, 8)]
    found = []
    for represent in (model.represent, partial(reference.represent, model)):
        model.zero_grad()
        vectors = represent(edges, *inputs)
        torch.cat(vectors).square().mean().backward()
        found.append(
            ([v.detach() for v in vectors], [p.grad.clone() for p in model.parameters() if p.grad is not None])
        )
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-4)


def test_random_inputs_are_equivariant_in_expectation_only():
    model, graph = _model(samples=1000), _graph()
    assert model.symmetry == Symmetry.IN_EXPECTATION
    moved, move = _relabelled(graph)
    triplets = _all_triplets(graph)[::37]
    before, after = _draws(model, graph, triplets, 0), _draws(model, moved, move(triplets), 1)
    assert not torch.allclose(before[:, 0], after[:, 0], rtol=0.1)
    difference = before.mean(1) - after.mean(1)
    error = ((before.var(1) + after.var(1)) / before.shape[1]).sqrt()
    assert (difference.abs() / error).square().mean() < 2  # 1 is expected
    assert (difference.abs() < 4.5 * error).all()


def test_errors_fall_as_the_root_of_the_samples():
    model, graph = _model(), _graph()
    triplets = _all_triplets(graph)[::37]

    with torch.no_grad():
        one = _draws(model.with_config(samples=300), graph, triplets, 0).std(1)
        many = model.with_config(samples=16)
        encoded = [many.encode(graph, seed) for seed in range(100)]
        sixteen = [many.score_triplets(one_encoded, triplets) for one_encoded in encoded]
        errors = [many.score_errors(one_encoded, triplets) for one_encoded in encoded]
    spread = torch.stack(sixteen).std(0)
    assert float((one / spread).log().mean().exp()) == pytest.approx(4, rel=0.15)
    reported = torch.stack(errors).square().mean(0).sqrt()
    assert float((reported / spread).log().mean().exp()) == pytest.approx(1, rel=0.15)


@torch.no_grad()
def test_samples_average_triplet_scores():
    model, graph = _model(samples=3), _graph()
    triplets = _all_triplets(graph)
    encoded = model.encode(graph, 5)
    draws = _draws(model, graph, triplets, 5)
    torch.testing.assert_close(model.score_triplets(encoded, triplets), draws.mean(1))
    torch.testing.assert_close(model.score_errors(encoded, triplets), draws.std(1) / 3**0.5)
    torch.testing.assert_close(_draws(model.with_config(samples=1), graph, triplets, 5)[:, 0], draws[:, 0])
    one = model.with_config(samples=1).encode(graph)
    assert model.score_errors(one, triplets) is None


@torch.no_grad()
def test_every_way_of_asking_gives_the_same_scores():
    model, graph = _model(samples=2), _graph()
    encoded = model.encode(graph)
    triplets = _all_triplets(graph)
    cube = model.score_triplets(encoded, triplets).view(graph.num_entities, graph.num_relations, graph.num_entities)
    heads, relations, tails = torch.tensor([3, 19]), torch.tensor([1, 3]), torch.tensor([4, 3])
    torch.testing.assert_close(model.score_tails(encoded, heads, relations), cube[heads, relations])
    inverse = relations + graph.num_relations
    torch.testing.assert_close(model.score_tails(encoded, heads, inverse), cube[:, relations, heads].T)
    torch.testing.assert_close(model.score_relations(encoded, heads, tails), cube[heads, :, tails])
    some = torch.tensor([[0, 2], [3, 3]])
    torch.testing.assert_close(
        model.score_tails(encoded, heads, relations, some), cube[heads, relations].gather(1, some)
    )
    torch.testing.assert_close(
        model.score_relations(encoded, heads, tails, some), cube[heads, :, tails].gather(1, some)
    )


@torch.no_grad()
def test_entities_and_relations_without_facts_score():
    model, graph = _model(), _graph(spare=2)
    assert model.score_triplets(model.encode(graph), _all_triplets(graph)).isfinite().all()
    empty = graph.subset(np.zeros(len(graph), bool))
    assert model.score_triplets(model.encode(empty), _all_triplets(graph)).isfinite().all()


def test_training_scores_are_drawn_from_the_seed_and_reach_every_parameter():
    model, graph = _model(samples=2), _graph()
    messages, targets = resplit(graph, 0.25, 0, 0)
    rows = torch.from_numpy(targets.astype(np.int64))[:, None].repeat(1, 3, 1)
    rows[:, 1:, 2] = torch.randint(graph.num_entities, (len(rows), 2), generator=torch.Generator())
    scores = model.training_scores(messages, rows, 4)
    assert scores.shape == rows.shape[:2]
    torch.testing.assert_close(scores, model.training_scores(messages, rows, 4))
    assert not torch.allclose(scores, model.training_scores(messages, rows, 5))
    one = model.with_config(samples=1)
    torch.testing.assert_close(scores.flatten(), one.score_triplets(one.encode(messages, 4), rows.flatten(0, 1)))
    (2 - scores[:, :1] + scores[:, 1:]).relu().mean().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


@torch.no_grad()
def test_a_target_is_not_read_off_its_own_fact():
    model, graph = _model(), _graph()
    rows = torch.from_numpy(graph.triplets[[5]].astype(np.int64))[:, None]
    without = graph.subset(np.arange(len(graph)) != 5)
    expected = model.training_scores(without, rows, 0)
    torch.testing.assert_close(model.training_scores(graph, rows, 0), expected)
    inverse = torch.from_numpy(graph.inverted(rows.numpy()))
    torch.testing.assert_close(model.training_scores(graph, inverse, 0), expected)


def test_the_input_projection_may_be_folded_into_the_first_layer():
    model, graph = _model(), _graph()
    edges, layer = build_edges(graph, 4), model.entity_layers[0]
    inputs, kinds = torch.randn(graph.num_entities, 8), torch.randn(2 * graph.num_relations, 16)
    torch.nn.init.normal_(model.entity_in.bias)
    folded = layer(edges.entities, inputs, model.entity_in, kinds)
    torch.testing.assert_close(folded, layer(edges.entities, model.entity_in(inputs), None, kinds))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 3}, "that 3 heads divide"),
        ({"samples": 0}, "samples of at least 1"),
        ({"inputs": "ones", "samples": 2}, "averaging 2 samples has no effect"),
    ],
)
def test_impossible_settings_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        InGramConfig(**changes)


def test_foreign_weights_are_refused():
    with pytest.raises(CheckpointError, match="ent_proj1"):
        import_ingram_weights({"other": torch.zeros(1)})
