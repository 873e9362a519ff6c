"""Grid search: select hyperparameters by validation, one run per combination, and keep the best weights.

Runs are folders below `out/grid`, so an interrupted search resumes. `out/grid.json` has the result of each run.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from anykg.atomic import atomic_path, write_json
from anykg.errors import ConfigError
from anykg.models.folders import MODEL_FILE, WEIGHTS_FILE
from anykg.models.store import load_tensors

Run = Callable[[Mapping[str, str], Path], str]
"""Trains with some settings into a folder; returns the validation metric of `Recipe.select`."""


def search(grid: Mapping[str, Sequence[str]], out: Path, run: Run) -> dict[str, str]:
    """Train every combination of the grid's values, keep the best in `out` and return its settings."""
    tried: list[dict[str, Any]] = []
    for values in product(*grid.values()):
        settings = dict(zip(grid, values, strict=True))
        folder = out / "grid" / ",".join(f"{name}={value}" for name, value in settings.items())
        select = run(settings, folder)
        sign = -1.0 if "/-" in select else 1.0
        note = load_tensors(folder / WEIGHTS_FILE)[1]
        if select.replace("/-", "/") not in note:
            raise ConfigError(
                "There are no validation facts to choose settings by; leave out `grid` and give the settings."
            )
        reached = note[select.replace("/-", "/")]
        tried.append({"settings": settings, "select": select, "reached": reached, "value": sign * reached})
        write_json(out / "grid.json", {"tried": tried})
    best = max(tried, key=lambda row: row["value"])
    folder = out / "grid" / ",".join(f"{name}={value}" for name, value in best["settings"].items())
    for name in (WEIGHTS_FILE, MODEL_FILE):
        with atomic_path(out / name) as temporary:
            shutil.copyfile(folder / name, temporary)
    chosen: dict[str, str] = best["settings"]
    return chosen
