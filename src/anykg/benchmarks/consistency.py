"""Check whether published metrics are consistent with each other.

Hits@1, Hits@5 and Hits@10 determine how many ranks are 1, up to 5, up to 10 and up to 51; each group bounds its part of
the MRR. Ranks may be halves, if ties are averaged. The bounds are linear, so means over seeds keep them.
"""

from __future__ import annotations

from typing import NamedTuple

from anykg.benchmarks.report import LABELS, Published

LAST_RANK = 51
ROUNDING = 0.05
"""Percentage points by which rounded figures may miss a bound."""


class Impossible(NamedTuple):
    """An MRR that its own Hits@k rule out, in percent."""

    model: str
    dataset: str
    task: str
    mrr: float
    least: float
    most: float


def mrr_bounds(hits_1: float, hits_5: float, hits_10: float) -> tuple[float, float]:
    """The smallest and largest MRR, in percent, that Hits@1, 5 and 10 in percent allow among 51 candidates."""
    groups = (hits_1, hits_5 - hits_1, hits_10 - hits_5, 100 - hits_10)
    least = sum(share / rank for share, rank in zip(groups, (1, 5, 10, LAST_RANK), strict=True))
    most = sum(share / rank for share, rank in zip(groups, (1, 1.5, 5.5, 10.5), strict=True))
    return least, most


def impossible(published: Published) -> list[Impossible]:
    """Rows whose MRR is outside the bounds of their Hits@k."""
    inconsistent = []
    for model, dataset, column, task in dict.fromkeys(key[:4] for key in published):
        values = {metric: published.get((model, dataset, column, task, metric)) for metric in LABELS}
        if any(value is None for value in values.values()):
            continue
        mean = {metric: value[0] for metric, value in values.items() if value is not None}
        least, most = mrr_bounds(mean["hits@1"], mean["hits@5"], mean["hits@10"])
        if not least - ROUNDING <= mean["mrr"] <= most + ROUNDING:
            inconsistent.append(Impossible(model, dataset, task, mean["mrr"], least, most))
    return inconsistent
