"""The output of a reader: a frame in which some columns are head, relation and tail.

`anykg.io.choices` applies the reading options to it, in the same way for every format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import polars as pl

from anykg.io.columns import UNTYPED, Roles

TRIPLET = ("head", "relation", "tail")
MALFORMED = "malformed lines"


class Malformed(NamedTuple):
    """A line that was skipped because its number of fields is wrong."""

    line: int
    found: str
    """How many fields it has, and its beginning."""


@dataclass(frozen=True)
class Parsed:
    """The links of a file, or of a part of one."""

    frame: pl.DataFrame
    """All columns that are read; nulls are blank fields."""
    head: str
    """The column of heads."""
    relation: str | None
    """The column of relations; None if there is one relation only, `untyped`."""
    tail: str
    untyped: str = UNTYPED
    head_label: str | None = None
    relation_label: str | None = None
    tail_label: str | None = None
    literal: str | None = None
    """A boolean column: whether the tail is a literal."""
    format: str = ""
    columns: str = "hrt"
    """The roles of the columns, in the order of the file."""
    separator: str | None = None
    header: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Counts of what was skipped, such as {"comments": 3}."""
    malformed: tuple[Malformed, ...] = ()
    """The lines with too few or too many fields, if they were skipped."""
    notes: tuple[str, ...] = ()
    """Remarks on how the file was read, for the user."""

    def but(self, **changes: Any) -> Parsed:
        """The same with some fields changed."""
        return replace(self, **changes)

    @property
    def context(self) -> list[str]:
        """The columns that are neither head nor relation nor tail, for use in conditions."""
        return [name for name in self.frame.columns if name != self.literal]


def of_rows(
    rows: Sequence[tuple[str | None, str | None, str | None]],
    format: str,
    *,
    names: Sequence[str] = TRIPLET,
    **more: Any,
) -> Parsed:
    """Links given as (head, relation, tail)."""
    frame = pl.DataFrame(list(rows), schema=dict.fromkeys(names, pl.String), orient="row")
    head, relation, tail = names
    return Parsed(frame, head, relation, tail, format=format, **more)


def of_roles(frame: pl.DataFrame, roles: Roles, names: Sequence[str], **more: Any) -> Parsed:
    """Links in the columns of a frame, by the positions of its file's columns `names`."""
    head_label, relation_label, tail_label = (None if i is None else names[i] for i in roles.labels)
    return Parsed(
        frame,
        names[roles.head],
        None if roles.relation is None else names[roles.relation],
        names[roles.tail],
        head_label=head_label,
        relation_label=relation_label,
        tail_label=tail_label,
        columns=roles.letters(len(names)),
        **more,
    )


def frame_of(columns: Mapping[str, Sequence[Any]]) -> pl.DataFrame:
    """A frame from columns of Python values; mixed and unusual types become text, columns of lists are dropped."""
    series = []
    for name, values in columns.items():
        kinds = {type(value) for value in values if value is not None}
        if kinds & {dict, list, tuple, set}:
            if all(kind in (dict, list, tuple, set) for kind in kinds):
                continue
            values = [None if isinstance(value, dict | list | tuple | set) else value for value in values]
            kinds -= {dict, list, tuple, set}
        plain = kinds <= {int, float} or kinds == {str} or kinds == {bool}
        if not plain or (int in kinds and any(value is not None and abs(value) >= 2**63 for value in values)):
            values = [None if value is None else str(value) for value in values]
        series.append(pl.Series(name, values, strict=False) if kinds else pl.Series(name, values, pl.String))
    return pl.DataFrame(series)


def added(*counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by name, summed; zeros are left out."""
    total: dict[str, int] = {}
    for count in counts:
        for name, number in count.items():
            if number:
                total[name] = total.get(name, 0) + number
    return total
