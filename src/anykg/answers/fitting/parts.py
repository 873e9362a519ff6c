"""Components of a fit that are finished, kept in a folder so that a stopped fit can be resumed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from anykg.errors import CheckpointError
from anykg.models.base import LinkPredictor
from anykg.models.complex.complex import ComplExConfig
from anykg.models.complex.restarts import Restarts
from anykg.models.complex.vectors import Vectors
from anykg.models.folders import read_description
from anykg.models.registry import MODELS
from anykg.models.store import load_model, load_tensors, save_description, save_tensors, save_weights

FOLDER = ".unfinished-fit"
"""Folder inside that of the model, with a unique name because a new fit deletes it."""
FITS_FILE = "fits.safetensors"


class Parts:
    """A folder of finished components; without a folder, nothing is kept."""

    def __init__(self, folder: Path | None, made_for: Mapping[str, Any]) -> None:
        self.folder = None if folder is None else folder / FOLDER
        self.made_for = dict(made_for)

    @property
    def there(self) -> bool:
        """Whether a stopped fit has left components."""
        return self.folder is not None and self.folder.exists()

    def load(self, name: str) -> LinkPredictor | None:
        """A finished component, if it was made for the same graph from the same seed."""
        if self.folder is None or not (self.folder / name).exists():
            return None
        try:
            described = read_description(self.folder / name)
            return load_model(self.folder / name) if described.get("trained") == self.made_for else None
        except CheckpointError:
            return None

    def save(self, name: str, model: LinkPredictor) -> None:
        """Keep a finished component."""
        if self.folder is not None:
            save_weights(self.folder / name, model, {})
            save_description(self.folder / name, registered_name(model), model, self.made_for)

    def load_fits(self) -> Restarts | None:
        """The vectors of ComplEx with the state needed to continue; call `load` first."""
        if self.folder is None or not (self.folder / FITS_FILE).exists():
            return None
        try:
            tensors, note = load_tensors(self.folder / FITS_FILE)
        except CheckpointError:
            return None
        names = Vectors.__dataclass_fields__
        vectors = tuple(Vectors(*(tensors[f"{i}.{name}"] for name in names)) for i in range(note["fits"]))
        return Restarts(ComplExConfig(**note["config"]), vectors, note["epochs"], note["pace"])

    def save_fits(self, fits: Restarts) -> None:
        """Keep the vectors of ComplEx with the state needed to continue."""
        if self.folder is not None:
            tensors = {
                f"{i}.{name}": value for i, part in enumerate(fits.vectors) for name, value in vars(part).items()
            }
            note = {"fits": len(fits.vectors), "config": asdict(fits.config)} | {
                name: getattr(fits, name) for name in ("epochs", "pace")
            }
            save_tensors(self.folder / FITS_FILE, tensors, note)

    def leave(self) -> None:
        """Record that the fit was stopped, even if no component was finished."""
        if self.folder is not None:
            self.folder.mkdir(exist_ok=True)

    def clear(self) -> None:
        """Remove all components."""
        if self.folder is not None and self.there:
            shutil.rmtree(self.folder)


def registered_name(model: LinkPredictor) -> str:
    """The name a model's class has in the registry, or its import path."""
    path = f"{type(model).__module__}:{type(model).__qualname__}"
    return next((name for name, row in MODELS.rows.items() if row.path == path), path)
