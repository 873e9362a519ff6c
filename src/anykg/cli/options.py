"""Options that several commands share, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

GraphName = Annotated[str, typer.Argument(help="A file of triples, or a dataset's name.")]
ModelName = Annotated[str, typer.Option(help="A shipped model's name, a trained model's folder, or a hub id.")]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1, mps.")]
DataDir = Annotated[Path | None, typer.Option(help="Where datasets are, before $ANYKG_DATA and the user's cache.")]
Trust = Annotated[
    bool, typer.Option("--trust", help="Import model code named by a checkpoint, also from the working directory.")
]
