"""Small graphs to test models on."""

from __future__ import annotations

import numpy as np

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary

Triplet = tuple[str, str, str]


def random_graph(entities: int, relations: int, triplets: int, seed: int = 0) -> KnowledgeGraph:
    """Uniform triplets; some entities may have none, some pairs several."""
    random = np.random.default_rng(seed)
    sizes = (entities, relations, entities)
    return KnowledgeGraph(
        np.stack([random.integers(size, size=triplets) for size in sizes], axis=1),
        Vocabulary("entity", [f"e{i}" for i in range(entities)]),
        Vocabulary("relation", [f"r{i}" for i in range(relations)]),
    )


def _named(*facts: str) -> KnowledgeGraph:
    """A graph from "head relation tail" lines."""
    return KnowledgeGraph.from_names(*zip(*(fact.split() for fact in facts), strict=True))


# The paper's Figure 1(a): a racing team and a company with the same structure.
TEAM = _named(
    "Red_Bull_Racing racing_driver Max_Verstappen",
    "Max_Verstappen teammate Sergio_Pérez",
    "Sergio_Pérez teammate Max_Verstappen",
    "Christian_Horner team_principal Red_Bull_Racing",
    "Christian_Horner manages Max_Verstappen",
    "Christian_Horner manages Sergio_Pérez",
)
COMPANY = _named(
    "Sundar_Pichai boss_of Jeff_Dean",
    "Sundar_Pichai boss_of Sanjay_Ghemawat",
    "Sundar_Pichai chief_executive Google",
    "Sanjay_Ghemawat colleague Jeff_Dean",
    "Jeff_Dean colleague Sanjay_Ghemawat",
    "Google employee Sanjay_Ghemawat",
)
ISOMORPHIC: tuple[Triplet, Triplet] = (
    ("Red_Bull_Racing", "racing_driver", "Sergio_Pérez"),
    ("Google", "employee", "Jeff_Dean"),
)
"""A triplet of TEAM and one of COMPANY that a relabelling maps onto each other."""
DIFFERENT: dict[str, list[tuple[Triplet, Triplet]]] = {
    "relation": [
        (("Red_Bull_Racing", "racing_driver", "Sergio_Pérez"), ("Red_Bull_Racing", "teammate", "Sergio_Pérez")),
        (("Red_Bull_Racing", "racing_driver", "Sergio_Pérez"), ("Red_Bull_Racing", "manages", "Sergio_Pérez")),
    ],
    "tail": [
        (
            ("Red_Bull_Racing", "racing_driver", "Sergio_Pérez"),
            ("Red_Bull_Racing", "racing_driver", "Christian_Horner"),
        ),
        (("Christian_Horner", "manages", "Sergio_Pérez"), ("Christian_Horner", "manages", "Red_Bull_Racing")),
    ],
}
"""Pairs of triplets of TEAM that no relabelling maps onto each other, by the kind of difference."""
TURNED: tuple[Triplet, Triplet] = (
    ("Christian_Horner", "manages", "Sergio_Pérez"),
    ("Sergio_Pérez", "manages", "Christian_Horner"),
)
"""A triplet of TEAM and the same with its ends swapped, which no relabelling maps onto each other either."""


def ids(graph: KnowledgeGraph, triplet: Triplet) -> list[int]:
    """The ids of a triplet of names."""
    head, relation, tail = triplet
    return [graph.entities.index(head), graph.relations.index(relation), graph.entities.index(tail)]
