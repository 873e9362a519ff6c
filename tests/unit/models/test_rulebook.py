"""The model made of named rules: planted rules are found and used, by name, and no fact predicts itself."""

from pathlib import Path

import numpy as np
import pytest
import torch

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.models.rulebook import Rulebook, RulebookConfig, fit_rulebook
from anykg.models.store import load_model, save_description, save_weights
from anykg.rules.kernels.joins import adjacency
from anykg.rules.named import Mining, NamedRules, mine_named, most_for_each
from graphs import named, random_graph


def households(couples: int = 40) -> KnowledgeGraph:
    """Spouses live in the same town; the last spouse's town is not known."""
    lines = []
    for i in range(couples):
        lines += [f"m{i} married w{i}", f"m{i} lives_in town{i % 7}"]
        lines += [f"w{i} lives_in town{i % 7}"] * (i < couples - 1)
    return named(*lines)


def by_name(model: Rulebook, graph: KnowledgeGraph, head: str, relation: str) -> list[str]:
    """Entities by falling score."""
    query = torch.tensor([graph.entities.index(head)]), torch.tensor([graph.relations.index(relation)])
    scores = model.score_tails(model.encode(graph), *query)[0]
    return [graph.entities[int(i)] for i in scores.argsort(descending=True)]


def test_a_planted_rule_is_found_and_answers() -> None:
    graph = households()
    model = fit_rulebook(graph, seconds=5)
    assert by_name(model, graph, "w39", "lives_in")[0] == f"town{39 % 7}"


def test_fewer_bodies_are_counted_where_there_are_too_many() -> None:
    graph = random_graph(30, 6, 300, 0)
    every, some = (
        {tuple(row) for row in mine_named(graph, Mining(constants=False, bodies=most)).paths.tolist()}
        for most in (10_000, 60)
    )
    assert some < every
    assert len(some) < len(every) / 2


def test_every_relation_has_its_share_of_the_bodies() -> None:
    sizes = np.array([5, 5, 1])
    assert [most_for_each(sizes, total, 400) for total in (2, 3, 7, 10, 11, 99)] == [1, 1, 3, 4, 5, 5]
    assert most_for_each(sizes, 99, most=2) == 2


def test_the_next_round_counts_the_next_bodies() -> None:
    graph = random_graph(30, 6, 300, 0)
    one, two = (len(mine_named(graph, Mining(constants=False, bodies=60, rounds=rounds)).paths) for rounds in (1, 2))
    assert two > one


@torch.no_grad()
def test_a_triplet_scores_as_among_all_candidates() -> None:
    graph = random_graph(30, 4, 200, 0)
    model = Rulebook().eval()
    encoded = model.encode(graph)
    triplets = torch.cartesian_prod(torch.arange(6), torch.arange(8), torch.arange(30))
    rows = model.score_tails(encoded, triplets[:, 0], triplets[:, 1])
    torch.testing.assert_close(model.score_triplets(encoded, triplets), rows.gather(1, triplets[:, 2:])[:, 0])


@pytest.mark.parametrize("seed", range(3))
@torch.no_grad()
def test_a_relation_scores_as_the_triplet_it_makes(seed: int) -> None:
    graph = random_graph(30, 4, 200, seed)
    model = Rulebook().eval()
    encoded = model.encode(graph)
    pairs = torch.cartesian_prod(torch.arange(30), torch.arange(30))  # facts and loops among them
    scores = model.score_relations(encoded, pairs[:, 0], pairs[:, 1])
    triplets = torch.stack([pairs[:, 0].repeat(4), torch.arange(4).repeat_interleave(900), pairs[:, 1].repeat(4)], 1)
    torch.testing.assert_close(scores, model.score_triplets(encoded, triplets).view(4, 900).T)
    some = torch.tensor([[3, 1]]).expand(900, -1)
    torch.testing.assert_close(model.score_relations(encoded, *pairs.T, some), scores[:, [3, 1]])


@torch.no_grad()
def test_a_body_is_tried_from_its_first_step_on() -> None:
    """Of two bodies with the same second step, the one whose first step leads elsewhere does not fire."""
    graph = named("h a m", "m c t", "h b x", "t d h")
    a, b, c, d = (graph.relations.index(name) for name in "abcd")
    paths = np.array([[d, a, c, -1], [d, b, c, -1]], np.int32)
    rules = NamedRules(paths, np.array([[8, 10, 10], [9, 10, 10]]), np.empty((0, 4), np.int32), np.empty((0, 2), int))
    model = Rulebook.of(rules, graph)
    encoded = model.encode(graph)
    pair = torch.tensor([[graph.entities.index("h"), graph.entities.index("t")]])
    triplet = torch.tensor([[pair[0, 0], d, pair[0, 1]]])
    assert model.score_relations(encoded, *pair.T)[0, d] == model.score_triplets(encoded, triplet)[0]


@torch.no_grad()
def test_relations_without_facts_have_scores_without_a_prior() -> None:
    graph = random_graph(20, 3, 60, 0)
    wider = KnowledgeGraph(graph.triplets, graph.entities, Vocabulary("relation", [f"r{i}" for i in range(6)]))
    model = Rulebook(RulebookConfig(prior=0)).eval()
    encoded = model.encode(wider)
    scores = model.score_relations(encoded, torch.arange(20), torch.arange(20).flip(0))
    triplets = torch.stack([torch.arange(20), torch.full((20,), 5), torch.arange(20).flip(0)], 1)
    assert scores.isfinite().all()
    torch.testing.assert_close(scores[:, 5], model.score_triplets(encoded, triplets))


@torch.no_grad()
def test_rules_are_bound_anew_to_other_relations() -> None:
    graph = random_graph(20, 3, 60, 0)
    model = Rulebook.of(Rulebook().rules(graph), graph)
    names = graph.relations.names.to_list()
    moved = KnowledgeGraph(graph.triplets, graph.entities, Vocabulary("relation", names[1:] + names[:1]))
    model.encode(graph)
    asked = torch.arange(20), torch.zeros(20, dtype=torch.int64)
    fresh = Rulebook.of(Rulebook().rules(graph), graph)
    torch.testing.assert_close(
        model.score_tails(model.encode(moved), *asked), fresh.score_tails(fresh.encode(moved), *asked)
    )


def test_counts_are_exact_on_small_graphs() -> None:
    graph = random_graph(20, 3, 120, 0)
    rules = mine_named(graph, Mining(length=2, constants=False, min_confidence=0))
    facts = {tuple(row) for row in graph.with_inverses().tolist()}
    joined: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for h, a, z in facts:
        for z2, b, t in facts:
            if z == z2 and len({h, z, t}) == 3:
                joined.setdefault((a, b), set()).add((h, t))
    two = rules.paths[:, 3] == -1
    for (r, a, b, _), (support, body, partial) in zip(
        rules.paths[two].tolist(), rules.path_counts[two].tolist(), strict=True
    ):
        if b == -1:
            continue
        pairs = joined[a, b]
        assert body == len(pairs)
        assert support == sum((x, r, y) in facts for x, y in pairs)
        assert partial == sum(any((x, r, y) in facts for y in range(20)) for x, _ in pairs)
    assert two.sum() > 20


def test_relabelling_a_graph_relabels_its_rules() -> None:
    graph = random_graph(15, 3, 60, 1)
    order, kinds = np.random.default_rng(0).permutation(15), np.random.default_rng(1).permutation(3)
    moved = graph.relabel(order, kinds)
    both = np.concatenate([kinds, kinds + 3, [-1]])
    expected = {
        (*both[row].tolist(), *counts)
        for row, counts in zip(mine_named(graph).paths, mine_named(graph).path_counts.tolist(), strict=True)
    }
    found = mine_named(moved)
    assert expected == {
        (*row, *counts) for row, counts in zip(found.paths.tolist(), found.path_counts.tolist(), strict=True)
    }


def test_a_fact_does_not_predict_itself() -> None:
    """The score of a known fact is as if it had not been known, up to rules mined with it."""
    graph = households()
    fact = graph.triplets[graph.triplets[:, 1] == graph.relations.index("lives_in")][5]
    rest = graph.subset((graph.triplets != fact).any(1))
    row = torch.from_numpy(fact[None].astype(np.int64))
    settings = RulebookConfig(constants=False)
    known, hidden = (Rulebook(settings).score_triplets(Rulebook(settings).encode(g), row).item() for g in (graph, rest))
    assert known == pytest.approx(hidden, abs=0.05)


def test_saved_rules_answer_by_name_on_a_grown_graph(tmp_path: Path) -> None:
    graph = households()
    model = fit_rulebook(graph, seconds=5)
    save_description(tmp_path, "rulebook", model, {})
    save_weights(tmp_path, model, {})
    loaded = load_model(tmp_path)
    grown = named("new lives_in town3", "new married bride", "x unheard_of y").union(households())
    assert isinstance(loaded, Rulebook)
    assert by_name(loaded, grown, "bride", "lives_in")[0] == "town3"
    torch.testing.assert_close(
        loaded.score_tails(loaded.encode(graph), torch.tensor([3]), torch.tensor([1])),
        model.score_tails(model.encode(graph), torch.tensor([3]), torch.tensor([1])),
    )


def test_adjacency_has_both_directions() -> None:
    graph = named("a r b", "c r b")
    adjacent = adjacency(graph)
    b = graph.entities.index("b")
    assert sorted(adjacent.tails[adjacent.offsets[b] : adjacent.offsets[b + 1]].tolist()) == sorted(
        graph.entities.index(name) for name in "ac"
    )
