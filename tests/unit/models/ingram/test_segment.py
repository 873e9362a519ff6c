"""The attention kernel against its reference in torch."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anykg.models.ingram.segment import arrivals, attend, attend_reference
from anykg.seeds import generator, torch_generator
from anykg.threads import threads


def _example(seed, nodes=7, edges=20, kinds=3, heads=2, width=5, dtype=torch.float32):
    draw = generator(seed, "edges")
    group = arrivals(*(draw.integers(high, size=edges) for high in (nodes, nodes, kinds)), nodes)
    shapes = [(nodes, 4, heads, width), (kinds, 2, heads, width), (heads, width), (kinds, heads)]
    random = torch_generator(seed, "values")
    tensors = [torch.randn(shape, generator=random, dtype=dtype).requires_grad_() for shape in shapes]
    return group, tensors


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31), nodes=st.integers(1, 9), edges=st.integers(0, 40), loops=st.booleans())
def test_kernel_and_its_gradients_equal_the_reference(seed, nodes, edges, loops):
    group, tensors = _example(seed, nodes, edges)
    ours, reference = (f(group, *tensors, loops) for f in (attend, attend_reference))
    torch.testing.assert_close(ours, reference, rtol=1e-4, atol=1e-5)
    towards = torch.randn(ours.shape, generator=torch_generator(seed, "gradient"), dtype=ours.dtype)
    for mine, theirs in zip(
        torch.autograd.grad(ours, tensors, towards), torch.autograd.grad(reference, tensors, towards), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("loops", [False, True])
def test_single_precision_equals_the_reference(loops):
    group, tensors = _example(1, nodes=300, edges=2000, kinds=11, heads=8, width=32, dtype=torch.float32)
    ours, reference = (f(group, *tensors, loops) for f in (attend, attend_reference))
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, reference, rtol=1e-4, atol=1e-5)
    for mine, theirs in zip(
        torch.autograd.grad(ours.square().mean(), tensors),
        torch.autograd.grad(reference.square().mean(), tensors),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-6)


def test_one_edge_by_hand():
    group = arrivals(np.array([1]), np.array([0]), np.array([0]), 2)
    nodes = torch.zeros(2, 4, 1, 1)
    nodes[0, 2], nodes[1, 3] = 5.0, 2.0  # the value sent by 0, the residual of 1
    kinds = torch.tensor([0.0, 1.0]).view(1, 2, 1, 1)
    out = attend(group, nodes, kinds, torch.ones(1, 1), torch.zeros(1, 1))
    assert out.flatten().tolist() == [0.0, 8.0]
    # The loop of 1 has the same logit, the value 0 of node 1 and the value 1 of the only kind that arrives there.
    out = attend(group, nodes, kinds, torch.ones(1, 1), torch.zeros(1, 1), loops=True)
    assert out.flatten().tolist() == [5.0, 2.0 + (6.0 + 1.0) / 2]


def test_a_node_that_nothing_arrives_at_keeps_its_residual():
    group = arrivals(*(np.zeros(0, int) for _ in range(3)), 3)
    _, (nodes, kinds, vector, bias) = _example(0, nodes=3)
    assert torch.equal(attend(group, nodes, kinds, vector, bias), nodes[:, 3].relu())


def test_large_logits_do_not_overflow_and_nan_is_not_hidden():
    group, (nodes, kinds, vector, bias) = _example(2, dtype=torch.float32)
    assert attend(group, nodes * 1e6, kinds, vector, bias, loops=True).isfinite().all()
    spoiled = nodes.detach().clone()
    spoiled[0, 3, 0, 0] = float("nan")
    assert attend(group, spoiled, kinds, vector, bias)[0, 0, 0].isnan()


def test_results_do_not_depend_on_the_number_of_threads():
    group, tensors = _example(3, nodes=200, edges=3000, dtype=torch.float32)
    results = []
    for count in (1, 3):
        with threads(kernels=count):
            out = attend(group, *tensors, True)
            results.append([out, *torch.autograd.grad(out.square().sum(), tensors)])
    assert all(torch.equal(one, two) for one, two in zip(*results, strict=True))
