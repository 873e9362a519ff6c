"""How to read a file of triples, as options of every command that takes one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from anykg.io.catalog import Reading


class Literals(StrEnum):
    """What becomes of statements about literals."""

    DROP = "drop"
    KEEP = "keep"


OPTIONS = {
    "columns": Annotated[str | None, typer.Option(help="What a file's columns hold, such as hrt or h_rt.")],
    "separator": Annotated[str | None, typer.Option(help="tab, comma, pipe, semicolon, space or one character.")],
    "header": Annotated[
        bool | None, typer.Option("--header/--no-header", help="Whether the first line names the columns.")
    ],
    "literals": Annotated[Literals | None, typer.Option(help="RDF statements about literals.")],
    "labels": Annotated[Path | None, typer.Option(help="A file of names and their labels.")],
}


def takes_reading(*, labels: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options above, or all but labels; those that were given reach it as `reading`."""
    options = {name: hint for name, hint in OPTIONS.items() if labels or name != "labels"}

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [parameter for parameter in signature.parameters.values() if parameter.name != "reading"]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
            for name, hint in options.items()
        ]

        @wraps(command)
        def run(**values: Any) -> None:
            chosen = {name: values.pop(name) for name in options}
            reading = {name: value for name, value in chosen.items() if value is not None}
            command(**values, reading=reading)

        run.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *added)}
        return run

    return wrap


__all__ = ["Reading", "takes_reading"]
