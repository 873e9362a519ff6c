"""Base classes of the requests and responses."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

Text = Annotated[str, StringConstraints(max_length=4000)]
Given = Annotated[str, StringConstraints(min_length=1, max_length=4000)]


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


class Named(Shape):
    """A name and its label."""

    name: str
    label: str


class Fact(Shape):
    """A fact by name."""

    head: Named
    relation: Named
    tail: Named
