"""`anykg schema`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anykg.cli.evaluate import FormatName
from anykg.cli.options import DataDir, GraphName
from anykg.cli.reading import Reading, takes_reading

if TYPE_CHECKING:
    from rich.table import Table

    from anykg.graph.schema import KindShare, RelationSchema, Schema

EXAMPLES = """
Say what a graph tells about its relations: functional, symmetric, one-way, duplicates and inverses, and which kinds of
entities stand at either end, each with its support.

Examples:

  anykg schema facts.tsv

  anykg schema atlas -k 5

  anykg schema FB15k-237 --format json --out schema.json
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("schema", help=EXAMPLES)(schema)


@takes_reading()
def schema(
    graph: GraphName,
    k: Annotated[int, typer.Option("-k", help="Relations to print, those with most facts first.", min=1)] = 50,
    output: Annotated[FormatName, typer.Option("--format", help="How to print.")] = FormatName.TABLE,
    out: Annotated[Path | None, typer.Option(help="Write everything here as JSON.")] = None,
    *,
    reading: Reading,
    data_dir: DataDir = None,
) -> None:
    from anykg.atomic import write_json
    from anykg.graph.schema import schema as run
    from anykg.io.catalog import load_graph

    found = run(load_graph(graph, data_dir, **reading))
    if out:
        write_json(out, found.to_dict())
    if output is FormatName.JSON:
        typer.echo(json.dumps(found.to_dict(), indent=1, ensure_ascii=False))
        return
    _print(found, k)
    if out:
        typer.echo(f"Wrote {len(found.relations):,} relations to {out}.")


def _print(found: Schema, k: int) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.print(_table(found.relations[:k]))
    if len(found.relations) > k:
        console.print(f"... and {len(found.relations) - k:,} more relations; -k shows more.")
    kinds = ", ".join(f"{kind.kind} ({kind.entities:,})" for kind in found.kinds[:10])
    more = f" and {len(found.kinds) - 10:,} more" if len(found.kinds) > 10 else ""
    console.print(f"\n{len(found.kinds):,} kinds of entities: {kinds}{more}.")


def _table(rows: tuple[RelationSchema, ...]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in ("relation", "facts", "holds", "heads are", "tails are"):
        table.add_column(name, justify="right" if name == "facts" else "left", overflow="fold")
    for row in rows:
        holds = [f"{s.holds}{' ' + s.other if s.other else ''} ({s.support:,} of {s.cases:,})" for s in row.statements]
        cells = (row.relation, f"{row.facts:,}", "\n".join(holds), _told(row.head_kinds), _told(row.tail_kinds))
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _told(kinds: tuple[KindShare, ...]) -> str:
    return "\n".join(f"{kind.kind} {kind.share:.0%}" for kind in kinds)
