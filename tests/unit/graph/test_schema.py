"""What a graph says of its relations."""

import numpy as np

from anykg.graph.schema import FEWEST, entity_kinds, one_way_relations, redundant_relations, schema
from graphs import named

PAIRS = [(f"a{i}", f"b{i}") for i in range(FEWEST)]


def found(*lines: str) -> list[tuple[int, int]]:
    return [tuple(pair) for pair in redundant_relations(named(*lines)).tolist()]


def test_duplicates_inverses_and_symmetry() -> None:
    same = [f"{h} likes {t}" for h, t in PAIRS] + [f"{h} loves {t}" for h, t in PAIRS[1:]] + ["x loves y"]
    assert found(*same) == [(0, 1), (1, 0)]
    inverse = [f"{h} parent {t}" for h, t in PAIRS] + [f"{t} child {h}" for h, t in PAIRS]
    assert found(*inverse) == [(0, 3), (1, 2)]
    symmetric = [f"{h} near {t}" for h, t in PAIRS] + [f"{t} near {h}" for h, t in PAIRS]
    assert found(*symmetric) == [(0, 1)]


def test_unlike_or_small_relations_do_not_count() -> None:
    assert found(*(f"{h} likes {t}" for h, t in PAIRS), *(f"{t} loves c{t}" for _, t in PAIRS)) == []
    few = PAIRS[:-1]
    assert found(*(f"{h} likes {t}" for h, t in few), *(f"{h} loves {t}" for h, t in few)) == []
    half = [f"{h} likes {t}" for h, t in PAIRS] + [f"{h} loves {t}" for h, t in PAIRS[: FEWEST // 2]]
    assert found(*half, *(f"{h} loves c{t}" for h, t in PAIRS[FEWEST // 2 :])) == []


def staff(people: int = 40) -> list[str]:
    lines = []
    for i in range(people):
        lines += [f"p{i} works_in d{i % 4}", f"p{i} has_skill s{i % 6}", f"p{i} likes p{(i * 7 + 3) % people}"]
    return lines + [f"d{i} located_in city{i % 2}" for i in range(4)]


def test_statements_have_their_support() -> None:
    found = schema(named(*staff()))
    works = {s.holds: (s.support, s.cases) for s in found["works_in"].statements}
    assert works == {"functional": (40, 40), "one-way": (40, 40), "irreflexive": (40, 40)}
    assert "functional" not in {s.holds for s in found["located_in"].statements}  # four cases are too few
    pairs = schema(named(*(f"{h} parent {t}" for h, t in PAIRS), *(f"{t} child {h}" for h, t in PAIRS)))
    inverse = [s for s in pairs.statements if s.other]
    assert [(s.relation, s.holds, s.other, s.share) for s in inverse] == [("parent", "inverse of", "child", 1.0)]


def test_kinds_are_groups_of_ends() -> None:
    graph = named(*staff())
    kinds = entity_kinds(graph)
    people, departments, skills = (
        {kinds.names[kinds.of_entity[graph.entities.index(f"{letter}{i}")]] for i in range(4)} for letter in "pds"
    )
    assert len(people) == len(departments) == len(skills) == 1
    assert len(people | departments | skills) == 3
    found = schema(graph)
    assert [kind.share for kind in found["works_in"].head_kinds] == [1.0]
    assert {kind.kind for kind in found["works_in"].head_kinds} == people


def test_type_facts_name_the_kinds() -> None:
    lines = [*staff(), *(f"p{i} rdf:type Person" for i in range(40)), *(f"d{i} rdf:type Department" for i in range(4))]
    found = schema(named(*lines))
    assert [kind.kind for kind in found["works_in"].head_kinds] == ["Person"]
    assert [kind.kind for kind in found["works_in"].tail_kinds] == ["Department"]


def test_one_way_relations() -> None:
    both = [f"{h} near {t}" for h, t in PAIRS] + [f"{t} near {h}" for h, t in PAIRS]
    graph = named(*both, *(f"{h} above {t}" for h, t in PAIRS))
    assert np.array_equal(one_way_relations(graph), [False, True])
