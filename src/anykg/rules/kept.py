"""Mined rules in the user's cache, so that a graph is mined once.

They are found by the digest of the graph, the settings of the mining, its seed and version, and count towards the limit
of the cache (`io.cache`). Only the most recently used are kept, because checks and explanations also mine the graph
without some facts.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import asdict, fields
from hashlib import blake2b
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from anykg.atomic import atomic_path
from anykg.errors import InputError
from anykg.graph.graph import KnowledgeGraph
from anykg.io import cache
from anykg.rules.named import VERSION, Mining, NamedRules, mine_named

logger = logging.getLogger("anykg")
ANNOUNCED = 30_000
"""Mining is announced above this many facts."""
FACTS_PER_SECOND = 20_000
"""Rough mining speed."""
LEAST_SECONDS = 0.1
"""Rules that took less time are not kept; loading the kernels that mine takes longer than this."""
MOST_FILES = 16


def kept_rules(graph: KnowledgeGraph, settings: Mining, seed: int = 0) -> NamedRules:
    """The rules of a graph as returned by `mine_named`, from the cache if possible."""
    path = _path(graph, settings, seed)
    found = None if path is None else _load(path)
    if found is not None:
        return found
    if len(graph) > ANNOUNCED:
        once = "" if path is None else ", once"
        logger.info("Mining the rules of this graph%s, about %d s.", once, max(1, len(graph) // FACTS_PER_SECOND))
    started = time.perf_counter()
    rules = mine_named(graph, settings, seed=seed)
    if path is not None and time.perf_counter() - started > LEAST_SECONDS:
        _save(rules, graph, path)
    return rules


def _path(graph: KnowledgeGraph, settings: Mining, seed: int) -> Path | None:
    """The file of the rules; None without a cache."""
    if not cache.limit():
        return None
    mining = {field.name: getattr(settings, field.name) for field in fields(Mining)}
    key = repr((VERSION, graph.digest, mining, seed))
    return cache.folder() / f"{blake2b(key.encode(), digest_size=16).hexdigest()}{cache.RULES}"


def _load(path: Path) -> NamedRules | None:
    """The rules in a file; None if it is missing or unreadable."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            rules = NamedRules(**{field.name: arrays[field.name] for field in fields(NamedRules)})
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile):
        return None
    with suppress(OSError):
        path.touch()  # used just now
    return rules


def _save(rules: NamedRules, graph: KnowledgeGraph, path: Path) -> None:
    """Keep rules; a cache that cannot be written is ignored."""
    with suppress(InputError, OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **asdict(rules), graph=np.array(graph.name), facts=np.array(len(graph)))
        others = sorted(path.parent.glob(f"*{cache.RULES}"), key=lambda file: -file.stat().st_mtime)
        for old in others[MOST_FILES:]:
            old.unlink(missing_ok=True)
        cache.evict(keep=path)
