"""`anykg evaluate`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from anykg.cli.options import DataDir, Device, Trust
from anykg.cli.reading import Reading, takes_reading

EXAMPLES = """
Rank the answers to a dataset's test questions.

Examples:

  anykg evaluate runs/gin EN-FR --task node

  anykg evaluate runs/gin EN-FR --task relation --protocol full --format json --out result.json

  anykg evaluate runs/ingram EN-FR --samples 10 --ranks ranks.tsv

  anykg evaluate random EN-FR

A setting of the model that training did not fix, such as InGram's --samples, can be given as --name value.
"""


class TaskName(StrEnum):
    """What is asked for."""

    NODE = "node"
    RELATION = "relation"


class SideName(StrEnum):
    """Which end is asked for in the node task."""

    TAIL = "tail"
    HEAD = "head"
    BOTH = "both"


class FormatName(StrEnum):
    """How the result is printed."""

    TABLE = "table"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("evaluate", help=EXAMPLES, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
        evaluate
    )


@takes_reading()
def evaluate(
    context: typer.Context,
    checkpoint: Annotated[str, typer.Argument(help="A trained model's folder, or `random`.")],
    dataset: Annotated[str, typer.Argument(help="A dataset's name, or a path to its files.")],
    task: Annotated[TaskName, typer.Option(help="(h, r, ?) or (h, ?, t).")] = TaskName.NODE,
    protocol: Annotated[str, typer.Option(help="paper, paper-ingram or full.")] = "paper",
    sides: Annotated[SideName | None, typer.Option(help="Ask for tails, heads or both.")] = None,
    ties: Annotated[str | None, typer.Option(help="realistic, optimistic, pessimistic, random or rounded.")] = None,
    seed: Annotated[int, typer.Option(help="Draws the candidates.")] = 0,
    limit: Annotated[int | None, typer.Option(help="A sample of so many test triplets.", min=1)] = None,
    output: Annotated[FormatName, typer.Option("--format", help="How to print.")] = FormatName.TABLE,
    out: Annotated[Path | None, typer.Option(help="Write the JSON result here as well.")] = None,
    ranks: Annotated[Path | None, typer.Option(help="Write the rank of every answer here, as TSV.")] = None,
    data_dir: DataDir = None,
    trust: Trust = False,
    device: Device = "cpu",
    *,
    reading: Reading,
) -> None:
    import json

    from anykg.atomic import atomic_path, write_json
    from anykg.cli.progress import progress_bar
    from anykg.cli.settings import configured
    from anykg.devices import device_named
    from anykg.errors import ConfigError, DataError, UnknownName
    from anykg.evaluation import evaluate as run
    from anykg.evaluation.protocol import protocol_named
    from anykg.evaluation.ranks import Ties
    from anykg.evaluation.report import as_json, as_table
    from anykg.io.catalog import load_task
    from anykg.models.store import load_model

    if ties is not None and ties not in list(Ties):
        raise UnknownName("rule for ties", ties, [rule.value for rule in Ties])
    if sides is not None and task is TaskName.RELATION:
        raise ConfigError("--sides: is for the node task; a relation is asked for between both ends.")
    chosen = protocol_named(protocol).with_sides(sides.value if sides else None)
    model = configured(load_model(checkpoint, trust=trust), context.args).to(device_named(device))
    loaded = load_task(dataset, data_dir, **reading)
    if not len(loaded.test):
        raise DataError(f"{dataset}: has no fact to ask about; a file needs some ten facts for one to be hidden.")
    with progress_bar("ranking") as advance:
        evaluation = run.evaluate(
            model,
            loaded.observed,
            loaded.test,
            task=task.value,
            protocol=chosen,
            seed=seed,
            limit=limit,
            also_known=loaded.valid if loaded.valid.entities == loaded.observed.entities else None,
            progress=advance,
        )
    result = as_json(
        evaluation,
        loaded.observed,
        model=checkpoint,
        dataset=loaded.name,
        reads_relations=model.reads_relations,
        ties=Ties(ties) if ties else None,
    )
    if out:
        write_json(out, result)
    if ranks:
        with atomic_path(ranks) as path:
            as_table(evaluation, loaded.observed, Ties(ties) if ties else None).write_csv(path, separator="\t")
    if output is FormatName.JSON:
        typer.echo(json.dumps(result, indent=1, ensure_ascii=False))
    else:
        _print(result)


def _print(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from anykg.evaluation.metrics import METRICS

    counts, console = result["counts"], Console()
    title = f"{result['model']} on {result['dataset']}: {result['task']} task, {result['protocol']['name']} protocol"
    table = Table(title=title, caption=_caption(counts), title_justify="left", caption_justify="left")
    table.add_column("questions")
    for name in ("count", *METRICS):
        table.add_column(name, justify="right")
    rows = {"all": {"count": counts["ranked"]} | result["metrics"]}
    if len(result["by_side"]) > 1:
        rows |= {f"asking for the {side}": part for side, part in result["by_side"].items()}
    rows |= {f"half-links seen: {name}": part for name, part in result["by_stratum"].items() if part["count"]}
    for name, row in rows.items():
        table.add_row(name, f"{row['count']:,}", *(_number(metric, row[metric]) for metric in METRICS))
    console.print(table)
    if errors := result["score_errors"]:
        console.print(
            f"Standard error of an answer's score: {errors['mean']:.3g} on average, at most {errors['largest']:.3g}."
        )


def _caption(counts: dict[str, int]) -> str:
    left_out = f"; {counts['unrankable']:,} could not be ranked" if counts["unrankable"] else ""
    asked = f"{counts['ranked']:,} questions from {counts['test_triplets']:,} test triplets"
    return f"{asked}{left_out}. MRR and Hits in %."


def _number(metric: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if metric == "mr" else f"{100 * value:.1f}"
