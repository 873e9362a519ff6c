"""Mined rules in the user's cache, so that a graph is mined once.

They are found by the digest of the graph, the settings of the mining, its seed and the version of anykg, and count
towards the limit of the cache (`io.cache`).
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

from anykg import __version__
from anykg.atomic import atomic_path
from anykg.errors import InputError
from anykg.graph.graph import KnowledgeGraph
from anykg.io import cache
from anykg.rules.named import Mining, NamedRules, mine_named

logger = logging.getLogger("anykg")
LONG = 30_000
"""Facts from which on mining is announced."""
FACTS_PER_SECOND = 20_000
"""Roughly how many are mined."""
SHORT = 0.5
"""Seconds of mining that are repeated each time instead."""


def kept_rules(graph: KnowledgeGraph, settings: Mining, seed: int = 0) -> NamedRules:
    """The rules of a graph as `mine_named` finds them, from the cache if they are there."""
    path = _path(graph, settings, seed)
    found = None if path is None else _load(path)
    if found is not None:
        return found
    if len(graph) > LONG:
        logger.info("Mining the rules of this graph, once, about %d s.", max(1, len(graph) // FACTS_PER_SECOND))
    started = time.perf_counter()
    rules = mine_named(graph, settings, seed=seed)
    if path is not None and time.perf_counter() - started > SHORT:
        _save(rules, graph, path)
    return rules


def _path(graph: KnowledgeGraph, settings: Mining, seed: int) -> Path | None:
    """The file of the rules; None without a cache."""
    if not cache.limit():
        return None
    mining = {field.name: getattr(settings, field.name) for field in fields(Mining)}
    key = repr((__version__, graph.digest, mining, seed))
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
        cache.evict(keep=path)
