"""Options that several commands share, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anykg.cli.output import RowFormat, TextFormat


def listed(help: str) -> Any:
    """The option for the number of answers, facts, rules or relations that are listed."""
    return typer.Option("--top", "-k", help=help, min=1)


GraphName = Annotated[str, typer.Argument(help="A file of triples, or the name of a dataset.")]
TrainedModel = Annotated[str, typer.Option(help="A shipped model, the folder of a trained model, or a hub id.")]
ModelName = Annotated[
    str,
    typer.Option(
        help="A shipped model, the folder of a trained model, or a hub id; NAME+rules adds rules mined on the graph."
    ),
]
Device = Annotated[str, typer.Option(help="Device to compute on: cpu, cuda, cuda:1, mps.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder of datasets, searched before $ANYKG_DATA and the cache.")]
Trust = Annotated[
    bool, typer.Option("--trust", help="Allow importing a model's own code, including from the working directory.")
]
Budget = Annotated[
    int | None,
    typer.Option(
        help="Number of facts read near the entities of a question, 0 for all; default: all, or 200,000 if there are "
        "more than 2,000,000.",
        min=0,
    ),
]
Rows = Annotated[
    RowFormat | None, typer.Option("--format", help="Output format; default: a table, or the format of --out.")
]
Text = Annotated[TextFormat, typer.Option("--format", help="Output format.")]
RowsOut = Annotated[Path | None, typer.Option(help="Write to a .tsv, .csv, .json, .jsonl, .parquet or .nt file.")]
JsonOut = Annotated[Path | None, typer.Option(help="Also write the result to this JSON file.")]
ClusterAddress = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="Run on the Ray cluster at this address: auto, HOST:PORT, or local for all cores of this machine.",
        metavar="ADDRESS",
    ),
]
