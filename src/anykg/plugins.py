"""Code from other packages: entry points, optional extras, and objects named `module:attribute`.

Entry points come from installed packages. The working directory is not searched, so that a file next to the data is
never imported by accident; `search_working_directory` (`--trust` on the command line) adds it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import EntryPoint
from importlib.metadata import entry_points as installed_entry_points
from pathlib import Path
from typing import Any

from anykg.errors import ConfigError


def entry_points(group: str) -> dict[str, EntryPoint]:
    """The entry points that installed packages declare for `group`, such as anykg.models or anykg.formats, by name."""
    return {point.name: point for point in installed_entry_points(group=group)}


def load_entry_point(point: EntryPoint) -> Any:
    """Import what an entry point names."""
    try:
        return point.load()
    except Exception as error:  # whatever a foreign module raises while it is imported
        package = point.dist.name if point.dist is not None else point.module
        raise ConfigError(
            f"Cannot import {point.value!r}, which the package {package} provides as {point.name!r} ({error}); "
            "reinstall or remove that package."
        ) from error


def search_working_directory() -> None:
    """Allow importing modules from the working directory, after all installed ones."""
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))


def import_object(path: str) -> Any:
    """Import the object at `module:attribute`."""
    module_name, _, attribute = path.partition(":")
    try:
        return getattr(import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ConfigError(
            f"Cannot import {path!r} ({error}); expected MODULE:NAME from an installed package, or of the working "
            "directory if it is trusted (trust=True)."
        ) from error


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Import a module of an optional extra; raises an error that says what needs it and how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = error.name or module
        raise ConfigError(f"{purpose} needs {package}; install it with `pip install 'anykg[{extra}]'`.") from error
