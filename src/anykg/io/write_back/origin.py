"""Where predictions come from, and what was written of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

PREFIX = "PREDICTED_"


@dataclass(frozen=True)
class Origin:
    """Where predictions come from."""

    model: str = "anykg"
    date: str = ""
    """ISO 8601; empty for now."""
    accepted: bool = False
    """Are these decisions that people accepted, so that they are facts?"""
    prefix: str = PREFIX
    """What the types of predicted relationships start with in a property graph."""
    graph: str = "urn:anykg:predictions"
    """The named graph that RDF goes to."""

    @property
    def day(self) -> str:
        """The date, as YYYY-MM-DD."""
        return self.moment[:10]

    @property
    def moment(self) -> str:
        """The date and time."""
        return self.date or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Written:
    """What was written, or with a dry run would be."""

    target: str
    format: str
    rows: int
    """Predictions written."""
    skipped: dict[str, int]
    """How many of what were not written."""
    preview: tuple[str, ...]
    """The first lines or statements."""
    dry_run: bool

    def to_dict(self) -> dict[str, Any]:
        """All of it as one JSON object."""
        return vars(self) | {"preview": list(self.preview)}
