"""Print and write results in one of several formats, and notes to standard error.

Everything that is printed passes through here, so that control characters in names are escaped. JSON is the one shape
of `anykg.answers.results`.
"""

from __future__ import annotations

import logging
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from anykg.cli.wording import as_typed
from anykg.printable import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from anykg.answers.results import Result

SHOWN_SKIPPED = 20
"""Number of skipped questions or facts that are listed."""

FILE_WIDTH = 120
"""Width of tables that do not go to a terminal, unless COLUMNS is set."""

logger = logging.getLogger("anykg")


class TextFormat(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"


class RowFormat(StrEnum):
    """How rows of facts are written."""

    TABLE = "table"
    TSV = "tsv"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    NT = "nt"
    PARQUET = "parquet"


class _Stderr(logging.Handler):
    """Writes log records as plain lines to the current standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        prefix = f"{record.levelname.capitalize()}: " if record.levelno >= logging.WARNING else ""
        print(printable(prefix + as_typed(record.getMessage())), file=sys.stderr)


def set_up_logging(quiet: bool) -> None:
    """Print the library's messages to standard error, or with `quiet` only errors."""
    if not any(isinstance(handler, _Stderr) for handler in logger.handlers):
        logger.addHandler(_Stderr())
    logger.propagate = False
    logger.setLevel(logging.ERROR if quiet else logging.INFO)


def is_quiet() -> bool:
    """Whether notes and progress bars are suppressed."""
    return logger.getEffectiveLevel() > logging.WARNING


def say(text: str) -> None:
    """Print text to standard output."""
    typer.echo(printable(text, lines=True))


def note(text: str) -> None:
    """Print a note to standard error, unless --quiet was given."""
    logger.info("%s", text)


def show(*parts: RenderableType) -> None:
    """Print tables and text to standard output; names in them are escaped already (`results.cell_text`)."""
    from rich.console import Console

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else FILE_WIDTH
    console = Console(highlight=False, markup=False, width=width)
    for part in parts:
        console.print(as_typed(part) if isinstance(part, str) else part)


def chosen_format(format: RowFormat | None, out: Path | None, *inputs: Path | str | None) -> str | None:
    """The format to write rows in, None for a table; raises before anything is computed or an input overwritten."""
    from anykg.errors import ConfigError
    from anykg.io.write import ROW_EXTENSIONS, format_of

    given = None if format is None else format.value
    refuse_overwrite(out, *inputs)
    if out is not None:
        if given == "table":
            raise ConfigError("--format table cannot be written to a file; leave out --out, or choose another format.")
        return format_of(out, given, ROW_EXTENSIONS)
    if given == "parquet":
        raise ConfigError("--format parquet cannot be printed; give --out FILE.parquet.")
    return None if given in (None, "table") else given


def refuse_overwrite(out: Path | None, *inputs: Path | str | None) -> None:
    """Raise if the output file is one of the inputs."""
    from anykg.errors import ConfigError

    if out is not None and any(given is not None and out.resolve() == Path(given).resolve() for given in inputs):
        raise ConfigError(f"--out: {out} is also an input and would be overwritten; choose another name.")


def write_result(result: Result, format: str | None, out: Path | None = None, *, nothing: str | None = None) -> None:
    """Print a result or write it to a file; `nothing` is printed instead of an empty table."""
    from anykg.atomic import write_text
    from anykg.io.write import encode_rows, write_rows

    ends_in_rows = format not in (None, "json", "nt")  # tables and JSON show them elsewhere, N-Triples have no place
    frame = result.rows_of_file() if ends_in_rows else result.to_polars()
    if format == "json":
        text = result.to_json() + "\n"
        if out is None:
            _data(text)
        else:
            write_text(out, text)
    elif format is not None and out is None:
        _data(encode_rows(frame, format).decode())
    elif format is not None and out is not None:
        write_rows(frame, out, format)
    elif nothing is not None and frame.is_empty():
        say(nothing)
    else:
        show(*result.renderables())
    if out is not None:
        say(f"Wrote {frame.height:,} rows to {out}.")
    _notes(result)


def _data(text: str) -> None:
    """Print data: unchanged to a file or pipe, escaped to a terminal."""
    typer.echo(printable(text, lines=True, tabs=True) if sys.stdout.isatty() else text, nl=False)


def _notes(result: Result) -> None:
    for warning in () if result.shows_warnings else result.warnings:
        logger.warning("%s", warning)
    skipped = getattr(result, "skipped", ())
    for part in skipped[:SHOWN_SKIPPED]:
        note(f"  {part}")
    if len(skipped) > SHOWN_SKIPPED:
        note(f"  ... and {len(skipped) - SHOWN_SKIPPED:,} more")
