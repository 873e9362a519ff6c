"""Rank the answers of a model to every test question.

Questions are sorted by (head, relation), so that duplicates are scored only once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from anykg.evaluation.candidates import draw_entities, draw_relations, first_of_kind
from anykg.evaluation.protocol import Protocol, Target
from anykg.evaluation.ranking import rank_among, rank_facts
from anykg.evaluation.ranks import Ranks
from anykg.evaluation.scoring import device_of, encode, model_arguments, questions_about
from anykg.evaluation.strata import half_links
from anykg.graph.graph import COLUMNS, HEAD, RELATION, TAIL, KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.progress import Progress, after, ignore
from anykg.seeds import generator


@dataclass(frozen=True)
class Evaluation:
    """The rank of every question's answer, and where the question came from."""

    task: Target
    protocol: Protocol
    seed: int
    triplets: np.ndarray  # [Q, 3] the test triplet of each question
    sides: np.ndarray  # [Q] "tail", "head" or "relation": what was asked for
    strata: np.ndarray  # [Q] index into STRATA
    ranks: Ranks  # [Q]
    test_triplets: int
    """Total number of test triplets, of which `triplets` may be a sample."""
    unrankable: int
    """Number of questions left out because the answer is their only candidate."""
    score_errors: np.ndarray | None = None
    """[Q] the standard error of each answer's score, from a model that averages over random draws."""


def evaluate(
    model: LinkPredictor,
    observed: KnowledgeGraph,
    test: KnowledgeGraph,
    *,
    task: Target,
    protocol: Protocol,
    seed: int = 0,
    limit: int | None = None,
    also_known: KnowledgeGraph | None = None,
    progress: Progress = ignore,
) -> Evaluation:
    """Rank the answers to the test triplets on the observed graph.

    Facts of `observed`, `test` and `also_known` are known and never count as negatives. `limit` evaluates a random
    sample of the test triplets.
    """
    known = observed.union(test) if also_known is None else observed.union(test).union(also_known)
    triplets = test.triplets.astype(np.int64)
    if limit is not None and limit < len(triplets):
        triplets = triplets[np.sort(generator(seed, "limit").choice(len(triplets), limit, replace=False))]
    columns = _columns(task, protocol)
    encoded = encode(model, observed, seed)
    parts: list[tuple[Ranks, np.ndarray]] = []
    for number, column in enumerate(columns):
        first, second = model_arguments(observed, questions_about(triplets, column), column)
        facts = triplets[np.lexsort((second, first))]
        negatives = _draw(known, facts, column, task, protocol, seed)
        part = after(progress, number * len(triplets), len(columns) * len(triplets))
        if negatives is None:
            ranks = rank_facts(model, observed, facts, column, known=known, encoded=encoded, progress=part).ranks
        else:
            ranks = rank_among(model, observed, facts, column, negatives=negatives, encoded=encoded, progress=part)
        parts.append((ranks, facts))
    ranks = Ranks.concatenate([ranks for ranks, _ in parts])
    asked = np.concatenate([facts for _, facts in parts])
    sides = np.repeat([COLUMNS[column] for column in columns], len(triplets))
    rankable = ranks.candidates > 1
    return Evaluation(
        task=task,
        protocol=protocol,
        seed=seed,
        triplets=asked[rankable],
        sides=sides[rankable],
        strata=half_links(observed, asked[rankable]),
        ranks=ranks[rankable],
        test_triplets=len(test),
        unrankable=int((~rankable).sum()),
        score_errors=_score_errors(model, encoded, asked[rankable]),
    )


def _columns(task: Target, protocol: Protocol) -> list[int]:
    """The columns to predict, in the order of the results."""
    if task == "relation":
        return [RELATION]
    return {"tail": [TAIL], "head": [HEAD], "both": [TAIL, HEAD]}[protocol.sides]


def _draw(
    known: KnowledgeGraph, facts: np.ndarray, column: int, task: Target, protocol: Protocol, seed: int
) -> np.ndarray | None:
    """Negatives [F, C] with -1 for none, or None to rank among all."""
    if not protocol.negatives:
        return None
    random = generator(seed, "candidates", task, COLUMNS[column])
    first, second = model_arguments(known, questions_about(facts, column), column)
    if column != RELATION:
        return draw_entities(known, first, second, protocol.negatives, random)
    distinct = protocol.relations == "distinct-if-possible" and known.num_relations - 1 >= protocol.negatives
    drawn = draw_relations(known, first, second, protocol.negatives, random, distinct=distinct)
    return first_of_kind(drawn) if protocol.count_once else drawn


@torch.no_grad()
def _score_errors(model: LinkPredictor, encoded: Any, triplets: np.ndarray) -> np.ndarray | None:
    errors = model.score_errors(encoded, torch.from_numpy(triplets).to(device_of(model)))
    return None if errors is None else errors.cpu().numpy()
