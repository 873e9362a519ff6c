"""`anykg explain`."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from anykg.cli.options import DataDir, GraphName, Trust
from anykg.cli.reading import Reading, takes_reading

EXAMPLES = """
Say why a model believes a fact: the paths its score depends on, the clauses that imply it, and whether removing them
matters. A fact that is known is taken out first, so that it does not explain itself.

Examples:

  anykg explain atlas France borders Germany

  anykg explain facts.tsv Alice "works for" Acme --picture why.svg

  anykg explain EN-FR HEAD RELATION TAIL --model runs/uqer --format json --out why.json
"""


class Format(StrEnum):
    """How the explanation is printed."""

    TEXT = "text"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain", help=EXAMPLES)(explain)


@takes_reading()
def explain(
    graph: GraphName,
    head: Annotated[str, typer.Argument(help="The subject.")],
    relation: Annotated[str, typer.Argument(help="The relation.")],
    tail: Annotated[str, typer.Argument(help="The object.")],
    model: Annotated[str, typer.Option(help="A trained model's folder, or a shipped one's name.")] = "anykg-small",
    paths: Annotated[int, typer.Option(help="How many paths, at most.", min=1)] = 5,
    clauses: Annotated[int, typer.Option(help="How many clauses, at most.", min=0)] = 5,
    draws: Annotated[int, typer.Option(help="Random removals to compare with.", min=0)] = 5,
    seed: Annotated[int, typer.Option(help="Draws them.")] = 0,
    output: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TEXT,
    picture: Annotated[Path | None, typer.Option(help="Draw the facts to an .svg or .png file.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the JSON explanation here as well.")] = None,
    *,
    reading: Reading,
    data_dir: DataDir = None,
    trust: Trust = False,
) -> None:
    from anykg.answers.explain.explanation import explain as run
    from anykg.answers.explain.picture import can_draw, draw
    from anykg.answers.explain.show import as_json, as_text
    from anykg.atomic import write_json
    from anykg.io.catalog import load_graph
    from anykg.models.store import load_model

    if picture:
        can_draw(picture)
    loaded = load_graph(graph, data_dir, **reading)
    triplet = (loaded.entities.index(head), loaded.relations.index(relation), loaded.entities.index(tail))
    found = run(load_model(model, trust=trust), loaded, triplet, paths=paths, clauses=clauses, draws=draws, seed=seed)
    if picture:
        draw(found, picture)
    if out:
        write_json(out, as_json(found))
    if output is Format.JSON:
        typer.echo(json.dumps(as_json(found), indent=1, ensure_ascii=False))
    else:
        typer.echo(as_text(found))
        for written in (picture, out):
            if written:
                typer.echo(f"Wrote {written}.")
