"""Evaluate a model on a task: rank the right answers to its test questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from anykg.answers.inputs import ModelLike, model_of
from anykg.answers.results import GraphInfo, Result
from anykg.errors import DataError, SettingError, UnknownName
from anykg.evaluation.evaluate import Evaluation
from anykg.evaluation.evaluate import evaluate as rank_test
from anykg.evaluation.metrics import METRICS
from anykg.evaluation.protocol import Sides, Target, protocol_named
from anykg.evaluation.ranks import Ties
from anykg.evaluation.report import as_json, as_table
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.task import Task
from anykg.io.catalog import GraphLike, as_task
from anykg.models.folders import DEFAULT_MODEL
from anykg.progress import Progress, ignore

if TYPE_CHECKING:
    from rich.console import RenderableType

GROUPS = {"by_side": "side", "by_stratum": "half-links", "by_relation": "relation"}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class EvaluationResult(Result):
    """Metrics for all questions and for parts of them, as fractions."""

    evaluation: Evaluation
    observed: KnowledgeGraph
    figures: dict[str, Any]
    """Everything a reader needs to trust or repeat the metrics; see `anykg.evaluation.report`."""
    ties: Ties | None = None

    @property
    def metrics(self) -> dict[str, float | None]:
        """MRR, mean rank and Hits@k over all questions."""
        metrics: dict[str, float | None] = self.figures["metrics"]
        return metrics

    def to_polars(self) -> pl.DataFrame:
        """Return a row of metrics for all questions, each side, each stratum and each relation."""
        rows = [{"group": "all", "name": "all", "count": self.figures["counts"]["ranked"]} | self.metrics]
        rows += [
            {"group": group, "name": name} | part
            for key, group in GROUPS.items()
            for name, part in self.figures[key].items()
        ]
        schema = {"group": pl.String, "name": pl.String, "count": pl.Int64} | dict.fromkeys(METRICS, pl.Float64)
        return pl.DataFrame(rows, schema=schema)

    def ranks(self) -> pl.DataFrame:
        """Return a row for each question: the test triplet by name, the column to predict, the rank of the answer."""
        return as_table(self.evaluation, self.observed, self.ties)

    def summary(self) -> dict[str, Any]:
        """Return metrics, standard errors, protocol, counts and versions."""
        return {name: value for name, value in self.figures.items() if name not in (*GROUPS, "model")}

    def renderables(self) -> list[RenderableType]:
        """Return a table of metrics in percent."""
        from rich.table import Table

        figures, counts = self.figures, self.figures["counts"]
        left_out = f"; {counts['unrankable']:,} could not be ranked" if counts["unrankable"] else ""
        asked = f"{counts['ranked']:,} questions from {counts['test_triplets']:,} test facts"
        protocol = f"{figures['task']} task, {figures['protocol']['name']} protocol"
        table = Table(
            title=f"{self.model} on {figures['dataset']}: {protocol}",
            caption=f"{asked}{left_out}. MRR and Hits in %.",
            title_justify="left",
            caption_justify="left",
        )
        table.add_column("questions")
        for name in ("count", *METRICS):
            table.add_column(name, justify="right")
        rows = {"all": {"count": counts["ranked"]} | figures["metrics"]}
        if len(figures["by_side"]) > 1:
            rows |= {f"predicting the {side}": part for side, part in figures["by_side"].items()}
        rows |= {f"half-links seen: {name}": part for name, part in figures["by_stratum"].items() if part["count"]}
        for name, row in rows.items():
            table.add_row(name, f"{row['count']:,}", *(_number(metric, row[metric]) for metric in METRICS))
        parts: list[RenderableType] = [table]
        if errors := figures["score_errors"]:
            mean, largest = errors["mean"], errors["largest"]
            parts.append(f"Standard error of an answer's score: {mean:.3g} on average, at most {largest:.3g}.")
        return parts


def evaluate(
    graph: GraphLike | Task,
    *,
    model: ModelLike = DEFAULT_MODEL,
    task: Target = "node",
    protocol: str = "paper",
    sides: Sides | None = None,
    replacement: bool | None = None,
    ties: Ties | str | None = None,
    seed: int = 0,
    limit: int | None = None,
    name: str | None = None,
    progress: Progress = ignore,
) -> EvaluationResult:
    """Rank the right answers to a task's test questions.

    Args:
        graph: A task (a dataset's name, a folder, a Task), or any graph, of which a random tenth becomes the test set.
        model: A model, the name of a shipped one, a folder, or a hub id.
        task: Predict entities ("node") or relations ("relation").
        protocol: "full" ranks among all candidates; "paper", "paper-both" and "paper-ingram" among 50 drawn negatives.
        sides: Predict tails, heads or both ends; by default set by the protocol.
        replacement: Draw relations always with replacement, or only if there are too few to draw distinct ones; by
            default set by the protocol.
        ties: How tied candidates count: realistic, optimistic, pessimistic, random or rounded.
        seed: Seed for drawing the negatives.
        limit: Evaluate on a random sample of this many test facts.
        name: The display name of the model.
        progress: Called with (done, total) questions.
    """
    if ties is not None and ties not in list(Ties):
        raise UnknownName("rule for ties", str(ties), [rule.value for rule in Ties])
    if sides is not None and task == "relation":
        raise SettingError("sides", "only applies to the node task")
    chosen = protocol_named(protocol).with_sides(sides)
    if replacement is not None and (task == "node" or not chosen.negatives):
        raise SettingError("replacement", "only applies to the relation task under a protocol that draws negatives")
    chosen = chosen.with_replacement(replacement)
    scorer, called = model_of(model, name)
    loaded = as_task(graph)
    if not len(loaded.test):
        raise DataError(f"{loaded.name}: has no test facts; a graph needs at least ten facts to hide one.")
    rule = None if ties is None else Ties(ties)
    evaluation = rank_test(
        scorer,
        loaded.observed,
        loaded.test,
        task=task,
        protocol=chosen,
        seed=seed,
        limit=limit,
        also_known=loaded.known,
        progress=progress,
    )
    figures = as_json(
        evaluation,
        loaded.observed,
        model=called,
        dataset=loaded.name,
        reads_relations=scorer.reads_relations,
        ties=rule,
    )
    return EvaluationResult(
        command="evaluate",
        graph=GraphInfo.of(loaded.observed, loaded.name),
        model=called,
        evaluation=evaluation,
        observed=loaded.observed,
        figures=figures,
        ties=rule,
    )


def _number(metric: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if metric == "mr" else f"{100 * value:.1f}"
