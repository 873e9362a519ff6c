"""Rules bound to a graph and to its parts: those about attributes that no entity has any more are left out."""

import numpy as np
import pytest

from anykg.rules.index import rule_index, sort_rules
from anykg.rules.named import mine_named
from graphs import random_graph


@pytest.mark.parametrize("share", [1.0, 0.9, 0.5, 0.0])
def test_constant_rules_of_a_part(share: float) -> None:
    graph = random_graph(30, 4, 120, 0)
    part = graph.subset(np.random.default_rng(1).random(len(graph)) < share)
    mined = mine_named(graph)
    attributes = {(r, t) for _, r, t in part.with_inverses().tolist()}

    def exists(relation: int, tail: int) -> bool:
        return tail == -1 or (relation, tail) in attributes

    rows = zip(mined.constants.tolist(), mined.constant_counts[:, 0].tolist(), strict=True)
    expected = {(*rule, support) for rule, support in rows if exists(*rule[:2]) and exists(*rule[2:])}
    _, items, rules = rule_index(part, sort_rules(mined, graph.num_relations), prior=5.0)

    def rule(head: int, body: int, support: float) -> tuple[int, ...]:
        parts = (items.relation[head], items.tail[head], items.relation[body], items.tail[body], support)
        return tuple(int(value) for value in parts)

    by_body = {
        rule(rules.heads[at], body, rules.support[at])
        for body in range(len(items.relation))
        for at in range(rules.by_body[body], rules.by_body[body + 1])
    }
    by_head = {
        rule(head, rules.body_of[at], rules.support[rules.order[at]])
        for head in range(len(items.relation))
        for at in range(rules.by_head[head], rules.by_head[head + 1])
    }
    assert by_body == by_head == expected
    assert len(rules.heads) == len(expected)
