"""Parts of a graph: all facts between near entities, within a budget, the same every time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anykg.graph import neighbourhood as module
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.neighbourhood import adjacency, neighbourhood, to_arrays
from anykg.graph.vocabulary import Vocabulary


def graph_of(triplets: np.ndarray, entities: int, relations: int) -> KnowledgeGraph:
    names = Vocabulary("entity", [f"e{i}" for i in range(entities)]), Vocabulary("relation", "rstuv"[:relations])
    return KnowledgeGraph(triplets, *names)


def chain(entities: int, *more: tuple[int, int, int]) -> KnowledgeGraph:
    """Entity i -> i + 1 by relation 0 or 1, and more facts."""
    return graph_of(np.array([*((i, i % 2, i + 1) for i in range(entities - 1)), *more]), entities, 3)


def hubs(seed: int, entities: int = 200, facts: int = 800) -> KnowledgeGraph:
    rng = np.random.default_rng(seed)
    heads, tails = (entities * rng.random((2, facts)) ** 2).astype(int)
    return graph_of(np.stack([heads, rng.integers(5, size=facts), tails], axis=1), entities, 5)


@given(st.integers(0, 2**20), st.integers(1, 900), st.sampled_from([2, 30, 10_000]))
def test_all_facts_between_its_entities_and_no_more_than_wanted(seed: int, budget: int, hub: int) -> None:
    graph = hubs(seed)
    head, relation, _ = (int(part) for part in graph.triplets[seed % len(graph)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "HUB", hub)
        part = neighbourhood(graph, [head], [relation], budget)
    there = np.isin(graph.triplets[:, [0, 2]], part.entities).all(1)
    assert np.array_equal(part.outside(part.graph.triplets.astype(np.int64)), graph.triplets[there])
    loops = int(((graph.triplets[:, 0] == head) & (graph.triplets[:, 2] == head)).sum())
    assert head in part.entities
    assert len(part.graph) <= max(budget, loops)
    assert [*part.graph.entities] == [graph.entities[int(i)] for i in part.entities]
    assert np.array_equal(part.inside(part.outside(part.graph.triplets)), part.graph.triplets)


def test_near_entities_come_first_and_the_budget_is_used() -> None:
    graph = chain(1000)
    part = neighbourhood(graph, [500], [], 10)
    assert part.entities.tolist() == list(range(495, 506))
    graph = hubs(0)
    assert len(neighbourhood(graph, [3], [0], 400).graph) > 300


def test_facts_of_the_relation_asked_about_are_there() -> None:
    far = [(900 + i, 2, 950) for i in range(5)]
    graph = chain(1000, *far)
    part = neighbourhood(graph, [0], [2], 60)
    assert np.isin([900, 901, 950], part.entities).all()
    assert (part.graph.triplets[:, 1] == 2).sum() == 5


def test_a_hub_is_not_followed_to_all_its_neighbours() -> None:
    """Of 5,000 facts of one relation some are drawn; the one fact of another relation is always followed."""
    star = KnowledgeGraph.from_names(
        ["hub"] * 5001 + ["other"], ["many"] * 5000 + ["one", "on"], [*map(str, range(5000)), "other", "end"]
    )
    part = neighbourhood(star, [star.entities.index("hub")], [], 100)
    names = [*part.graph.entities]
    assert {"hub", "other", "end"} <= set(names)
    assert 50 < len(part.graph) <= 100


def test_required_entities_are_there() -> None:
    graph = hubs(1, entities=2000, facts=6000)
    part = neighbourhood(graph, [0], [1], 100, also=np.array([1500, 1700]))
    assert np.isin([0, 1500, 1700], part.entities).all()
    again = neighbourhood(graph, [0], [1], 100, also=np.array([1500, 1700]))
    assert np.array_equal(part.entities, again.entities)


def test_adjacency_is_found_in_a_packed_graph() -> None:
    graph = hubs(2)
    other = hubs(2)
    other.arrays = to_arrays(graph)
    assert all(a is b for a, b in zip(other.derive(adjacency), other.arrays.values(), strict=True))
    starts, ends, by_relation, relations = graph.derive(adjacency)
    assert np.array_equal(np.diff(starts), np.bincount(graph.triplets[:, 0], minlength=200))
    assert np.array_equal(np.diff(ends), np.bincount(graph.triplets[:, 2], minlength=200))
    for relation in range(5):
        rows = by_relation[relations[relation] : relations[relation + 1]]
        assert np.array_equal(rows, np.flatnonzero(graph.triplets[:, 1] == relation))


@given(st.integers(0, 2**20), st.booleans(), st.sampled_from([20, 100, 400]))
def test_renaming_renames_the_part(seed: int, all_relations: bool, budget: int) -> None:
    """Up to entities of equal mass at the edge of the part."""
    graph, rng = hubs(seed), np.random.default_rng(seed)
    entities, relations = rng.permutation(200), rng.permutation(5)
    other = graph_of(
        np.stack([entities[graph.triplets[:, 0]], relations[graph.triplets[:, 1]], entities[graph.triplets[:, 2]]], 1),
        200,
        5,
    )
    head, relation, _ = (int(part) for part in graph.triplets[seed % len(graph)])
    asked, renamed = ([head], None), ([int(entities[head])], None)
    if not all_relations:
        asked, renamed = ([head], [relation]), ([int(entities[head])], [int(relations[relation])])
    masses = [_mass(graph, *asked, module.TOTAL // budget // module.LOWERED**step) for step in range(module.ROUNDS)]
    for step, mass in enumerate(masses):
        again = _mass(other, *renamed, module.TOTAL // budget // module.LOWERED**step)
        assert np.array_equal(mass, again[entities])
    taken, taken_again = np.zeros((2, 200), bool)
    taken[neighbourhood(graph, *asked, budget).entities] = True
    taken_again[neighbourhood(other, *renamed, budget).entities] = True
    differing = taken != taken_again[entities]
    assert any(len(set(mass[differing])) <= 1 for mass in masses), "they have equal mass"


def _mass(graph: KnowledgeGraph, around: list[int], relations: list[int] | None, least: int) -> np.ndarray:
    """What every entity has after a push."""
    starts, ends, _, _ = graph.derive(adjacency)
    facts = module.Facts(graph._keys, graph._inverse_keys, starts, ends, graph.num_relations)
    seeds, masses = module._start(graph, np.array(around), relations)
    mass = np.zeros((2, graph.num_entities), np.int64)
    mass[1, seeds] = masses
    reached = module.push(facts, mass, seeds, least, module.KEPT)
    assert set(np.flatnonzero(mass.sum(0))) == set(reached)
    assert mass.sum() == masses.sum(), "no mass is lost"
    total: np.ndarray = mass.sum(0)
    return total
