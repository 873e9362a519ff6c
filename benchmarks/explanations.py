"""Do explanations matter? What the named fact and the named paths do to the scores of test facts.

`python -m benchmarks.explanations` explains 200 test facts of EN-FR with anykg-small. Of the single fact that is named:
in how many no other fact that touches the head, the answer or the runner-up lowers the answer relative to the runner-up
more, all of them being removed in turn (at most 400, drawn at random beyond that). Of the paths: in how many their
removal lowers the score more than the removal of as many random facts (mean of 3 draws), with Wilcoxon's signed-rank
test. `python -m benchmarks.explanations 20` explains fewer.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch
from scipy.stats import wilcoxon

from anykg.answers.explain.contrast import Contrast, touching
from anykg.answers.explain.explanation import explain
from anykg.graph.graph import KnowledgeGraph
from anykg.io.catalog import load_task
from anykg.models.base import LinkPredictor
from anykg.models.store import load_model
from anykg.seeds import generator

FACTS = 200
DRAWS = 3
MOST_NEARBY = 400


def measure(dataset: str = "EN-FR", model: str = "anykg-small", count: int = FACTS) -> dict[str, float]:
    """Shares, falls of the score, and seconds."""
    task, scorer = load_task(dataset), load_model(model)
    chosen = np.sort(generator(0, "explained").choice(len(task.test), min(count, len(task.test)), replace=False))
    falls, random, seconds, largest, compared = [], [], [], [], []
    for head, relation, tail in task.test.triplets[chosen].tolist():
        begin = time.process_time()
        found = explain(scorer, task.observed, (head, relation, tail), draws=DRAWS)
        seconds.append(time.process_time() - begin)
        falls.append(found.score - found.removal.score)
        random.append(found.score - np.mean([other.score for other in found.random]) if found.random else 0.0)
        if found.contrast is not None and found.contrast.nearby:
            effects = all_effects(scorer, found.graph, found.triplet, found.contrast)
            named = found.contrast.facts[0].effect if found.contrast.facts else 0.0
            largest.append(named >= effects.max(initial=-np.inf) - 1e-4)
            compared.append(len(effects))
    more = np.array(falls) > np.array(random)
    return {
        "facts": len(falls),
        "the named fact lowers the lead most, share": float(np.mean(largest)),
        "facts compared with, mean": float(np.mean(compared)),
        "paths lower the score more, share": float(more.mean()),
        "mean fall, paths": float(np.mean(falls)),
        "mean fall, random": float(np.mean(random)),
        "wilcoxon p": float(wilcoxon(falls, random, alternative="greater").pvalue),
        "processor seconds, median": float(np.median(seconds)),
        "processor seconds, largest after the first": float(np.max(seconds[1:], initial=0.0)),
    }


@torch.no_grad()
def all_effects(scorer: LinkPredictor, graph: KnowledgeGraph, triplet: np.ndarray, found: Contrast) -> np.ndarray:
    """How much smaller the lead over the runner-up is without each fact nearby."""
    head, relation, tail = triplet.tolist()
    near = touching(graph, np.array([head, tail, found.other]))
    near = generator(0, "nearby", head, relation, tail).permutation(near)[:MOST_NEARBY]
    rows = torch.tensor([[head, relation, tail], [head, relation, found.other]])
    leads = []
    for fact in near:
        answer, other = scorer.score_triplets(scorer.encode(graph.subset(np.arange(len(graph)) != fact)), rows)
        leads.append(float(answer - other))
    return found.lead - np.array(leads)


if __name__ == "__main__":
    for name, value in measure(count=int(sys.argv[1]) if len(sys.argv) > 1 else FACTS).items():
        print(f"{name}: {value:.4g}")
