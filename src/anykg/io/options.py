"""Options for reading a graph, independent of the format.

`Reading` has the same options as keyword arguments; those left out have the defaults of `ReadOptions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, TypedDict

from anykg.errors import ConfigError

LITERALS = ("drop", "keep")
NAMES = ("full", "prefixed")


class Reading(TypedDict, total=False):
    """Keyword arguments of every function that reads a graph; see `ReadOptions`."""

    format: str | None
    columns: str | None
    separator: str | None
    header: bool | None
    relation: str | None
    where: str | Sequence[str] | None
    keep: str | Sequence[str] | None
    drop: str | Sequence[str] | None
    literals: Literal["drop", "keep"]
    bins: int | None
    labels: Path | str | None
    attributes: Path | str | None
    language: str
    names: Literal["full", "prefixed"]
    query: str | None
    strict: bool
    skip_malformed: bool
    cache: bool


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a graph; options left at their default are detected or have no effect."""

    format: str | None = None
    """A format of `anykg data formats`, if detection gets it wrong."""
    columns: str | None = None
    """Head, relation and tail: "hrt" or "h_tr" by position, or "person,role,company" by name, letter or number."""
    separator: str | None = None
    """tab, comma, pipe, semicolon, space or one character; giving one means delimited text."""
    header: bool | None = None
    """Whether the first line names the columns."""
    relation: str | None = None
    """The name of the only relation, for a graph with untyped links."""
    where: tuple[str, ...] = ()
    """Conditions on other columns, all of which must hold, such as "confidence >= 0.7"."""
    keep: tuple[str, ...] = ()
    """Read only these relations; * matches any text."""
    drop: tuple[str, ...] = ()
    """Leave these relations out; * matches any text."""
    literals: str = "drop"
    """Drop and count statements about literals, or turn the literals into entities."""
    bins: int | None = None
    """Turn numeric literals into this many ranges for each relation, which become entities."""
    labels: Path | str | None = None
    """A file of names and labels, for names that are ids."""
    attributes: Path | str | None = None
    """A table of entities and their attributes, for models that read them; its first column has the names."""
    language: str = "en"
    """The language of labels to prefer."""
    names: str = "full"
    """IRIs in full, or shortened by the prefixes of the file (wd:Q42)."""
    query: str | None = None
    """For a database, the query that returns head, relation and tail, or a file with it."""
    strict: bool = False
    """Refuse blank fields and comments instead of skipping and counting them."""
    skip_malformed: bool = False
    """Skip and count the lines of delimited text that have too few or too many fields, instead of refusing the file."""
    in_order: ClassVar[bool] = False
    """Whether columns that no header names are head, relation and tail, whatever is in them."""
    cache: bool = True
    """Keep a packed copy of a large file in the user's cache, and reuse it."""

    def __post_init__(self) -> None:
        for name, allowed in (("literals", LITERALS), ("names", NAMES)):
            if getattr(self, name) not in allowed:
                raise ConfigError(f"{name}: expected {' or '.join(allowed)}, found {getattr(self, name)!r}.")
        if self.bins is not None and self.bins < 1:
            raise ConfigError(f"bins: expected at least 1, found {self.bins}.")
        if self.relation is not None and not self.relation:
            raise ConfigError("relation: expected a name, found an empty one.")
        if self.strict and self.skip_malformed:
            raise ConfigError("Expected `strict` or `skip_malformed`, found both; leave out one.")

    @classmethod
    def of(cls, **reading: Any) -> ReadOptions:
        """Options from keyword arguments; None means the default, and a single string is a list of one."""
        known = {field.name: field for field in fields(cls)}
        unknown = sorted(set(reading) - set(known))
        if unknown:
            raise ConfigError(f"Expected a reading option of {', '.join(known)}; found {', '.join(unknown)}.")
        chosen: dict[str, Any] = {}
        for name, value in reading.items():
            if value is None:
                continue
            if name in ("where", "keep", "drop"):
                value = (value,) if isinstance(value, str) else tuple(value)
            chosen[name] = str(value) if name in ("literals", "names") else value
        return cls(**chosen)

    def given(self) -> list[str]:
        """The names of the options that are not at their defaults and change what is read."""
        chosen = [field.name for field in fields(self) if getattr(self, field.name) != field.default]
        return [name for name in chosen if name != "cache"]


@dataclass(frozen=True)
class BatchOptions(ReadOptions):
    """Options for a file of questions or facts to score, which is too small and too uniform to guess columns from."""

    in_order: ClassVar[bool] = True
