"""The command `anykg cache`."""

from __future__ import annotations

from typing import Annotated

import typer

from anykg.cli.output import TextFormat, say, write_result

app = typer.Typer(
    invoke_without_command=True,
    help="""
List the cache that makes commands start faster: packed copies of large graph files, and mined rules. `anykg cache
clear` empties it.

A copy is made when a file of more than 2 MB is read, and used as long as the file's size and modification time are
unchanged. Rules are kept if mining took more than half a second. The cache is limited to 20 GB, or to ANYKG_CACHE_LIMIT
(such as 5GB; 0 for no cache); the least recently used files are removed first. --no-cache bypasses the copies.

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
    from anykg.answers.cache import cached_files

    write_result(cached_files(), "json" if format is TextFormat.JSON else None)


@app.command()
def clear() -> None:
    """Remove all packed copies and mined rules.

    Example: anykg cache clear
    """
    from anykg.io.cache import clear as remove

    count, size = remove()
    say(f"Removed {count:,} files, {size / 1e6:,.1f} MB.")
