"""A small network that turns features of facts into the odds that they are right."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

EPOCHS, BATCH = 8, 256
WIDTH = 64
RELATION_WIDTH = 8


class Judge(nn.Module):
    """Log-odds from features [B, K] and relations [B]."""

    def __init__(self, figures: int, relations: int, random: torch.Generator) -> None:
        super().__init__()
        self.relation = nn.Embedding(relations, RELATION_WIDTH)
        self.layers = nn.Sequential(
            nn.Linear(figures + RELATION_WIDTH, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, 1),
        )
        with torch.no_grad():
            for parameter in self.parameters():
                bound = 0.1 if parameter.ndim < 2 else parameter.shape[1] ** -0.5
                parameter.uniform_(-bound, bound, generator=random)

    def forward(self, figures: Tensor, relations: Tensor) -> Tensor:
        """[B]."""
        result: Tensor = self.layers(torch.cat([figures, self.relation(relations)], 1)).squeeze(1)
        return result


class Standardised:
    """Standardise features, with outliers clipped."""

    def __init__(self, figures: np.ndarray) -> None:
        self.mean, self.deviation = figures.mean(0), figures.std(0) + 1e-6

    def __call__(self, figures: np.ndarray) -> Tensor:
        return torch.from_numpy(np.clip((figures - self.mean) / self.deviation, -6, 6).astype(np.float32))


def train_judge(
    figures: Tensor, relations: np.ndarray, labels: np.ndarray, num_relations: int, random: torch.Generator
) -> Judge:
    """A network trained on features [B, K] and relations [B] of facts whose labels [B] are 1 if right and 0 if not."""
    model = Judge(figures.shape[1], num_relations, random)
    kinds, targets = torch.from_numpy(relations), torch.from_numpy(labels)
    weights = torch.where(targets > 0, (1 - targets).mean() / targets.mean(), 1.0)  # as if both were equally frequent
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.02)
    slower = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, EPOCHS * -(-len(targets) // BATCH))
    for _ in range(EPOCHS):
        order = torch.randperm(len(targets), generator=random)
        for first in range(0, len(order), BATCH):
            rows = order[first : first + BATCH]
            odds = model(figures[rows], kinds[rows])
            loss = nn.functional.binary_cross_entropy_with_logits(odds, targets[rows], weights[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            slower.step()
    return model.eval()
