"""`anykg models`."""

from __future__ import annotations

from typing import Annotated

import typer

from anykg.cli.options import Trust

EXAMPLES = """
List the models, or the settings of one. Installed packages can add models (entry point `anykg.models`).

Examples:

  anykg models

  anykg models gin
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("models", help=EXAMPLES)(models)


def models(
    name: Annotated[str | None, typer.Argument(help="A model's name or MODULE:CLASS.")] = None,
    trust: Trust = False,
) -> None:
    from dataclasses import fields

    from rich.console import Console
    from rich.table import Table

    from anykg.models.recipe import Recipe
    from anykg.models.registry import MODELS
    from anykg.models.store import folder_of, read_description, shipped
    from anykg.settings import describe

    console = Console()
    if name is None:
        table = Table("model", "what it does", box=None)
        for key, summary in MODELS.summaries().items():
            table.add_row(key, summary)
        console.print(table)
        trained = Table("trained models, ready to use", box=None)
        for folder in shipped():
            trained.add_row(folder)
        console.print(trained)
        return
    if name in shipped():
        console.print_json(data=read_description(folder_of(name)))
        return
    model = MODELS.load(name, trust=trust)
    table = Table("setting", "default", "values", "what it does", title=f"{name}: settings of the model", box=None)
    for setting in describe(model.Config):
        table.add_row(_flag(setting.name), str(setting.default), setting.kind, setting.help)
    console.print(table)
    table = Table("setting", "default", "values", "what it does", title=f"{name}: settings of its training", box=None)
    helps = {setting.name: setting for setting in describe(Recipe)}
    for field in fields(Recipe):
        setting = helps[field.name]
        table.add_row(_flag(field.name), str(getattr(model.recipe, field.name)), setting.kind, setting.help)
    console.print(table)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
