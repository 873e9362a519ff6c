"""Candidates, and decisions about them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from anykg.web.schemas.base import Fact, Given, Named, Shape, Strict, Text


class NewDecision(Strict):
    """A decision about a fact."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    """Chosen by the client; a decision sent twice with the same id is stored once."""
    head: Given
    relation: Given
    tail: Given
    verdict: Literal["accept", "reject", "skip", "undo"]
    source: Literal["complete", "audit", "predict"] = "predict"
    probability: float | None = Field(default=None, ge=0, le=1)
    reviewer: Annotated[str, StringConstraints(max_length=200)] = ""
    note: Text = ""
    replaces: str | None = "any"
    """Id of the current decision as seen by the client, null for none. If omitted, any decision is replaced."""


class Decision(Shape):
    """A stored decision."""

    id: str
    head: str
    relation: str
    tail: str
    verdict: Literal["accept", "reject", "skip", "undo"]
    source: str
    probability: float | None
    model: str
    graph: str
    reviewer: str
    note: str
    time: str


class Progress(Shape):
    """The progress of a review."""

    total: int
    decided: int
    accepted: int
    rejected: int
    skipped: int


class Decided(Shape):
    """The stored decision, and the current one."""

    decision: Decision
    current: Decision | None
    progress: dict[str, Progress]
    exportable: dict[str, int]
    """Number of facts in an export, by kind of candidates."""


class DecisionList(Shape):
    """Decisions, newest first."""

    file: str
    total: int
    damaged: int
    """Lines of the file that could not be read."""
    decisions: list[Decision]


class Candidate(Fact):
    """A proposed or doubtful fact."""

    score: float | None
    probability: float | None
    rank: int | None
    reason: str | None
    decision: Decision | None


class RelationShare(Named):
    """A relation and its number of candidates."""

    count: int


class Candidates(Shape):
    """One page of candidates."""

    job: str
    calibrated: bool
    total: int
    """Number of candidates that match the filters."""
    rows: list[Candidate]
    relations: list[RelationShare]
    progress: Progress
    exportable: int
    """Number of facts in an export, including those of earlier jobs."""
