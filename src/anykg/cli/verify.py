"""The command `anykg verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anykg.cli.options import DataDir, Trust
from anykg.cli.reading import Reading, takes_reading

EXAMPLES = """
Test whether a model's scores are unchanged if entities and relations are renamed at random, or find a renaming that
turns one graph into another.

Examples:

  anykg verify gin

  anykg verify runs/gin --dataset EN-FR

  anykg verify my_module:MyModel --trust

  anykg verify --isomorphic one.tsv other.tsv
"""
SHOWN = 10
"""Renamed entities that are printed."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify", help=EXAMPLES)(verify)


@takes_reading()
def verify(
    model: Annotated[
        str | None, typer.Argument(help="A model's name, MODULE:CLASS, or a trained model's folder.")
    ] = None,
    dataset: Annotated[str, typer.Option(help="The graph to rename.")] = "atlas",
    count: Annotated[int, typer.Option(help="Number of facts to compare.", min=2)] = 200,
    seed: Annotated[int, typer.Option(help="Seed for drawing the renaming and the facts.")] = 0,
    isomorphic: Annotated[
        tuple[str, str] | None, typer.Option(metavar="A B", help="Compare two graphs instead of testing a model.")
    ] = None,
    data_dir: DataDir = None,
    trust: Trust = False,
    *,
    reading: Reading,
) -> None:
    if (model is None) == (isomorphic is None):
        raise typer.BadParameter("expected either MODEL or --isomorphic A B.")
    if isomorphic is not None:
        _compare(*isomorphic, data_dir, reading)
    else:
        assert model is not None
        _verify_model(model, dataset, count, seed, data_dir, trust, reading)


def _compare(one: str, other: str, data_dir: Path | None, reading: Reading) -> None:
    """Say whether two graphs are isomorphic, and how to rename one into the other."""
    from anykg.graph.isomorphism import find_isomorphism
    from anykg.io.catalog import load_graph

    first, second = (load_graph(name, data_dir, **reading) for name in (one, other))
    isomorphism = find_isomorphism(first, second)
    if isomorphism is None:
        typer.echo(
            f"{one} and {other} are NOT isomorphic: no renaming of entities and relations turns one into the other."
        )
        raise typer.Exit(1)
    typer.echo(f"{one} and {other} are isomorphic. A renaming that turns {one} into {other}:")
    for kind, moved in (("relations", isomorphism.relations), ("entities", isomorphism.entities)):
        names, renamed = (getattr(graph, kind) for graph in (first, second))
        for old, new in enumerate(moved[:SHOWN]):
            typer.echo(f"  {names.label(old)} -> {renamed.label(int(new))}")
        if len(moved) > SHOWN:
            typer.echo(f"  .. and {len(moved) - SHOWN:,} more {kind}")


def _verify_model(
    model: str, dataset: str, count: int, seed: int, data_dir: Path | None, trust: bool, reading: Reading
) -> None:
    import torch

    from anykg.evaluation.symmetry import verify as run
    from anykg.io.catalog import load_graph
    from anykg.models.folders import WITH_RULES, shipped
    from anykg.models.registry import MODELS
    from anykg.models.store import load_model
    from anykg.seeds import derive

    graph = load_graph(dataset, data_dir, **reading)
    if Path(model).is_dir() or model.removesuffix(WITH_RULES) in shipped():
        tested = load_model(model, trust=trust)
    else:
        torch.manual_seed(derive(seed, "weights"))
        model_class = MODELS.load(model, trust=trust)
        tested = model_class.build(model_class.Config(), graph)
    verdict = run(tested, graph, count=count, seed=seed)
    unit = " standard errors" if verdict.symmetry == "in expectation" else ""
    typer.echo(
        f"{model} declares its symmetry {verdict.symmetry}. {verdict.relabelled.capitalize()} of {dataset} renamed, "
        f"{verdict.triplets} facts scored: largest deviation {verdict.largest:.3g}{unit}, tolerance "
        f"{verdict.allowed:.3g}; {verdict.separated} different scores."
    )
    typer.echo("The symmetry holds." if verdict.holds else "The symmetry does NOT hold.")
    raise typer.Exit(0 if verdict.holds else 1)
