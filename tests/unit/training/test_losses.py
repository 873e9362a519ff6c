import pytest
import torch
from torch.nn import functional as F

from anykg.training.losses import balanced, binary, margin, self_adversarial

SCORES = torch.tensor([[2.0, -1.0, 0.5], [0.1, 0.3, -2.0]], requires_grad=True)


def test_binary_is_weighted_cross_entropy() -> None:
    labels = torch.zeros_like(SCORES)
    labels[:, 0] = 1
    expected = F.binary_cross_entropy_with_logits(SCORES, labels, pos_weight=torch.tensor(4.0))
    assert binary(SCORES, 4.0).item() == pytest.approx(expected.item())


def test_balanced_averages_the_negatives() -> None:
    p = torch.sigmoid(SCORES)
    expected = -(p[:, 0].log() + (1 - p[:, 1:]).log().mean(1)).mean()
    assert balanced(SCORES).item() == pytest.approx(expected.item(), rel=1e-5)


def test_self_adversarial_weights_carry_no_gradient() -> None:
    p = torch.sigmoid(SCORES)
    weights = torch.softmax(SCORES[:, 1:], 1).detach()
    expected = -((p[:, 0].log() + (weights * (1 - p[:, 1:]).log()).sum(1)) / 2).mean()
    loss = self_adversarial(SCORES)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    torch.testing.assert_close(*(torch.autograd.grad(x, SCORES, retain_graph=True)[0] for x in (loss, expected)))


def test_margin() -> None:
    assert margin(torch.tensor([[1.0, 0.5, -3.0]]), 2.0).item() == pytest.approx((1.5 + 0.0) / 2)
