"""Clauses: text, tensor, canonical form, validity."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.rules.clause import Atom, Clause, ClauseError, parse, quoted, read
from clauses import clauses


@given(clauses())
def test_text_and_tensor_read_back(clause: Clause) -> None:
    assert parse(str(clause)) == clause
    assert Clause.from_tensor(clause.tensor(), attribute=clause.attribute) == clause
    assert clause.tensor().shape == (clause.num_entities, clause.num_relations, clause.num_entities)
    assert clause.tensor().sum() == len(clause.body)


@settings(max_examples=60)
@given(clauses(), st.randoms(use_true_random=False))
def test_canonical_form_forgets_names(clause: Clause, random: object) -> None:
    fixed = 1 if clause.attribute else 2
    entities = [*range(fixed), *random.sample(range(fixed, clause.num_entities), clause.num_entities - fixed)]  # type: ignore[attr-defined]
    relations = [0, *random.sample(range(1, clause.num_relations), clause.num_relations - 1)]  # type: ignore[attr-defined]
    renamed = Clause(
        tuple(Atom(entities[a.head], relations[a.relation], entities[a.tail]) for a in clause.body), clause.attribute
    )
    assert renamed.canonical() == clause.canonical()
    assert clause.canonical().canonical() == clause.canonical()


def test_different_clauses_stay_different() -> None:
    texts = [
        "(E1, C2, E3) & (E3, C3, E2) => (E1, C1, E2)",
        "(E1, C2, E3) & (E3, C2, E2) => (E1, C1, E2)",
        "(E1, C2, E3) & (E2, C3, E3) => (E1, C1, E2)",
        "(E1, C1, E3) & (E3, C2, E2) => (E1, C1, E2)",
        "(E1, C2, E2) => (E1, C1, E2)",
        "(E1, C2, E2) => (E1, C1, E1)",
    ]
    assert len({parse(text).canonical() for text in texts}) == len(texts)


def test_names_are_free() -> None:
    named = parse("(ann, sister_of, bob) & (bob, father_of, cid) => (ann, aunt_of, cid)")
    assert named.canonical() == parse("(E1, C2, E3) & (E3, C3, E2) => (E1, C1, E2)")
    assert parse("(x, is, y) => (x, has, x)").attribute
    assert parse("=> (E1, C1, E2)").body == ()


def test_relations_are_named_in_quotes() -> None:
    written = read("""(x, "married to", y) & (y, r, z') & (z', 'Bob''s, & => (x)', w) => (x, 'married to', w)""")
    assert str(written.clause) == "(E1, C1, E3) & (E3, C2, E4) & (E4, C3, E2) => (E1, C1, E2)"
    assert written.relations == ("married to", None, "Bob's, & => (x)")
    assert (written.relation_variables, written.entity_variables) == (("r",), ("x", "w", "y", "z'"))
    assert read("(E2, 'C1', E1) => (E1, C1, E2)").relations == (None, "C1")


@given(st.text(min_size=1, max_size=8))
def test_any_name_can_be_quoted(name: str) -> None:
    assert read(f"(x, {quoted(name)}, y) => (y, r, x)").relations == (None, name)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("(x, is from, y) => (y, r, x)", "the name of a relation is in quotes: 'is from'"),
        ("(x, r, 'Paris') => (x, s, x)", "expected a variable for an entity, found 'Paris'"),
        ("(x, 'r', y) => (y, 's', x)", "expected only variables"),
        ("(E1, C1, E2)", "expected BODY => HEAD"),
        ("(E1, C1) => (E1, C1, E2)", "expected (ENTITY, RELATION, ENTITY), found '(E1, C1)'"),
        ("(E1, C1, E2) (E2, C1, E1) => (E1, C1, E2)", "found '(E1, C1, E2) (E2, C1, E1)'"),
        ("(E1, C2, E2) =>", "one atom after =>, found 0"),
        ("(E1, C2, E4) => (E1, C1, E2)", "E3 is missing"),
        ("(E1, C3, E2) => (E1, C1, E2)", "C2 is missing"),
        ("(E1, E2, E2) => (E1, C1, E2)", "stands for an entity and for a relation"),
    ],
)
def test_what_is_wrong_is_said(text: str, complaint: str) -> None:
    with pytest.raises(ClauseError) as error:
        parse(text)
    assert complaint in str(error.value)


def test_tensor_must_use_every_variable() -> None:
    tensor = np.zeros((4, 1, 4), bool)
    tensor[0, 0, 2] = True
    with pytest.raises(ClauseError, match="every one of 4 entities"):
        Clause.from_tensor(tensor)
    with pytest.raises(ClauseError, match=r"\[M, K, M\]"):
        Clause.from_tensor(np.zeros((2, 1, 3)))
    with pytest.raises(ClauseError, match="too many to compare"):
        Clause(tuple(Atom(i, 0, i + 1) for i in range(14))).canonical()
