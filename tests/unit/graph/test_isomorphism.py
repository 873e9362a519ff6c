from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.errors import DataError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.isomorphism import find_isomorphism
from graphs import graphs, named, random_graph


def by_definition(one: KnowledgeGraph, other: KnowledgeGraph, triplets: tuple[list[int], list[int]] | None) -> bool:
    """Try every pair of permutations."""
    if (one.num_entities, one.num_relations) != (other.num_entities, other.num_relations):
        return False
    facts = {tuple(row) for row in other.triplets.tolist()}
    for entity in permutations(range(one.num_entities)):
        for kind in permutations(range(one.num_relations)):
            moved = {(entity[h], kind[r], entity[t]) for h, r, t in one.triplets.tolist()}
            if moved == facts and (
                triplets is None
                or [entity[triplets[0][0]], kind[triplets[0][1]], entity[triplets[0][2]]] == list(triplets[1])
            ):
                return True
    return False


@settings(max_examples=150)
@given(st.data(), st.integers(1, 4), st.integers(1, 3), st.integers(0, 5))
def test_agrees_with_the_definition(data: st.DataObject, entities: int, relations: int, facts: int) -> None:
    one, other = (random_graph(entities, relations, facts, data.draw(st.integers(0, 999))) for _ in range(2))
    ends, kinds = st.integers(0, entities - 1), st.integers(0, relations - 1)
    triplets = tuple(data.draw(st.lists(st.tuples(ends, kinds, ends), min_size=2, max_size=2)))
    for asked in (None, tuple(map(list, triplets))):
        found = find_isomorphism(one, other, asked)
        assert (found is not None) == by_definition(one, other, asked)


@given(graphs(max_entities=20, max_relations=6), st.integers(0, 2**31))
def test_finds_the_renaming(graph: KnowledgeGraph, seed: int) -> None:
    random = np.random.default_rng(seed)
    entities, relations = random.permutation(graph.num_entities), random.permutation(graph.num_relations)
    renamed = graph.relabel(entities, relations)
    found = find_isomorphism(graph, renamed)
    assert found is not None
    assert np.array_equal(graph.relabel(*found).triplets, renamed.triplets)


def test_graphs_that_colours_cannot_tell_apart() -> None:
    """One cycle of six and two of three look alike from every entity."""
    six = named(*(f"e{i} r e{(i + 1) % 6}" for i in range(6)))
    two = named(*(f"e{3 * c + i} r e{3 * c + (i + 1) % 3}" for c in range(2) for i in range(3)))
    assert find_isomorphism(six, two) is None
    assert find_isomorphism(two, two.relabel(np.array([3, 1, 5, 0, 2, 4]), np.arange(1))) is not None
    with pytest.raises(DataError, match="not decided in 2 steps"):
        find_isomorphism(six, two, most_steps=2)


def test_many_interchangeable_entities() -> None:
    star = named(*(f"centre r leaf{i}" for i in range(300)))
    assert find_isomorphism(star, star.relabel(np.random.default_rng(0).permutation(301), np.arange(1))) is not None
