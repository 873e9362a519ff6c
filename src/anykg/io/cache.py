"""Packed copies of graph files in the user's cache, so that a large file is only parsed once.

Rules that were mined on a graph (`rules.kept`) are stored next to them and count towards the same limit.

A copy is identified by the path, size and modification time of the source (and of a file of labels), the reading
options and the version of anykg. Copies are written atomically, so processes may share the folder; a damaged one is
rebuilt. When the folder grows beyond its limit, the least recently used copies are removed. Small files, standard
input, addresses and databases are never copied.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from contextlib import suppress
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from anykg import __version__
from anykg.errors import ConfigError, DataError, InputError
from anykg.graph.graph import KnowledgeGraph
from anykg.io.options import ReadOptions
from anykg.io.pack import open_pack, write_pack

logger = logging.getLogger("anykg")
SMALLEST = 2 << 20
"""Sources smaller than this many bytes are always parsed, which takes less than a second."""
LIMIT = "ANYKG_CACHE_LIMIT"
"""The variable that limits the folder, such as 5GB; 0 turns the cache off."""
DEFAULT_LIMIT = "20GB"
COPY, RULES = ".anykg", ".rules"
"""Suffixes of packed copies and of mined rules."""
RECENT = 2.0
"""Files modified less than this many seconds ago are not cached, because they may change again with the same
timestamp."""
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


class Entry(NamedTuple):
    """A packed copy, or the mined rules of a graph."""

    path: Path
    source: str
    """The path of the file, or the name of the graph."""
    size: int
    used: float
    """When it was last used, in seconds since 1970."""
    triplets: int


def folder() -> Path:
    """The folder of packed copies and mined rules."""
    from platformdirs import user_cache_path

    return Path(user_cache_path("anykg")) / "graphs"


def limit() -> int:
    """Upper bound on the bytes of all files together."""
    text = os.environ.get(LIMIT, "") or DEFAULT_LIMIT
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?B?)", text.strip().upper())
    unit = "" if match is None else match.group(2)
    if match is None or unit not in _UNITS:
        raise ConfigError(f"{LIMIT}: expected a size such as 5GB or 0, found {text!r}.")
    return int(float(match.group(1)) * _UNITS[unit])


def path_of(source: Path | str, options: ReadOptions, beside: tuple[Path, ...] = ()) -> Path | None:
    """The path of a source's packed copy; None if it should not be cached."""
    path = Path(source)
    if str(source) == "-" or not options.cache or not limit() or not path.is_file():
        return None
    files = [path, *beside, *([Path(options.labels)] if options.labels is not None else [])]
    stated: list[tuple[str, int, int]] = []
    for file in files:
        try:
            status = file.stat()
        except OSError:
            return None
        if time.time() - status.st_mtime < RECENT:
            return None
        stated.append((str(file.resolve()), status.st_size, status.st_mtime_ns))
    if sum(size for _, size, _ in stated) < SMALLEST:
        return None
    key = json.dumps([__version__, stated, {k: str(v) for k, v in asdict(options).items()}])
    return folder() / f"{blake2b(key.encode(), digest_size=16).hexdigest()}{COPY}"


def load(path: Path) -> tuple[KnowledgeGraph, dict[str, Any]] | None:
    """The graph of a packed copy and how its source was read; None if there is no usable copy."""
    if not path.is_file():
        return None
    try:
        graph, header = open_pack(path)
        with suppress(OSError):  # the cache may be read-only
            os.utime(path)  # used just now
        return graph, header["read"]
    except (DataError, KeyError, ValueError) as error:
        logger.info("A damaged copy in the cache is rebuilt (%s).", error)
        with suppress(OSError):
            path.unlink()
        return None


def save(graph: KnowledgeGraph, path: Path, read: dict[str, Any]) -> None:
    """Keep a packed copy, unless the disk is full or the folder is not writable."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # the source may be readable by its owner only
        if write_pack(graph, path, read) > limit():
            path.unlink(missing_ok=True)
        evict(keep=path)
    except (InputError, OSError) as error:
        logger.info("No packed copy is kept in the cache (%s).", error)


def entries() -> list[Entry]:
    """All packed copies and mined rules, most recently used first."""
    found = []
    for path in _files():
        with suppress(OSError):
            status = path.stat()
            source, triplets = "damaged", 0
            with suppress(DataError, KeyError, TypeError, ValueError, EOFError, BadZipFile):
                source, triplets = _described(path)
            found.append(Entry(path, source, status.st_size, status.st_mtime, triplets))
    return sorted(found, key=lambda entry: -entry.used)


def _described(path: Path) -> tuple[str, int]:
    """The source of a cached file, and the number of facts of its graph."""
    if path.suffix == RULES:
        with np.load(path, allow_pickle=False) as arrays:
            return f"rules of {arrays['graph']}", int(arrays["facts"])
    _, header = open_pack(path)
    return header["read"]["path"], header["triplets"]


def _files() -> list[Path]:
    return [*folder().glob(f"*{COPY}"), *folder().glob(f"*{RULES}")]


def evict(keep: Path | None = None) -> None:
    """Remove the least recently used files until the rest is within the limit, except `keep`."""
    sizes = []
    for path in _files():
        with suppress(OSError):
            status = path.stat()
            sizes.append((status.st_mtime, status.st_size, path))
    total, most = sum(size for _, size, _ in sizes), limit()
    for _, size, path in sorted(sizes):
        if total <= most:
            break
        if path == keep:
            continue
        with suppress(OSError):  # another process was faster, or still has it open where that matters
            path.unlink()
            total -= size


def clear() -> tuple[int, int]:
    """Remove all files; returns their number and total size in bytes."""
    count = size = 0
    for path in [*_files(), *folder().glob(".*.part")]:
        with suppress(OSError):
            length = path.stat().st_size
            path.unlink()
            count, size = count + (path.suffix in (COPY, RULES)), size + length
    return count, size
