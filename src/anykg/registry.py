"""Names of things that are imported only when asked for.

A row is a name, the place of the object (`module:attribute`) and one sentence. A later model is one file and one row.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from anykg.errors import ConfigError, UnknownName, nearest


class Row(NamedTuple):
    """One registered thing."""

    place: str
    """`module:attribute`."""
    summary: str


class Registry:
    """Rows by name; anything else of the form `module:attribute` is imported as it is."""

    def __init__(self, kind: str, rows: dict[str, Row]) -> None:
        self.kind, self.rows = kind, rows

    def __iter__(self) -> Any:
        return iter(self.rows)

    def load(self, name: str) -> Any:
        """The object called `name`, or at the import path `name`."""
        if name in self.rows:
            return import_object(self.rows[name].place)
        if ":" in name:
            return import_object(name)
        raise UnknownName(self.kind, name, nearest(name, self.rows))


def import_object(place: str) -> Any:
    """The object at `module:attribute`; the current folder is looked in as well, as `python -m` does."""
    module_name, _, attribute = place.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ConfigError(f"Cannot import {place!r} ({error}); expected MODULE:NAME, importable from here.") from error
