"""The command `anykg explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anykg.cli.options import Budget, DataDir, Device, GraphName, JsonOut, ModelName, Trust
from anykg.cli.output import TextFormat
from anykg.cli.reading import Reading, takes_reading

EXAMPLES = """
Explain why a model predicts a fact: the paths that its score depends on, the clauses that imply it, and a test of
both.

A known fact is removed from the graph before it is explained, so that it does not explain itself. Head, relation and
tail can be given as arguments or as options.

Examples:

  anykg explain atlas France borders Germany

  anykg explain facts.tsv --head Alice --relation "works for" --tail Acme --picture why.svg

  anykg explain EN-FR HEAD RELATION TAIL --model runs/uqer --format json --out why.json
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain", help=EXAMPLES)(explain)


@takes_reading()
def explain(
    graph: GraphName,
    fact: Annotated[
        list[str] | None, typer.Argument(help="Head, relation and tail.", metavar="HEAD RELATION TAIL")
    ] = None,
    head: Annotated[str | None, typer.Option(help="The subject.")] = None,
    relation: Annotated[str | None, typer.Option(help="The relation.")] = None,
    tail: Annotated[str | None, typer.Option(help="The object.")] = None,
    budget: Budget = None,
    model: ModelName = "anykg-base+rules",
    paths: Annotated[int, typer.Option(help="Maximum number of paths.", min=1)] = 5,
    clauses: Annotated[int, typer.Option(help="Maximum number of clauses.", min=0)] = 5,
    draws: Annotated[int, typer.Option(help="Number of random removals to compare with.", min=0)] = 5,
    seed: Annotated[int, typer.Option(help="Seed for the random removals.")] = 0,
    output: Annotated[TextFormat, typer.Option("--format", help="Output format.")] = TextFormat.TABLE,
    picture: Annotated[Path | None, typer.Option(help="Draw the facts into an .svg or .png file.")] = None,
    out: JsonOut = None,
    device: Device = "cpu",
    *,
    reading: Reading,
    data_dir: DataDir = None,
    trust: Trust = False,
) -> None:
    from anykg.answers.explaining.picture import can_draw
    from anykg.answers.questions import Fact, resolve
    from anykg.atomic import write_text
    from anykg.cli.loading import graph_named, model_named, refuse_unknown_model
    from anykg.cli.output import note, refuse_overwrite, write_result

    triplet = fact_given(fact, head, relation, tail)
    refuse_overwrite(out, graph)
    if picture:
        can_draw(picture)
    refuse_unknown_model(model, device)
    loaded = graph_named(graph, data_dir, reading)
    resolve(loaded, [Fact(*triplet)])

    from anykg.answers.explain import explain as run

    scorer = model_named(model, device, trust)
    result = run(loaded, *triplet, model=scorer, paths=paths, clauses=clauses, draws=draws, seed=seed, budget=budget)
    if picture:
        result.draw(picture)
    if out:
        write_text(out, result.to_json() + "\n")
    write_result(result, "json" if output is TextFormat.JSON else None)
    for written in (picture, out):
        if written:
            note(f"Wrote {written}.")


def fact_given(
    fact: list[str] | None, head: str | None, relation: str | None, tail: str | None
) -> tuple[str, str, str]:
    """A fact given as three arguments or three options."""
    from anykg.errors import ConfigError

    options = (head, relation, tail)
    parts = fact or []
    if parts and any(part is not None for part in options):
        raise ConfigError("Give the fact as HEAD RELATION TAIL or as --head, --relation and --tail, not both.")
    parts = parts or [part for part in options if part is not None]
    if len(parts) != 3:
        raise ConfigError(
            f"Expected a fact: HEAD RELATION TAIL, or --head, --relation and --tail; found {len(parts)} parts."
        )
    return parts[0], parts[1], parts[2]
