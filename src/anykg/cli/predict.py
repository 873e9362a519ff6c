"""`anykg predict`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anykg.cli.reading import Literals, reading_of

if TYPE_CHECKING:
    import polars as pl

EXAMPLES = """
Answer a question about a graph, by name: give two of --head, --relation and --tail, and the third is asked for.

Examples:

  anykg predict atlas --head France --relation borders

  anykg predict facts.tsv --relation "works for" --tail "Acme" -k 5

  anykg predict facts.nt --head Alice --tail Bob --out answers.tsv
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("predict", help=EXAMPLES)(predict)


def predict(
    graph: Annotated[str, typer.Argument(help="A file of triples, or a dataset's name.")],
    head: Annotated[str | None, typer.Option(help="The subject.")] = None,
    relation: Annotated[str | None, typer.Option(help="The relation.")] = None,
    tail: Annotated[str | None, typer.Option(help="The object.")] = None,
    k: Annotated[int, typer.Option("-k", help="How many answers.", min=1)] = 10,
    known: Annotated[bool, typer.Option("--known", help="Show known facts too, marked.")] = False,
    model: Annotated[str, typer.Option(help="A trained model's folder, or a shipped one's name.")] = "anykg-small",
    out: Annotated[Path | None, typer.Option(help="Write to a .tsv, .csv, .jsonl, .parquet or .nt file.")] = None,
    columns: Annotated[str | None, typer.Option(help="What a file's columns hold, such as hrt or h_rt.")] = None,
    separator: Annotated[str | None, typer.Option(help="tab, comma, pipe, space or one character.")] = None,
    literals: Annotated[Literals | None, typer.Option(help="RDF statements about literals.")] = None,
    labels: Annotated[Path | None, typer.Option(help="A file of names and their labels.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the datasets are.")] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Import a checkpoint's own model class.")] = False,
) -> None:
    from anykg.answers import Question
    from anykg.answers import predict as answer
    from anykg.data.catalog import load_graph
    from anykg.data.write import write_rows
    from anykg.training.checkpoint import load_model

    question = Question(head, relation, tail)
    loaded = load_graph(graph, data_dir, **reading_of(columns, separator, literals, labels))
    rows = answer(load_model(model, trust=trust), loaded, question, k=k, known=known)
    if out:
        write_rows(rows, out)
        typer.echo(f"Wrote {len(rows)} answers to {out}.")
        return
    print_answers(rows)


def print_answers(rows: pl.DataFrame) -> None:
    """A table of answers for people."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in ("rank", "score"):
        table.add_column(name, justify="right")
    for name in ("head", "relation", "tail", ""):
        table.add_column(name, overflow="fold")
    for row in rows.iter_rows(named=True):
        mark = "known" if row["known"] else ""
        table.add_row(
            str(row["rank"]), f"{row['score']:.2f}", *(Text(row[p]) for p in ("head", "relation", "tail")), mark
        )
    Console().print(table)
