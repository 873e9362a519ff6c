"""Reading options, shared by every command that takes a graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from anykg.io.catalog import Reading

PANEL = "Reading the graph"


class Literals(StrEnum):
    """How statements about literals are treated."""

    DROP = "drop"
    KEEP = "keep"


class Names(StrEnum):
    """How IRIs are shown."""

    FULL = "full"
    PREFIXED = "prefixed"


def _option(*flags: str, help: str) -> Any:
    return typer.Option(*flags, help=help, rich_help_panel=PANEL)


def _one_relation(*flags: str) -> Any:
    return Annotated[str | None, _option(*flags, help="Name of the only relation, if links are untyped.")]


OPTIONS: dict[str, Any] = {
    "format": Annotated[
        str | None,
        _option("--input-format", help="Format of the graph, if detection gets it wrong; see `anykg data formats`."),
    ],
    "columns": Annotated[
        str | None,
        _option(help="Head, relation and tail: hrt, h_tr, or person,role,company by name, letter or number."),
    ],
    "separator": Annotated[
        str | None, _option(help="Column separator: tab, comma, pipe, semicolon, space or one character.")
    ],
    "header": Annotated[bool | None, _option("--header/--no-header", help="Whether the first line names the columns.")],
    "relation": _one_relation("--relation", "--one-relation"),
    "where": Annotated[
        list[str] | None, _option(help='A condition on other columns, such as "confidence >= 0.7"; repeatable.')
    ],
    "keep": Annotated[list[str] | None, _option(help="Read only this relation; * matches any text; repeatable.")],
    "drop": Annotated[list[str] | None, _option(help="Leave out this relation; * matches any text; repeatable.")],
    "literals": Annotated[
        Literals | None, _option(help="Facts with literal values: drop them, or keep the values as entities.")
    ],
    "bins": Annotated[int | None, _option(help="Bin numeric literals into this many ranges per relation.")],
    "labels": Annotated[Path | None, _option(help="A file with labels for names, or a file of nodes.")],
    "attributes": Annotated[
        Path | None, _option(help="A table of entities and their attributes, for models that read them.")
    ],
    "language": Annotated[str | None, _option(help="Preferred language of labels; default: en.")],
    "names": Annotated[Names | None, _option(help="Show IRIs in full, or shortened with the prefixes of the file.")],
    "query": Annotated[
        str | None, _option(help="For a database: a query that returns head, relation and tail, or a file with it.")
    ],
    "cache": Annotated[
        bool | None,
        _option("--cache/--no-cache", help="Keep and reuse packed copies of large files; see `anykg cache`."),
    ],
    "strict": Annotated[bool | None, _option("--strict", help="Treat blank fields and comments as errors.")],
    "skip_malformed": Annotated[
        bool | None, _option("--skip-malformed", help="Skip and count lines with too few or too many fields.")
    ],
}
WITHOUT_LABELS = ("labels", "attributes", "language", "query")
"""Options that do not apply to a command that keeps no labels and only reads files."""


def takes_reading(*, labels: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options above to a command, or all but those of labels; those given are passed to it as `reading`.

    If the command has an option of the same name itself, such as --strict or --relation, its own takes precedence.
    """

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [parameter for parameter in signature.parameters.values() if parameter.name != "reading"]
        taken = {parameter.name for parameter in own}
        options = {
            name: hint
            for name, hint in OPTIONS.items()
            if (labels or name not in WITHOUT_LABELS) and not (name == "strict" and name in taken)
        }
        if "relation" in taken:
            options["relation"] = _one_relation("--one-relation")
        argument = {name: f"reading_{name}" if name in taken else name for name in options}
        added = [
            inspect.Parameter(argument[name], inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
            for name, hint in options.items()
        ]

        @wraps(command)
        def run(**values: Any) -> None:
            chosen = {name: values.pop(argument[name]) for name in options}
            reading = {name: value for name, value in chosen.items() if value not in (None, [], ())}
            command(**values, reading=reading)

        run.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *added)}
        return run

    return wrap


__all__ = ["Reading", "takes_reading"]
