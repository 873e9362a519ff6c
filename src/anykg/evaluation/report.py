"""An evaluation as a JSON object and as a table.

Metrics are fractions. `metrics` uses the protocol's tie-breaking rule; `ties` has the metrics under every rule.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import polars as pl

from anykg.evaluation.evaluate import Evaluation
from anykg.evaluation.metrics import standard_errors, summarise
from anykg.evaluation.ranks import Ties
from anykg.evaluation.strata import STRATA
from anykg.graph.graph import KnowledgeGraph
from anykg.provenance import provenance


def as_json(
    evaluation: Evaluation,
    observed: KnowledgeGraph,
    *,
    model: str,
    dataset: str,
    reads_relations: bool = True,
    ties: Ties | None = None,
) -> dict[str, Any]:
    """Return everything a reader needs to trust or repeat the figures.

    Models that ignore relation types give all relations the same score; unless `ties` is given, they are ranked by the
    paper's rule for such models.
    """
    blind = evaluation.task == "relation" and not reads_relations
    rule = ties or (Ties.ROUNDED if blind else evaluation.protocol.ties)
    ranks = evaluation.ranks.by(rule, evaluation.seed)
    relations = evaluation.triplets[:, 1]
    return {
        "model": model,
        "dataset": dataset,
        "task": evaluation.task,
        "protocol": asdict(evaluation.protocol) | {"ties": rule.value},
        "seed": evaluation.seed,
        "counts": {
            "entities": observed.num_entities,
            "relations": observed.num_relations,
            "observed_triplets": observed.num_triplets,
            "test_triplets": evaluation.test_triplets,
            "ranked": len(ranks),
            "unrankable": evaluation.unrankable,
        },
        "metrics": _defined(summarise(ranks)),
        "standard_errors": _defined(standard_errors(ranks)),
        "ties": {rule.value: _defined(summarise(evaluation.ranks.by(rule, evaluation.seed))) for rule in Ties},
        "by_side": {str(s): _part(ranks, evaluation.sides == s) for s in np.unique(evaluation.sides)},
        "by_stratum": {name: _part(ranks, evaluation.strata == i) for i, name in enumerate(STRATA)},
        "by_relation": {observed.relations[r]: _part(ranks, relations == r) for r in np.unique(relations)},
        "score_errors": _error_summary(evaluation.score_errors),
        "made_with": provenance(),
    }


def as_table(evaluation: Evaluation, observed: KnowledgeGraph, ties: Ties | None = None) -> pl.DataFrame:
    """Return one row per question: the test triplet by name, the column to predict, the answer's rank."""
    entities, relations = observed.entities, observed.relations
    heads, kinds, tails = evaluation.triplets.T
    columns: dict[str, Any] = {
        "head": [entities[i] for i in heads],
        "relation": [relations[i] for i in kinds],
        "tail": [entities[i] for i in tails],
        "asked": evaluation.sides,
        "rank": evaluation.ranks.by(ties or evaluation.protocol.ties, evaluation.seed),
        "candidates": evaluation.ranks.candidates,
        "half_links_seen": [STRATA[i] for i in evaluation.strata],
    }
    if evaluation.score_errors is not None:
        columns["score_error"] = evaluation.score_errors
    return pl.DataFrame(columns)


def _error_summary(errors: np.ndarray | None) -> dict[str, float] | None:
    """Summarise the standard errors of the answers' scores, for models that average over random draws."""
    return None if errors is None else {"mean": float(errors.mean()), "largest": float(errors.max())}


def _part(ranks: np.ndarray, keep: np.ndarray) -> dict[str, float | int | None]:
    return {"count": int(keep.sum())} | _defined(summarise(ranks[keep]))


def _defined(metrics: dict[str, float]) -> dict[str, float | None]:
    """Replace NaN by None, since JSON has no NaN."""
    return {name: None if np.isnan(value) else value for name, value in metrics.items()}
