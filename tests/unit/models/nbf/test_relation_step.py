"""The factorised relation step against the sum over all pairs of relations: values, gradients, the same bits twice."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.models.nbf import fast, reference, relation_step
from anykg.models.nbf.reference import Factors, RelationUpdate
from anykg.models.nbf.relation_graph import entity_graph
from graphs import random_graph

WIDTH = 16


def leaves(*shapes, seed=0, dtype=torch.float):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]


def inputs_of(edges, queries, seed=0, shared=False, dtype=torch.float):
    shapes = [
        (queries, edges.num_nodes, WIDTH),
        (1 if shared else queries, edges.num_relations, WIDTH),
        (4, WIDTH, WIDTH),
        (1 if shared else queries, 4, WIDTH),
        (4, WIDTH, WIDTH),
        (4, WIDTH),
    ]
    return leaves(*shapes, seed=seed, dtype=dtype)


def messages(module, edges, inputs, keep):
    states, vectors, *factors = inputs
    return module.relation_messages(states, vectors.expand(len(states), -1, -1), Factors(*factors), edges, keep=keep)


def gradients(out, inputs):
    wanted = torch.randn(out.shape, generator=torch.Generator().manual_seed(9)).to(out.dtype)
    return torch.autograd.grad((out * wanted).sum(), inputs)


def compare(graph, queries, seed, masked, shared):
    edges = entity_graph(graph)
    inputs = inputs_of(edges, queries, seed, shared)
    keep = None
    if masked:
        kept = np.random.default_rng(seed).random(len(graph)) < 0.6
        keep = np.concatenate([kept, kept])
    expected = messages(reference, edges, inputs, keep)
    ours = messages(relation_step, edges, inputs, keep)
    scale = max(1.0, float(expected.detach().abs().max()))
    torch.testing.assert_close(ours, expected, atol=1e-5 * scale, rtol=1e-4)
    for mine, theirs in zip(gradients(ours, inputs), gradients(expected, inputs), strict=True):
        size = max(1.0, float(theirs.abs().max()))
        torch.testing.assert_close(mine, theirs, atol=2e-5 * size, rtol=1e-3)


@settings(max_examples=25)
@given(
    entities=st.integers(1, 40),
    relations=st.integers(1, 6),
    count=st.integers(0, 90),
    queries=st.integers(1, 10),
    seed=st.integers(0, 10**6),
    masked=st.booleans(),
    shared=st.booleans(),
)
def test_factorised_step_is_the_sum_over_pairs(entities, relations, count, queries, seed, masked, shared):
    compare(random_graph(entities, relations, count, seed), queries, seed, masked, shared)


def test_factorised_step_in_torch_is_the_sum_over_pairs(monkeypatch):
    monkeypatch.setattr(fast, "kernels_apply", lambda states: False)
    compare(random_graph(30, 5, 80, 1), 3, 1, True, False)
    compare(random_graph(30, 5, 80, 1), 2, 1, False, True)


def test_same_bits_twice():
    edges = entity_graph(random_graph(300, 9, 2000, 4))
    inputs = inputs_of(edges, 3)
    first, second = (messages(relation_step, edges, inputs, None) for _ in range(2))
    assert torch.equal(first, second)
    assert all(torch.equal(a, b) for a, b in zip(gradients(first, inputs), gradients(second, inputs), strict=True))


def test_links_are_those_of_the_definition():
    graph = random_graph(12, 3, 30, 5)
    heads, tails = {}, {}
    for head, relation, tail in graph.with_inverses().tolist():
        heads.setdefault(head, set()).add(relation)
        tails.setdefault(tail, set()).add(relation)
    expected = set()
    for kind, one, other in ((0, heads, heads), (1, tails, tails), (2, heads, tails), (3, tails, heads)):
        for v in range(12):
            pairs = {(r1, r2) for r1 in one.get(v, ()) for r2 in other.get(v, ())}
            expected |= {(kind, r1, r2, v) for r1, r2 in pairs if kind > 1 or r1 != r2}
    links = reference.relation_links(entity_graph(graph))
    found = list(zip(*(column.tolist() for column in links), strict=True))
    assert len(found) == len(set(found))
    assert set(found) == expected


@pytest.mark.parametrize("masked", [False, True])
def test_counts_are_the_first_step_with_states_of_one(masked):
    """With x = 1, f = 1 and z = 1 at the query relation, messages count meetings."""
    graph = random_graph(40, 4, 90, 2)
    edges = entity_graph(graph)
    kept = np.random.default_rng(0).random(len(graph)) < 0.5
    keep = np.concatenate([kept, kept]) if masked else None
    wanted = torch.tensor([0, 3, 2])
    one = Factors(torch.zeros(4, 1, 1), torch.zeros(1, 4, 1), torch.zeros(4, 1, 1), torch.ones(4, 1))
    vectors = torch.nn.functional.one_hot(wanted, 8).float()[..., None]
    expected = reference.relation_messages(torch.ones(3, 40, 1), vectors, one, edges, keep=keep)
    assert torch.equal(relation_step.meeting_counts(edges, wanted, keep), expected[..., 0])
    order = edges.by_receiver
    plain = relation_step.count_meetings(
        order.nodes, order.relations, relation_step.kept_runs(edges, keep), wanted.numpy(), edges.num_relations
    )
    assert torch.equal(torch.from_numpy(plain).movedim(1, 0), expected[..., 0])


def test_update_equals_the_reference():
    inputs = leaves((3, 10, WIDTH), (4, 3, 10, WIDTH), (4, WIDTH, 2 * WIDTH), (4, WIDTH), (4, WIDTH), (4, WIDTH))
    boundary = torch.rand(3, 10, 1)
    results = []
    for module in (relation_step, reference):
        vectors, received, *layer = inputs
        out = module.relation_update(vectors, received, boundary, RelationUpdate(*layer))
        results.append([out, *gradients(out, inputs)])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    with torch.no_grad():  # compiled
        ours = relation_step.relation_update(vectors, received, boundary, RelationUpdate(*layer))
        torch.testing.assert_close(ours, results[1][0], atol=1e-4, rtol=1e-4)
