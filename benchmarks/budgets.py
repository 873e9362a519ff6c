"""What a budget of facts costs and brings: MRR of hidden facts and processor time, by budget.

    python -m benchmarks.budgets FB15k-237 CoDEx-M --questions 200
    python -m benchmarks.budgets 2e6 --questions 200 --budgets 2e5,0
    python -m benchmarks.budgets 2.1e7 --questions 60 --budgets 2e5,0 --folder /tmp/generated

A number is a generated graph of so many facts (`benchmarks.generated`), asked about facts held back from it, half of
them planted by rules, and reported apart; anything else is a dataset, asked about its test facts (with `--valid`, its
validation facts), or a graph, of which a tenth is hidden. Tails are asked for. All budgets get the same questions; 0
reads the whole graph. The last column is the difference in MRR to the whole graph with a bootstrap interval over the
questions.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from anykg.answers.hiding.recovery import hide_together
from anykg.evaluation.ranks import Ties
from anykg.evaluation.reading import encode, rank_facts
from anykg.graph import neighbourhood
from anykg.graph.graph import TAIL, KnowledgeGraph
from anykg.io.catalog import load_graph, load_task, locate
from anykg.io.pack import write_pack
from anykg.models.folders import FOUNDATION
from anykg.models.nbf import relation_graph
from anykg.models.store import load_model
from anykg.seeds import generator
from benchmarks.generated import Generated, generated

DRAWS = 2000
HEADER = "| graph | asked about | budget | MRR | answers outside | CPU seconds a question | less MRR of all facts |"


class Asked(NamedTuple):
    """A graph, and facts that are not in it."""

    graph: KnowledgeGraph
    facts: np.ndarray  # int64 [F, 3]
    known: KnowledgeGraph
    """Its facts are no wrong answers."""
    kinds: dict[str, slice]
    """Facts that are reported apart."""


def asked_of(name: str, count: int, valid: bool, folder: Path | None) -> Asked:
    """What is asked about a dataset, a graph, or a generated graph of so many facts."""
    if name.replace(".", "").replace("e", "").isdigit():
        made = _kept(int(float(name)), folder)
        planted, others = (_drawn(part, count // 2) for part in (made.planted, made.others))
        kinds = {"planted": slice(len(planted)), "others": slice(len(planted), None), "both": slice(None)}
        return Asked(made.graph, np.concatenate([planted, others]), made.graph, kinds)
    if locate(name).is_graph:
        whole = load_graph(name)
        graph, hidden = hide_together(whole, 0.1, seed=0)
        return Asked(graph, _drawn(hidden.triplets, count), whole, {"hidden": slice(None)})
    task = load_task(name)
    facts, kind = (task.valid, "validation") if valid else (task.test, "test")
    return Asked(task.observed, _drawn(facts.triplets, count), task.known, {kind: slice(None)})


def _kept(facts: int, folder: Path | None) -> Generated:
    """A generated graph, from a folder if it is there, and put there if not."""
    if folder is None:
        return generated(facts)
    packed, held_back = folder / f"{facts}.anykg", folder / f"{facts}.npz"
    if not packed.exists() or not held_back.exists():
        made = generated(facts)
        folder.mkdir(parents=True, exist_ok=True)
        arrays = relation_graph.to_arrays(made.graph) | neighbourhood.to_arrays(made.graph)
        write_pack(made.graph, packed, arrays=arrays)
        np.savez(held_back, planted=made.planted, others=made.others)
    parts = np.load(held_back)
    return Generated(load_graph(packed), parts["planted"], parts["others"])


def _drawn(facts: np.ndarray, count: int) -> np.ndarray:
    return facts[np.sort(generator(0, "budgets").permutation(len(facts))[:count])].astype(np.int64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--budgets", default="1e4,3e4,1e5,0", help="numbers of facts, 0 for all")
    parser.add_argument("--valid", action="store_true", help="ask about validation facts of datasets")
    parser.add_argument("--folder", type=Path, help="keep generated graphs there")
    options = parser.parse_args()
    budgets = sorted(
        (int(float(text)) for text in options.budgets.split(",")), key=lambda budget: (budget == 0, budget)
    )
    model = load_model(FOUNDATION)
    print(f"{HEADER}\n|{'---|' * 7}")
    for name in options.graphs:
        graph, facts, known, kinds = asked_of(name, options.questions, options.valid, options.folder)
        found: dict[int, tuple[np.ndarray, np.ndarray, float]] = {}
        for budget in budgets:
            encoded = encode(model, graph, budget)
            rank_facts(model, graph, facts[:1], TAIL, known=known, budget=budget, encoded=encoded)  # compiles and sorts
            started = time.process_time()
            ranked = rank_facts(model, graph, facts, TAIL, known=known, budget=budget, encoded=encoded)
            seconds = (time.process_time() - started) / len(facts)
            found[budget] = 1 / ranked.ranks.by(Ties.REALISTIC), np.isneginf(ranked.scores), seconds
        for budget, (reciprocal, outside, seconds) in found.items():
            for kind, which in kinds.items():
                mine, out = reciprocal[which], outside[which]
                cells = [
                    f"{Path(name).name}, {len(graph):,} facts",
                    f"{len(mine)} {kind}",
                    f"{budget:,}" if budget else "all",
                    f"{mine.mean():.3f}",
                    f"{int(out.sum())}",
                    f"{seconds:.3f}",
                    _interval(mine - found[0][0][which]) if budget and 0 in found else "",
                ]
                print(f"| {' | '.join(cells)} |", flush=True)


def _interval(differences: np.ndarray) -> str:
    rng = generator(0, "interval")
    means = differences[rng.integers(len(differences), size=(DRAWS, len(differences)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{differences.mean():+.3f} ({low:+.3f} to {high:+.3f})"


if __name__ == "__main__":
    main()
