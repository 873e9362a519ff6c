"""`anykg data pack` and `anykg data verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anykg.cli.options import DataDir
from anykg.cli.output import refuse_overwrite, say
from anykg.cli.reading import Reading, takes_reading


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("pack")(pack)
    app.command("verify")(verify)


@takes_reading()
def pack(
    graph: Annotated[str, typer.Argument(metavar="GRAPH", help="A file, folder, URL, database or dataset.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The file to write; default: the name of GRAPH with the extension .anykg."),
    ] = None,
    *,
    reading: Reading,
    data_dir: DataDir = None,
) -> None:
    """Pack a graph into one file that every command opens in milliseconds, regardless of its size.

    The file is memory-mapped: processes share it, and only the parts in use are read.

    Example: anykg data pack facts.tsv.gz -o facts.anykg

    Example: anykg predict facts.anykg --head Alice --relation knows
    """
    from anykg.errors import ConfigError
    from anykg.graph import neighbourhood
    from anykg.io.catalog import load_graph
    from anykg.io.pack import write_pack
    from anykg.models.nbf import relation_graph

    target = out or Path(Path(graph).name.split(".")[0] + ".anykg")
    if target.suffix != ".anykg":
        raise ConfigError(f"--out: expected a name that ends in .anykg, found {target}.")
    refuse_overwrite(target, graph)
    loaded = load_graph(graph, data_dir, **(reading | {"cache": False}))  # a second copy would be of no use
    size = write_pack(loaded, target, arrays=relation_graph.to_arrays(loaded) | neighbourhood.to_arrays(loaded))
    sizes = f"{len(loaded):,} facts, {loaded.num_entities:,} entities, {loaded.num_relations:,} relations"
    say(f"Packed {sizes} into {target} ({size / 1e6:,.1f} MB).")


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A packed graph.")],
) -> None:
    """Check every byte of a packed graph; opening a packed graph only checks its header and size.

    Example: anykg data verify facts.anykg
    """
    from anykg.io.pack import verify_pack

    header = verify_pack(file)
    say(f"{file}: {header['triplets']:,} facts, all {len(header['sections'])} sections are intact.")
