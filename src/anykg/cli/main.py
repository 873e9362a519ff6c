"""The command line: parse, call, print.

Exit codes: 0 success; 1 a bug or a failed verification; 2 wrong input; 130 interrupted.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from copy import copy
from typing import Annotated

import typer
from rich.console import Console

from anykg import __version__
from anykg.cli import (
    audit,
    cache,
    check,
    complete,
    data,
    demo,
    evaluate,
    explain,
    fit,
    import_weights,
    mcp,
    models,
    predict,
    reproduce,
    rules,
    schema,
    score,
    serve,
    train,
    verify,
    warm_up,
)
from anykg.cli.output import note, set_up_logging
from anykg.cli.wording import as_typed
from anykg.compiling import announce
from anykg.errors import InputError, Interrupted, SettingError
from anykg.printable import printable

app = typer.Typer(
    name="anykg",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(rules.app, name="rules")
app.add_typer(cache.app, name="cache")
app.add_typer(data.app, name="data", help="Datasets and graph files: list, describe, download, split, build.")
for module in (
    predict,
    score,
    explain,
    complete,
    check,
    audit,
    schema,
    fit,
    train,
    evaluate,
    verify,
    models,
    import_weights,
    serve,
    mcp,
    reproduce,
    demo,
    warm_up,
):
    module.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"anykg {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only results and errors, no notes or progress bars.")
    ] = False,
) -> None:
    """Predict missing facts in any knowledge graph, even if no model has seen its entities and relation types."""
    set_up_logging(quiet)
    announce(note)


def run() -> None:
    """Run the command line and turn errors into exit codes."""
    # Almost all objects belong to imported libraries. To look for garbage among them takes 0.2 s in all while they are
    # imported, and 0.5 s at the end, when Python would collect them one by one.
    gc.set_threshold(10_000)
    atexit.register(gc.freeze)
    arguments = sys.argv[1:]
    if "--quiet" in arguments:  # accepted anywhere, even after the command
        arguments = ["--quiet", *(argument for argument in arguments if argument != "--quiet")]
    try:
        _only_named(app, arguments)(args=arguments, prog_name="anykg")
    except InputError as error:
        _complain(message_of(error))
        sys.exit(2)
    except (KeyboardInterrupt, Interrupted) as stop:
        _complain(as_typed(str(stop)) or "Interrupted.")
        sys.exit(130)
    except SystemExit as stop:
        if stop.code == 130:  # typer turns KeyboardInterrupt into a silent exit
            _complain("Interrupted.")
        raise
    except BrokenPipeError:  # the reader, such as `head`, closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _only_named(every: typer.Typer, arguments: list[str]) -> typer.Typer:
    """The same application with only the command that the arguments name, if they name one.

    Typer prepares all commands with all their options before it runs one, which takes longer than some of them do.
    """
    name = next((argument for argument in arguments if not argument.startswith("-")), None)
    commands = [command for command in every.registered_commands if command.name == name]
    groups = [group for group in every.registered_groups if group.name == name]
    if not commands and not groups:
        return every
    only = copy(every)
    only.registered_commands, only.registered_groups = commands, groups
    return only


def message_of(error: InputError) -> str:
    """The message of an error in terms of the command line: settings as options."""
    return error.as_option() if isinstance(error, SettingError) else as_typed(str(error))


def _complain(text: str) -> None:
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text("Error:", style="bold red"), Text(printable(text)))


if __name__ == "__main__":
    run()
