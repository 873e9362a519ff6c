"""The command `anykg complete`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anykg.cli.options import (
    Budget,
    ClusterAddress,
    DataDir,
    Device,
    GraphName,
    ModelName,
    Rows,
    RowsOut,
    Trust,
    listed,
)
from anykg.cli.reading import Reading, takes_reading

if TYPE_CHECKING:
    from anykg.answers.complete import Estimate
    from anykg.graph.vocabulary import Vocabulary

EXAMPLES = """
List the most probable missing facts of a graph.

Probabilities are learnt by hiding some facts and proposing facts for the rest; this is done once per graph and model.
The share of facts that are missing is estimated as well, or set by --missing.

Prints a time estimate first. With --out it is resumable: after Ctrl-C, run the same command again.

Examples:

  anykg complete facts.tsv --top 100 --out new.tsv

  anykg complete facts.tsv --relations "works for" --relations "lives in" --out new.tsv

  anykg complete facts.tsv --min-probability 0.5 --per-entity 5 --per-relation 100

  anykg complete atlas --heads Kosovo --top 10

  anykg complete facts.anykg --cluster auto --out new.tsv
"""

LONG = 600
"""Seconds above which the estimate includes advice."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("complete", help=EXAMPLES)(complete)


@takes_reading()
def complete(
    graph: GraphName,
    top: Annotated[int, listed("Number of facts.")] = 1000,
    relations: Annotated[
        list[str] | None, typer.Option(help="Only facts of this relation (repeatable), or a file of names.")
    ] = None,
    heads: Annotated[
        list[str] | None,
        typer.Option(help="Only facts with this entity as head (repeatable), or a file of names."),
    ] = None,
    min_probability: Annotated[
        float, typer.Option(help="Leave out facts with a lower probability.", min=0, max=1)
    ] = 0.0,
    per_relation: Annotated[int | None, typer.Option(help="At most this many facts of one relation.", min=1)] = None,
    per_entity: Annotated[
        int | None, typer.Option(help="At most this many facts about one entity, at either end.", min=1)
    ] = None,
    calibrated: Annotated[
        bool, typer.Option("--calibrated/--scores", help="Rank by probability, or by the model's scores.")
    ] = True,
    missing: Annotated[
        float | None, typer.Option(help="Assumed share of all facts that are missing; estimated by default.")
    ] = None,
    budget: Budget = None,
    model: ModelName = "anykg-base+rules",
    format: Rows = None,
    out: RowsOut = None,
    device: Device = "cpu",
    cluster: ClusterAddress = None,
    *,
    reading: Reading,
    data_dir: DataDir = None,
    trust: Trust = False,
) -> None:
    from anykg.cli.loading import graph_named, model_named, refuse_unknown_model
    from anykg.cli.output import chosen_format, note, write_result
    from anykg.cli.progress import progress_bar

    written_as = chosen_format(format, out, graph)
    refuse_unknown_model(model, device)
    loaded = graph_named(graph, data_dir, reading)
    wanted, starts = _names(loaded.relations, relations), _names(loaded.entities, heads)

    from anykg.answers.complete import complete as run

    scorer = model_named(model, device, trust)
    state = None if out is None else out.with_name(f".{out.name}.resume")
    with progress_bar("completing") as advance:
        facts = run(
            loaded,
            model=scorer,
            count=top,
            relations=wanted,
            heads=starts,
            min_probability=min_probability,
            per_relation=per_relation,
            per_entity=per_entity,
            calibrated=calibrated,
            missing=missing,
            budget=budget,
            state=state,
            cluster=cluster,
            announce=lambda estimate: note(_announcement(estimate)),
            progress=advance,
        )
    write_result(facts, written_as, out, nothing="No facts: all candidates are already known or improbable.")
    if calibrated and len(facts):
        note(_expected(facts.extra["expected"], len(facts), facts.extra["missing"]))
    if state is not None:
        state.unlink(missing_ok=True)


def _names(vocabulary: Vocabulary, given: list[str] | None) -> list[str] | None:
    """Names given one by one or in files, all of which the graph has."""
    from anykg.answers.inputs import look_up
    from anykg.answers.questions import read_name_list

    if given is None:
        return None
    listed = [read_name_list(name) if name not in vocabulary and Path(name).is_file() else [name] for name in given]
    names = [name for part in listed for name in part]
    look_up(vocabulary, names)
    return names


def _expected(expected: float, count: int, missing: float) -> str:
    number = f"{expected:,.{0 if expected >= 10 else 1}f}"
    return f"About {number} of these {count:,} facts should be true, if {missing:.0%} of all facts are missing."


def _announcement(estimate: Estimate) -> str:
    questions = "1 question" if estimate.questions == 1 else f"{estimate.questions:,} questions"
    text = f"{questions}, about {duration(estimate.seconds)}."
    if estimate.calibration_seconds:
        takes = duration(estimate.calibration_seconds)
        text += f" A calibration runs first, to turn scores into probabilities: about {takes}."
    if estimate.done:
        text = f"Resuming after {estimate.done:,} of {questions}; about {duration(estimate.seconds)} left."
    return text + (" Use --relations or --heads to ask fewer." if estimate.seconds > LONG else "")


def duration(seconds: float) -> str:
    """A duration as text.

    >>> duration(4000)
    '1 h 7 min'
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
