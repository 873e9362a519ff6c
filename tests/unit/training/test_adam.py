"""Adam: torch's own update, and a state that can be saved."""

import pytest
import torch

from anykg.training.adam import Adam


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3))


def learn(network: torch.nn.Module, step: int) -> None:
    inputs = torch.randn(4, 5, generator=torch.Generator().manual_seed(step))
    for parameter in network.parameters():
        parameter.grad = None
    network(inputs).square().mean().backward()


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("decoupled", [False, True])
def test_it_is_torchs_update(decay: float, decoupled: bool) -> None:
    ours, theirs = model(), model()
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    expected = kind(theirs.parameters(), lr=0.05, weight_decay=decay)
    optimizer = Adam(ours.parameters(), weight_decay=decay, decoupled=decoupled)
    for step in range(20):
        learn(ours, step)
        optimizer.step(0.05)
        learn(theirs, step)
        expected.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other)
        assert mine.grad is None


def test_a_saved_state_goes_on_alike() -> None:
    whole, parts = model(), model()
    optimizer, first = Adam(whole.parameters()), Adam(parts.parameters())
    for step in range(6):
        if step == 3:
            saved = {name: tensor.clone() for name, tensor in first.tensors().items()}
            first = Adam(parts.parameters())
            first.load(saved)
        for network, adam in ((whole, optimizer), (parts, first)):
            learn(network, step)
            adam.step(0.05)
    for mine, other in zip(whole.parameters(), parts.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_a_parameter_without_gradient_stays() -> None:
    network = model()
    before = [parameter.clone() for parameter in network.parameters()]
    Adam(network.parameters(), weight_decay=0.5, decoupled=True).step(0.1)
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))
