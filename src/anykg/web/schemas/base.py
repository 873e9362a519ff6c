"""What all shapes of the HTTP interface share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

Text = Annotated[str, StringConstraints(max_length=4000)]
Given = Annotated[str, StringConstraints(min_length=1, max_length=4000)]


class Shape(BaseModel):
    """Base of all shapes; what is said of a field below it is its description."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Strict(Shape):
    """A request: fields it does not have are refused, so that a typing error is not ignored."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Problem(Shape):
    """Why a request failed, in one sentence."""

    error: str
    kind: str | None = None
    """For an unknown name: what it was taken for."""
    name: str | None = None
    """For an unknown name: the name."""
    suggestions: list[str] = []
    """Names that are there and look alike."""


class Named(Shape):
    """A name, and what to show for it."""

    name: str
    label: str


class Fact(Shape):
    """A fact by name."""

    head: Named
    relation: Named
    tail: Named
