"""The command `anykg cache`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from anykg.cli.output import TextFormat, say

app = typer.Typer(
    invoke_without_command=True,
    help="""
List what commands keep to start faster, packed copies of large graph files and mined rules; `anykg cache clear`
removes it.

A copy is made when a file of more than 2 MB is read, and used as long as the file keeps its size and time. Rules are
kept if mining took more than half a second. All together take at most 20 GB, or what ANYKG_CACHE_LIMIT says (such as
5GB; 0 for no cache); what was not used for longest is removed first. --no-cache reads a file as if there were no copy.

Example: anykg cache
""",
)


@app.callback()
def list_cache(
    context: typer.Context,
    format: Annotated[TextFormat, typer.Option(help="A table, or JSON.")] = TextFormat.TABLE,
) -> None:
    if context.invoked_subcommand is not None:
        return
    from datetime import UTC, datetime

    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    from anykg.io.cache import entries, folder, limit
    from anykg.printable import printable

    copies = entries()
    total = sum(entry.size for entry in copies)
    used = [datetime.fromtimestamp(entry.used, UTC).isoformat(timespec="seconds") for entry in copies]
    if format is TextFormat.JSON:
        rows = [
            {
                "source": entry.source,
                "facts": entry.triplets,
                "bytes": entry.size,
                "used": when,
                "file": entry.path.name,
            }
            for entry, when in zip(copies, used, strict=True)
        ]
        typer.echo(json.dumps({"folder": str(folder()), "bytes": total, "limit": limit(), "graphs": rows}))
        return
    if copies:
        columns = [Column(name, justify="right") for name in ("facts", "MB")]
        table = Table(Column("source", overflow="fold"), *columns, Column("last used", no_wrap=True))
        for entry, when in zip(copies, used, strict=True):
            table.add_row(Text(printable(entry.source)), f"{entry.triplets:,}", f"{entry.size / 1e6:,.1f}", when)
        Console(highlight=False).print(table)
    say(f"{len(copies):,} files, {total / 1e6:,.1f} MB of at most {limit() / 1e6:,.0f} MB in {folder()}")


@app.command()
def clear() -> None:
    """Remove all packed copies and mined rules.

    Example: anykg cache clear
    """
    from anykg.io.cache import clear as remove

    count, size = remove()
    say(f"Removed {count:,} files, {size / 1e6:,.1f} MB.")
