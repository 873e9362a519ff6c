"""The command `anykg schema`."""

from __future__ import annotations

from typing import Annotated

import typer

from anykg.cli.options import DataDir, GraphName, JsonOut, Text, listed
from anykg.cli.output import TextFormat
from anykg.cli.reading import Reading, takes_reading

EXAMPLES = """
Describe the relations of a graph: whether they are functional, symmetric, one-way, duplicates or inverses, and the
kinds of entities at either end, each with its support.

Examples:

  anykg schema facts.tsv

  anykg schema atlas --top 5

  anykg schema FB15k-237 --format json --out schema.json
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("schema", help=EXAMPLES)(schema)


@takes_reading()
def schema(
    graph: GraphName,
    k: Annotated[int, listed("Number of relations to print, those with the most facts first.")] = 50,
    output: Text = TextFormat.TABLE,
    out: JsonOut = None,
    *,
    reading: Reading,
    data_dir: DataDir = None,
) -> None:
    from dataclasses import replace

    from anykg.answers.schema import schema as run
    from anykg.atomic import write_text
    from anykg.cli.loading import graph_named
    from anykg.cli.output import refuse_overwrite, write_result

    refuse_overwrite(out, graph)
    result = replace(run(graph_named(graph, data_dir, reading)), shown=k)
    if out:
        write_text(out, result.to_json() + "\n")
    write_result(result, "json" if output is TextFormat.JSON else None)
