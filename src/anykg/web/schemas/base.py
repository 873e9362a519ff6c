"""Base classes of the requests and responses."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Text = Annotated[str, StringConstraints(max_length=4000)]
Given = Annotated[str, StringConstraints(min_length=1, max_length=4000)]
THREE = Field(min_length=3, max_length=3)
"""Of a list: head, relation and tail."""


class Shape(BaseModel):
    """Base of all models; the docstring below a field is its description."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Strict(Shape):
    """A request: unknown fields are refused, so that typos are not ignored."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Problem(Shape):
    """Why a request failed, in one sentence."""

    error: str
    kind: str | None = None
    """For an unknown name: its kind."""
    name: str | None = None
    """For an unknown name: the name."""
    suggestions: list[str] = []
    """Similar names that exist."""


class GraphInfo(Shape):
    """The graph of a result."""

    name: str
    entities: int
    relations: int
    facts: int


class Result(Shape):
    """The result of a function of the library, as returned by `to_dict()` and printed by `--format json`."""

    command: str
    version: str
    graph: GraphInfo | None
    model: str | None
    summary: dict[str, Any]
    """Values that apply to all rows."""
    rows: list[dict[str, Any]]
    warnings: list[str]


class Named(Shape):
    """A name and its label."""

    name: str
    label: str


class Fact(Shape):
    """A fact by name."""

    head: Named
    relation: Named
    tail: Named
