"""The contents of the user's cache: packed copies of large graph files, and mined rules."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from anykg.answers.results import Result
from anykg.io import cache
from anykg.printable import printable

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CachedFiles(Result):
    """The cached files and their size limit."""

    folder: Path
    limit: int
    """Upper bound on the bytes of all files."""
    files: tuple[cache.Entry, ...]

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files)

    def to_polars(self) -> pl.DataFrame:
        """Return a row for each file."""
        rows = [(file.source, file.triplets, file.size, _when(file), file.path.name) for file in self.files]
        names = {"source": pl.String, "facts": pl.Int64, "bytes": pl.Int64, "used": pl.String, "file": pl.String}
        return pl.DataFrame(rows, schema=names, orient="row")

    def summary(self) -> dict[str, Any]:
        """Return the location of the files, their total size and the size limit."""
        return {"folder": str(self.folder), "bytes": self.size, "limit": self.limit}

    def renderables(self) -> list[RenderableType]:
        """Return a table of the files, if there are any, and their total size."""
        from rich.table import Column, Table
        from rich.text import Text

        total = (
            f"{len(self.files):,} files, {self.size / 1e6:,.1f} MB of at most {self.limit / 1e6:,.0f} MB in "
            f"{printable(str(self.folder))}"
        )
        columns = [Column(name, justify="right") for name in ("facts", "MB")]
        table = Table(Column("source", overflow="fold"), *columns, Column("last used", no_wrap=True))
        for file in self.files:
            table.add_row(Text(printable(file.source)), f"{file.triplets:,}", f"{file.size / 1e6:,.1f}", _when(file))
        return [*([table] if self.files else []), Text(total)]


def cached_files() -> CachedFiles:
    """List the packed copies and mined rules in the user's cache."""
    return CachedFiles(command="cache", folder=cache.folder(), limit=cache.limit(), files=tuple(cache.entries()))


def _when(file: cache.Entry) -> str:
    return datetime.fromtimestamp(file.used, UTC).isoformat(timespec="seconds")
