"""NBFNet's compiled network against torch: values, gradients, what is computed, and the same bits twice."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.models.nbf import pna
from anykg.models.nbf.pna import Layer, background_states, propagate
from anykg.threads import threads
from graphs import edges_of, random_edges

WIDTH = 16


def path(nodes):
    return edges_of([edge for i in range(nodes - 1) for edge in ((i, 0, i + 1), (i + 1, 1, i))], nodes, 2)


GRAPHS = {
    "random": random_edges(30, 5, 200, 0),
    "sparse": random_edges(60, 3, 70, 1),
    "path": path(12),
    "one way": edges_of([(i, 0, i + 1) for i in range(9)], 10, 1),
    "self-loops": edges_of([(i, 0, i) for i in range(6)] + [(0, 1, 1)], 7, 2),
    "duplicates": edges_of([(0, 0, 1), (0, 0, 1), (0, 1, 1), (1, 1, 0), (2, 0, 1)], 4, 2),
    "no edges": edges_of([], 5, 3),
    "one node": edges_of([(0, 0, 0)], 1, 1),
}


def network(edges, queries, depth, seed=0, dtype=torch.float):
    """Leaves, layers, heads and vectors at the heads."""
    random = torch.Generator().manual_seed(seed)
    shapes = [(edges.num_relations, WIDTH), (WIDTH, 13 * WIDTH), (WIDTH,)] * depth
    leaves = [torch.randn(shape, generator=random) for shape in ((queries, WIDTH), *shapes)]
    leaves = [(x / 13**0.5 if x.shape == (WIDTH, 13 * WIDTH) else x).to(dtype).requires_grad_() for x in leaves]
    layers = [Layer(*leaves[at : at + 3]) for at in range(1, len(leaves), 3)]
    return leaves, layers, torch.randint(edges.num_nodes, (queries,), generator=random)


def mask(edges, seed=3):
    return np.random.default_rng(seed).random(edges.num_edges) < 0.7


def run(edges, queries, depth, masked, few, seed=0, dtype=torch.float, fast=True):
    """The states and the gradients of all leaves."""
    leaves, layers, heads = network(edges, queries, depth, seed, dtype)
    targets = torch.randint(edges.num_nodes * queries, (6,), generator=torch.Generator().manual_seed(seed))
    options = {"keep": mask(edges) if masked else None, "targets": targets if few else None}
    out = propagate(layers, heads, leaves[0], edges, fast=fast, **options)
    wanted = torch.randn(out.shape, generator=torch.Generator().manual_seed(9)).to(dtype)
    gradients = torch.autograd.grad((out * wanted).sum(), leaves, allow_unused=True)
    zeros = [torch.zeros_like(leaf) for leaf in leaves]
    return [out.detach(), *(zero if grad is None else grad for zero, grad in zip(zeros, gradients, strict=True))]


def assert_as_near_as_the_reference(*case, seed=0):
    # A small deviation is a difference of nearly equal numbers, so its gradient in float32 is far off in torch too.
    exact = run(*case, seed=seed, dtype=torch.double)
    ours, theirs = (run(*case, seed=seed, fast=fast) for fast in (True, False))
    for mine, other, true in zip(ours, theirs, exact, strict=True):
        scale = 1 + float(true.abs().max()) if true.numel() else 1
        error, allowed = ((x - true).abs().max() if true.numel() else 0 for x in (mine, other))
        assert error < 1e-4 * scale + 3 * allowed


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("few", [False, True])
def test_network_is_as_near_to_double_precision_as_the_reference(name, depth, few):
    for queries, masked in ((1, False), (4, True)):
        assert_as_near_as_the_reference(GRAPHS[name], queries, depth, masked, few)


@settings(max_examples=20, deadline=None)
@given(
    nodes=st.integers(1, 40),
    relations=st.integers(1, 4),
    count=st.integers(0, 80),
    queries=st.integers(1, 9),
    seed=st.integers(0, 10**6),
    few=st.booleans(),
)
def test_network_equals_the_reference_on_any_graph(nodes, relations, count, queries, seed, few):
    edges = random_edges(nodes, relations, count, seed)
    assert_as_near_as_the_reference(edges, queries, 2, seed % 2 == 0, few, seed=seed)


def test_ties_share_the_gradient_of_the_largest():
    edges = GRAPHS["duplicates"]
    results = []
    for fast in (True, False):
        _, layers, _ = network(edges, 1, 2)
        start, weights = torch.ones(1, WIDTH, requires_grad=True), torch.ones(2, WIDTH, requires_grad=True)
        layers = [layer._replace(weights=weights) for layer in layers]  # three equal messages from 1 to 0
        out = propagate(layers, torch.tensor([1]), start, edges, fast=fast)
        results.append(torch.autograd.grad(out.sum(), [start, weights]))
    for mine, other in zip(*results, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("few", [False, True])
@torch.no_grad()
def test_a_known_background_changes_no_bit(few):
    edges = GRAPHS["sparse"]
    leaves, layers, heads = network(edges, 3, 3)
    targets = torch.tensor([5, 70, 70, 130]) if few else None
    known = background_states(layers, edges)
    assert [x.shape for x in known] == [(60, WIDTH)] * 3
    ours = propagate(layers, heads, leaves[0], edges, targets=targets, background=known)
    assert torch.equal(ours, propagate(layers, heads, leaves[0], edges, targets=targets))


@torch.no_grad()
def test_only_what_heads_reach_and_targets_read_is_computed(monkeypatch):
    edges, planned = path(40), []
    plan = pna._plan

    def counting(*arguments, **options):
        planned.append(plan(*arguments, **options))
        return planned[-1]

    monkeypatch.setattr(pna, "_plan", counting)
    leaves, layers, _ = network(edges, 2, 3)
    heads, targets = torch.tensor([10, 30]), torch.tensor([11, 40 + 5])
    for known in (None, background_states(layers, edges)):
        propagate(layers, heads, leaves[0], edges, targets=targets, background=known)
    # Query 1 reads node 11, one edge from its head, query 2 node 5, far from it.
    assert [(rows.cells // 40).tolist() for rows in planned[1].rows[1:]] == [[1] * 3, [1] * 3, [1]]
    assert [np.flatnonzero(rows.where[:40] >= 0).tolist() for rows in planned[0].rows[1:]] == [
        [3, 4, 5, 6, 7, 12, 13], [4, 5, 6], [5]
    ]  # fmt: skip


@pytest.mark.parametrize("few", [False, True])
def test_same_bits_on_any_number_of_threads(few):
    edges, results = random_edges(200, 7, 3000, 4), []
    for count in (1, 1, 3):
        with threads(kernels=count):
            results.append(run(edges, 5, 3, True, few))
    for one, *others in zip(*results, strict=True):
        assert all(torch.equal(one, other) for other in others)


@torch.no_grad()
def test_nan_is_not_hidden():
    edges = GRAPHS["random"]
    leaves, layers, heads = network(edges, 2, 2)
    broken = [layers[0], layers[1]._replace(bias=torch.full((WIDTH,), float("nan")))]
    assert propagate(broken, heads, leaves[0], edges).isnan().all()
