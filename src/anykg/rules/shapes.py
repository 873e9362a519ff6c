"""The shapes of clauses that are mined, each a clause without names.

- path: E1 and E2 are linked by 1 to 3 facts in any direction, for every pattern of equal and different relations, with
  or without C1 among them: parallel and inverse relations, symmetry, triangles, shared neighbours, chains.
- repeat: the same for 1 and 2 facts, and elsewhere in the graph, on other entities, such a path occurs together with
  such a relation: what holds there may hold here. A body of two parts.
- half-link: C1 is known of E1, or of E2, with another entity at its other end.
- attribute: the head is (E1, C1, E1).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise, product
from typing import Literal, NamedTuple

from anykg.rules.clause import Atom, Clause, parse
from anykg.rules.kernels.paths import CHOICES, PATTERNS

Family = Literal["path", "repeat", "half-link", "attribute"]
LONGEST_REPEAT = 2
_EQUAL = {  # the number of each step's relation among the path's distinct ones, by pattern
    1: ((0,),),
    2: ((0, 1), (0, 0)),
    3: ((0, 1, 2), (0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 0, 0)),
}
HALF_LINKS = tuple(map(parse, ("(E1, C1, E3) => (E1, C1, E2)", "(E3, C1, E2) => (E1, C1, E2)")))
ATTRIBUTES = tuple(
    map(
        parse,
        (
            "(E1, C2, E1) => (E1, C1, E1)",
            "(E1, C1, E2) => (E1, C1, E1)",
            "(E2, C1, E1) => (E1, C1, E1)",
            "(E1, C2, E2) & (E2, C1, E2) => (E1, C1, E1)",
            "(E2, C2, E1) & (E2, C1, E2) => (E1, C1, E1)",
        ),
    )
)


class Shape(NamedTuple):
    """A clause, its family, and its row in the counts."""

    clause: Clause
    family: Family
    length: int
    """Steps of the path; 0 for shapes without one."""
    number: int
    """Its row in the counts of that length."""


def shapes(length: int) -> list[Shape]:
    """All shapes with paths of up to `length` steps."""
    all_shapes = [
        Shape(clause, "path", steps, number)
        for steps in range(1, length + 1)
        for number, clause in path_clauses(steps).items()
    ]
    all_shapes += [
        Shape(repeated(clause), "repeat", steps, number)
        for steps in range(1, min(length, LONGEST_REPEAT) + 1)
        for number, clause in path_clauses(steps).items()
    ]
    all_shapes += [Shape(clause, "half-link", 0, number) for number, clause in enumerate(HALF_LINKS)]
    all_shapes += [Shape(clause, "attribute", 0, number) for number, clause in enumerate(ATTRIBUTES)]
    return all_shapes


@cache
def path_clauses(length: int) -> dict[int, Clause]:
    """The clauses whose body is a path of `length` steps, by their number in `rules.kernels.paths`."""
    clauses = {}
    for directions, pattern in product(range(1 << length), range(len(_EQUAL[length]))):
        equal = _EQUAL[length][pattern]
        for choice in range(max(equal) + 2):
            clause = _path(directions, equal, choice)
            if not clause.is_tautology:
                clauses[path_number(directions, pattern, choice)] = clause
    return clauses


def path_number(directions: int, pattern: int, choice: int) -> int:
    """The number of a shape of paths; see `rules.kernels.paths`."""
    return (directions * PATTERNS + pattern) * CHOICES + choice


def grounding(directions: int, steps: Sequence[int], head: int) -> tuple[Clause, tuple[int, ...]]:
    """The clause that a rule with named relations is an instance of, and its relations C1, C2, ..

    `steps` are the relations of the path and `directions` the bits of those walked against their direction.
    """
    blocks = list(dict.fromkeys(steps))
    pattern = _EQUAL[len(steps)].index(tuple(blocks.index(step) for step in steps))
    choice = blocks.index(head) + 1 if head in blocks else 0
    clause = path_clauses(len(steps))[path_number(directions, pattern, choice)]
    return clause, (head, *(block for block in blocks if block != head))


def path_steps(clause: Clause) -> tuple[int, tuple[int, ...]]:
    """The directions of a path clause and the relation variable of each step, from E1 on."""
    nodes = [0, *range(2, clause.num_entities), 1]
    directions, variables = 0, []
    for step, ends in enumerate(pairwise(nodes)):
        (atom,) = (a for a in clause.body if {a.head, a.tail} == set(ends))
        directions |= (atom.head != ends[0]) << step
        variables.append(atom.relation)
    return directions, tuple(variables)


def repeated(clause: Clause) -> Clause:
    """The clause with a copy of itself, head and body, on other entities among its conditions."""
    moved = clause.num_entities
    copy = [Atom(a.head + moved, a.relation, a.tail + moved) for a in (*clause.body, clause.head)]
    return Clause((*clause.body, *copy), clause.attribute)


def _path(directions: int, equal: tuple[int, ...], choice: int) -> Clause:
    """E1 - E3 - .. - E2; the path's relation number `choice` - 1 is C1, the others follow."""
    nodes = [0, *range(2, len(equal) + 1), 1]
    others = iter(range(1, len(equal) + 1))
    names = [0 if block == choice - 1 else next(others) for block in range(max(equal) + 1)]
    atoms = []
    for step, block in enumerate(equal):
        ends = nodes[step], nodes[step + 1]
        head, tail = ends[::-1] if directions >> step & 1 else ends
        atoms.append(Atom(head, names[block], tail))
    return Clause(tuple(atoms))
