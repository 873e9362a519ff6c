"""What a budget of facts costs and brings: MRR of hidden facts and processor time, by budget.

    python -m benchmarks.budgets FB15k-237 CoDEx-M --questions 200
    python -m benchmarks.budgets 2e6 --questions 50 --budgets 1e4,1e5,2e5,0
    python -m benchmarks.budgets 2.1e7 --questions 20 --budgets 1e5,2e5,1e6,0

A number is a generated graph of so many facts (`benchmarks.generated`), asked about facts held back from it, half of
them planted by rules; anything else is a dataset, asked about its test facts, or a graph, of which a tenth is hidden.
Tails are asked for. All budgets get the same questions; 0 reads the whole graph. The last column is the difference in
MRR to the whole graph with a bootstrap interval over the questions.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from anykg.answers.hidden import hide_together
from anykg.evaluation.ranks import Ties
from anykg.evaluation.reading import encode, rank_facts
from anykg.graph.graph import TAIL, KnowledgeGraph
from anykg.io.catalog import load_graph, load_task, locate
from anykg.models.store import DEFAULT_MODEL, load_model
from anykg.seeds import generator
from benchmarks.generated import generated

DRAWS = 2000
HEADER = "| graph | budget | MRR | answers outside | processor seconds a question | MRR less that of all facts |"


class Asked(NamedTuple):
    """A graph, and facts that are not in it."""

    graph: KnowledgeGraph
    facts: np.ndarray  # int64 [F, 3]
    known: KnowledgeGraph
    """Its facts are no wrong answers."""


def asked_of(name: str, count: int) -> Asked:
    """What is asked about a dataset, a graph, or a generated graph of so many facts."""
    if name.replace(".", "").replace("e", "").isdigit():
        made = generated(int(float(name)))
        parts = [_drawn(part, count // 2) for part in (made.planted, made.others)]
        return Asked(made.graph, np.concatenate(parts), made.graph)
    if locate(name).is_graph:
        whole = load_graph(name)
        graph, hidden = hide_together(whole, 0.1, seed=0)
        return Asked(graph, _drawn(hidden.triplets, count), whole)
    task = load_task(name)
    return Asked(task.observed, _drawn(task.test.triplets, count), task.known)


def _drawn(facts: np.ndarray, count: int) -> np.ndarray:
    return facts[np.sort(generator(0, "budgets").permutation(len(facts))[:count])].astype(np.int64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--budgets", default="1e4,3e4,1e5,0", help="numbers of facts, 0 for all")
    options = parser.parse_args()
    budgets = sorted(
        (int(float(text)) for text in options.budgets.split(",")), key=lambda budget: (budget == 0, budget)
    )
    model = load_model(DEFAULT_MODEL)
    print(f"{HEADER}\n|{'---|' * 6}")
    for name in options.graphs:
        graph, facts, known = asked_of(name, options.questions)
        found: dict[int, tuple[np.ndarray, int, float]] = {}
        for budget in budgets:
            encoded = encode(model, graph, budget)
            rank_facts(model, graph, facts[:1], TAIL, known=known, budget=budget, encoded=encoded)  # compiles and sorts
            started = time.process_time()
            ranked = rank_facts(model, graph, facts, TAIL, known=known, budget=budget, encoded=encoded)
            seconds = (time.process_time() - started) / len(facts)
            found[budget] = 1 / ranked.ranks.by(Ties.REALISTIC), int(np.isneginf(ranked.scores).sum()), seconds
        whole = found[0][0] if 0 in found else None
        for budget, (reciprocal, outside, seconds) in found.items():
            difference = "" if whole is None or not budget else _interval(reciprocal - whole)
            shown = f"{budget:,}" if budget else "all"
            graph_name, share, mrr = Path(name).name, f"{outside} of {len(facts)}", f"{reciprocal.mean():.3f}"
            print(
                f"| {graph_name}, {len(graph):,} facts | {shown} | {mrr} | {share} | {seconds:.3f} | {difference} |",
                flush=True,
            )


def _interval(differences: np.ndarray) -> str:
    rng = generator(0, "interval")
    means = differences[rng.integers(len(differences), size=(DRAWS, len(differences)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{differences.mean():+.3f} ({low:+.3f} to {high:+.3f})"


if __name__ == "__main__":
    main()
