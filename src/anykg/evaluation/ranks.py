"""Rank the true answer among its candidates.

scores [B, C] -> Ranks, independent of any model. Ties are kept, not broken: see Ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import torch
from torch import Tensor

from anykg.seeds import generator


class Ties(StrEnum):
    """How candidates with exactly the same score as the answer are counted."""

    REALISTIC = "realistic"
    """The mean of optimistic and pessimistic."""
    OPTIMISTIC = "optimistic"
    """The answer comes first among ties."""
    PESSIMISTIC = "pessimistic"
    """The answer comes last among ties."""
    RANDOM = "random"
    """The answer has a uniformly random position among ties."""
    ROUNDED = "rounded"
    """1 + better + round(U x ties), U uniform in [0, 1]: the paper's rule; first and last are half as likely."""


@dataclass(frozen=True)
class Ranks:
    """For the answers of Q queries, the numbers of candidates with better and with equal scores."""

    better: np.ndarray  # [Q]
    ties: np.ndarray  # [Q], the answer itself not counted
    candidates: np.ndarray  # [Q], the answer counted

    def __len__(self) -> int:
        return len(self.better)

    def by(self, ties: Ties, seed: int = 0) -> np.ndarray:
        """Return ranks [Q] under a tie-breaking rule; `seed` is for the two random rules."""
        uniform = generator(seed, "ties", ties.value).random(len(self))
        worse_by: np.ndarray = {
            Ties.OPTIMISTIC: np.zeros(len(self)),
            Ties.PESSIMISTIC: self.ties,
            Ties.REALISTIC: self.ties / 2,
            Ties.RANDOM: np.floor(uniform * (self.ties + 1)),
            Ties.ROUNDED: np.round(uniform * self.ties),
        }[ties]
        return np.asarray(1.0 + self.better + worse_by)

    def __getitem__(self, keep: np.ndarray) -> Ranks:
        return Ranks(self.better[keep], self.ties[keep], self.candidates[keep])

    @staticmethod
    def concatenate(parts: list[Ranks]) -> Ranks:
        """Join the queries of all parts, in order."""
        columns = ("better", "ties", "candidates")
        return Ranks(*(np.concatenate([getattr(p, c) for p in parts] or [np.zeros(0, np.int64)]) for c in columns))


def rank(scores: Tensor, answers: Tensor, ignored: Tensor | None = None) -> Ranks:
    """Rank the answer column of each row of scores [B, C]; candidates where `ignored` [B, C] is True do not count.

    The answer itself always counts. NaN scores raise: every comparison with NaN is False, so a model that computes
    nothing would rank first.
    """
    if torch.isnan(scores).any():
        raise FloatingPointError(
            f"{int(torch.isnan(scores).sum())} of {scores.numel()} scores are NaN; refusing to rank."
        )
    answer = scores.gather(1, answers[:, None])  # [B, 1]
    counts = torch.ones_like(scores, dtype=torch.bool) if ignored is None else ~ignored
    counts = counts.scatter(1, answers[:, None], False)
    better = ((scores > answer) & counts).sum(1)
    ties = ((scores == answer) & counts).sum(1)
    return Ranks(*(part.cpu().numpy() for part in (better, ties, counts.sum(1) + 1)))
