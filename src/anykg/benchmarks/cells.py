"""Results files: a JSON object with one line for each cell, and what cells share written once.

    {"experiment": ..., "model": ...,
     "shared": {"made_with": [{...}], "protocol": [{...}], "counts": [{...}]},
     "cells": [
      {"task": "DB-WD", "seed": 0, "node": {"protocol": 0, "metrics": {...}, ...}, ...},
      ...
     ]}

In a cell, the value of a shared key is its index in the list above. Numbers have six digits. Older files, which repeat
everything in every cell, are read as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from anykg.atomic import write_text
from anykg.errors import CheckpointError

SHARED = ("made_with", "protocol", "counts", "settings")
"""Keys whose values many cells share."""
DIGITS = 6

Cell = dict[str, Any]


def write_cells(path: Path, cells: Iterable[Mapping[str, Any]], **header: Any) -> None:
    """Write cells atomically, in the given order."""
    shared: dict[str, list[Any]] = {}
    lines = [_dumps(_compact(cell, shared)) for cell in cells]
    parts = [f"{_dumps(key)}: {_dumps(value)}" for key, value in header.items()]
    tables = [f"  {_dumps(key)}: {_dumps(values)}" for key, values in sorted(shared.items())]
    parts.append('"shared": {\n' + ",\n".join(tables) + "\n }")
    parts.append('"cells": [\n  ' + ",\n  ".join(lines) + "\n ]")
    write_text(path, "{" + ",\n ".join(parts) + "}\n")


def read_cells(path: Path) -> list[Cell]:
    """The cells of a results file with shared values filled in; none if there is no file."""
    if not path.exists():
        return []
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
        shared = whole.get("shared", {})
        return [_expand(cell, shared) for cell in whole["cells"]]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: cannot be read as results ({error}); remove it to start over.") from error


def _compact(value: Any, shared: dict[str, list[Any]]) -> Any:
    if isinstance(value, Mapping):
        kept = {key: part for key, part in value.items() if part is not None and part != {}}
        return {
            key: _index(part, shared.setdefault(key, [])) if key in SHARED else _compact(part, shared)
            for key, part in kept.items()
        }
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return value


def _index(value: Any, known: list[Any]) -> int:
    if value not in known:
        known.append(value)
    return known.index(value)


def _expand(value: Any, shared: Mapping[str, list[Any]]) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {
        key: shared[key][part] if key in SHARED and isinstance(part, int) else _expand(part, shared)
        for key, part in value.items()
    }


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
