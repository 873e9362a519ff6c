"""Metrics of ranks, as fractions.

>>> summarise(np.array([1.0, 2.0]))["mrr"]
0.75
"""

from __future__ import annotations

import numpy as np

HITS = (1, 3, 5, 10)
METRICS = ("mrr", "mr", *(f"hits@{k}" for k in HITS))


def summarise(ranks: np.ndarray) -> dict[str, float]:
    """Compute MRR, mean rank and Hits@k of ranks [Q]; NaN if there are none."""
    if not len(ranks):
        return dict.fromkeys(METRICS, float("nan"))
    values = {"mrr": float(np.mean(1.0 / ranks)), "mr": float(np.mean(ranks))}
    return values | {f"hits@{k}": float(np.mean(ranks <= k)) for k in HITS}


def standard_errors(ranks: np.ndarray) -> dict[str, float]:
    """Compute the standard error of every metric, treating queries as independent samples."""
    if len(ranks) < 2:
        return dict.fromkeys(METRICS, float("nan"))
    columns = {"mrr": 1.0 / ranks, "mr": ranks} | {f"hits@{k}": (ranks <= k).astype(float) for k in HITS}
    return {name: float(np.std(values, ddof=1) / np.sqrt(len(ranks))) for name, values in columns.items()}
