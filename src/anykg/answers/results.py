"""Results of the public API: plain objects with one JSON structure.

Every result has `to_dict()`, `to_polars()`, `to_pandas()`, a readable `repr` and `_repr_html_` for notebooks. The
dictionary is what `--format json` prints, for every command but some of `anykg data`:

```json
{
  "command": "predict",
  "version": "0.1.0",
  "graph": {"name": "atlas", "entities": 1095, "relations": 16, "facts": 4444},
  "model": "anykg-base+rules",
  "summary": {},
  "rows": [{"head": "Kosovo", "relation": "borders", "tail": "Greece", "score": 1.3, "rank": 1, "known": false}],
  "warnings": []
}
```

`rows` is the table that `to_polars()` returns, `summary` applies to all rows, `warnings` are sentences.
`graph` and `model` are null if there is none.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from anykg import __version__
from anykg.errors import ConfigError
from anykg.printable import printable

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

    from anykg.graph.graph import KnowledgeGraph

SHOWN_ROWS = 50
"""Number of rows shown in a repr."""


@dataclass(frozen=True)
class GraphInfo:
    """The graph of a result."""

    name: str
    entities: int
    relations: int
    facts: int

    @classmethod
    def of(cls, graph: KnowledgeGraph, name: str) -> GraphInfo:
        """Describe a graph under a name."""
        return cls(name, graph.num_entities, graph.num_relations, graph.num_triplets)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Result:
    """Base of all results; a subclass defines `to_polars`, and optionally `summary` and `renderables`."""

    shows_warnings: ClassVar[bool] = False
    """Whether `renderables` has the warnings, as findings; otherwise the command line prints them to standard error."""
    command: str
    """The function that returned it."""
    graph: GraphInfo | None = None
    model: str | None = None
    warnings: tuple[str, ...] = ()

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a polars DataFrame."""
        raise NotImplementedError

    def rows_of_file(self) -> pl.DataFrame:
        """Return the rows for formats without a summary, such as CSV."""
        return self.to_polars()

    def summary(self) -> dict[str, Any]:
        """Return the values that apply to all rows, JSON-ready."""
        return {}

    def renderables(self) -> list[RenderableType]:
        """Return the output for a terminal, top to bottom, as rich objects."""
        return [table_of_frame(self.to_polars().head(SHOWN_ROWS))]

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ConfigError("to_pandas needs pandas: pip install pandas. to_polars needs nothing more.") from error

        return pd.DataFrame(self.to_polars().to_dict(as_series=False))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON-ready values, with the structure in the module's docstring."""
        shape = {
            "command": self.command,
            "version": __version__,
            "graph": None if self.graph is None else asdict(self.graph),
            "model": self.model,
            "summary": self.summary(),
            "rows": self.to_polars().to_dicts(),
            "warnings": list(self.warnings),
        }
        plain: dict[str, Any] = _plain(shape)
        return plain

    def to_json(self, indent: int | None = 1) -> str:
        """Return `to_dict()` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def __repr__(self) -> str:
        from io import StringIO

        from rich.console import Console

        text = StringIO()
        console = Console(file=text, width=120, highlight=False, markup=False)
        for part in self.renderables():
            console.print(part)
        if not self.shows_warnings:
            for warning in self.warnings:
                console.print(f"Warning: {printable(warning)}")
        return "\n".join(line.rstrip() for line in text.getvalue().rstrip("\n").splitlines())

    def _repr_html_(self) -> str:
        return str(self.to_polars().head(SHOWN_ROWS)._repr_html_())


def table_of_frame(frame: pl.DataFrame) -> RenderableType:
    """A frame as a borderless table: numbers right-aligned, control characters in names escaped."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    numeric = {name for name, kind in frame.schema.items() if kind.is_numeric()}
    for name in frame.columns:
        table.add_column(name, justify="right" if name in numeric else "left", overflow="fold")
    for row in frame.iter_rows(named=True):
        table.add_row(*(Text(cell_text(value)) for value in row.values()))
    return table


def cell_text(value: Any) -> str:
    """Format a value for a table.

    >>> [cell_text(v) for v in (0.123, 12345, True, None, "a")]
    ['0.12', '12,345', 'yes', '', 'a']
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.2f}"
    return printable(str(value))


def _plain(value: Any) -> Any:
    """Convert NumPy numbers to Python's, tuples to lists and NaN to None, for JSON."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
