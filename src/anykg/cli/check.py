"""`anykg check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anykg.cli.evaluate import FormatName, TaskName
from anykg.cli.options import DataDir, Device, GraphName, Trust
from anykg.cli.reading import Reading, takes_reading

if TYPE_CHECKING:
    from anykg.answers.check import Part, Report

EXAMPLES = """
Say how far to trust a model on your graph: hide some of its facts, ask for them, and see.

Nothing is left out for good, and no entity is left without facts. What is found also turns scores into probabilities:
`anykg predict --calibrated`.

Examples:

  anykg check facts.csv

  anykg check facts.csv --task relation

  anykg check facts.csv --models anykg-small,runs/mine --format json
"""

SHOWN_RELATIONS = 10


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check", help=EXAMPLES)(check)


@takes_reading()
def check(
    graph: GraphName,
    models: Annotated[str, typer.Option(help="Names, folders or hub ids; several, with commas.")] = "anykg-small",
    task: Annotated[TaskName, typer.Option(help="Ask for entities, or for relations.")] = TaskName.NODE,
    facts: Annotated[int | None, typer.Option(help="How many to hide: 500, or 100 of relations.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Chooses the facts to hide.")] = 0,
    output: Annotated[FormatName, typer.Option("--format", help="How to print.")] = FormatName.TABLE,
    out: Annotated[Path | None, typer.Option(help="Write the findings here as JSON.")] = None,
    device: Device = "cpu",
    *,
    reading: Reading,
    data_dir: DataDir = None,
    trust: Trust = False,
) -> None:
    import json

    from anykg.answers.check import check as run
    from anykg.answers.check import compare
    from anykg.atomic import write_json
    from anykg.cli.progress import progress_bar
    from anykg.devices import device_named
    from anykg.io.catalog import load_graph
    from anykg.models.store import load_model

    place = device_named(device)
    names = list(dict.fromkeys(models.split(",")))
    loaded = {name: load_model(name, trust=trust).to(place) for name in names}
    asked = load_graph(graph, data_dir, **reading)
    reports = []
    for name, model in loaded.items():
        with progress_bar(f"checking {name}") as advance:
            reports.append(
                run(asked, model=model, task=task.value, facts=facts, seed=seed, name=name, progress=advance)
            )
    comparison = compare(reports, seed) if len(reports) > 1 else None
    found = {"graph": graph, "reports": [report.as_json() for report in reports]}
    if comparison:
        found |= {"best": comparison.best, "sentence": comparison.sentence}
    if out:
        write_json(out, found)
    if output is FormatName.JSON:
        typer.echo(json.dumps(found, indent=1, ensure_ascii=False))
        return
    for report in reports:
        print_report(report)
    if comparison:
        typer.echo(comparison.sentence)


def print_report(report: Report, relations: int = SHOWN_RELATIONS) -> None:
    """The findings for people: a table, the sentence, what to mind."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("hidden facts", overflow="fold")
    for name in ("count", "MRR", "expect", "Hits@1", "Hits@10"):
        table.add_column(name, justify="right")
    table.add_row("all", *_cells(report.overall))
    for part in report.by_stratum:
        table.add_row(f"half-links seen: {part.name}", *_cells(part))
    for part in report.by_relation[:relations]:
        table.add_row(part.name, *_cells(part))
    left = len(report.by_relation) - relations
    if left > 0:
        table.add_row(f"({left:,} more relations)", *[""] * 5)
    console = Console(highlight=False)
    console.print(table)
    console.print(f"\n{report.sentence}", markup=False)
    for warning in report.warnings:
        console.print(f"Mind: {warning}", markup=False)
    error = report.calibration.error
    if error is not None:
        console.print(f"Probabilities (predict --calibrated) are off by {100 * error:.1f} points on average.")


def _cells(part: Part) -> list[str]:
    mrr = part.measures["mrr"]
    expected = f"{max(mrr.low, 0):.2f} to {min(mrr.high, 1):.2f}" if part.facts > 1 else ""
    hits = (f"{part.measures[f'hits@{k}'].value:.0%}" for k in (1, 10))
    return [f"{part.facts:,}", f"{mrr.value:.2f}", expected, *hits]
