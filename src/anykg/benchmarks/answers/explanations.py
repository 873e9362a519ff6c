"""Test whether explanations name the fact that matters, by removing every fact nearby and scoring again.

For the single fact that `explain` names for a test fact, it is tested whether any other fact that touches the head, the
answer or the runner-up lowers the answer relative to the runner-up more: at most 100 others, sampled if there are more.
If no fact is named, any fact that lowers it is a failure.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from anykg.answers.explaining.contrast import Contrast, contrast, touching
from anykg.benchmarks.cells import Cell
from anykg.graph.graph import KnowledgeGraph
from anykg.io.catalog import load_task
from anykg.models.base import LinkPredictor
from anykg.models.folders import FOUNDATION
from anykg.models.store import load_model
from anykg.seeds import generator

GRAPHS = {"EN-FR": 0.0}
FACTS = 200
MOST_NEARBY = 100
TIE = 1e-4
"""Effects that differ by less are equal."""


def measure(name: str, minutes: float, data_dir: Path | None = None) -> dict[str, Any]:
    """Figures of one graph, with the shipped network."""
    task = load_task(name, data_dir)
    chosen = np.sort(generator(0, "explained").choice(len(task.test), min(FACTS, len(task.test)), replace=False))
    return single_facts(load_model(FOUNDATION), task.observed, task.test.triplets[chosen].astype(np.int64))


def single_facts(model: LinkPredictor, graph: KnowledgeGraph, facts: np.ndarray) -> dict[str, Any]:
    """The number of facts [F, 3] for which the named single fact matters most, and the mean number of facts tested."""
    largest, compared, unnamed = 0, [], 0
    for fact in facts:
        found = contrast(model, graph, fact)
        if found is None or not found.nearby:
            continue
        named = found.facts[0] if found.facts else None
        effects = effects_of_others(model, graph, fact, found, None if named is None else np.array(named.fact))
        unnamed += named is None
        largest += bool((0.0 if named is None else named.effect) >= effects.max(initial=-np.inf) - TIE)
        compared.append(len(effects))
    if not compared:
        return {"facts": 0}
    return {"facts": len(compared), "largest": largest, "unnamed": unnamed, "compared": float(np.mean(compared))}


@torch.no_grad()
def effects_of_others(
    model: LinkPredictor, graph: KnowledgeGraph, triplet: np.ndarray, found: Contrast, named: np.ndarray | None
) -> np.ndarray:
    """The decrease of the lead over the runner-up without each fact nearby, except the named one."""
    head, relation, tail = triplet.tolist()
    near = touching(graph, np.array([head, tail, found.other]))
    near = near if named is None else near[(graph.triplets[near] != named).any(1)]
    near = generator(0, "nearby", head, relation, tail).permutation(near)[:MOST_NEARBY]
    rows = torch.tensor([[head, relation, tail], [head, relation, found.other]])
    leads = []
    for fact in near:
        answer, other = model.score_triplets(model.encode(graph.subset(np.arange(len(graph)) != fact)), rows)
        leads.append(float(answer - other))
    return found.lead - np.array(leads)


def lines(cells: list[Cell]) -> list[str]:
    """A sentence for each graph."""
    return [
        *("", "## Explanations", ""),
        *(
            f"On {cell['graph']} ({FOUNDATION}), no other fact nearby, of at most {MOST_NEARBY} "
            f"({cell['compared']:.0f} on average), lowers the answer relative to the runner-up more when it is removed "
            f"than the single fact that `explain` names, for {cell['largest']} of {cell['facts']} test facts; "
            f"{cell['unnamed']} have none."
            for cell in cells
            if cell["facts"]
        ),
    ]
