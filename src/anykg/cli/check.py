"""The command `anykg check`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from anykg.cli.evaluate import TaskName
from anykg.cli.options import Budget, ClusterAddress, DataDir, Device, GraphName, JsonOut, Text, Trust
from anykg.cli.output import TextFormat
from anykg.cli.reading import Reading, takes_reading
from anykg.cli.wording import as_typed

if TYPE_CHECKING:
    from anykg.answers.results import Result

EXAMPLES = """
Measure how far to trust a model on your graph: hide some facts, ask for them, and report how many are found.

Every entity keeps at least one fact. Popularity and PageRank predict the same facts as baselines. --fit also hides
other facts, all at once, fits a model to the rest, and compares the two models on these facts. The check also
calibrates the probabilities of `anykg predict --calibrated`. With several models, it recommends one.

Answers are stored: checking the same graph again takes no time, and a graph that has changed by up to 5% of its facts
reuses the answers about its earlier version, with a warning. --again repeats the check.

Examples:

  anykg check facts.csv

  anykg check facts.csv --examples 10

  anykg check facts.csv --task relation

  anykg check facts.csv --fit 2

  anykg check facts.csv --models anykg-base,runs/mine --format json
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check", help=EXAMPLES)(check)


@takes_reading()
def check(
    graph: GraphName,
    models: Annotated[
        str,
        typer.Option("--models", "--model", help="Models, separated by commas: shipped names, folders or hub ids."),
    ] = "anykg-base+rules",
    task: Annotated[TaskName, typer.Option(help="Predict entities or relations.")] = TaskName.NODE,
    facts: Annotated[int | None, typer.Option(help="Facts to hide; default 500, or 100 for relations.", min=1)] = None,
    examples: Annotated[int, typer.Option(help="Show this many hidden facts and the model's answers.", min=0)] = 0,
    fit: Annotated[
        float | None,
        typer.Option(
            help="Also fit a model for this many minutes, to show how much `anykg fit` helps.", metavar="MINUTES"
        ),
    ] = None,
    budget: Budget = None,
    again: Annotated[bool, typer.Option("--again", help="Repeat the check even if its answers are stored.")] = False,
    seed: Annotated[int, typer.Option(help="Seed for drawing the facts to hide.")] = 0,
    output: Text = TextFormat.TABLE,
    out: JsonOut = None,
    device: Device = "cpu",
    cluster: ClusterAddress = None,
    *,
    reading: Reading,
    data_dir: DataDir = None,
    trust: Trust = False,
) -> None:
    from anykg.atomic import write_text
    from anykg.cli.loading import graph_named, model_named, refuse_unknown_model
    from anykg.cli.output import refuse_overwrite, show, write_result
    from anykg.cli.progress import progress_bar

    refuse_overwrite(out, graph)
    names = list(dict.fromkeys(models.split(",")))
    for name in names:
        refuse_unknown_model(name, device)
    loaded = graph_named(graph, data_dir, reading)

    from anykg.answers.check import check as run
    from anykg.answers.checking.report import compare

    scorers = {name: model_named(name, device, trust) for name in names}
    reports = []
    for name, scorer in scorers.items():
        with progress_bar(f"checking {name}") as advance:
            report = run(
                loaded,
                model=scorer,
                task=task.value,
                facts=facts,
                seed=seed,
                name=name,
                fit=fit,
                again=again,
                cluster=cluster,
                budget=budget,
                progress=advance,
            )
        reports.append(replace(report, warnings=tuple(as_typed(warning) for warning in report.warnings)))
    result: Result = compare(reports, seed) if len(reports) > 1 else reports[0]
    if out:
        write_text(out, result.to_json() + "\n")
    if examples and output is TextFormat.TABLE:
        for report in reports:
            show(*report.example_renderables(examples, seed), "")
    write_result(result, "json" if output is TextFormat.JSON else None)
