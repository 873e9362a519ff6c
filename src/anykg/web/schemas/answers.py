"""Questions, answers and explanations."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from anykg.web.schemas.base import THREE, Fact, Given, Named, Result, Shape, Strict


class Ask(Strict):
    """A question: two of head, relation and tail; with all three, the plausibility of the fact."""

    head: Given | None = None
    relation: Given | None = None
    tail: Given | None = None
    k: int = Field(default=10, ge=1, le=1000)
    known: bool = True
    """Include facts of the graph among the answers, marked as known."""


class Trust(Shape):
    """The result of the check for one relation."""

    facts: int
    first: float
    """Share of hidden facts whose right answer came first."""
    sentence: str


class Labels(Shape):
    """Labels by name, if they differ from the names."""

    entities: dict[str, str]
    relations: dict[str, str]


class AnswersPage(Shape):
    """Additional data that the page shows with the rows."""

    asked: Literal["head", "relation", "tail"] | None
    calibrated: bool
    """The answers have probabilities; otherwise scores."""
    labels: Labels
    decisions: list[Literal["accept", "reject", "skip"] | None]
    """The decision about each row."""
    rejected: int
    """Answers that were rejected earlier and are left out."""
    trust: Trust | None


class Answers(Result):
    """Ranked answers, best first; `summary` may have `none_of_these` and, without known facts, `known_left_out`."""

    page: AnswersPage


class Facts(Strict):
    """Facts to score."""

    facts: Annotated[list[Annotated[list[Given], THREE]], Field(min_length=1, max_length=200)]


class Ask3(Strict):
    """A fact to explain."""

    head: Given
    relation: Given
    tail: Given


class Reason(Fact):
    """A single fact, tested by removing it."""

    effect: float
    """How much smaller the lead over the runner-up is without it."""
    lead: float
    """The lead without it."""


class PathReason(Shape):
    """Facts that lead from the head to the tail."""

    facts: list[Fact]
    nodes: list[Named]
    effect: float
    shape: str


class RuleReason(Shape):
    """A rule that implies the fact."""

    text: str
    facts: list[Fact]
    support: int | None
    body: int | None


class KnownAnswer(Named):
    """An answer that the graph has."""

    score: float


class Contrast(Named):
    """The best other answer that is not known, compared with this one."""

    score: float
    probability: float | None
    lead: float
    """The lead of this answer in score; negative if the model prefers the other one."""
    tested: int
    """Facts that were removed, one at a time."""
    nearby: int
    """Facts that touch the head or one of the two answers."""
    better: list[KnownAnswer]
    """Known answers that score higher, best first."""


class Without(Shape):
    """The score and rank of the answer without the facts given as reasons."""

    count: int
    score: float
    rank: float
    random_score: float | None
    random_rank: float | None


class Reasons(Fact):
    """Why a fact is predicted, with labels and in words."""

    known: bool
    score: float
    probability: float | None
    rank: float
    candidates: int
    sentences: list[str]
    facts: list[Reason]
    """Single facts that support the lead over the runner-up, largest effect first."""
    paths: list[PathReason]
    rules: list[RuleReason]
    contrast: Contrast | None
    without: Without | None
    reliable: bool


class Explained(Result):
    """Why a fact is predicted; `summary` is the whole explanation, `rows` are the facts given as reasons."""

    page: Reasons
