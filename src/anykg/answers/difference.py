"""The difference between two graphs, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from anykg.answers.inputs import graph_of
from anykg.answers.results import SHOWN_ROWS, GraphInfo, Result, table_of_frame
from anykg.io.catalog import GraphLike

if TYPE_CHECKING:
    from rich.console import RenderableType

    from anykg.graph.vocabulary import Vocabulary

COLUMNS = ["head", "relation", "tail"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Difference(Result):
    """The facts that only one of two graphs has."""

    command: str = "diff"
    before: GraphInfo
    """The old graph; `graph` is the new one."""
    rows: pl.DataFrame
    """change ("added" or "removed"), head, relation, tail; in the order of the graph a fact is from."""
    new_entities: tuple[str, ...]
    lost_entities: tuple[str, ...]
    new_relations: tuple[str, ...]
    lost_relations: tuple[str, ...]

    def to_polars(self) -> pl.DataFrame:
        return self.rows

    def summary(self) -> dict[str, Any]:
        counted = dict(self.rows["change"].value_counts().iter_rows())
        return {
            "before": vars(self.before),
            "added": counted.get("added", 0),
            "removed": counted.get("removed", 0),
            "new_entities": list(self.new_entities),
            "lost_entities": list(self.lost_entities),
            "new_relations": list(self.new_relations),
            "lost_relations": list(self.lost_relations),
        }

    def renderables(self) -> list[RenderableType]:
        summary = self.summary()
        text = f"{summary['added']:,} facts added, {summary['removed']:,} removed"
        for word in ("new_entities", "lost_entities", "new_relations", "lost_relations"):
            if summary[word]:
                text += f"; {len(summary[word]):,} {word.replace('_', ' ')}"
        shown = self.rows.head(SHOWN_ROWS)
        more = self.rows.height - shown.height
        parts: list[RenderableType] = [text + "."]
        if shown.height:
            parts.append(table_of_frame(shown))
        return [*parts, f"... and {more:,} more"] if more else parts


def diff(before: GraphLike, after: GraphLike, **reading: Any) -> Difference:
    """Return what changed from one graph to another: facts, entities and relations, by name."""
    (old, old_info), (new, new_info) = graph_of(before, **reading), graph_of(after, **reading)
    old_table, new_table = old.to_polars(), new.to_polars()
    added = new_table.join(old_table, on=COLUMNS, how="anti", maintain_order="left")
    removed = old_table.join(new_table, on=COLUMNS, how="anti", maintain_order="left")
    rows = pl.concat(
        [
            part.select(pl.lit(change).alias("change"), *COLUMNS)
            for change, part in (("added", added), ("removed", removed))
        ]
    )
    return Difference(
        graph=new_info,
        before=old_info,
        rows=rows,
        new_entities=_missing(new.entities, old.entities),
        lost_entities=_missing(old.entities, new.entities),
        new_relations=_missing(new.relations, old.relations),
        lost_relations=_missing(old.relations, new.relations),
    )


def _missing(names: Vocabulary, others: Vocabulary) -> tuple[str, ...]:
    """The names that the other vocabulary lacks."""
    return tuple(names.names.filter(~names.names.is_in(others.names.implode())).to_list())
