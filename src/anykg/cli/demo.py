"""`anykg demo`."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", help="Predict held-out facts of the embedded graph of countries. Takes a few seconds.")(demo)


def demo() -> None:
    typer.echo("demo")
