"""The provenance of a result: package versions, commit and source files."""

from __future__ import annotations

import platform
import subprocess
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("anykg", "torch", "numpy", "numba", "torch-geometric")


def provenance() -> dict[str, str]:
    """Versions of the numerical libraries, and the commit of the source tree (`-dirty` if it was changed since)."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:  # an optional extra
            continue
    return versions | {"commit": commit()}


def commit() -> str:
    """The commit of the source tree that this package runs from, or "unknown" for an installed package."""
    here = Path(__file__)
    git = ["git", "-C", str(here.parent)]
    describe = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        # A package installed inside an unrelated repository is not part of it.
        subprocess.run([*git, "ls-files", "--error-unmatch", here.name], capture_output=True, check=True, timeout=10)
        return subprocess.run([*git, *describe], capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def source_digest() -> str:
    """A hash of the source files of this package, by name, size and time: other code may give other results."""
    root = Path(__file__).parent
    files = sorted((str(file.relative_to(root)), file.stat()) for file in root.rglob("*.py"))
    stated = [(name, status.st_size, status.st_mtime_ns) for name, status in files]
    return blake2b(repr(stated).encode(), digest_size=12).hexdigest()
