"""The provenance of predictions, and the report of writing them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

PREFIX = "PREDICTED_"


@dataclass(frozen=True)
class Origin:
    """The provenance of predictions."""

    model: str = "anykg"
    date: str = ""
    """ISO 8601; empty for the current time."""
    accepted: bool = False
    """Whether these are accepted decisions, which are written as facts."""
    prefix: str = PREFIX
    """Prefix of the types of predicted relationships in a property graph."""
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
    """What was written, or would be without a dry run."""

    target: str
    format: str
    rows: int
    """Predictions written."""
    skipped: dict[str, int]
    """Counts of rows that were not written, by reason."""
    preview: tuple[str, ...]
    """The first lines or statements."""
    dry_run: bool

    def to_dict(self) -> dict[str, Any]:
        """All of it as one JSON object."""
        return vars(self) | {"preview": list(self.preview)}
