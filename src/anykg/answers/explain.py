"""Explain facts by name: see `anykg.answers.explaining` for how explanations are found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from anykg.answers.explaining.explanation import Explanation
from anykg.answers.explaining.explanation import explain as explain_triplet
from anykg.answers.explaining.show import as_json, as_text
from anykg.answers.inputs import ModelLike, Name, graph_of, look_up, model_of
from anykg.answers.results import Result
from anykg.evaluation.reading import budget_of, neighbourhoods, note_on
from anykg.io.catalog import GraphLike
from anykg.models.folders import DEFAULT_MODEL
from anykg.printable import printable

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ExplainedFact(Result):
    """The reasons for a fact's score; rows are the facts of every path and clause."""

    explanation: Explanation

    def to_polars(self) -> pl.DataFrame:
        """Return the facts given as reasons: kind, number, effect, clause, head, relation, tail."""
        content = as_json(self.explanation)
        singles = (content["contrast"] or {}).get("facts", [])
        rows = [("fact", number, single["effect"], None, *single["fact"]) for number, single in enumerate(singles, 1)]
        rows += [
            (kind, number, reason.get("effect", reason.get("weight")), reason.get("clause"), *fact)
            for kind, key in (("path", "paths"), ("clause", "clauses"))
            for number, reason in enumerate(content[key], 1)
            for fact in reason["facts"]
        ]
        names = ("kind", "number", "effect", "clause", "head", "relation", "tail")
        kinds = (pl.String, pl.Int64, pl.Float64, pl.String, pl.String, pl.String, pl.String)
        return pl.DataFrame(rows, schema=dict(zip(names, kinds, strict=True)), orient="row")

    def summary(self) -> dict[str, Any]:
        """Return the whole explanation."""
        return as_json(self.explanation)

    def renderables(self) -> list[RenderableType]:
        """Return the explanation as text."""
        from rich.text import Text

        return [Text(printable(as_text(self.explanation), lines=True))]

    def draw(self, path: Path | str) -> None:
        """Draw the facts to an .svg or .png file."""
        from anykg.answers.explaining.picture import draw

        draw(self.explanation, Path(path))


def explain(
    graph: GraphLike,
    head: Name,
    relation: Name,
    tail: Name,
    *,
    model: ModelLike = DEFAULT_MODEL,
    paths: int = 5,
    clauses: int = 5,
    draws: int = 5,
    seed: int = 0,
    budget: int | None = None,
) -> ExplainedFact:
    """Explain why a model scores a fact as it does.

    A known fact is removed from the graph first, so that it does not explain itself. The facts given as reasons are
    then removed too, and the change in score is compared with removing random facts nearby.

    Args:
        graph: A graph, file, dataset name, DataFrame, NetworkX graph or list of triples.
        head: The subject.
        relation: The relation.
        tail: The object.
        model: A model, the name of a shipped one, a folder, or a hub id.
        paths: Maximum number of paths.
        clauses: Maximum number of clauses.
        draws: Number of random removals to compare with.
        seed: Seed for the random removals.
        budget: Number of facts read near the two entities, as in `predict`; the rank is among the entities read.
    """
    loaded, info = graph_of(graph)
    scorer, name = model_of(model)
    (first,), (kind,), (last,) = (
        look_up(vocabulary, [given])
        for vocabulary, given in ((loaded.entities, head), (loaded.relations, relation), (loaded.entities, tail))
    )
    triplet, read = np.array([[first, kind, last]], np.int64), loaded
    most, note = budget_of(loaded, budget), note_on(loaded, budget, f"{head} and {tail}")
    remark = scorer.remark(loaded)
    if most is not None:
        # A known fact has no say in which part is read, and is then marked as known.
        rest = loaded.without(triplet)
        [(_, part)] = neighbourhoods(rest, triplet, most)
        scorer = scorer.fixed_to(rest)
        known = bool(loaded.contains(triplet)[0])
        triplet, read = part.inside(triplet), part.graph
        read = read.union(read.with_triplets(triplet)) if known else read
    asked = (int(triplet[0, 0]), int(triplet[0, 1]), int(triplet[0, 2]))
    explanation = explain_triplet(scorer, read, asked, paths=paths, clauses=clauses, draws=draws, seed=seed)
    warnings = tuple(text for text in (note, remark) if text is not None)
    return ExplainedFact(command="explain", graph=info, model=name, explanation=explanation, warnings=warnings)
