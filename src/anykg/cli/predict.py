"""`anykg predict`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anykg.cli.options import DataDir, Device, GraphName, ModelName, Trust
from anykg.cli.reading import Reading, takes_reading

if TYPE_CHECKING:
    from anykg.answers.table import Answers

EXAMPLES = """
Answer questions about a graph, by name: give two of --head, --relation and --tail, and the third is asked for.

A file of --queries has one question a line: head, relation and tail with ? for what is asked, or JSON lines.

Examples:

  anykg predict atlas --head France --relation borders

  anykg predict facts.tsv --relation "works for" --tail "Acme" -k 5 --format json

  anykg predict facts.nt --queries questions.tsv --out answers.parquet
"""


class FormatName(StrEnum):
    """How answers are written."""

    TABLE = "table"
    TSV = "tsv"
    CSV = "csv"
    JSON = "json"
    NT = "nt"
    PARQUET = "parquet"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("predict", help=EXAMPLES)(predict)


@takes_reading()
def predict(
    graph: GraphName,
    head: Annotated[str | None, typer.Option(help="The subject.")] = None,
    relation: Annotated[str | None, typer.Option(help="The relation.")] = None,
    tail: Annotated[str | None, typer.Option(help="The object.")] = None,
    queries: Annotated[Path | None, typer.Option(help="A file of questions instead of one.")] = None,
    k: Annotated[int, typer.Option("-k", help="How many answers to each question.", min=1)] = 10,
    novel_only: Annotated[
        bool, typer.Option("--novel-only/--known", help="Leave known facts out, or mark them.")
    ] = True,
    candidates: Annotated[Path | None, typer.Option(help="A file with the only answers allowed, one a line.")] = None,
    like_tails: Annotated[
        bool, typer.Option("--like-tails", help="Only entities already seen at that place of that relation.")
    ] = False,
    model: ModelName = "anykg-small",
    calibrated: Annotated[
        bool, typer.Option("--calibrated", help="Probabilities instead of scores, by what `anykg check` found.")
    ] = False,
    format: Annotated[FormatName | None, typer.Option(help="Default: a table, or what --out ends in.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write to a .tsv, .csv, .json, .jsonl, .parquet or .nt file.")
    ] = None,
    device: Device = "cpu",
    *,
    reading: Reading,
    data_dir: DataDir = None,
    trust: Trust = False,
) -> None:
    from anykg.answers.predict import predict as answer
    from anykg.answers.questions import Question, read_name_list, read_questions
    from anykg.cli.progress import progress_bar
    from anykg.devices import device_named
    from anykg.errors import ConfigError
    from anykg.io.catalog import load_graph
    from anykg.models.store import load_model

    written_as = format_asked(format, out, graph, queries, candidates)
    if queries is None:
        questions = [Question(head, relation, tail)]
    elif (head, relation, tail) != (None, None, None):
        raise ConfigError(
            "--queries: expected either a file of questions or --head, --relation and --tail, found both."
        )
    else:
        questions = read_questions(queries)
    place = device_named(device)
    loaded = load_graph(graph, data_dir, **reading)
    with progress_bar("answering") as advance:
        answers = answer(
            loaded,
            questions=questions,
            k=k,
            known=not novel_only,
            candidates=read_name_list(candidates) if candidates else None,
            like_tails=like_tails,
            calibrated=calibrated,
            model=load_model(model, trust=trust).to(place),
            progress=advance,
        )
    repeated = len(questions) - len(set(questions))
    if repeated:
        typer.echo(f"{repeated:,} of {len(questions):,} questions were repeated; each is answered once.", err=True)
    unanswered = len(set(questions)) - answers.frame["query"].n_unique()
    if queries is None:
        answers = answers.without("query")
    elif unanswered:
        typer.echo(f"{unanswered:,} questions have no answer.", err=True)
    nothing = "everything that could be one is a known fact; --known shows those" if novel_only else "none is possible"
    write_answers(answers, written_as, out, f"No answers: {nothing}.")


def format_asked(format: FormatName | None, out: Path | None, *inputs: Path | str | None) -> str | None:
    """The format to write in, None for a table; complains before anything is computed, also if an input would go."""
    from anykg.errors import ConfigError
    from anykg.io.write import ROW_EXTENSIONS, format_of

    given = None if format is None else format.value
    if out is not None:
        if any(given_in is not None and out.resolve() == Path(given_in).resolve() for given_in in inputs):
            raise ConfigError(f"--out: {out} is what is read, and would be lost; give another name.")
        if given == "table":
            raise ConfigError("--format table is for the screen; leave out --out, or give another format.")
        return format_of(out, given, ROW_EXTENSIONS)
    if given == "parquet":
        raise ConfigError("--format parquet: is not for the screen; give --out FILE.parquet.")
    return None if given in (None, "table") else given


def write_answers(answers: Answers, format: str | None, out: Path | None, nothing: str) -> None:
    """Print a table or text (`nothing` if there are no answers), or write a file."""
    from rich.console import Console

    from anykg.io.write import encode_rows, write_rows

    if out is not None:
        write_rows(answers.frame, out, format)
        typer.echo(f"Wrote {len(answers):,} answers to {out}.")
    elif format is not None:
        typer.echo(encode_rows(answers.frame, format).decode(), nl=False)
    elif len(answers):
        Console().print(answers.as_rich())
    else:
        typer.echo(nothing)
