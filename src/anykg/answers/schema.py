"""The schema of a graph as a result of the public API; `anykg.graph.schema` computes it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from anykg.answers.inputs import graph_of
from anykg.answers.results import Result
from anykg.graph.schema import KindShare, RelationSchema, Schema
from anykg.graph.schema import schema as describe
from anykg.io.catalog import GraphLike
from anykg.printable import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

SHOWN = 50
"""Number of relations shown in a terminal."""
SHOWN_KINDS = 10
COLUMNS = {
    "relation": pl.String,
    "facts": pl.Int64,
    "holds": pl.String,
    "other": pl.String,
    "support": pl.Int64,
    "cases": pl.Int64,
    "share": pl.Float64,
}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class GraphSchema(Result):
    """Statements about relations, and the kinds of entities at their ends."""

    schema: Schema
    shown: int = SHOWN

    def __getitem__(self, relation: str) -> RelationSchema:
        return self.schema[relation]

    def to_polars(self) -> pl.DataFrame:
        """Return a row for each statement: relation, facts, holds, other, support, cases, share."""
        facts = {row.relation: row.facts for row in self.schema.relations}
        rows = [
            (s.relation, facts[s.relation], s.holds, s.other, s.support, s.cases, s.share)
            for s in self.schema.statements
        ]
        return pl.DataFrame(rows, schema=COLUMNS, orient="row")

    def summary(self) -> dict[str, Any]:
        """Return the kinds of entities, and those at either end of every relation."""
        return {
            "kinds": [asdict(kind) for kind in self.schema.kinds],
            "relations": [
                {
                    "relation": row.relation,
                    "facts": row.facts,
                    "heads": row.heads,
                    "tails": row.tails,
                    "head_kinds": [asdict(kind) for kind in row.head_kinds],
                    "tail_kinds": [asdict(kind) for kind in row.tail_kinds],
                }
                for row in self.schema.relations
            ],
        }

    def renderables(self) -> list[RenderableType]:
        """Return a table of the relations with the most facts, and the largest kinds."""
        from rich.text import Text

        rows, kinds = self.schema.relations, self.schema.kinds
        parts: list[RenderableType] = [_table(rows[: self.shown])]
        if len(rows) > self.shown:
            parts.append(f"... and {len(rows) - self.shown:,} more relations")
        listed = ", ".join(f"{printable(kind.kind)} ({kind.entities:,})" for kind in kinds[:SHOWN_KINDS])
        more = f" and {len(kinds) - SHOWN_KINDS:,} more" if len(kinds) > SHOWN_KINDS else ""
        return [*parts, Text(f"\n{len(kinds):,} kinds of entities: {listed}{more}.")]


def schema(graph: GraphLike) -> GraphSchema:
    """Describe the relations of a graph: functional, symmetric, one-way, duplicates, and their kinds of entities.

    >>> import anykg
    >>> anykg.schema("atlas")["has capital"].statements[0].holds
    'functional'
    """
    loaded, info = graph_of(graph)
    return GraphSchema(command="schema", graph=info, schema=describe(loaded))


def _table(rows: tuple[RelationSchema, ...]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in ("relation", "facts", "holds", "heads are", "tails are"):
        table.add_column(name, justify="right" if name == "facts" else "left", overflow="fold")
    for row in rows:
        holds = [f"{s.holds}{' ' + s.other if s.other else ''} ({s.support:,} of {s.cases:,})" for s in row.statements]
        cells = (
            row.relation,
            f"{row.facts:,}",
            "\n".join(holds),
            _kinds_text(row.head_kinds),
            _kinds_text(row.tail_kinds),
        )
        table.add_row(*(Text(printable(cell, lines=True)) for cell in cells))
    return table


def _kinds_text(kinds: tuple[KindShare, ...]) -> str:
    return "\n".join(f"{kind.kind} {kind.share:.0%}" for kind in kinds)
