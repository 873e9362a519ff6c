"""Section 2.2: double equivariant representations of knowledge graphs."""

from collections.abc import Callable
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.isomorphism import find_isomorphism
from anykg.models.base import Symmetry
from graphs import named
from theory.actions import (
    EXACT,
    Renamed,
    act,
    adjacency,
    build,
    close,
    move,
    renamed_graphs,
    scores,
    triplets_of,
    whole,
)  # fmt: skip

Triplet = Callable[[KnowledgeGraph, np.ndarray], np.ndarray]
"""A triplet representation: scores [B] of triplets [B, 3] of a graph."""

FORMULA_1 = named(
    "Red_Bull_Racing racing_driver Max_Verstappen", "Max_Verstappen teammate Sergio_Pérez",
    "Sergio_Pérez teammate Max_Verstappen", "Christian_Horner team_principal Red_Bull_Racing",
    "Christian_Horner manages Max_Verstappen", "Christian_Horner manages Sergio_Pérez",
)  # fmt: skip
COMPANY = named(
    "Sundar_Pichai boss_of Jeff_Dean", "Sundar_Pichai boss_of Sanjay_Ghemawat", "Sundar_Pichai chief_executive Google",
    "Sanjay_Ghemawat colleague Jeff_Dean", "Jeff_Dean colleague Sanjay_Ghemawat", "Google employee Sanjay_Ghemawat",
)  # fmt: skip


def row(graph: KnowledgeGraph, head: str, relation: str, tail: str) -> np.ndarray:
    return np.array([[graph.entities.index(head), graph.relations.index(relation), graph.entities.index(tail)]])


# -- Definition 2.2: permutation actions ------------------------------------------------------------------------


@given(renamed_graphs())
def test_definition_2_2_relabelling_is_the_action(renamed: Renamed) -> None:
    graph, phi, tau, image = renamed
    np.testing.assert_array_equal(adjacency(image), act(phi, tau, adjacency(graph)))


@given(renamed_graphs())
def test_definition_2_2_the_two_actions_commute(renamed: Renamed) -> None:
    graph, phi, tau, image = renamed
    no_phi, no_tau = np.arange(len(phi)), np.arange(len(tau))
    first = graph.relabel(phi, no_tau).relabel(no_phi, tau)
    second = graph.relabel(no_phi, tau).relabel(phi, no_tau)
    assert first == second == image  # names move along


@given(renamed_graphs(), st.randoms(use_true_random=False))
def test_definition_2_2_permutations_act_as_a_group(renamed: Renamed, random: object) -> None:
    graph, phi, tau, image = renamed
    assert image.relabel(np.argsort(phi), np.argsort(tau)) == graph
    other = np.array(random.sample(range(len(phi)), len(phi)))  # type: ignore[attr-defined]
    assert image.relabel(other, np.arange(len(tau))) == graph.relabel(other[phi], tau)


# -- Definition 2.4: isomorphism --------------------------------------------------------------------------------


def test_definition_2_4_the_graphs_of_figure_1a_are_isomorphic() -> None:
    found = find_isomorphism(FORMULA_1, COMPANY)
    assert found is not None
    renamed = {FORMULA_1.entities[i]: COMPANY.entities[int(j)] for i, j in enumerate(found.entities)}
    assert renamed["Red_Bull_Racing"] == "Google"
    kinds = {FORMULA_1.relations[i]: COMPANY.relations[int(j)] for i, j in enumerate(found.relations)}
    assert kinds == {
        "racing_driver": "employee", "teammate": "colleague", "team_principal": "chief_executive", "manages": "boss_of",
    }  # fmt: skip


def test_definition_2_4_and_so_are_the_missing_triplets() -> None:
    driver = row(FORMULA_1, "Red_Bull_Racing", "racing_driver", "Sergio_Pérez")[0].tolist()
    same = row(COMPANY, "Google", "employee", "Jeff_Dean")[0].tolist()
    other = row(COMPANY, "Google", "employee", "Sundar_Pichai")[0].tolist()
    assert find_isomorphism(FORMULA_1, COMPANY, (driver, same)) is not None
    assert find_isomorphism(FORMULA_1, COMPANY, (driver, other)) is None


@given(renamed_graphs(), st.data())
def test_definition_2_4_renaming_gives_isomorphic_triplets(renamed: Renamed, data: st.DataObject) -> None:
    graph, phi, tau, image = renamed
    every = triplets_of(graph)
    one = every[[data.draw(st.integers(0, len(every) - 1))]]
    other = move(one, phi, tau)
    assert find_isomorphism(graph, image, (one[0].tolist(), other[0].tolist())) is not None
    assert find_isomorphism(image, graph, (other[0].tolist(), one[0].tolist())) is not None


def test_definition_2_4_direction_and_relation_matter() -> None:
    line = named("a r b", "b s c")
    assert find_isomorphism(line, named("x u y", "y v z")) is not None
    assert find_isomorphism(line, named("x u y", "z v y")) is None  # the second fact turned round
    assert find_isomorphism(named("a r b", "b r c"), line) is None  # one relation instead of two


# -- Definition 2.3: double invariant triplet representations ---------------------------------------------------


@pytest.mark.parametrize("name", EXACT)
def test_definition_2_3_is_what_the_models_declare(name: str) -> None:
    assert build(name, FORMULA_1).symmetry is Symmetry.EXACT


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=15)
@given(renamed=renamed_graphs())
def test_definition_2_3_triplet_representations_are_double_invariant(name: str, renamed: Renamed) -> None:
    graph, phi, tau, image = renamed
    model, every = build(name, graph), triplets_of(graph)
    assert close(scores(model, graph, every), scores(model, image, move(every, phi, tau)))


@pytest.mark.parametrize("name", EXACT)
def test_definition_2_3_isomorphic_triplets_of_one_graph_score_alike(name: str) -> None:
    """Without a renaming given: whichever triplets the checker calls isomorphic must share a score."""
    square = named("a r b", "b r c", "c s d", "d s a")
    every = triplets_of(square)
    found = scores(build(name, square), square, every)
    orbits = [
        (i, j)
        for i, j in combinations(range(len(every)), 2)
        if find_isomorphism(square, square, (every[i].tolist(), every[j].tolist())) is not None
    ]
    assert len(orbits) == 16  # half a turn, with r and s swapped, pairs all 32 triplets
    assert close(found[[i for i, _ in orbits]], found[[j for _, j in orbits]])


@pytest.mark.parametrize("name", EXACT)
def test_definition_2_3_makes_the_task_of_figure_1a_solvable(name: str) -> None:
    """What is learnt of the missing driver applies to the missing employee."""
    model = build(name, FORMULA_1)
    driver = scores(model, FORMULA_1, row(FORMULA_1, "Red_Bull_Racing", "racing_driver", "Sergio_Pérez"))
    employee = scores(model, COMPANY, row(COMPANY, "Google", "employee", "Jeff_Dean"))
    other = scores(model, COMPANY, row(COMPANY, "Google", "employee", "Sundar_Pichai"))
    assert close(driver, employee)
    assert name in ("gat", "gin", "graphconv") or not close(driver, other)


# -- Definition 2.5 and Theorem 2.6: double equivariant graph representations -----------------------------------


def graph_of(triplet: Triplet) -> Callable[[KnowledgeGraph], np.ndarray]:
    """Theorem 2.6: the graph representation made of a triplet representation."""

    def represent(graph: KnowledgeGraph) -> np.ndarray:
        n, r = graph.num_entities, graph.num_relations
        return triplet(graph, triplets_of(graph)).reshape(n, r, n)

    return represent


def triplet_of(represent: Callable[[KnowledgeGraph], np.ndarray]) -> Triplet:
    """Theorem 2.6, vice versa."""
    return lambda graph, triplets: represent(graph)[tuple(triplets.T)]


def is_invariant(triplet: Triplet, renamed: Renamed) -> bool:
    """Definition 2.3 for one renaming."""
    graph, phi, tau, image = renamed
    every = triplets_of(graph)
    return close(triplet(graph, every), triplet(image, move(every, phi, tau)))


def is_equivariant(represent: Callable[[KnowledgeGraph], np.ndarray], renamed: Renamed) -> bool:
    """Definition 2.5 for one renaming."""
    graph, phi, tau, image = renamed
    return close(act(phi, tau, represent(graph)), represent(image))


def by_ids(graph: KnowledgeGraph, triplets: np.ndarray) -> np.ndarray:
    """Not invariant: reads ids."""
    return triplets @ np.array([1.0, 10.0, 100.0])


def by_relation_id(graph: KnowledgeGraph, triplets: np.ndarray) -> np.ndarray:
    """Invariant to entities alone."""
    return adjacency(graph)[tuple(triplets.T)] + 2.0 * triplets[:, 1]


def by_counts(graph: KnowledgeGraph, triplets: np.ndarray) -> np.ndarray:
    """Invariant: how often the relation leaves the head and enters the tail."""
    found = adjacency(graph)
    return found.sum(2)[triplets[:, 0], triplets[:, 1]] + 0.1 * found.sum(0)[triplets[:, 1], triplets[:, 2]]


REPRESENTATIONS: list[Triplet] = [by_ids, by_relation_id, by_counts]
BENT = Renamed(g := named("a r b", "b s c"), p := np.array([2, 0, 1]), t := np.array([1, 0]), g.relabel(p, t))
"""A renaming that moves everything."""


@pytest.mark.parametrize("triplet", REPRESENTATIONS)
@given(renamed=renamed_graphs())
def test_theorem_2_6_invariant_iff_equivariant(triplet: Triplet, renamed: Renamed) -> None:
    represent = graph_of(triplet)
    assert is_invariant(triplet, renamed) == is_equivariant(represent, renamed)
    assert is_invariant(triplet_of(represent), renamed) == is_equivariant(represent, renamed)


def test_theorem_2_6_is_not_empty() -> None:
    """Of the three representations two fail, both as triplet and as graph representations."""
    assert [is_invariant(triplet, BENT) for triplet in REPRESENTATIONS] == [False, False, True]
    assert [is_equivariant(graph_of(triplet), BENT) for triplet in REPRESENTATIONS] == [False, False, True]


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=10)
@given(renamed=renamed_graphs())
def test_theorem_2_6_holds_for_models(name: str, renamed: Renamed) -> None:
    """Triplets scored one by one make an equivariant tensor; the tensor of `score_tails` makes an invariant triplet."""
    model = build(name, renamed.graph)
    assert is_equivariant(graph_of(partial(scores, model)), renamed)
    assert is_invariant(triplet_of(partial(whole, model)), renamed)
