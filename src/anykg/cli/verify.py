"""`anykg verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anykg.cli.options import DataDir, Trust
from anykg.cli.reading import Reading, takes_reading

EXAMPLES = """
Rename entities and relations at random and see what that does to a model's scores.

Examples:

  anykg verify gin

  anykg verify runs/gin --dataset EN-FR

  anykg verify my_module:MyModel --trust
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify", help=EXAMPLES)(verify)


@takes_reading()
def verify(
    model: Annotated[str, typer.Argument(help="A model's name, MODULE:CLASS, or a trained model's folder.")],
    dataset: Annotated[str, typer.Option(help="The graph to rename.")] = "atlas",
    count: Annotated[int, typer.Option(help="How many triplets to compare.", min=2)] = 200,
    seed: Annotated[int, typer.Option(help="Draws the renaming and the triplets.")] = 0,
    data_dir: DataDir = None,
    trust: Trust = False,
    *,
    reading: Reading,
) -> None:
    import torch

    from anykg.evaluation.symmetry import verify as run
    from anykg.io.catalog import load_graph
    from anykg.models.registry import MODELS
    from anykg.models.store import load_model, shipped
    from anykg.seeds import derive

    graph = load_graph(dataset, data_dir, **reading)
    if Path(model).is_dir() or model in shipped():
        tested = load_model(model, trust=trust)
    else:
        torch.manual_seed(derive(seed, "weights"))
        model_class = MODELS.load(model, trust=trust)
        tested = model_class.build(model_class.Config(), graph)
    verdict = run(tested, graph, count=count, seed=seed)
    unit = " standard errors" if verdict.symmetry == "in expectation" else ""
    typer.echo(
        f"{model} declares its symmetry {verdict.symmetry}. {verdict.relabelled.capitalize()} of {dataset} renamed, "
        f"{verdict.triplets} triplets scored: largest deviation {verdict.largest:.3g}{unit}, allowed "
        f"{verdict.allowed:.3g}; {verdict.separated} different scores."
    )
    typer.echo("It holds." if verdict.holds else "It does NOT hold.")
    raise typer.Exit(0 if verdict.holds else 1)
