"""The command `anykg import-weights`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = """
Convert a published checkpoint of Ultra, TRIX, ISDEA+ or InGram to a model folder.

Examples:

  anykg import-weights ultra_3g.pth --out models/ultra_3g

  anykg evaluate models/ultra_3g EN-FR

  anykg import-weights trix_entity.pth trix_relation.pth --out models/trix
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("import-weights", help=EXAMPLES)(import_weights)


def import_weights(
    files: Annotated[list[Path], typer.Argument(help="A .pth or .safetensors file, or the two files of TRIX.")],
    out: Annotated[Path, typer.Option(help="The folder to write to.")],
) -> None:
    from anykg.errors import ConfigError
    from anykg.models.folders import MODEL_FILE
    from anykg.models.published import import_weights as read
    from anykg.models.store import save_description, save_weights
    from anykg.provenance import provenance

    if (out / MODEL_FILE).exists():
        raise ConfigError(f"{out}: already contains a model; choose another --out.")
    name, model = read(*files)
    save_description(
        out, name, model, {"imported_from": ", ".join(file.name for file in files), "made_with": provenance()}
    )
    save_weights(out, model, {})
    count = sum(parameter.numel() for parameter in model.parameters())
    typer.echo(f"Saved {name} with {count:,} parameters to {out}.")
