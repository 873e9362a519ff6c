"""The command `anykg serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anykg.cli.reading import Reading, takes_reading

EXAMPLES = """
Open a web page to explore a graph, predict missing facts, see explanations, and review proposed facts; the same is
available to programs over HTTP.

By default the server listens on this computer only, and the URL that it prints contains a random token. Decisions are
appended to a file of JSON lines next to the graph.

Examples:

  anykg serve

  anykg serve facts.tsv

  anykg serve facts.tsv atlas --model runs/mine --no-browser
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve", help=EXAMPLES)(serve)


@takes_reading()
def serve(
    graphs: Annotated[list[str] | None, typer.Argument(help="Files of triples or datasets; `atlas` if none.")] = None,
    model: Annotated[str | None, typer.Option(help="A shipped model's name, a folder, or a hub id.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Default: the first free port from 8640; 0 for any free port.", min=0, max=65535)
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any other than this computer needs --token.")
    ] = "127.0.0.1",
    token: Annotated[str | None, typer.Option(help="Secret that clients must send; random by default.")] = None,
    decisions: Annotated[Path | None, typer.Option(help="File for decisions about the first graph.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder for fitted models, uploads and other decisions.")] = None,
    upload_limit: Annotated[int, typer.Option(help="Maximum size of an uploaded file, in MB.", min=1)] = 64,
    check: Annotated[bool, typer.Option(help="Check small graphs at startup.")] = True,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    *,
    reading: Reading,
) -> None:
    from anykg.web.run import serve as run

    run(
        graphs or [],
        model=model,
        host=host,
        port=port,
        token=token,
        decisions=decisions,
        data=data,
        upload_limit=upload_limit << 20,
        check=check,
        browser=browser,
        say=typer.echo,
        reading=dict(reading),
    )
