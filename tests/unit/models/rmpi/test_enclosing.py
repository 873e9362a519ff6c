"""Enclosing subgraphs: the kernel against sets, and sums over ranges against loops."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.models.rmpi.around import triplets_around
from anykg.models.rmpi.kernels import enclose, enclose_reference
from anykg.models.rmpi.sums import range_sums, range_sums_reference
from graphs import graphs, named


@given(graphs(max_entities=14), st.integers(0, 99), st.sampled_from([0.0, 0.5]))
@settings(max_examples=80, deadline=None)
def test_kernel_agrees_with_its_reference(graph, seed, drop):
    random = np.random.default_rng(seed)
    sizes = (graph.num_entities, graph.num_relations, graph.num_entities)
    drawn = np.stack([random.integers(size, size=12) for size in sizes], axis=1)
    candidates = np.concatenate([graph.triplets[:8], drawn, drawn[:, [0, 1, 0]]])  # facts, others, loops
    around = triplets_around(graph)
    found, expected = (f(around, candidates, drop, seed) for f in (enclose, enclose_reference))
    for name, one, other in zip(found._fields, found, expected, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)


def test_paths_through_the_other_root_do_not_count():
    """x is near v, and near u only by way of v."""
    graph = named("u r v", "v r x", "u r w", "w r v")
    ids = graph.entities.index
    found = enclose(triplets_around(graph), np.array([[ids("u"), 0, ids("v")]]))
    assert len(found.rows) - 1 == 3  # u, v, w


def test_a_candidate_without_a_subgraph_has_the_candidate_alone():
    graph = named("a r b", "c s d")
    found = enclose(triplets_around(graph), np.array([[graph.entities.index("a"), 1, graph.entities.index("d")]]))
    assert found.columns.tolist() == [2 + 1, 1]  # going out of the head, coming in to the tail
    assert found.links.tolist() == [[0, 1], [1, 2]]


def test_dropout_drops_its_share_and_keeps_the_mean():
    graph = named(*(f"u r{i % 5} v{i % 7}" for i in range(35)), *(f"v{i % 7} s{i % 3} w" for i in range(21)))
    ids = graph.entities.index
    row = np.array([[ids("u"), 0, ids("w")]])
    around = triplets_around(graph)
    whole = enclose(around, row)
    draws = [enclose(around, row, 0.25, seed) for seed in range(200)]
    assert all(np.array_equal(whole.columns, draw.columns) for draw in draws)
    for weights in (np.array([draw.first for draw in draws]), np.array([draw.second for draw in draws])):
        assert set(np.unique(weights)) == {np.float32(0), np.float32(4 / 3)}
        assert weights.mean() == pytest.approx(1, abs=0.03)
    assert (draws[0].first != draws[0].second).any()
    kept = np.mean([draw.beside.sum() for draw in draws]) / whole.beside.sum()
    assert kept == pytest.approx(0.75, abs=0.03)


@given(st.integers(1, 8), st.integers(0, 30), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_range_sums_and_their_gradient(ranges, entries, seed):
    random = np.random.default_rng(seed)
    bounds = np.sort(random.integers(entries + 1, size=(ranges, 2)), axis=1)
    columns, weights = random.integers(5, size=entries).astype(np.int32), random.random(entries, np.float32).round()
    results = []
    for sums in (range_sums, range_sums_reference):
        table = torch.from_numpy(np.random.default_rng(1).random((5, 3), np.float32)).requires_grad_()
        out = sums(bounds[:, 0], bounds[:, 1], columns, weights, table)
        (out * torch.arange(out.numel()).view(out.shape)).sum().backward()
        results.append((out.detach(), table.grad))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
