"""Orders of jobs, and their state."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from anykg.web.schemas.base import Given, Shape, Strict


class CheckOrder(Strict):
    """Settings of a check."""

    task: Literal["node", "relation"] = "node"
    facts: int | None = Field(default=None, ge=1, le=100_000)
    fit: float | None = Field(default=None, gt=0, le=600)
    """Also fit a model to the other facts for this many minutes, and evaluate it on the hidden ones."""
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


class CompleteOrder(Strict):
    """Settings of a search for missing facts."""

    count: int = Field(default=200, ge=1, le=100_000)
    relations: Annotated[list[Given], Field(min_length=1, max_length=1000)] | None = None
    heads: Annotated[list[Given], Field(min_length=1, max_length=10_000)] | None = None
    min_probability: float | None = Field(default=None, ge=0, le=1)
    per_relation: int | None = Field(default=None, ge=1)
    per_entity: int | None = Field(default=None, ge=1)


class AuditOrder(Strict):
    """Settings of a search for doubtful facts."""

    count: int = Field(default=200, ge=1, le=100_000)
    max_plausibility: float = Field(default=0.5, gt=0, le=1)
    """Only list facts with a lower plausibility."""
    minutes: float | None = Field(default=None, gt=0, le=600)
    """By default 1, plus 1 for every 15,000 facts, up to 20."""


class FitOrder(Strict):
    """Settings of a fit."""

    minutes: float = Field(default=2.0, gt=0, le=600)


class Job(Shape):
    """A long-running task."""

    id: str
    kind: Literal["check", "complete", "audit", "fit"]
    graph: str
    model: str
    settings: dict[str, Any]
    state: Literal["waiting", "running", "done", "failed", "stopped"]
    done: int
    total: int
    note: str
    error: str
    created: float
    started: float | None
    ended: float | None


class JobList(Shape):
    """All jobs, newest first."""

    jobs: list[Job]
