"""Appendix B: double equivariant logical reasoning with UQER Horn clauses."""

from functools import lru_cache
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.isomorphism import find_isomorphism
from anykg.graph.vocabulary import Vocabulary
from anykg.rules.clause import Atom, Clause, ClauseError, parse
from anykg.rules.match import implied, is_implied
from clauses import clauses
from graphs import named
from theory.actions import Renamed, act, adjacency, build, close, renamed_graphs, triplets_of, whole


def induced(clause: Clause, graph: KnowledgeGraph) -> np.ndarray:
    """S' of Theorem B.2 from the tensors alone, [N, R, N]: every assignment of distinct values is tried."""
    b, a = clause.tensor(), adjacency(graph)
    found = np.zeros_like(a)
    entities = permutations(range(graph.num_entities), clause.num_entities)
    kinds = list(permutations(range(graph.num_relations), clause.num_relations))
    for entity, kind in product(entities, kinds):
        if np.all(a[np.ix_(entity, kind, entity)][b]):
            found[entity[0], kind[0], entity[0 if clause.attribute else 1]] = 1
    return found


def predictor(clause: Clause, graph: KnowledgeGraph) -> np.ndarray:
    """Gamma((i, k, j), A) of Theorem B.2 for all triplets [N, R, N]."""
    n, r = graph.num_entities, graph.num_relations
    return is_implied(clause, graph, triplets_of(graph)).astype(int).reshape(n, r, n)


# -- Definition B.1 ---------------------------------------------------------------------------------------------


@given(clauses())
def test_definition_b_1_a_clause_is_its_tensor(clause: Clause) -> None:
    assert Clause.from_tensor(clause.tensor(), attribute=clause.attribute) == clause


def test_definition_b_1_every_variable_beyond_the_head_appears() -> None:
    tensor = np.zeros((3, 2, 3), bool)
    tensor[0, 1, 1] = True  # E3 is nowhere
    with pytest.raises(ClauseError):
        Clause.from_tensor(tensor)
    tensor[1, 1, 2] = True
    assert Clause.from_tensor(tensor).num_entities == 3
    with pytest.raises(ClauseError):
        Clause.from_tensor(np.pad(tensor, ((0, 0), (0, 1), (0, 0))))  # C3 is nowhere


# -- Theorem B.2 ------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(clauses(max_entities=4, max_atoms=4), renamed_graphs(max_entities=4, max_relations=3, min_triplets=3))
def test_theorem_b_2_the_predictor_is_what_modus_ponens_induces(clause: Clause, renamed: Renamed) -> None:
    np.testing.assert_array_equal(predictor(clause, renamed.graph), induced(clause, renamed.graph))


@settings(max_examples=60)
@given(clauses(), renamed_graphs(max_entities=6, max_relations=3, min_triplets=3))
def test_theorem_b_2_the_predictor_is_double_invariant(clause: Clause, renamed: Renamed) -> None:
    graph, phi, tau, image = renamed
    np.testing.assert_array_equal(act(phi, tau, predictor(clause, graph)), predictor(clause, image))


def test_theorem_b_2_attributes() -> None:
    """h = 1: (E1, C1, E1), a relational attribute."""
    graph = named("a part_of b", "b is b", "c part_of b")
    found = implied(parse("(E1, C2, E2) & (E2, C1, E2) => (E1, C1, E1)"), graph)
    names = {(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in found}
    assert names == {("a", "is", "a"), ("c", "is", "c")}


@settings(max_examples=15)
@given(renamed_graphs(max_entities=5, min_triplets=3))
def test_theorem_b_2_weighted_clauses_are_a_double_invariant_model(renamed: Renamed) -> None:
    graph, phi, tau, image = renamed
    for evidence in ("implied", "graded"):
        model = build("uqer", graph, evidence=evidence)
        assert close(act(phi, tau, whole(model, graph)), whole(model, image))


# -- universality: on small graphs clauses express every double invariant predictor -----------------------------


@lru_cache
def every_graph(entities: int, relations: int, facts: int) -> list[KnowledgeGraph]:
    names = (Vocabulary("entity", map(str, range(entities))), Vocabulary("relation", map(str, range(relations))))
    possible = list(product(range(entities), range(relations), range(entities)))
    return [KnowledgeGraph(np.array(chosen), *names) for chosen in combinations(possible, facts)]


def clause_of(graph: KnowledgeGraph, triplet: tuple[int, int, int]) -> Clause:
    """The clause whose body is the whole graph and whose head is the triplet."""
    entity, kind = {v: i for i, v in enumerate(dict.fromkeys([triplet[0], triplet[2]]))}, {triplet[1]: 0}
    for h, r, t in graph.triplets.tolist():
        for v in (h, t):
            entity.setdefault(v, len(entity))
        kind.setdefault(r, len(kind))
    atoms = tuple(Atom(entity[h], kind[r], entity[t]) for h, r, t in graph.triplets.tolist())
    return Clause(atoms, attribute=triplet[0] == triplet[2])


def canonical(graph: KnowledgeGraph, triplet: tuple[int, int, int]) -> tuple[object, ...]:
    """The same for isomorphic triplets and for no others."""
    h, r, t = triplet
    return min(
        (tuple(sorted((p[a], q[b], p[c]) for a, b, c in graph.triplets.tolist())), (p[h], q[r], p[t]))
        for p in permutations(range(graph.num_entities))
        for q in permutations(range(graph.num_relations))
    )


@pytest.mark.parametrize(("entities", "relations", "facts"), [(2, 2, 1), (2, 2, 2), (3, 1, 2)])
def test_theorem_b_2_clauses_tell_all_isomorphism_classes_apart(entities: int, relations: int, facts: int) -> None:
    """Of graphs with as many facts, the clause of a triplet implies exactly the triplets isomorphic to it; so any
    double invariant 0/1 predictor is the disjunction of the clauses of the triplets it accepts."""
    every = every_graph(entities, relations, facts)
    classes = [[canonical(g, tuple(row)) for row in triplets_of(g).tolist()] for g in every]  # type: ignore[arg-type]
    clause = {c: clause_of(g, tuple(row)) for g, of in zip(every, classes, strict=True)
              for c, row in zip(of, triplets_of(g).tolist(), strict=True)}  # fmt: skip
    for wanted, rule in clause.items():
        for graph, found in zip(every, classes, strict=True):
            accepted = is_implied(rule, graph, triplets_of(graph)).tolist()
            assert accepted == [c == wanted for c in found]


def test_theorem_b_2_the_checker_draws_the_same_classes() -> None:
    every = every_graph(2, 2, 2)
    asked = [(g, row) for g in every[::5] for row in triplets_of(g).tolist()]
    for (one, first), (other, second) in combinations(asked, 2):
        same = canonical(one, tuple(first)) == canonical(other, tuple(second))
        assert (find_isomorphism(one, other, (first, second)) is not None) == same


@given(clauses(max_atoms=4), renamed_graphs(max_entities=5, min_triplets=2), st.integers(0, 2**31))
def test_clauses_are_monotone(clause: Clause, renamed: Renamed, seed: int) -> None:
    """More facts imply no less: a predictor that wants a fact to be absent needs more than Horn clauses."""
    graph = renamed.graph
    every = triplets_of(graph)
    added = np.random.default_rng(seed).choice(every, 2)
    more = graph.with_triplets(np.concatenate([graph.triplets, added]))
    assume(len(more) > len(graph))
    assert not (is_implied(clause, graph, every) & ~is_implied(clause, more, every)).any()


# -- Figure 2 ---------------------------------------------------------------------------------------------------


def test_figure_2a_a_simple_clause() -> None:
    """Classmates study in the same place; learnt of other relations, applied to new ones."""
    clause = parse("(E1, C2, E3) & (E3, C1, E2) => (E1, C1, E2)")
    graph = named("Alice Classmate_Of Bob", "Bob Studies_In Paris")
    ask = (graph.entities.index("Alice"), graph.relations.index("Studies_In"), graph.entities.index("Paris"))
    assert ask in set(map(tuple, implied(clause, graph).tolist()))


def test_figure_2b_a_clause_with_a_part_apart() -> None:
    """A chain seen elsewhere is repeated: Aunt_Of as Uncle_Of, with relations that training never saw."""
    clause = parse("(E1, C2, E3) & (E3, C3, E2) & (E4, C2, E5) & (E5, C3, E6) & (E4, C1, E6) => (E1, C1, E2)")
    graph = named(
        "Ada Sister_Of Ben", "Ben Father_Of Cleo", "Ada Aunt_Of Cleo", "Dora Sister_Of Emil", "Emil Father_Of Fay",
        "Gus Brother_Of Hal", "Hal Father_Of Ida",
    )  # fmt: skip
    found = {(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in implied(clause, graph)}
    assert ("Dora", "Aunt_Of", "Fay") in found
    assert all(relation != "Aunt_Of" or head != "Gus" for head, relation, _ in found)
