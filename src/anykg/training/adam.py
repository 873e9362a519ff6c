"""Adam and AdamW.

`torch.optim` has both, but its first use loads torch's compiler, two seconds at the start of every training, and its
overhead exceeds the arithmetic of a small model. This is the same update, and the states are interchangeable.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

FIRST, SECOND = 0.9, 0.999
"""Decay rates of the running means of the gradient and of its square (beta1 and beta2)."""
LEAST = 1e-8
"""Added to the denominator (epsilon)."""


class Adam:
    """Updates parameters from their gradients."""

    def __init__(self, parameters: Iterable[nn.Parameter], *, weight_decay: float = 0.0, decoupled: bool = False):
        """`decoupled` decay shrinks the weights themselves (AdamW); otherwise it is added to the gradient."""
        self._parameters = list(parameters)
        self._decay = weight_decay
        self._decoupled = decoupled
        self._states: dict[int, dict[str, Tensor]] = {}

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """Take one step and clear the gradients."""
        for index, parameter in enumerate(self._parameters):
            gradient = parameter.grad
            if gradient is None:
                continue
            if self._decay and self._decoupled:
                parameter.mul_(1 - lr * self._decay)
            elif self._decay:
                gradient = gradient.add(parameter, alpha=self._decay)
            if index not in self._states:
                self._states[index] = _start(parameter)
            state = self._states[index]
            count = float(state["step"].add_(1))
            mean = state["exp_avg"].lerp_(gradient, 1 - FIRST)
            square = state["exp_avg_sq"].mul_(SECOND).addcmul_(gradient, gradient, value=1 - SECOND)
            root = square.sqrt().div_((1 - SECOND**count) ** 0.5).add_(LEAST)
            parameter.addcdiv_(mean, root, value=-lr / (1 - FIRST**count))
            parameter.grad = None

    def tensors(self) -> dict[str, Tensor]:
        """The state as named tensors, to be saved."""
        return {f"{index}.{key}": value for index, state in self._states.items() for key, value in state.items()}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Restore the state that `tensors` returned."""
        self._states = {}
        for name, value in tensors.items():
            index, _, key = name.partition(".")
            device = "cpu" if key == "step" else self._parameters[int(index)].device
            self._states.setdefault(int(index), {})[key] = value.to(device)


def _start(parameter: Tensor) -> dict[str, Tensor]:
    return {
        "step": torch.zeros(()),
        "exp_avg": torch.zeros_like(parameter),
        "exp_avg_sq": torch.zeros_like(parameter),
    }
