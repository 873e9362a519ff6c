"""Fit a graph of an organisation with a tenth of its facts hidden, and test the predicted departments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from anykg.answers.fit import fit
from anykg.answers.hiding.recovery import hide_together
from anykg.answers.predict import predict
from anykg.benchmarks.answers.staff import DEPARTMENT_OF, staff_graph
from anykg.benchmarks.cells import Cell

GRAPHS = {"staff": 2.0}
SEEDS = 3
SHARE = 0.1


def measure(name: str, minutes: float, data_dir: Path | None = None) -> dict[str, Any]:
    """Figures of graphs drawn from some seeds, each fitted for some minutes."""
    right: list[bool] = []
    stated: list[float] = []
    facts = 0
    for seed in range(SEEDS):
        whole = staff_graph(seed)
        rest, hidden = hide_together(whole, SHARE, seed + 1)
        facts += len(whole)
        asked = [(head, tail) for head, relation, tail in hidden.to_polars().rows() if relation == DEPARTMENT_OF]
        questions = [(head, DEPARTMENT_OF, "?") for head, _ in asked]
        found = predict(rest, questions=questions, k=1, calibrated=True, model=fit(rest, minutes=minutes, seed=seed))
        first = {row["query"]: row for row in found.to_list()}
        right += [first[number]["tail"] == tail for number, (_, tail) in enumerate(asked, 1)]
        stated += [first[number]["probability"] for number in range(1, len(asked) + 1)]
    return {
        "graphs": SEEDS,
        "facts": facts / SEEDS,
        "people": len(right),
        "right": float(np.mean(right)),
        "stated": float(np.mean(stated)),
    }


def lines(cells: list[Cell]) -> list[str]:
    """A sentence."""
    return [
        *("", "## A graph of departments, staff, skills and services", ""),
        *(
            f"{cell['graphs']} graphs of {cell['facts']:,.0f} facts on average, {SHARE:.0%} hidden, "
            f"{cell['minutes']:g} minutes of `fit`: the right department is first for {cell['right']:.1%} of "
            f"{cell['people']} people whose department is hidden, and the mean probability stated for the first is "
            f"{cell['stated']:.1%}."
            for cell in cells
        ),
    ]
