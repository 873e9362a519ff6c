"""`anykg data`: list, describe, download, split and build datasets."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from anykg.cli import build, split
from anykg.cli.options import DataDir
from anykg.cli.reading import Reading, takes_reading

if TYPE_CHECKING:
    from anykg.benchmarks.statistics import GraphStatistics
    from anykg.io.datasets import Dataset
    from anykg.io.fetch import Fetched

app = typer.Typer(help="List, describe, download, split and build datasets.", no_args_is_help=True)
app.add_typer(build.app, name="build")
split.register(app)


class Format(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"


@app.command("list")
def list_datasets(data_dir: DataDir = None) -> None:
    """Show every dataset, its size, and where it is.

    The size is that of the graph at inference: observed triplets, and those asked.

    Example: anykg data list
    """
    from anykg.io.catalog import find
    from anykg.io.datasets import DATASETS

    table = Table(Column("name", no_wrap=True), "family", *_numeric("nodes", "relations", "observed", "asked"))
    table.add_column("where", overflow="fold")
    for row in DATASETS:
        sizes = ["", "", "", ""] if row.size is None else [f"{number:,}" for number in row.size]
        table.add_row(row.name, row.family, *sizes, _where(row, find(row, data_dir)))
    Console().print(table)


@app.command()
@takes_reading()
def stats(
    name: Annotated[str, typer.Argument(metavar="NAME_OR_PATH", help="A dataset, a folder or a file of triplets.")],
    plot: Annotated[Path | None, typer.Option(help="Draw the degree distributions into this .png or .svg.")] = None,
    format: Annotated[Format, typer.Option(help="A table for people, or JSON with all degrees.")] = Format.TABLE,
    *,
    reading: Reading,
    data_dir: DataDir = None,
) -> None:
    """Count what is in a graph: nodes, relations, triplets, degrees, edges back.

    Example: anykg data stats EN-FR --plot degrees.png

    Example: anykg data stats facts.csv --columns htr --format json
    """
    from anykg.benchmarks.statistics import graph_statistics, plot_degrees, task_statistics
    from anykg.io.catalog import load_task, locate
    from anykg.io.read import read_with_report

    located = locate(name, data_dir)
    detected: list[str] = []
    if located.is_graph:
        graph, report = read_with_report(located.path, **reading)
        rows, detected = [graph_statistics(located.name, graph)], report.lines()
    else:
        rows = task_statistics(load_task(name, data_dir, **reading))
    if plot is not None:
        plot_degrees(rows, plot)
    if format is Format.JSON:
        typer.echo(json.dumps({"detected": detected, "graphs": [row.as_json() for row in rows]}))
        return
    for line in detected:
        typer.echo(line)
    Console().print(_statistics_table(rows))
    if plot is not None:
        typer.echo(f"Degree distributions: {plot}")


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Datasets of `anykg data list`.")],
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Where to put them; else $ANYKG_DATA or the user's cache.")
    ] = None,
) -> None:
    """Download datasets from their public addresses, checking every file.

    What is there already is checked and kept; a download that was cut short goes on.

    Example: anykg data fetch EN-FR wikitopics:art --data-dir data
    """
    from anykg.io.catalog import data_dirs, get_dataset

    directory = data_dirs(data_dir)[0]
    for row in [get_dataset(name) for name in names]:
        typer.echo(_fetched_line(row, directory, _fetch(row, directory)))
        typer.echo(f"  {row.citation}. Licence: {row.licence}. {row.notes}")


def _fetch(row: Dataset, directory: Path) -> list[Fetched]:
    """Fetch one dataset under a bar with the time left."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from anykg.io.fetch import fetch as fetch_dataset

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(row.name, total=None)
        return fetch_dataset(
            row, directory, advance=lambda done, total: progress.update(task, completed=done, total=total)
        )


def _statistics_table(rows: list[GraphStatistics]) -> Table:
    """One column a graph: names of graphs are short, their measures many."""
    from anykg.benchmarks.statistics import quantile

    table = Table("", *_numeric(*(row.name for row in rows)))
    measures = {
        "nodes": [f"{row.nodes:,}" for row in rows],
        "relations": [f"{row.relations:,}" for row in rows],
        "observed triplets": [f"{row.observed_triplets:,}" for row in rows],
        "query triplets": [f"{row.query_triplets:,}" for row in rows],
        "average degree": [f"{row.average_degree:.2f}" for row in rows],
        "triplets with an edge back": [f"{row.share_with_edge_back:.1%}" for row in rows],
        "mutual pairs": [f"{row.mutual_pairs:,}" for row in rows],
    }
    for side in ("in", "out"):
        degrees = [row.in_degrees if side == "in" else row.out_degrees for row in rows]
        measures[f"{side}-degree: median, 90%, largest"] = [
            f"{quantile(counts, 0.5):,}, {quantile(counts, 0.9):,}, {quantile(counts, 1.0):,}" for counts in degrees
        ]
    for measure, values in measures.items():
        table.add_row(measure, *values)
    return table


def _numeric(*headers: str) -> list[Column]:
    return [Column(header, justify="right") for header in headers]


def _where(row: Dataset, found: Path | None) -> str:
    if found is None:
        return "not here"
    return "embedded" if row.family == "embedded" else str(found.parent)


def _fetched_line(row: Dataset, directory: Path, fetched: list[Fetched]) -> str:
    new = sum(file.downloaded for file in fetched)
    did = f"{new} of {len(fetched)} files downloaded" if new else f"all {len(fetched)} files were there"
    checked = "verified" if all(file.verified for file in fetched) else "not verified, no checksum is known"
    return f"{row.name}: {did} ({checked}) in {directory / row.place}"
