"""`anykg demo`: the main job, on a graph that everyone can judge."""

from __future__ import annotations

import typer

QUESTIONS = (
    {"head": "Switzerland", "relation": "official language"},
    {"relation": "has capital", "tail": "Nairobi"},
    {"head": "Portugal", "tail": "Spain"},
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", help="Predict facts about countries with a model that never saw one. Takes a few seconds.")(
        demo
    )


def demo() -> None:
    typer.echo("demo")
