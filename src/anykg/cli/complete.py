"""`anykg complete`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anykg.cli.options import DataDir, Device, GraphName, ModelName, Trust
from anykg.cli.predict import FormatName, format_asked, write_answers
from anykg.cli.reading import Reading, takes_reading

if TYPE_CHECKING:
    import numpy as np

    from anykg.answers.complete import Estimate
    from anykg.graph.vocabulary import Vocabulary

EXAMPLES = """
List the most plausible facts that a graph does not have.

It says how long that takes before it starts. Stopped with Ctrl-C, the same command with the same --out goes on.

Examples:

  anykg complete facts.tsv --top 100 --out new.tsv

  anykg complete facts.tsv --relations "works for" --relations "lives in" --out new.tsv

  anykg complete atlas --heads Kosovo --top 10
"""

LONG = 600
"""Seconds from which on advice is given."""

Names = Annotated[list[str] | None, typer.Option(help="Only this one (repeat for more), or a file of names.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("complete", help=EXAMPLES)(complete)


@takes_reading()
def complete(
    graph: GraphName,
    top: Annotated[int, typer.Option(help="How many facts.", min=1)] = 1000,
    relations: Names = None,
    heads: Annotated[
        list[str] | None,
        typer.Option(help="Ask every relation of this one (repeat for more), or of a file of names, as heads."),
    ] = None,
    model: ModelName = "anykg-small",
    format: Annotated[FormatName | None, typer.Option(help="Default: a table, or what --out ends in.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write to a .tsv, .csv, .json, .jsonl, .parquet or .nt file.")
    ] = None,
    device: Device = "cpu",
    *,
    reading: Reading,
    data_dir: DataDir = None,
    trust: Trust = False,
) -> None:
    from anykg.answers.complete import complete as run
    from anykg.cli.progress import progress_bar
    from anykg.devices import device_named
    from anykg.io.catalog import load_graph
    from anykg.models.store import load_model

    written_as = format_asked(format, out, graph)
    place = device_named(device)
    loaded = load_graph(graph, data_dir, **reading)
    state = None if out is None else out.with_name(f".{out.name}.resume")
    with progress_bar("completing") as advance:
        facts = run(
            loaded,
            load_model(model, trust=trust).to(place),
            count=top,
            relations=_ids(loaded.relations, relations),
            heads=_ids(loaded.entities, heads),
            state=state,
            announce=lambda estimate: typer.echo(_announcement(estimate), err=True),
            progress=advance,
        )
    write_answers(facts, written_as, out, "No facts: what could be asked is known already.")
    if state is not None:
        state.unlink(missing_ok=True)


def _ids(vocabulary: Vocabulary, names: list[str] | None) -> np.ndarray | None:
    """Ids of names given one by one or in files."""
    from anykg.answers.questions import look_up, read_name_list

    if names is None:
        return None
    listed = [read_name_list(name) if name not in vocabulary and Path(name).is_file() else [name] for name in names]
    return look_up(vocabulary, [name for part in listed for name in part])


def _announcement(estimate: Estimate) -> str:
    text = f"{estimate.questions:,} questions to ask, about {duration(estimate.seconds)}."
    if estimate.done:
        text = (
            f"Going on after {estimate.done:,} of {estimate.questions:,} questions; "
            f"about {duration(estimate.seconds)} left."
        )
    return text + (" --relations and --heads ask fewer." if estimate.seconds > LONG else "")


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(4000)
    '1 h 7 min'
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
