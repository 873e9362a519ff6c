"""Generate a small organisation graph: departments, staff, skills and services; about 3,000 facts from a seed.

Every member of staff works in a department, reports to someone in it, and mostly has its skills and runs its services;
a tenth of the skills and services are those of other departments. The department of a person can therefore be inferred
from the rest, though no single fact determines it with certainty.
"""

from __future__ import annotations

import numpy as np

from anykg.graph.graph import KnowledgeGraph
from anykg.seeds import generator

DEPARTMENTS = (
    *("Finance", "Legal", "Marketing", "Sales", "Research", "Design"),
    *("Support", "Logistics", "Security", "Platform", "Data", "Procurement"),
)
SITES = ("Berlin", "Lyon", "Porto", "Turku", "Graz")
STAFF, SKILLS, SERVICES = 360, 8, 5
"""People in all, and skills and services of each department."""
ELSEWHERE = 0.1
"""Share of skills and services that are those of another department."""
DEPARTMENT_OF = "works in"


def staff_graph(seed: int = 0) -> KnowledgeGraph:
    """Draw the graph."""
    rng = generator(seed, "staff graph")
    facts: list[tuple[str, str, str]] = []
    skills = {name: [f"{name} skill {i + 1}" for i in range(SKILLS)] for name in DEPARTMENTS}
    services = {name: [f"{name} service {i + 1}" for i in range(SERVICES)] for name in DEPARTMENTS}
    for index, department in enumerate(DEPARTMENTS):
        facts.append((department, "located in", SITES[index % len(SITES)]))
        for service in services[department]:
            facts.append((department, "offers", service))
            needed = rng.choice(skills[department], 3, replace=False)
            facts += [(service, "needs", str(skill)) for skill in needed]
    homes = np.arange(STAFF) % len(DEPARTMENTS)
    for number in range(STAFF):
        person, home = f"person {number + 1}", DEPARTMENTS[homes[number]]
        facts.append((person, DEPARTMENT_OF, home))
        leaders = [other for other in range(number) if homes[other] == homes[number]][:4]
        if leaders:
            facts.append((person, "reports to", f"person {int(rng.choice(leaders)) + 1}"))
        facts += [(person, "has skill", one) for one in _drawn(rng, skills, home, 3)]
        facts += [(person, "runs", one) for one in _drawn(rng, services, home, 2)]
    return KnowledgeGraph.from_names(*zip(*facts, strict=True))


def _drawn(rng: np.random.Generator, of_department: dict[str, list[str]], home: str, count: int) -> list[str]:
    """Distinct skills or services, mostly those of a department."""
    drawn: set[str] = set()
    while len(drawn) < count:
        department = str(rng.choice(DEPARTMENTS)) if rng.random() < ELSEWHERE else home
        drawn.add(str(rng.choice(of_department[department])))
    return sorted(drawn)
