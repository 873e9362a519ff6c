"""The command `anykg predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anykg.cli.options import (
    Budget,
    ClusterAddress,
    DataDir,
    Device,
    GraphName,
    ModelName,
    Rows,
    RowsOut,
    Trust,
    listed,
)
from anykg.cli.reading import Reading, takes_reading

EXAMPLES = """
Predict missing facts by name: give two of --head, --relation and --tail to predict the third.

With all three, the fact is scored and ranked instead. --queries reads many questions from a file: one per line, with
head, relation and tail and ? in the field to predict, or JSON lines. Questions with unknown names are skipped and
listed.

Scores are only comparable between answers to the same question; with --calibrated, probabilities are comparable across
questions.

Examples:

  anykg predict atlas --head France --relation borders

  anykg predict facts.tsv --relation "works for" --tail "Acme" --top 5 --format json

  anykg predict facts.nt --queries questions.tsv --out answers.parquet
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("predict", help=EXAMPLES)(predict)


@takes_reading()
def predict(
    graph: GraphName,
    head: Annotated[str | None, typer.Option(help="The subject.")] = None,
    relation: Annotated[str | None, typer.Option(help="The relation.")] = None,
    tail: Annotated[str | None, typer.Option(help="The object.")] = None,
    queries: Annotated[Path | None, typer.Option(help="A file of questions.")] = None,
    k: Annotated[int, listed("Number of answers per question.")] = 10,
    novel_only: Annotated[
        bool, typer.Option("--novel-only/--known", help="List only new facts, or include known ones, marked as such.")
    ] = True,
    candidates: Annotated[Path | None, typer.Option(help="A file with the only answers allowed, one per line.")] = None,
    like_tails: Annotated[
        bool, typer.Option("--like-tails", help="Only entities that already occur at this end of the relation.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first question with an unknown name.")] = False,
    budget: Budget = None,
    model: ModelName = "anykg-base+rules",
    calibrated: Annotated[
        bool, typer.Option("--calibrated", help="Probabilities instead of scores, calibrated by `anykg check`.")
    ] = False,
    format: Rows = None,
    out: RowsOut = None,
    device: Device = "cpu",
    cluster: ClusterAddress = None,
    *,
    reading: Reading,
    data_dir: DataDir = None,
    trust: Trust = False,
) -> None:
    from anykg.answers.questions import asked_for, read_name_list, resolve
    from anykg.cli.loading import graph_named, model_named, refuse_unknown_model
    from anykg.cli.output import chosen_format, write_result
    from anykg.cli.progress import progress_bar

    _refuse_incomplete({"--head": head, "--relation": relation, "--tail": tail}, queries)
    written_as = chosen_format(format, out, graph, queries, candidates)
    refuse_unknown_model(model, device)
    asked = asked_for(head, relation, tail, queries)
    allowed = None if candidates is None else read_name_list(candidates)
    loaded = graph_named(graph, data_dir, reading)
    if strict or queries is None:
        resolve(loaded, asked, strict=True)

    from anykg.answers.predict import predict as run

    scorer = model_named(model, device, trust)
    with progress_bar("answering") as advance:
        answers = run(
            loaded,
            head=head,
            relation=relation,
            tail=tail,
            questions=None if queries is None else asked,
            k=k,
            known=not novel_only,
            candidates=allowed,
            like_tails=like_tails,
            calibrated=calibrated,
            strict=strict,
            budget=budget,
            model=scorer,
            cluster=cluster,
            progress=advance,
        )
    nothing = "all candidates are known facts; --known shows them" if novel_only else "there are no candidates"
    write_result(answers, written_as, out, nothing=f"No answers: {nothing}.")


def _refuse_incomplete(parts: dict[str, str | None], queries: Path | None) -> None:
    """Raise unless the options make one question, or name a file of them."""
    from anykg.errors import ConfigError

    given = [option for option, value in parts.items() if value is not None]
    if queries is not None and given:
        raise ConfigError(f"Expected one question or a file of them, found {' and '.join([*given, '--queries'])}.")
    if queries is None and len(given) < 2:
        raise ConfigError(
            "Expected two of --head, --relation and --tail, so that the third is predicted, or --queries FILE; found "
            f"{f'only {given[0]}' if given else 'none'}."
        )
