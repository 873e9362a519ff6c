"""The command `anykg models`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anykg.cli.options import Trust

EXAMPLES = """
List all models or the settings of one model, or average the weights of several runs.

Installed packages can add models (entry point `anykg.models`).

Examples:

  anykg models

  anykg models gin

  anykg models average runs/one runs/two --out runs/mean
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("models", help=EXAMPLES)(models)


def models(
    names: Annotated[
        list[str] | None, typer.Argument(help="A model's name or MODULE:CLASS; or `average` and several models.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="For `average`: the folder to write to.")] = None,
    trust: Trust = False,
) -> None:
    from dataclasses import fields

    from rich.console import Console
    from rich.table import Table

    from anykg.errors import ConfigError
    from anykg.models.folders import WITH_RULES, folder_of, read_description, shipped
    from anykg.models.recipe import Recipe
    from anykg.models.registry import MODELS
    from anykg.settings import describe

    console = Console()
    if names and names[0] == "average":
        _average(names[1:], out, trust)
        return
    if names and len(names) > 1:
        raise ConfigError(f"Expected one model, found {', '.join(names)}.")
    name = names[0] if names else None
    if name is None:
        table = Table("model", "description", box=None)
        for key, summary in MODELS.summaries().items():
            table.add_row(key, summary)
        console.print(table)
        trained = Table("trained models, ready to use", box=None)
        for folder in shipped():
            trained.add_row(folder)
            if "rule_weights" in read_description(folder_of(folder)):
                trained.add_row(f"{folder}{WITH_RULES}")
        console.print(trained)
        return
    if name.removesuffix(WITH_RULES) in shipped():
        console.print_json(data=read_description(folder_of(name)))
        return
    model = MODELS.load(name, trust=trust)
    table = Table("setting", "default", "values", "description", title=f"{name}: settings of the model", box=None)
    for setting in describe(model.Config):
        table.add_row(_flag(setting.name), str(setting.default), setting.kind, setting.help)
    console.print(table)
    table = Table("setting", "default", "values", "description", title=f"{name}: settings of its training", box=None)
    helps = {setting.name: setting for setting in describe(Recipe)}
    for field in fields(Recipe):
        setting = helps[field.name]
        table.add_row(_flag(field.name), str(getattr(model.recipe, field.name)), setting.kind, setting.help)
    console.print(table)


def _average(names: list[str], out: Path | None, trust: bool) -> None:
    from anykg.errors import ConfigError
    from anykg.models.average import average_weights

    if out is None:
        raise ConfigError("anykg models average needs --out, the folder to write to.")
    average_weights(names, out, trust=trust)
    typer.echo(f"Saved the mean of {len(names)} models to {out}.")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
