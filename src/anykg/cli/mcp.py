"""The command `anykg mcp`."""

from __future__ import annotations

from typing import Annotated

import typer

from anykg.cli.reading import Reading, takes_reading

EXAMPLES = """
Expose a graph to assistants as tools of the Model Context Protocol, over standard input and output.

The tools are read-only: describe_graph, find_entity, neighbours, predict, score, explain, check, complete. Add this
command to the client's configuration.

Examples:

  anykg mcp facts.tsv

  anykg mcp atlas --model runs/mine
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("mcp", help=EXAMPLES)(mcp)


@takes_reading()
def mcp(
    graph: Annotated[str, typer.Argument(help="A file of triples, or a dataset's name.")] = "atlas",
    model: Annotated[str | None, typer.Option(help="A shipped model's name, a folder, or a hub id.")] = None,
    check: Annotated[bool, typer.Option(help="Check the graph at startup, to calibrate probabilities.")] = True,
    *,
    reading: Reading,
) -> None:
    from anykg.web.tools import run_mcp

    run_mcp(graph, model=model, check=check, reading=dict(reading))
