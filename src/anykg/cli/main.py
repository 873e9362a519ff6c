"""The command line: parse, call, print.

Exit codes: 0 done; 1 our fault; 2 the user's input; 130 interrupted.
"""

from __future__ import annotations

import os
import sys

import typer
from rich.console import Console

from anykg.cli import (
    check,
    complete,
    data,
    demo,
    evaluate,
    explain,
    finetune,
    import_weights,
    models,
    predict,
    reproduce,
    rules,
    schema,
    train,
    verify,
)
from anykg.errors import InputError, Interrupted

app = typer.Typer(
    name="anykg",
    help="Predict missing facts in any knowledge graph, also one whose entities and relation types no model has seen.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(rules.app, name="rules")
app.add_typer(data.app, name="data", help="The datasets: list, describe, download, split, build.")
for module in (
    predict,
    explain,
    complete,
    check,
    schema,
    finetune,
    train,
    evaluate,
    verify,
    models,
    import_weights,
    reproduce,
    demo,
):
    module.register(app)


def run() -> None:
    """Run the command line and turn errors into exit codes."""
    try:
        app()
    except InputError as error:
        _complain(str(error))
        sys.exit(2)
    except (KeyboardInterrupt, Interrupted) as stop:
        _complain(str(stop) or "Interrupted.")
        sys.exit(130)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _complain(text: str) -> None:
    Console(stderr=True, soft_wrap=True, highlight=False).print(f"[bold red]Error:[/] {_escape(text)}")


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


if __name__ == "__main__":
    run()
