"""What the HTTP interface takes and returns; FastAPI makes the OpenAPI description of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

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


class Feature(Shape):
    """Whether this installation can do something, and if not, why."""

    available: bool
    sentence: str


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
    """A graph with what a page about it shows."""

    digest: str
    source: str
    relation_list: list[RelationCount]
    examples: list[Example]
    first_entity: str | None
    decisions_file: str
    models: list[ModelName]
    features: dict[str, Feature]
    calibrated: bool


class ModelChoice(Strict):
    """Which model is to answer."""

    model: Given


class Match(Named):
    """A name that was found."""

    facts: int


class Matches(Shape):
    """One page of names."""

    matches: list[Match]
    total: int
    similar: bool
    """Nothing contains the text; these are spelled alike."""


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


class Ask(Strict):
    """A question: two of head, relation and tail; with all three, how plausible the fact is."""

    head: Given | None = None
    relation: Given | None = None
    tail: Given | None = None
    k: int = Field(default=10, ge=1, le=1000)
    known: bool = True
    """Show facts of the graph among the answers, marked."""


class Answer(Shape):
    """A fact, and how plausible it is."""

    head: Named
    relation: Named
    tail: Named
    score: float | None
    probability: float | None
    rank: int | None
    known: bool
    tail_rank: float | None
    head_rank: float | None
    decision: Literal["accept", "reject", "skip"] | None


class Trust(Shape):
    """How the check went for one relation."""

    facts: int
    first: float
    """Share of hidden facts whose right answer came first."""
    sentence: str


class Answers(Shape):
    """Ranked answers, best first."""

    asked: Literal["head", "relation", "tail"] | None
    names: dict[str, str]
    """Labels of what was given."""
    calibrated: bool
    """The answers have probabilities; otherwise scores."""
    answers: list[Answer]
    none_of_these: float | None
    """The probability that no entity of the graph is the answer."""
    rejected: int
    """Answers that were rejected earlier and are left out."""
    trust: Trust | None
    warnings: list[str]


class Facts(Strict):
    """Facts to score."""

    facts: Annotated[list[tuple[Given, Given, Given]], Field(min_length=1, max_length=200)]


class Fact(Shape):
    """A fact by name."""

    head: Named
    relation: Named
    tail: Named


class Ask3(Strict):
    """A fact to explain."""

    head: Given
    relation: Given
    tail: Given


class Reason(Fact):
    """A single fact and what it brings."""

    effect: float


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


class RunnerUp(Named):
    """The next best answer."""

    score: float | None
    probability: float | None = None
    sentence: str = ""


class Without(Shape):
    """What is left of the answer without the facts given as reasons."""

    count: int
    score: float
    rank: float
    random_score: float | None
    random_rank: float | None


class Explanation(Fact):
    """Why a fact is believed."""

    known: bool
    score: float
    probability: float | None
    rank: float
    candidates: int
    sentences: list[str]
    facts: list[Reason]
    paths: list[PathReason]
    rules: list[RuleReason]
    runner_up: RunnerUp | None
    without: Without | None
    reliable: bool
    warnings: list[str]


class Statement(Shape):
    """A property of a relation, and in how many cases it holds."""

    property: str
    other: str | None
    support: int
    cases: int


class KindShare(Shape):
    """A kind of entities at one end of a relation."""

    kind: str
    share: float


class RelationSchema(Shape):
    """What the graph says of a relation."""

    relation: str
    facts: int
    heads: int
    tails: int
    statements: list[Statement]
    head_kinds: list[KindShare]
    tail_kinds: list[KindShare]


class GraphSchema(Shape):
    """What the graph says of its relations."""

    relations: list[RelationSchema]


class CheckOrder(Strict):
    """How to check."""

    task: Literal["node", "relation"] = "node"
    facts: int | None = Field(default=None, ge=1, le=100_000)
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


class CompleteOrder(Strict):
    """Which missing facts to look for."""

    count: int = Field(default=200, ge=1, le=100_000)
    relations: Annotated[list[Given], Field(min_length=1, max_length=1000)] | None = None
    heads: Annotated[list[Given], Field(min_length=1, max_length=10_000)] | None = None
    min_probability: float | None = Field(default=None, ge=0, le=1)
    per_relation: int | None = Field(default=None, ge=1)
    per_entity: int | None = Field(default=None, ge=1)


class AuditOrder(Strict):
    """How many doubtful facts to list."""

    count: int = Field(default=200, ge=1, le=100_000)


class FitOrder(Strict):
    """How long to fit."""

    minutes: float = Field(default=2.0, gt=0, le=600)


class Job(Shape):
    """Long work."""

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


class Found(Shape):
    """The result of a function of the library, as `to_dict()` gives it."""

    model_config = ConfigDict(extra="allow")

    command: str
    summary: dict[str, Any]
    rows: list[dict[str, Any]]
    warnings: list[str]


class NewDecision(Strict):
    """A decision about a fact."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    """Chosen by the client; sent twice, it is kept once."""
    head: Given
    relation: Given
    tail: Given
    verdict: Literal["accept", "reject", "skip", "undo"]
    source: Literal["complete", "audit", "predict"] = "predict"
    probability: float | None = Field(default=None, ge=0, le=1)
    reviewer: Annotated[str, StringConstraints(max_length=200)] = ""
    note: Text = ""
    replaces: str | None = "any"
    """Id of the decision in force that the client saw, null for none; left out, anything is replaced."""


class Decision(Shape):
    """A decision that is on the disk."""

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
    """How far a review is."""

    total: int
    decided: int
    accepted: int
    rejected: int
    skipped: int


class Decided(Shape):
    """The decision that was kept, and the one now in force."""

    decision: Decision
    current: Decision | None
    progress: dict[str, Progress]


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
    """A relation and how many candidates it has."""

    count: int


class Candidates(Shape):
    """One page of candidates."""

    job: str
    calibrated: bool
    total: int
    """That fit the filters."""
    rows: list[Candidate]
    relations: list[RelationShare]
    progress: Progress


class Upload(Shape):
    """A file that was read but is not yet used."""

    id: str
    name: str
    facts: int
    entities: int
    relations: int
    first: list[tuple[str, str, str]]
    sentence: str
