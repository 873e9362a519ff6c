"""Graphs, uploads, search, and facts of an entity."""

from __future__ import annotations

from typing import Annotated, Literal

from anykg.web.schemas.base import THREE, Given, Named, Shape, Strict


class GraphSummary(Shape):
    """One of the graphs."""

    id: str
    name: str
    entities: int
    relations: int
    facts: int
    model: str


class Graphs(Shape):
    """All graphs."""

    version: str
    graphs: list[GraphSummary]


class RelationCount(Named):
    """A relation and its number of facts."""

    facts: int


class Example(Shape):
    """A question to start with."""

    head: Named | None
    relation: Named | None
    tail: Named | None


class ModelName(Shape):
    """A model that can answer."""

    id: str
    name: str


class GraphDetail(GraphSummary):
    """A graph with the content of its page."""

    digest: str
    source: str
    relation_list: list[RelationCount]
    examples: list[Example]
    first_entity: str | None
    decisions_file: str
    models: list[ModelName]
    calibrated: bool
    """Answers have probabilities."""
    check: str | None
    """The id of the newest finished check job with the current model."""


class ModelChoice(Strict):
    """The model to use."""

    model: Given


class Match(Named):
    """A matching name."""

    facts: int


class Matches(Shape):
    """One page of names."""

    matches: list[Match]
    total: int
    similar: bool
    """No name contains the text; these are spelled similarly."""


class Group(Shape):
    """The facts of an entity with one relation in one direction."""

    relation: Named
    direction: Literal["out", "in"]
    entities: list[Named]
    total: int
    more: int


class Entity(Named):
    """An entity and its facts."""

    facts: int
    groups: list[Group]


class Node(Named):
    """An entity of a neighbourhood."""

    facts: int


class Edge(Shape):
    """A fact of a neighbourhood."""

    head: str
    relation: Named
    tail: str


class More(Shape):
    """Facts that were left out."""

    relation: Named
    direction: Literal["out", "in"]
    count: int


class Neighbourhood(Shape):
    """The facts around an entity."""

    centre: str
    nodes: list[Node]
    edges: list[Edge]
    more: list[More]


class Upload(Shape):
    """A file that was read but is not yet used."""

    id: str
    name: str
    facts: int
    entities: int
    relations: int
    first: list[Annotated[list[str], THREE]]
    sentence: str
