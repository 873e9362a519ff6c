"""`anykg data`: list, describe, download, pack, convert, compare, split and build graphs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Column, Table

from anykg.cli import build, pack, split
from anykg.cli.options import DataDir, Rows, RowsOut
from anykg.cli.output import TextFormat, chosen_format, refuse_overwrite, say, write_result
from anykg.cli.reading import Reading, takes_reading
from anykg.cli.wording import as_typed
from anykg.printable import printable

if TYPE_CHECKING:
    from anykg.benchmarks.statistics import GraphStatistics
    from anykg.graph.similar import Similar
    from anykg.io.datasets import Dataset
    from anykg.io.fetch import Fetched
    from anykg.io.read import ReadReport

SHOWN_TYPOS = 10

app = typer.Typer(
    help="Graphs and datasets: list, describe, download, pack, convert, compare, split, build.", no_args_is_help=True
)
app.add_typer(build.app, name="build")
split.register(app)
pack.register(app)


@app.command("list")
def list_datasets(data_dir: DataDir = None) -> None:
    """List every dataset with its size and location.

    Sizes are those of the inference graph: observed facts, and test facts (asked).

    Example: anykg data list
    """
    from anykg.io.catalog import find
    from anykg.io.datasets import DATASETS

    table = Table(Column("name", no_wrap=True), "family", *_numeric("entities", "relations", "observed", "asked"))
    table.add_column("where", overflow="fold")
    for row in DATASETS:
        sizes = ["", "", "", ""] if row.size is None else [f"{number:,}" for number in row.size]
        table.add_row(row.name, row.family, *sizes, _where(row, find(row, data_dir)))
    Console().print(table)


@app.command()
@takes_reading()
def stats(
    name: Annotated[str, typer.Argument(metavar="NAME_OR_PATH", help="A dataset, a folder or a file of triples.")],
    plot: Annotated[Path | None, typer.Option(help="Plot the degree distributions to this .png or .svg file.")] = None,
    format: Annotated[TextFormat, typer.Option(help="A table, or JSON with all degrees.")] = TextFormat.TABLE,
    *,
    reading: Reading,
    data_dir: DataDir = None,
) -> None:
    """Print statistics of a graph: entities, relations, facts, degrees, reciprocal facts; and possible typos in a file.

    Example: anykg data stats EN-FR --plot degrees.png

    Example: anykg data stats facts.csv --columns htr --format json
    """
    from anykg.benchmarks.statistics import graph_statistics, plot_degrees, task_statistics
    from anykg.cli.progress import progress_bar
    from anykg.graph.similar import similar_names
    from anykg.io.catalog import load_task, locate
    from anykg.io.read import read_with_report

    located = locate(name, data_dir)
    report: ReadReport | None = None
    if located.is_graph:
        with progress_bar("reading") as advance:
            graph, report = read_with_report(located.path, progress=advance, **reading)
        rows, typos = [graph_statistics(located.name, graph)], similar_names(graph)
    else:
        typos = []
        rows = task_statistics(load_task(name, data_dir, **reading))
    if plot is not None:
        plot_degrees(rows, plot)
    if format is TextFormat.JSON:
        read = None if report is None else report.to_dict()
        found = {"read": read, "graphs": [row.as_json() for row in rows], "typos": [part._asdict() for part in typos]}
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    for line in () if report is None else report.lines():
        say(printable(as_typed(line)))
    Console().print(_statistics_table(rows))
    for line in _typos(typos):
        say(printable(line))
    if plot is not None:
        say(f"Degree distributions: {plot}")


def _typos(found: list[Similar]) -> list[str]:
    """Lines about names that may be typos."""
    if not found:
        return []
    left = len(found) - SHOWN_TYPOS
    return [
        "Possible typos: names that differ from a more frequent name by a letter, case, accents or white space:",
        *(
            f"  {one.kind} {_visible(one.name)} (facts: {one.facts:,}; {_visible(one.other)}: {one.other_facts:,})"
            for one in found[:SHOWN_TYPOS]
        ),
        *([f"  ... and {left:,} more"] if left > 0 else []),
    ]


def _visible(name: str) -> str:
    """A name, in quotes if the white space in it would not be seen.

    >>> _visible("New York"), _visible("New York "), _visible("New  York")
    ('New York', "'New York '", "'New  York'")
    """
    return name if name == " ".join(name.split()) else repr(name)


@app.command("formats")
def list_formats(
    format: Annotated[TextFormat, typer.Option(help="A table, or JSON.")] = TextFormat.TABLE,
) -> None:
    """List the graph formats that can be read and written, with their extensions.

    Text files may be compressed as .gz, .zst, .bz2, .xz or .zip.

    Example: anykg data formats
    """
    from anykg.io.formats import formats

    rows = list(formats().values())
    if format is TextFormat.JSON:
        typer.echo(
            json.dumps(
                [
                    {"name": row.name, "extensions": list(row.suffixes), "written": row.write is not None}
                    | {"streamed": row.stream is not None, "summary": row.summary}
                    for row in rows
                ]
            )
        )
        return
    table = Table(Column("name", no_wrap=True), Column("extensions", overflow="fold"), "written", "what it is")
    for row in sorted(rows, key=lambda row: row.name):
        table.add_row(row.name, " ".join(row.suffixes), "yes" if row.write is not None else "", row.summary)
    Console().print(table)


@app.command()
@takes_reading()
def convert(
    graph: Annotated[str, typer.Argument(metavar="GRAPH", help="A file, folder, URL, database or dataset.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write; its extension sets the format.")],
    to: Annotated[str | None, typer.Option(help="The format to write; see `anykg data formats`.")] = None,
    *,
    reading: Reading,
    data_dir: DataDir = None,
) -> None:
    """Read a graph and write it in another format. Names survive the round trip.

    Example: anykg data convert people.csv people.ttl

    Example: anykg data convert bolt://localhost:7687 movies.parquet --drop "PREDICTED_*"
    """
    from anykg.io.catalog import load_graph
    from anykg.io.formats import by_name
    from anykg.io.write import format_of, graph_extensions, write_graph

    refuse_overwrite(out, graph)
    chosen = by_name(format_of(out, to, graph_extensions()))
    loaded = load_graph(graph, data_dir, **reading)
    write_graph(loaded, out, chosen.name)
    sizes = f"{len(loaded):,} facts, {loaded.num_entities:,} entities, {loaded.num_relations:,} relations"
    say(f"Wrote {sizes} to {out} ({chosen.name}).")


@app.command()
@takes_reading()
def diff(
    old: Annotated[str, typer.Argument(metavar="A", help="The old graph.")],
    new: Annotated[str, typer.Argument(metavar="B", help="The new graph.")],
    format: Rows = None,
    out: RowsOut = None,
    *,
    reading: Reading,
    data_dir: DataDir = None,
) -> None:
    """List the facts that were added and removed between graph A and graph B, compared by name.

    Example: anykg data diff monday.tsv tuesday.tsv --out changes.tsv
    """
    from anykg.answers.difference import diff as compare
    from anykg.io.catalog import load_graph

    written_as = chosen_format(format, out, old, new)
    graphs = [load_graph(name, data_dir, **reading) for name in (old, new)]
    write_result(compare(*graphs), written_as, out)


@app.command()
def write(
    answers: Annotated[Path, typer.Argument(metavar="ANSWERS", help="Answers, as written by predict and complete.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The address of a database, a file, or a folder.")],
    to: Annotated[
        str | None, typer.Option(help="nquads, rdf12, quickstatements, kgx, sssom or neo4j, if the name does not say.")
    ] = None,
    where: Annotated[list[str] | None, typer.Option(help='Only these rows, such as "score >= 2"; repeatable.')] = None,
    accepted: Annotated[
        bool, typer.Option("--accepted", help="Write rows whose decision is accepted, as facts of their relation.")
    ] = False,
    model: Annotated[str | None, typer.Option(help="The model's name, if the answers do not say.")] = None,
    prefix: Annotated[str, typer.Option(help="Prefix for the types of predicted relationships.")] = "PREDICTED_",
    graph: Annotated[str, typer.Option(help="The named graph that RDF goes to.")] = "urn:anykg:predictions",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and write nothing.")] = False,
    format: Annotated[TextFormat, typer.Option(help="A summary, or JSON.")] = TextFormat.TABLE,
) -> None:
    """Write predictions back to a database, or to a file for its import tools. Writing twice creates no duplicates.

    Neo4j gets relationships PREDICTED_X with score, model and date; SPARQL endpoints and .nq files a named graph with
    scores and PROV; .ttl reified triples (RDF 1.2); .qs QuickStatements; *_edges.tsv KGX; .sssom.tsv SSSOM; a folder
    relationships.csv for neo4j-admin.

    Example: anykg data write new.tsv bolt://localhost:7687 --where "score >= 2" --dry-run

    Example: anykg data write new.tsv predictions.nq --graph http://example.org/predictions
    """
    from anykg.io.write_back.origin import Origin
    from anykg.io.write_back.write import read_answers, write_back

    rows, named = read_answers(answers, tuple(where or ()))
    origin = Origin(model=model or named or "anykg", accepted=accepted, prefix=prefix, graph=graph)
    written = write_back(rows, target, origin=origin, format=to, dry_run=dry_run)
    if format is TextFormat.JSON:
        typer.echo(json.dumps(written.to_dict(), ensure_ascii=False))
        return
    if dry_run:
        for line in written.preview:
            say(printable(line))
    left_out = "".join(f"; not written: {count:,} {what}" for what, count in written.skipped.items())
    verb = "Would write" if dry_run else "Wrote"
    say(f"{verb} {written.rows:,} rows to {written.target} ({written.format}){left_out}.")


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Datasets of `anykg data list`.")],
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Folder to download to; default: $ANYKG_DATA or the user's cache.")
    ] = None,
) -> None:
    """Download datasets from their public URLs and verify every file.

    Existing files are verified and kept; an interrupted download resumes.

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
    """A table with one column per graph: names of graphs are short, their measures many."""
    from anykg.benchmarks.statistics import quantile

    table = Table("", *_numeric(*(row.name for row in rows)))
    measures = {
        "entities": [f"{row.entities:,}" for row in rows],
        "relations": [f"{row.relations:,}" for row in rows],
        "observed facts": [f"{row.observed_facts:,}" for row in rows],
        "asked facts": [f"{row.asked_facts:,}" for row in rows],
        "average degree": [f"{row.average_degree:.2f}" for row in rows],
        "facts with a fact back": [f"{row.share_with_fact_back:.1%}" for row in rows],
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
    did = f"{new} of {len(fetched)} files downloaded" if new else f"all {len(fetched)} files already present"
    checked = "verified" if all(file.verified for file in fetched) else "not verified: no known checksum"
    return f"{row.name}: {did} ({checked}) in {directory / row.prefix}"
