"""Ends and directions: an entity of the wrong kind, a turned fact and a taken partner score low."""

import numpy as np
import torch

from anykg.graph.graph import KnowledgeGraph
from anykg.models.schema import SchemaModel
from graphs import named


def company() -> KnowledgeGraph:
    lines = []
    for i in range(40):
        lines += [f"p{i} works_in d{i % 4}", f"p{i} lives_in city{i % 3}", f"p{i} has_desk desk{i}"]
        lines += [f"p{i} reports_to p{i // 6}"] * (i > 6)
    return named(*lines, *(f"d{i} headquartered_in city{i % 3}" for i in range(4)))


def score(graph: KnowledgeGraph, *facts: str) -> np.ndarray:
    model = SchemaModel().eval()
    rows = [fact.split() for fact in facts]
    ids = [[graph.entities.index(h), graph.relations.index(r), graph.entities.index(t)] for h, r, t in rows]
    result: np.ndarray = model.score_triplets(model.encode(graph), torch.tensor(ids)).numpy()
    return result


def test_a_person_is_not_headquartered() -> None:
    graph = company()
    model = SchemaModel().eval()
    heads, tails = (torch.tensor([graph.entities.index(name)]) for name in ("p3", "city1"))
    scores = model.score_relations(model.encode(graph), heads, tails)[0]
    assert graph.relations[int(scores.argmax())] == "lives_in"
    person, department = score(graph, "p3 headquartered_in city1", "d3 headquartered_in city1")
    assert department > person + 1


def test_a_one_way_relation_is_not_answered_backwards() -> None:
    forth, back = score(company(), "p30 reports_to p4", "p1 reports_to p10")
    assert forth > back + 1


def test_a_partner_is_not_taken_twice() -> None:
    lines = [f"d{i} has_desk desk{i}" for i in range(5)]
    graph = named(
        *lines, *(f"p{i} has_desk desk{i + 10}" for i in range(30)), *(f"desk{i} on floor" for i in range(50))
    )
    free, taken = score(graph, "p3 has_desk desk45", "p3 has_desk desk20")
    assert free > taken


def test_a_known_fact_does_not_make_its_ends_known() -> None:
    graph = company()
    fact = "p7 has_desk desk7"
    row = [graph.entities.index("p7"), graph.relations.index("has_desk"), graph.entities.index("desk7")]
    rest = graph.subset((graph.triplets != np.array(row)).any(1))
    assert abs(float(score(graph, fact)[0] - score(rest, fact)[0])) < 0.5
