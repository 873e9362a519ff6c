"""Do explanations matter? The score of test facts without the explained paths, and without random facts nearby.

`python -m benchmarks.explanations` explains 200 test facts of EN-FR with anykg-small and prints in how many the paths'
removal lowers the score more than the removal of as many random facts (mean of 3 draws), with a paired test (Wilcoxon's
signed-rank test, one-sided), and the time of an explanation.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy.stats import wilcoxon

from anykg.answers.explain.explanation import explain
from anykg.io.catalog import load_task
from anykg.models.store import load_model
from anykg.seeds import generator

FACTS = 200
DRAWS = 3


def measure(dataset: str = "EN-FR", model: str = "anykg-small", count: int = FACTS) -> dict[str, float]:
    """Falls of the score, how often the paths' fall is the larger one, and seconds."""
    task, scorer = load_task(dataset), load_model(model)
    chosen = np.sort(generator(0, "explained").choice(len(task.test), min(count, len(task.test)), replace=False))
    falls, random, seconds = [], [], []
    for head, relation, tail in task.test.triplets[chosen].tolist():
        begin = time.process_time()
        found = explain(scorer, task.observed, (head, relation, tail), draws=DRAWS)
        seconds.append(time.process_time() - begin)
        falls.append(found.score - found.removal.score)
        random.append(found.score - np.mean([other.score for other in found.random]) if found.random else 0.0)
    more = np.array(falls) > np.array(random)
    return {
        "facts": len(falls),
        "paths lower the score more, share": float(more.mean()),
        "mean fall, paths": float(np.mean(falls)),
        "mean fall, random": float(np.mean(random)),
        "wilcoxon p": float(wilcoxon(falls, random, alternative="greater").pvalue),
        "processor seconds, median": float(np.median(seconds)),
        "processor seconds, largest after the first": float(np.max(seconds[1:])),
    }


if __name__ == "__main__":
    for name, value in measure(count=int(sys.argv[1]) if len(sys.argv) > 1 else FACTS).items():
        print(f"{name}: {value:.4g}")
