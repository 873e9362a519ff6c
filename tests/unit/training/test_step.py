"""One step: softmax over all answers, hidden facts, schedules, relation steps, and recipes a model cannot follow."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.models.homogeneous import GraphConv
from anykg.models.nbf.nbfnet import NBFNet, NBFNetConfig
from anykg.models.nbf.trix import TRIX, TRIXConfig
from anykg.models.nbf.ultra import Ultra, UltraConfig
from anykg.training.adapt import adapt
from anykg.training.epoch import Batch, draw_epoch
from anykg.training.losses import softmax
from anykg.training.step import batch_loss, hidden_facts, learning_rate, refuse_unsupported
from graphs import random_graph

SOFTMAX = replace(Ultra.recipe, loss="softmax", batch_size=8)
ULTRA = UltraConfig(width=16, relation_layers=2, entity_layers=2)


def ultra() -> Ultra:
    torch.manual_seed(0)
    return Ultra(ULTRA)


def mirrored(entities: int = 30, count: int = 60) -> KnowledgeGraph:
    """Facts of relation 0, and the same from the other end as relation 1: there is something to learn."""
    graph = random_graph(entities, 2, count)
    heads, _, tails = graph.triplets.T
    one, other = np.zeros_like(heads), np.ones_like(heads)
    both = np.concatenate([np.stack([heads, one, tails], axis=1), np.stack([tails, other, heads], axis=1)])
    return graph.with_triplets(both)


def first_batch(graph: KnowledgeGraph, recipe=SOFTMAX) -> Batch:
    return draw_epoch([graph], recipe, 0, 0)[0]()


def test_softmax_masks_known_answers() -> None:
    scores = torch.tensor([[1.0, 5.0, 2.0], [0.0, 1.0, 3.0]])
    known = torch.tensor([0, 0, 1]), torch.tensor([1, 0, 2])  # the answers, 0 and 2, are known too
    expected = -torch.stack([1 - torch.logsumexp(scores[0, [0, 2]], 0), 3 - torch.logsumexp(scores[1], 0)]).mean()
    torch.testing.assert_close(softmax(scores, torch.tensor([0, 2]), known), expected)


def test_targets_are_asked_from_both_ends() -> None:
    graph = random_graph(30, 3, 80)
    batch = first_batch(graph)
    assert batch.asks == "tails"
    assert batch.rows.shape == (8, 1, 3)
    assert (batch.rows[:4, 0, 1] < 3).all()
    assert (batch.rows[4:, 0, 1] >= 3).all()
    assert graph.contains(batch.rows).all()


def test_softmax_loss_is_that_of_the_scores_without_the_targets() -> None:
    graph, model = random_graph(30, 3, 80), ultra()
    batch = first_batch(graph)
    rows = torch.from_numpy(batch.rows[:, 0])
    with torch.no_grad():
        rest = model.encode(graph)
        rest = replace(rest, entities=model.encode(graph.without(batch.rows[:, 0])).entities)
        scores = model.score_tails(rest, rows[:, 0], rows[:, 1])
        for row, (head, relation, tail) in enumerate(rows.tolist()):
            for other in range(30):
                if other != tail and graph.contains(np.array([head, relation, other])):
                    scores[row, other] = -torch.inf
        expected = torch.nn.functional.cross_entropy(scores, rows[:, 2])
        torch.testing.assert_close(batch_loss(model, batch, SOFTMAX, 0, None), expected, atol=1e-4, rtol=1e-4)


def test_large_graphs_sample_their_candidates() -> None:
    graph = random_graph(30, 3, 80)
    recipe = replace(SOFTMAX, softmax_bound=8 * 30 - 1, negative_entities=7)
    batch = first_batch(graph, recipe)
    assert (batch.asks, batch.rows.shape) == ("rows", (8, 8, 3))
    scores = ultra().training_scores(graph, torch.from_numpy(batch.rows), 0)
    expected = torch.nn.functional.cross_entropy(scores, torch.zeros(8, dtype=torch.long))
    torch.testing.assert_close(batch_loss(ultra(), batch, recipe, 0, None), expected)


def test_a_share_of_all_facts_is_hidden() -> None:
    graph = random_graph(50, 3, 600)
    batch = first_batch(graph)
    assert hidden_facts(batch, SOFTMAX, 0, whole=True) is None
    recipe = replace(SOFTMAX, hide=0.4)
    shares = []
    for seed in range(40):
        hidden = hidden_facts(batch, recipe, seed, whole=True)
        assert hidden is not None
        assert (hidden[:8] == batch.rows[:, 0]).all()
        assert graph.contains(hidden).all()
        shares.append((len(hidden) - 8) / len(graph))
    assert max(shares) < 0.45
    assert min(shares) < 0.05
    assert np.mean(shares) == pytest.approx(0.2, abs=0.05)


def test_the_rate_warms_up_and_decays() -> None:
    recipe = replace(SOFTMAX, lr=1.0, warmup=4)
    assert [learning_rate(recipe, step, step / 10) for step in (0, 1, 3, 8)] == [0.25, 0.5, 1.0, 1.0]
    recipe = replace(recipe, schedule="linear")
    assert [learning_rate(recipe, step, step / 10) for step in (0, 5)] == [0.25, 0.5]


def test_every_so_many_steps_ask_for_relations() -> None:
    graph = random_graph(30, 3, 80)
    torch.manual_seed(0)
    model = TRIX(TRIXConfig(width=16, rounds=1))
    recipe = replace(SOFTMAX, relation_every=3)
    batches = [draw() for draw in draw_epoch([graph], recipe, 0, 0)]
    assert [batch.asks for batch in batches[:6]] == ["tails", "tails", "relations"] * 2
    batch = batches[2]
    assert (batch.rows[..., 1] < 3).all()
    assert graph.contains(batch.rows).all()
    loss = batch_loss(model, batch, recipe, 0, None)
    loss.backward()
    trained = {name.split(".")[0] for name, p in model.named_parameters() if p.grad is not None}
    assert trained == {"relations"}
    known = [len(graph.relations_between(row[0, :1], row[0, 2:]).values) for row in batch.rows]
    assert loss.item() == pytest.approx(np.mean([np.log(4 - count) for count in known]), abs=0.5)  # untrained


def test_recipes_a_model_cannot_follow_are_refused() -> None:
    with pytest.raises(ConfigError, match="loss = softmax is not available for graphconv"):
        refuse_unsupported("graphconv", GraphConv(), replace(GraphConv.recipe, loss="softmax"))
    with pytest.raises(ConfigError, match="hide must be 0 for graphconv"):
        refuse_unsupported("graphconv", GraphConv(), replace(GraphConv.recipe, hide=0.5))
    with pytest.raises(ConfigError, match="relation_every must be 0 for ultra"):
        refuse_unsupported("ultra", ultra(), replace(SOFTMAX, relation_every=2))
    with pytest.raises(ConfigError, match="negative_relations must be 0 with loss = softmax"):
        refuse_unsupported("ultra", ultra(), replace(SOFTMAX, negative_relations=2))


@pytest.mark.parametrize("kind", ["ultra", "nbfnet", "trix"])
def test_adapting_lowers_the_loss_and_writes_nothing(kind: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    graph = mirrored()
    torch.manual_seed(0)
    model = {
        "ultra": lambda: ultra(),
        "nbfnet": lambda: NBFNet.build(NBFNetConfig(width=16, relation_vectors="trained"), graph),
        "trix": lambda: TRIX(TRIXConfig(width=16, rounds=1)),
    }[kind]().eval()
    recipe = replace(SOFTMAX, lr=5e-3, relation_every=2 if kind == "trix" else 0, schedule="linear")
    batches = [draw() for draw in draw_epoch([graph], recipe, 1, 0)]

    def loss() -> float:
        with torch.no_grad():
            return float(np.mean([batch_loss(model, batch, recipe, 0, None).item() for batch in batches]))

    before, seen = loss(), list[tuple[int, int]]()
    steps = adapt(model, graph, recipe, steps=30, progress=lambda done, total: seen.append((done, total)))
    assert steps == 30
    assert seen == [(i + 1, 30) for i in range(30)]
    assert loss() < before - 0.3
    assert not model.training
    assert list(tmp_path.iterdir()) == []


def test_adapting_is_bounded_by_time() -> None:
    graph = random_graph(30, 3, 80)
    assert adapt(ultra(), graph, SOFTMAX, seconds=0.2) >= 1
    with pytest.raises(ConfigError, match="steps or seconds"):
        adapt(ultra(), graph, SOFTMAX)
