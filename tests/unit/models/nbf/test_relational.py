"""The compiled kernels against torch: values, gradients, and the same bits twice."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.models.nbf import reference
from anykg.models.nbf.aggregate import aggregate
from anykg.models.nbf.fast import _alike, propagate
from anykg.models.nbf.reference import Layer, Queries
from graphs import edges_of, random_edges

WIDTH = 16


GRAPHS = {
    "random": random_edges(30, 5, 200, 0),
    "self-loops": edges_of([(i, 0, i) for i in range(6)] + [(0, 1, 1)], 7, 2),
    "duplicates": edges_of([(0, 0, 1), (0, 0, 1), (0, 1, 1), (1, 1, 0), (2, 0, 1)], 4, 2),
    "one relation": random_edges(12, 1, 40, 1),
    "no edges": edges_of([], 5, 3),
    "one node": edges_of([(0, 0, 0)], 1, 1),
}


def leaves(*shapes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]


def gradients(out, inputs, seed=9):
    wanted = torch.randn(out.shape, generator=torch.Generator().manual_seed(seed)).to(out.dtype)
    return torch.autograd.grad((out * wanted).sum(), inputs, allow_unused=True)


def assert_close(ours, reference):
    for mine, theirs in zip(ours, reference, strict=True):
        mine = torch.zeros(()) if mine is None else mine
        theirs = torch.zeros(()) if theirs is None else theirs
        torch.testing.assert_close(mine.expand_as(theirs), theirs, atol=1e-4, rtol=1e-4)


def mask(edges, seed=3):
    return np.random.default_rng(seed).random(edges.num_edges) < 0.7


def messages_case(edges, queries, shared, masked, fast, edge_weights=False):
    states, boundary, weights, factors = leaves(
        (queries, edges.num_nodes, WIDTH),
        (queries, edges.num_nodes, WIDTH),
        (edges.num_relations, WIDTH) if shared else (queries, edges.num_relations, WIDTH),
        (edges.num_edges,),
    )
    out = aggregate(
        states,
        weights,
        boundary,
        edges,
        keep=mask(edges) if masked else None,
        edge_weights=factors if edge_weights else None,
        fast=fast,
    )
    return out, gradients(out, [states, boundary, weights, *([factors] if edge_weights else [])])


@pytest.mark.parametrize("name", GRAPHS)
def test_sums_and_gradients_equal_the_reference(name):
    for queries, shared, masked in ((1, False, False), (3, True, True), (3, False, True)):
        case = (GRAPHS[name], queries, shared, masked)
        (ours, our_gradients), (theirs, their_gradients) = messages_case(*case, True), messages_case(*case, False)
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
        assert_close(our_gradients, their_gradients)


@pytest.mark.parametrize("masked", [False, True])
def test_edge_weights_have_a_gradient(masked):
    case = (GRAPHS["random"], 2, False, masked)
    (ours, our_gradients), (theirs, their_gradients) = (messages_case(*case, fast, True) for fast in (True, False))
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    assert_close(our_gradients, their_gradients)


def test_the_message_goes_from_the_last_to_the_first_column():
    states = torch.zeros(1, 3, WIDTH)
    states[0, 2] = 1
    edges = edges_of([(0, 0, 2)], 3, 1)
    for fast in (True, False):
        out = aggregate(states, torch.full((1, WIDTH), 2.0), torch.zeros(1, 3, WIDTH), edges, fast=fast)
        assert out[0].sum(1).tolist() == [2 * WIDTH, 0, 0]


def test_other_widths_and_types_take_the_reference():
    edges = GRAPHS["random"]
    states, weights = torch.randn(2, 30, 5, dtype=torch.double), torch.randn(5, 5, dtype=torch.double)
    states.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: aggregate(x, weights, torch.zeros_like(x), edges), (states,), fast_mode=True
    )


# -- the fused network ----------------------------------------------------------------------------------------------


def network_inputs(edges, queries, tables, depth, seed=0):
    shapes = [(tables, edges.num_relations, WIDTH), (WIDTH, 2 * WIDTH), (WIDTH,), (WIDTH,), (WIDTH,)]
    flat = leaves((queries, WIDTH), *(shapes * depth), seed=seed)
    layers = [Layer(*flat[1 + 5 * i : 6 + 5 * i]) for i in range(depth)]
    random = torch.Generator().manual_seed(seed)
    heads = torch.randint(edges.num_nodes, (queries,), generator=random)
    which = torch.randint(tables, (queries,), generator=random)
    return flat, layers, Queries(heads[:, None], flat[0][:, None], which)


def targets_of(edges, queries, count):
    return torch.randint(edges.num_nodes * queries, (count,), generator=torch.Generator().manual_seed(5))


def compare_networks(edges, queries, tables, depth, masked, few, seed=0):
    flat, layers, asked = network_inputs(edges, queries, tables, depth, seed)
    options = {"keep": mask(edges) if masked else None, "targets": targets_of(edges, queries, 4) if few else None}
    ours, theirs = propagate(layers, asked, edges, **options), reference.propagate(layers, asked, edges, **options)
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    expected = gradients(theirs, flat)
    scale = max(float(g.abs().max()) for g in expected if g is not None and g.numel())
    for mine, other in zip(gradients(ours, flat), expected, strict=True):
        if other is not None:
            mine = torch.zeros_like(other) if mine is None else mine
            torch.testing.assert_close(mine, other, atol=1e-4 * max(1.0, scale), rtol=1e-3)
    with torch.no_grad():
        assert torch.equal(propagate(layers, asked, edges, **options), ours)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("few", [False, True])
def test_network_equals_the_reference(name, depth, few):
    for queries, tables, masked in ((1, 1, False), (4, 2, True)):
        compare_networks(GRAPHS[name], queries, tables, depth, masked, few)


@settings(max_examples=25, deadline=None)
@given(
    nodes=st.integers(1, 40),
    relations=st.integers(1, 4),
    count=st.integers(0, 80),
    queries=st.integers(1, 9),
    seed=st.integers(0, 10**6),
    few=st.booleans(),
)
def test_network_equals_the_reference_on_any_graph(nodes, relations, count, queries, seed, few):
    compare_networks(random_edges(nodes, relations, count, seed), queries, queries, 3, seed % 2 == 0, few, seed)


@pytest.mark.parametrize("few", [False, True])
def test_rows_that_hear_nothing_new_are_computed_from_numbers_of_edges(few, monkeypatch):
    edges = random_edges(500, 3, 900, 6)  # most nodes are far from the heads, some isolated
    _, layers, asked = network_inputs(edges, 3, 2, 3)
    options = {"targets": targets_of(edges, 3, 40)} if few else {}
    computed = []

    def counting(plan, rows, *rest):
        computed.append((len(rows), _alike(plan, rows, *rest)))
        return computed[-1][1]

    monkeypatch.setattr("anykg.models.nbf.fast.MANY_ROWS", 0)
    monkeypatch.setattr("anykg.models.nbf.fast._alike", counting)
    with torch.no_grad():
        ours, theirs = propagate(layers, asked, edges, **options), reference.propagate(layers, asked, edges, **options)
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    ((rows, left),) = computed
    assert len(left) < rows / 4
    assert few or len(left)


@pytest.mark.parametrize("few", [False, True])
def test_same_bits_twice(few):
    edges = random_edges(200, 7, 3000, 4)
    flat, layers, asked = network_inputs(edges, 5, 5, 4)
    results = []
    for _ in range(2):
        out = propagate(layers, asked, edges, targets=targets_of(edges, 5, 50) if few else None)
        results.append([out, *gradients(out, flat)])
    for first, second in zip(*results, strict=True):
        assert torch.equal(first, second)
    (one, one_gradients), (two, two_gradients) = (messages_case(edges, 3, True, True, True) for _ in range(2))
    assert torch.equal(one, two)
    assert all(torch.equal(a, b) for a, b in zip(one_gradients, two_gradients, strict=True))


def test_network_gives_gradients_to_edge_weights_by_layer():
    edges = GRAPHS["random"]
    _, layers, asked = network_inputs(edges, 2, 1, 3)
    factors = torch.ones(3, edges.num_edges, requires_grad=True)
    out = propagate(layers, asked, edges, edge_weights=factors)
    torch.testing.assert_close(out, propagate(layers, asked, edges), atol=1e-4, rtol=1e-4)
    (grad,) = torch.autograd.grad(out.sum(), factors)
    assert grad.shape == factors.shape
    sent = torch.from_numpy(np.isin(edges.triplets[:, 2], asked.heads.numpy().ravel()))
    assert grad[0, sent].abs().sum() > 0
    assert grad[0, ~sent].abs().sum() == 0  # only heads send in the first layer


def test_nan_is_not_hidden():
    edges = GRAPHS["random"]
    _, layers, asked = network_inputs(edges, 2, 1, 2)
    broken = [*layers[:-1], layers[-1]._replace(bias=torch.full((WIDTH,), float("nan")))]
    with torch.no_grad():
        assert propagate(broken, asked, edges).isnan().all()
