"""Statistics of a graph: sizes, degrees, and facts known in both directions.

Observed and test facts are counted together, and so are the entities and relations that occur in them; names that occur
in no fact do not count. An entity's degree counts facts, not neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anykg.atomic import atomic_path
from anykg.errors import InputError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.task import Task

LARGEST_DRAWN_DEGREE = 25


@dataclass(frozen=True, eq=False)
class GraphStatistics:
    """One row of a table of graphs."""

    name: str
    entities: int
    relations: int
    observed_facts: int
    asked_facts: int
    average_degree: float
    """2 (observed + test) / entities."""
    share_with_fact_back: float
    """Share of the facts whose tail has a fact of any relation back to the head; loops have none."""
    mutual_pairs: int
    """Pairs of entities with facts both ways."""
    in_degrees: np.ndarray
    """At index d, the number of entities that are the tail of d facts."""
    out_degrees: np.ndarray
    """At index d, the number of entities that are the head of d facts."""

    def as_json(self) -> dict[str, Any]:
        """Plain numbers and lists."""
        return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in vars(self).items()}


def task_statistics(task: Task) -> list[GraphStatistics]:
    """The training graph and the inference graph of a task; one row if they are the same graph."""
    if task.train is task.observed:
        return [graph_statistics(task.name, task.observed, task.test, beside=task.valid)]
    return [
        graph_statistics(f"{task.name} train", task.train, task.valid),
        graph_statistics(f"{task.name} inference", task.observed, task.test),
    ]


def graph_statistics(
    name: str,
    observed: KnowledgeGraph,
    query: KnowledgeGraph | None = None,
    beside: KnowledgeGraph | None = None,
) -> GraphStatistics:
    """Statistics of observed and test facts; those of `beside` only add their entities and relations."""
    known = observed if query is None else observed.union(query)
    everything = known if beside is None else known.union(beside)  # known ids are unchanged
    heads, _, tails = known.triplets.T.astype(np.int64)
    present = np.unique(everything.triplets[:, [0, 2]])
    asked = 0 if query is None else len(query)
    has_back, mutual_pairs = _facts_back(heads, tails, everything.num_entities)
    return GraphStatistics(
        name=name,
        entities=len(present),
        relations=len(np.unique(everything.triplets[:, 1])),
        observed_facts=len(observed),
        asked_facts=asked,
        average_degree=2 * (len(observed) + asked) / max(len(present), 1),
        share_with_fact_back=float(has_back.mean()) if len(has_back) else 0.0,
        mutual_pairs=mutual_pairs,
        in_degrees=np.bincount(np.bincount(tails, minlength=everything.num_entities)[present]),
        out_degrees=np.bincount(np.bincount(heads, minlength=everything.num_entities)[present]),
    )


def quantile(degrees: np.ndarray, share: float) -> int:
    """The smallest degree that at least `share` of the entities do not exceed, from counts by degree."""
    return int(np.searchsorted(np.cumsum(degrees), share * degrees.sum())) if degrees.sum() else 0


def plot_degrees(rows: list[GraphStatistics], path: Path) -> None:
    """Draw the in- and out-degree distributions of each graph into a .png or .svg file."""
    if path.suffix not in (".png", ".svg"):
        raise InputError(f"{path}: expected a plot to end in .png or .svg, found {path.suffix or 'no extension'!r}.")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("Plots need matplotlib, which is not installed; run `pip install 'anykg[plot]'`.") from error
    figure = Figure(figsize=(4.5 * len(rows), 3.2), layout="constrained")
    for axes, row in zip(figure.subplots(1, len(rows), squeeze=False, sharey=True)[0], rows, strict=True):
        for label, degrees, marker in (("in", row.in_degrees, "o"), ("out", row.out_degrees, "s")):
            shares = degrees[: LARGEST_DRAWN_DEGREE + 1] / max(row.entities, 1)
            axes.plot(shares, marker=marker, markersize=3, label=f"{label}-degree")
        axes.set(title=row.name, xlabel="degree")
        axes.legend()
    figure.axes[0].set_ylabel("share of entities")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=150)


def _facts_back(heads: np.ndarray, tails: np.ndarray, num_entities: int) -> tuple[np.ndarray, int]:
    """Whether each fact [E] has one back, and the number of pairs of entities with facts both ways."""
    there, back = heads * num_entities + tails, tails * num_entities + heads
    has_back = np.isin(there, back) & (heads != tails)
    return has_back, len(np.unique(there[has_back & (heads < tails)]))
