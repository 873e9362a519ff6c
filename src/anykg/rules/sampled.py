"""Rules with named relations for graphs that are too large to count everything, found and measured on samples.

Bodies are found as in `named`. A rule is then counted from a pseudo-random selection of the entities where its body
starts, and the counts are scaled up. Starts differ in the number of pairs they contribute, so the standard error of the
confidence is that of a ratio of sums over starts, not of independent pairs. It is 0 if all starts were counted. A rule
for which only one of several starts could be counted has no standard error and is left out.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numba
import numpy as np

from anykg.graph.graph import KnowledgeGraph
from anykg.progress import Progress
from anykg.rules.ground import Grounded
from anykg.rules.kernels.bodies import count_starts
from anykg.rules.kernels.joins import NONE, Adjacency, Scratch, adjacency, scratch
from anykg.rules.named import Mining, mine_named
from anykg.rules.shapes import grounding

STARTS, WORK = 4000, 2_000_000
"""Maximum number of entities from which a rule is counted, and approximate maximum number of facts read for it."""


def sampled_groundings(
    graph: KnowledgeGraph,
    length: int,
    *,
    seconds: float,
    min_support: int = 10,
    count: int = 50,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Grounded]:
    """Rules with paths of up to `length` steps found in about `seconds` of sampling, by descending PCA confidence."""
    settings = Mining(length=length, constants=False, min_support=min_support)
    found = mine_named(graph, settings, seconds=seconds, seed=seed, progress=progress)
    r = graph.num_relations
    forth = found.paths[:, 0] < r  # the others are the same rules, counted from the other end
    rules, (support, _, among) = found.paths[forth].astype(np.int64), found.path_counts[forth].T
    best = np.argsort(-support / (among + settings.prior), kind="stable")[:count]
    links = graph.triplets[graph.triplets[:, 0] != graph.triplets[:, 2]]
    facts = np.bincount(links[:, 1], minlength=r)
    threads = numba.config.NUMBA_NUM_THREADS
    with ThreadPoolExecutor(threads) as pool:
        parts = pool.map(partial(_measured, adjacency(graph), r, facts), np.array_split(rules[best], threads))
        kept = [rule for part in parts for rule in part if _usable(rule, min_support)]
    return sorted(kept, key=lambda rule: (-rule.pca_confidence, -rule.support, str(rule.clause), rule.relations))


def _usable(rule: Grounded, min_support: int) -> bool:
    """Whether there is enough support, from more than one start."""
    return rule.support >= min_support and bool(np.isfinite(rule.error))


def _measured(adjacent: Adjacency, num_relations: int, facts: np.ndarray, rules: np.ndarray) -> list[Grounded]:
    """Rules [P, 4], head relation and steps, with their counts."""
    buffers = scratch(len(adjacent.offsets) - 1)
    return [_measured_one(adjacent, num_relations, facts, rule, buffers) for rule in rules]


def _measured_one(
    adjacent: Adjacency, num_relations: int, facts: np.ndarray, rule: np.ndarray, buffers: Scratch
) -> Grounded:
    head, body = int(rule[0]), rule[1:]
    steps = body[body != NONE]
    directions = int(((steps >= num_relations) << np.arange(len(steps))).sum())
    clause, relations = grounding(directions, [int(step) for step in steps % num_relations], head)
    rows = count_starts(adjacent, body, head, STARTS, WORK, buffers)
    total = int(np.diff(adjacent.start_offsets[steps[0] : steps[0] + 2])[0])
    pairs, held, among = (round(int(part) * total / max(len(rows), 1)) for part in rows.sum(0))
    exact = Grounded(clause, relations, pairs, held, among, int(facts[head]))
    return exact if len(rows) == total else replace(exact, error=ratio_error(rows[:, 1], rows[:, 0], total))


def ratio_error(parts: np.ndarray, wholes: np.ndarray, total: int) -> float:
    """The standard error of sum(parts) / sum(wholes) over a sample [S] of `total` units, by linearisation.

    >>> round(ratio_error(np.array([1, 0, 1, 0]), np.ones(4), 10**9), 3)
    0.289
    """
    size, whole = len(parts), wholes.sum()
    if size < 2 or not whole:
        return float("inf")
    residuals = parts - parts.sum() / whole * wholes
    variance = size / (size - 1) * (residuals**2).sum() / whole**2
    return float(np.sqrt(variance * (1 - size / total)))
