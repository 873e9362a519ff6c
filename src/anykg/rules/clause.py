"""Clauses whose entities and relations are all variables: UQER Horn clauses.

A clause says: wherever the body holds, for distinct entities E1..EM and distinct relations C1..CK, so does the head,
(E1, C1, E2), or (E1, C1, E1) for an attribute. It names no entity and no relation, so it applies to any graph.
Variables are numbers here, from 0: entity 0 is E1, relation 0 is C1. The definition's tensor B [M, K, M] has a 1 for
every atom of the body; each variable that is not in the head must occur in it. The body need not be connected, and
variables of the head need not occur in it.

A clause written by a user may have any variable names, and relations of a graph in quotes: see `read`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import NamedTuple

import numpy as np

from anykg.errors import InputError

_IN_QUOTES = r"""'(?:[^']|'')*'|"[^"]*\""""
_PART = rf"""\s*({_IN_QUOTES}|[^\s(),&'"][^\s(),&]*)\s*"""
_ATOM = re.compile(rf"\({_PART},{_PART},{_PART}\)")
_QUOTED = re.compile(rf"(?<=[(,\s])(?:{_IN_QUOTES})(?=\s*[,)])")
_ARROW, _AND = "=>", "&"
MOST_ORDERS = 1_000_000
"""Upper bound on the orders of the variables that are tried for a canonical form."""


class ClauseError(InputError):
    """A clause that cannot be parsed or is not valid."""


class Atom(NamedTuple):
    """A triplet of variables."""

    head: int
    relation: int
    tail: int

    def __str__(self) -> str:
        return f"(E{self.head + 1}, C{self.relation + 1}, E{self.tail + 1})"


@dataclass(frozen=True)
class Clause:
    """A body and a head; equal clauses have equal atoms, `canonical` makes them equal up to names of variables."""

    body: tuple[Atom, ...]
    """Distinct and sorted, regardless of the given order."""
    attribute: bool = False
    """The head is (E1, C1, E1), not (E1, C1, E2)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "body", tuple(sorted({Atom(*atom) for atom in self.body})))
        entities = {v for atom in self.body for v in (atom.head, atom.tail)} | set(range(2 - self.attribute))
        relations = {atom.relation for atom in self.body} | {0}
        for letter, used in (("E", entities), ("C", relations)):
            missing = sorted(set(range(max(used) + 1)) - used)
            if min(used) < 0 or missing:
                gap = f"{letter}{missing[0] + 1} is missing" if missing else "one is below 1"
                raise ClauseError(f"{self}: expected variables {letter}1, {letter}2, .. without a gap, but {gap}.")

    @property
    def head(self) -> Atom:
        """(E1, C1, E2) or (E1, C1, E1)."""
        return Atom(0, 0, 0 if self.attribute else 1)

    @cached_property
    def num_entities(self) -> int:
        """M."""
        return 1 + max(v for atom in (*self.body, self.head) for v in (atom.head, atom.tail))

    @cached_property
    def num_relations(self) -> int:
        """K."""
        return 1 + max(atom.relation for atom in (*self.body, self.head))

    @property
    def is_tautology(self) -> bool:
        """Whether the head is one of the atoms of the body."""
        return self.head in self.body

    def __str__(self) -> str:
        body = f" {_AND} ".join(map(str, self.body))
        return f"{body} {_ARROW} {self.head}".lstrip()

    def canonical(self) -> Clause:
        """The same clause with the first of all its equivalent bodies, in the order of tuples of atoms."""
        fixed = 2 - self.attribute
        others, kinds = range(fixed, self.num_entities), range(1, self.num_relations)
        orders = np.prod([*range(1, len(others) + 1), *range(1, len(kinds) + 1)], dtype=float)
        if orders > MOST_ORDERS:
            raise ClauseError(
                f"{self}: has {self.num_entities} entities and {self.num_relations} relations, too many to compare "
                f"with other clauses in every order of the variables (at most {MOST_ORDERS:,})."
            )
        best = min(
            tuple(sorted(Atom(entity[a.head], kind[a.relation], entity[a.tail]) for a in self.body))
            for entity in ((*range(fixed), *order) for order in permutations(others))
            for kind in ((0, *order) for order in permutations(kinds))
        )
        return Clause(best, self.attribute)

    def tensor(self) -> np.ndarray:
        """The tensor B [M, K, M] of the definition, bool."""
        tensor = np.zeros((self.num_entities, self.num_relations, self.num_entities), bool)
        for atom in self.body:
            tensor[atom] = True
        return tensor

    @classmethod
    def from_tensor(cls, tensor: np.ndarray, *, attribute: bool = False) -> Clause:
        """The clause of a tensor B [M, K, M], in which every variable must occur."""
        tensor = np.asarray(tensor, bool)
        if tensor.ndim != 3 or tensor.shape[0] != tensor.shape[2] or min(tensor.shape, default=0) < 1:
            raise ClauseError(f"Expected a tensor of shape [M, K, M], found {list(tensor.shape)}.")
        clause = cls(tuple(Atom(*map(int, atom)) for atom in np.argwhere(tensor)), attribute)
        shape = (max(clause.num_entities, tensor.shape[0]), max(clause.num_relations, tensor.shape[1]))
        if shape != (clause.num_entities, clause.num_relations):
            raise ClauseError(
                f"Expected every one of {shape[0]} entities and {shape[1]} relations to occur in the clause, found "
                f"only {clause.num_entities} and {clause.num_relations} in {clause}."
            )
        return clause


class Written(NamedTuple):
    """A clause as written by a user."""

    clause: Clause
    relations: tuple[str | None, ...]
    """The relations of a graph that C1, C2, .. stand for; None for any relation."""
    relation_variables: tuple[str, ...]
    entity_variables: tuple[str, ...]


def parse(text: str) -> Clause:
    """Parse `(E1, C2, E3) & (E3, C1, E2) => (E1, C1, E2)`; variables may have any names, numbered from the head on.

    >>> str(parse("(x, knows, y) & (y, in, z) => (x, in, z)"))
    '(E1, C2, E3) & (E3, C1, E2) => (E1, C1, E2)'
    """
    written = read(text)
    if any(written.relations):
        raise ClauseError(f"{text!r}: expected only variables, found the name of a relation in quotes.")
    return written.clause


def read(text: str) -> Written:
    """Parse a clause in which relations may be named, in quotes.

    >>> read("(x, 'is married to', y) & (y, 'in', z) => (x, 'in', z)").relations
    ('in', 'is married to')
    """
    masked = _QUOTED.sub(lambda match: "_" * len(match[0]), text)
    arrow = masked.find(_ARROW)
    if arrow < 0:
        raise ClauseError(f"{text!r}: expected BODY {_ARROW} HEAD, such as (E2, C1, E1) {_ARROW} (E1, C1, E2).")
    head = _atoms(text[arrow + len(_ARROW) :], text)
    if len(head) != 1:
        raise ClauseError(f"{text!r}: expected one atom after {_ARROW}, found {len(head)}.")
    body = _atoms(text[:arrow], text)
    entities, relations = _names([*head, *body], (0, 2)), _names([*head, *body], (1,))
    named = next((name for name in entities if name[0] in "'\""), None)
    if named:
        raise ClauseError(f"{text!r}: expected a variable for an entity, found {named}; only relations can be named.")
    both = sorted(set(entities) & set(relations))
    if both:
        raise ClauseError(f"{text!r}: {both[0]} stands for an entity and for a relation; use two names.")
    atoms = tuple(Atom(entities[h], relations[r], entities[t]) for h, r, t in body)
    in_order = sorted(relations, key=relations.__getitem__)
    return Written(
        Clause(atoms, attribute=head[0][0] == head[0][2]),
        tuple(_unquoted(name) if name[0] == "'" else None for name in in_order),
        tuple(name for name in in_order if name[0] != "'"),
        tuple(entities),
    )


def quoted(name: str) -> str:
    """The name of a relation as `read` takes it.

    >>> quoted("Bob's friend")
    "'Bob''s friend'"
    """
    return "'" + name.replace("'", "''") + "'"


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'") if text[0] == "'" else text[1:-1]


def _atoms(text: str, whole: str) -> list[tuple[str, str, str]]:
    """The atoms of `(a, b, c) & (d, e, f)`; names of relations in single quotes."""
    if not text.strip():
        return []
    masked = _QUOTED.sub(lambda match: "_" * len(match[0]), text)
    ends = [*(match.start() for match in re.finditer(_AND, masked)), len(text)]
    atoms = []
    for start, end in zip([0, *(end + 1 for end in ends)], ends, strict=False):
        part = text[start:end].strip()
        match = _ATOM.fullmatch(part)
        if match is None:
            raise ClauseError(f"{whole!r}: expected (ENTITY, RELATION, ENTITY), found {part!r}{_hint(part)}.")
        head, relation, tail = match.groups()
        atoms.append((head, quoted(_unquoted(relation)) if relation[0] in "'\"" else relation, tail))
    return atoms


def _hint(part: str) -> str:
    """A hint for an atom whose relation has several words."""
    names = [name.strip() for name in part.strip("()").split(",")]
    if len(names) != 3 or len(names[1].split()) < 2:
        return ""
    return f"; a variable is one word, and the name of a relation is in quotes: {quoted(names[1])}"


def _names(atoms: Sequence[tuple[str, str, str]], columns: tuple[int, ...]) -> dict[str, int]:
    """Numbers of the names at `columns`, by first appearance; E1, E2, .. and C1, C2, .. keep their own.

    So parsing the output of `str` gives the same clause.
    """
    seen = list(dict.fromkeys(atom[column] for atom in atoms for column in columns))
    letter = "C" if columns == (1,) else "E"
    matches = [re.fullmatch(rf"{letter}([1-9][0-9]*)", name) for name in seen]
    own = {name: int(match[1]) - 1 for name, match in zip(seen, matches, strict=True) if match}
    of_head = [own.get(atoms[0][column]) for column in columns]
    if len(own) == len(seen) and of_head in ([0], [0, 0], [0, 1]):
        return own
    return {name: number for number, name in enumerate(seen)}
