"""Read the reasons why figures differ from the paper's, from `reasons.toml` next to an experiment's figures.

    [[reason]]
    models = ["gin"]              # rows of the table
    kinds = ["node"]              # optional, as all below: node, relation
    metrics = ["hits@1"]
    datasets = ["EN-DE"]          # what was trained on
    columns = ["zero-shot"]       # what was tested
    tested = true                 # false: not explained, `text` says what was tried
    text = "..."

The first reason that matches a figure applies.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anykg.benchmarks.report import Figure
from anykg.errors import ConfigError

FILE = "reasons.toml"


@dataclass(frozen=True, kw_only=True)
class Reason:
    """A reason, and the figures it applies to."""

    text: str
    models: Sequence[str]
    tested: bool
    """False if the attempts to explain it failed."""
    kinds: Sequence[str] = ()
    metrics: Sequence[str] = ()
    datasets: Sequence[str] = ()
    columns: Sequence[str] = ()

    def fits(self, figure: Figure) -> bool:
        """Whether the reason applies to the figure."""
        wanted = (
            (self.models, figure.model),
            (self.kinds, figure.task),
            (self.metrics, figure.metric),
            (self.datasets, figure.dataset),
            (self.columns, figure.column),
        )
        return all(not allowed or value in allowed for allowed, value in wanted)


def read_reasons(folder: Path) -> list[Reason]:
    """The reasons in a folder of results, in order; none if there is no file."""
    path = folder / FILE
    if not path.exists():
        return []
    try:
        entries: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["reason"]
        return [Reason(**entry) for entry in entries]
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: expected [[reason]] entries with models, tested and text ({error}).") from error
