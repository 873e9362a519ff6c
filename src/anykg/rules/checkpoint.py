"""A checkpoint of mining: counts in a file, from which an interrupted run resumes.

The work consists of named parts, each a sum of counts [shapes, 3] over heads in a fixed order; the file holds the
number of heads done and the sum for each. It belongs to one graph, seed and sample of heads; a file of another run is
ignored.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anykg.atomic import write_json
from anykg.errors import InputError
from anykg.progress import Progress

logger = logging.getLogger("anykg")
FORMAT = 1
SECONDS = 5.0
"""Seconds between two writes."""


class Checkpoint:
    """The state of each part; reports progress in heads over all parts."""

    def __init__(self, path: Path | None, owner: Sequence[Any], progress: Progress | None, total: int) -> None:
        """Read the file, if it was written for the same `owner`; None keeps nothing."""
        self.path, self.owner, self.progress, self.total = path, [FORMAT, *owner], progress, total
        self.parts: dict[str, tuple[int, np.ndarray]] = {}
        self.done: dict[str, int] = {}
        self.written = time.monotonic()
        if path is None or not path.is_file():
            return
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["owner"] == self.owner:
                self.parts = {
                    name: (int(part["done"]), np.array(part["counts"], np.int64).reshape(-1, 3))
                    for name, part in content["parts"].items()
                }
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            logger.info("%s cannot be used, so mining starts over (%r).", path, error)

    def part(self, name: str, shapes: int) -> tuple[int, np.ndarray]:
        """The heads done and their counts [shapes, 3]."""
        done, counts = self.parts.get(name, (0, np.zeros((shapes, 3), np.int64)))
        self._tell(name, done)
        return done, counts

    def keep(self, name: str, done: int, counts: np.ndarray) -> None:
        """Record the state of a part; the file is written periodically."""
        self.parts[name] = done, counts
        self._tell(name, done)
        if time.monotonic() - self.written > SECONDS:
            self.write()

    def write(self) -> None:
        """Write the file atomically; mining continues if it cannot be written."""
        self.written = time.monotonic()
        if self.path is None:
            return
        parts = {name: {"done": done, "counts": counts.ravel().tolist()} for name, (done, counts) in self.parts.items()}
        try:
            write_json(self.path, {"owner": self.owner, "parts": parts})
        except InputError as error:
            logger.warning("Mining cannot be resumed if it is interrupted: %s", error)
            self.path = None

    def remove(self) -> None:
        """Remove the file when mining is complete."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _tell(self, name: str, done: int) -> None:
        self.done[name] = done
        if self.progress and done:
            self.progress(min(sum(self.done.values()), self.total), self.total)
