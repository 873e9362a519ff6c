"""Losses of scores [B, 1 + K], the target's in column 0 and its negatives' after it, or of scores of all answers.

All losses are means over the targets.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from anykg.models.recipe import Recipe


def loss_of(scores: Tensor, recipe: Recipe) -> Tensor:
    """The loss function of a recipe."""
    if recipe.loss == "bce":
        return binary(scores, recipe.positive_weight)
    if recipe.loss == "balanced-bce":
        return balanced(scores)
    if recipe.loss == "self-adversarial":
        return self_adversarial(scores)
    if recipe.loss == "softmax":
        return softmax(scores, torch.zeros(len(scores), dtype=torch.long, device=scores.device))
    return margin(scores, recipe.margin)


def binary(scores: Tensor, positive_weight: float = 1.0) -> Tensor:
    """Cross-entropy averaged over all rows, positives weighted."""
    positive = F.softplus(-scores[:, 0]) * positive_weight
    return (positive.sum() + F.softplus(scores[:, 1:]).sum()) / scores.numel()


def labelled(scores: Tensor, labels: Tensor, positive_weight: float = 1.0) -> Tensor:
    """The same for scores [B] of rows in any order; `labels` [B] are True for positives."""
    return torch.where(labels, F.softplus(-scores) * positive_weight, F.softplus(scores)).mean()


def balanced(scores: Tensor) -> Tensor:
    """Cross-entropy of each target plus the mean over its negatives: the paper's equation."""
    return (F.softplus(-scores[:, 0]) + F.softplus(scores[:, 1:]).mean(1)).mean()


def self_adversarial(scores: Tensor) -> Tensor:
    """Cross-entropy with the negatives weighted by the softmax of their own scores, which is detached."""
    weights = torch.softmax(scores[:, 1:].detach(), dim=1)  # [B, K]
    return ((F.softplus(-scores[:, 0]) + (weights * F.softplus(scores[:, 1:])).sum(1)) / 2).mean()


def margin(scores: Tensor, gap: float) -> Tensor:
    """Margin loss: the mean of how far each negative exceeds its target minus `gap`."""
    return torch.relu(gap - scores[:, :1] + scores[:, 1:]).mean()


def softmax(scores: Tensor, answers: Tensor, known: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """Cross-entropy of the answers [B] under the softmax of scores [B, C].

    `known` are (rows, columns) of correct answers; except for the answer itself they are masked.
    """
    if known is not None:
        rows, columns = known
        mask = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
        mask[rows, columns] = True
        mask[torch.arange(len(scores), device=scores.device), answers] = False
        scores = scores.masked_fill(mask, float("-inf"))
    return F.cross_entropy(scores, answers)
