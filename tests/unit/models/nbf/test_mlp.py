"""The compiled MLPs against torch: values, gradients, and the same bits twice."""

import pytest
import torch

from anykg.models.nbf import mlp, reference

WIDTH = 16
SHAPES = [(3, 21), (1, 100), (20, 5), (2, 0)]


def outcome(module, name, inputs, hidden, last):
    out = getattr(module, name)(*inputs, hidden, last)
    wanted = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    parameters = [*hidden.parameters(), *last.parameters()]
    return [out.detach(), *torch.autograd.grad((out * wanted).sum(), [*inputs, *parameters])]


def compare(name, inputs, outputs):
    hidden, last = torch.nn.Linear(2 * WIDTH, 2 * WIDTH), torch.nn.Linear(2 * WIDTH, outputs)
    ours, again, expected = (outcome(module, name, inputs, hidden, last) for module in (mlp, mlp, reference))
    for mine, same, theirs in zip(ours, again, expected, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-4)
        assert torch.equal(mine, same)


@pytest.mark.parametrize(("queries", "nodes"), SHAPES)
def test_read_out_and_its_gradients(queries, nodes):
    torch.manual_seed(queries)
    states, query = torch.randn(queries, nodes, WIDTH).requires_grad_(), torch.randn(queries, WIDTH).requires_grad_()
    compare("read_out", [states, query], 1)


@pytest.mark.parametrize(("queries", "nodes"), SHAPES)
def test_transform_and_its_gradients(queries, nodes):
    torch.manual_seed(queries)
    compare("transform", [torch.randn(queries, nodes, WIDTH).requires_grad_()], WIDTH)
