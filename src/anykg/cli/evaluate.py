"""The command `anykg evaluate`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from anykg.cli.options import DataDir, Device, JsonOut, Text, Trust
from anykg.cli.output import TextFormat
from anykg.cli.reading import Reading, takes_reading

EXAMPLES = """
Evaluate a model on a dataset by ranking the right answers to its test questions.

Settings of the model that are not fixed by training, such as InGram's --samples, can be given as --name value.

Examples:

  anykg evaluate runs/gin EN-FR --task node

  anykg evaluate runs/gin EN-FR --task relation --protocol full --format json --out result.json

  anykg evaluate runs/ingram EN-FR --samples 10 --ranks ranks.tsv

  anykg evaluate random EN-FR
"""


class TaskName(StrEnum):
    """What is predicted."""

    NODE = "node"
    RELATION = "relation"


class SideName(StrEnum):
    """Which end is predicted in the node task."""

    TAIL = "tail"
    HEAD = "head"
    BOTH = "both"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("evaluate", help=EXAMPLES, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
        evaluate
    )


@takes_reading()
def evaluate(
    context: typer.Context,
    checkpoint: Annotated[str, typer.Argument(help="A shipped model, the folder of a trained one, or `random`.")],
    dataset: Annotated[str, typer.Argument(help="The name of a dataset, or a path to its files.")],
    task: Annotated[TaskName, typer.Option(help="Predict entities or relations.")] = TaskName.NODE,
    protocol: Annotated[
        str, typer.Option(help="Evaluation protocol: paper, paper-both, paper-ingram or full.")
    ] = "paper",
    sides: Annotated[SideName | None, typer.Option(help="Predict tails, heads or both.")] = None,
    replacement: Annotated[
        bool | None,
        typer.Option("--replacement/--distinct", help="Draw negative relations with replacement, or distinct ones."),
    ] = None,
    ties: Annotated[
        str | None, typer.Option(help="Tie-breaking: realistic, optimistic, pessimistic, random or rounded.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed for drawing the candidates.")] = 0,
    limit: Annotated[int | None, typer.Option(help="Evaluate on a sample of this many test facts.", min=1)] = None,
    output: Text = TextFormat.TABLE,
    out: JsonOut = None,
    ranks: Annotated[Path | None, typer.Option(help="Write the rank of every answer to this TSV file.")] = None,
    data_dir: DataDir = None,
    trust: Trust = False,
    device: Device = "cpu",
    *,
    reading: Reading,
) -> None:
    from anykg.atomic import atomic_path, write_text
    from anykg.cli.loading import model_named, refuse_unknown_model
    from anykg.cli.output import refuse_overwrite, write_result
    from anykg.cli.progress import progress_bar
    from anykg.cli.settings import configured
    from anykg.io.catalog import as_task

    for written in (out, ranks):
        refuse_overwrite(written, dataset)
    refuse_unknown_model(checkpoint, device)
    loaded = as_task(dataset, data_dir, **reading)

    from anykg.answers.evaluate import evaluate as run

    scorer = configured(model_named(checkpoint, device, trust), context.args)
    with progress_bar("ranking") as advance:
        result = run(
            loaded,
            model=scorer,
            task=task.value,
            protocol=protocol,
            sides=sides.value if sides else None,
            replacement=replacement,
            ties=ties,
            seed=seed,
            limit=limit,
            name=checkpoint,
            progress=advance,
        )
    if out:
        write_text(out, result.to_json() + "\n")
    if ranks:
        with atomic_path(ranks) as path:
            result.ranks().write_csv(path, separator="\t")
    write_result(result, "json" if output is TextFormat.JSON else None)
