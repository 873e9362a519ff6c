"""Do explanations matter? What the named fact and the named paths do to the scores of test facts.

`python -m benchmarks.explanations [DATASET [COUNT [paths]]]` explains 200 test facts of EN-FR with the default model.
Of the single fact that is named: in how many no other fact that touches the head, the answer or the runner-up lowers
the answer relative to the runner-up more, all of them being removed in turn (at most 100, drawn at random beyond that).
With `paths`, of the paths too: in how many their removal lowers the score more than the removal of as many random facts
(mean of 3 draws), with Wilcoxon's signed-rank test.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch
from scipy.stats import wilcoxon

from anykg.answers.explain.contrast import Contrast, contrast, touching
from anykg.answers.explain.explanation import explain
from anykg.graph.graph import KnowledgeGraph
from anykg.io.catalog import load_task
from anykg.models.base import LinkPredictor
from anykg.models.store import FOUNDATION, load_model
from anykg.seeds import generator

FACTS = 200
DRAWS = 3
MOST_NEARBY = 100


def test_facts(dataset: str, count: int) -> tuple[KnowledgeGraph, np.ndarray]:
    """A graph, and facts [F, 3] that are not in it: those of the task, or some that are hidden."""
    task = load_task(dataset)
    chosen = np.sort(generator(0, "explained").choice(len(task.test), min(count, len(task.test)), replace=False))
    return task.observed, task.test.triplets[chosen].astype(np.int64)


def single_facts(dataset: str = "EN-FR", count: int = FACTS, model: str = FOUNDATION) -> dict[str, float]:
    """In how many of the test facts the named single fact is the one that matters most, and seconds."""
    (graph, facts), scorer = test_facts(dataset, count), load_model(model)
    largest, compared, seconds = [], [], []
    for fact in facts:
        begin = time.process_time()
        found = contrast(scorer, graph, fact)
        seconds.append(time.process_time() - begin)
        if found is None or not found.nearby:
            continue
        effects = all_effects(scorer, graph, fact, found)
        named = found.facts[0].effect if found.facts else 0.0
        largest.append(named >= effects.max(initial=-np.inf) - 1e-4)
        compared.append(len(effects))
        print(f"  {len(largest)}: {np.mean(largest):.3f}", end="\r", file=sys.stderr, flush=True)
    return {
        "facts": len(largest),
        "the named fact lowers the lead most, share": float(np.mean(largest)),
        "facts compared with, mean": float(np.mean(compared)),
        "processor seconds, median": float(np.median(seconds)),
    }


def paths(dataset: str = "EN-FR", count: int = FACTS, model: str = FOUNDATION) -> dict[str, float]:
    """In how many of the test facts the paths matter more than random facts, falls of the score, and seconds."""
    (graph, facts), scorer = test_facts(dataset, count), load_model(model)
    falls, random, seconds = [], [], []
    for head, relation, tail in facts.tolist():
        begin = time.process_time()
        found = explain(scorer, graph, (head, relation, tail), draws=DRAWS)
        seconds.append(time.process_time() - begin)
        falls.append(found.score - found.removal.score)
        random.append(found.score - np.mean([other.score for other in found.random]) if found.random else 0.0)
    return {
        "paths lower the score more, share": float((np.array(falls) > np.array(random)).mean()),
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


def main(dataset: str = "EN-FR", count: str = str(FACTS), *also: str) -> None:
    """Print the figures."""
    figures = single_facts(dataset, int(count)) | (paths(dataset, int(count)) if "paths" in also else {})
    for name, value in figures.items():
        print(f"{name}: {value:.4g}")


if __name__ == "__main__":
    main(*sys.argv[1:])
