"""The rules that hold in a graph: clauses over any relations, and their best instances in this graph's relations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from anykg.answers.inputs import graph_of
from anykg.answers.results import Result
from anykg.io.catalog import GraphLike
from anykg.progress import Progress, ignore
from anykg.rules.ground import best_groundings
from anykg.rules.mine import mine
from anykg.rules.store import RuleSet, as_json, rule_set, save_rules

GROUNDINGS = 1000
"""Instances kept."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class MinedRules(Result):
    """Clauses and named rules with their support and confidence."""

    rules: RuleSet

    def to_polars(self) -> pl.DataFrame:
        """Return a row for each clause (kind "clause") and each named rule (kind "rule"), most confident first."""
        rows = [
            {
                "kind": "clause",
                "rule": str(found.clause),
                "family": found.family,
                "support": found.support,
                "head_coverage": found.head_coverage,
                "confidence": found.confidence,
                "pca_confidence": found.pca_confidence,
                "z": None if found.null is None else found.null.z,
            }
            for found in self.rules.clauses
        ]
        rows += [
            {
                "kind": "rule",
                "rule": found.rule,
                "family": None,
                "support": found.support,
                "head_coverage": found.head_coverage,
                "confidence": found.confidence,
                "pca_confidence": found.pca_confidence,
                "z": None,
            }
            for found in self.rules.groundings
        ]
        schema = {"kind": pl.String, "rule": pl.String, "family": pl.String, "support": pl.Int64}
        schema |= dict.fromkeys(("head_coverage", "confidence", "pca_confidence", "z"), pl.Float64)
        return pl.DataFrame(rows, schema=schema).sort("confidence", descending=True, maintain_order=True)

    def summary(self) -> dict[str, Any]:
        """Return the number of clauses and named rules."""
        return {"clauses": len(self.rules.clauses), "groundings": len(self.rules.groundings)}

    def save(self, path: Path | str) -> None:
        """Write the rules to a JSON file that `anykg rules apply` reads."""
        save_rules(self.rules, path)

    def to_file_dict(self) -> dict[str, Any]:
        """Return the content of that file."""
        return as_json(self.rules)


def rules(
    graph: GraphLike,
    *,
    length: int = 3,
    nulls: int = 10,
    min_support: int = 10,
    seed: int = 0,
    progress: Progress = ignore,
) -> MinedRules:
    """Mine the rules that hold in a graph.

    Args:
        graph: A graph, file, dataset name, DataFrame, NetworkX graph or list of triples.
        length: Longest path in a clause, 1 to 3.
        nulls: Number of shuffled graphs that significance is measured against; 0 for none.
        min_support: Facts that a named rule must explain.
        seed: Draws the shuffled graphs.
        progress: Called with (done, total) units of work.
    """
    loaded, info = graph_of(graph)
    clauses = mine(loaded, length=length, nulls=nulls, seed=seed, progress=progress)
    named = best_groundings(loaded, length, min_support=min_support, count=GROUNDINGS)
    return MinedRules(command="rules", graph=info, rules=rule_set(info.name, loaded, clauses, named))
