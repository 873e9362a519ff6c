"""The command `anykg score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anykg.cli.options import Budget, DataDir, Device, GraphName, ModelName, Rows, RowsOut, Trust
from anykg.cli.reading import Reading, takes_reading

EXAMPLES = """
Score given facts and rank both ends of each among all entities.

After `anykg check`, or with --calibrated, each fact also has a probability. Known facts are hidden while they are
scored, so that they do not support themselves. Facts with unknown names are skipped and listed by line. Scores of
different facts are not comparable; probabilities are.

Examples:

  anykg score facts.tsv claims.tsv

  anykg score atlas claims.csv --out scored.csv
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("score", help=EXAMPLES)(score)


@takes_reading()
def score(
    graph: GraphName,
    facts: Annotated[Path, typer.Argument(help="A file of facts to score, in any graph format.")],
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first fact with an unknown name.")] = False,
    budget: Budget = None,
    model: ModelName = "anykg-base+rules",
    calibrated: Annotated[
        bool, typer.Option("--calibrated", help="Add probabilities; runs a check if there is none yet.")
    ] = False,
    format: Rows = None,
    out: RowsOut = None,
    device: Device = "cpu",
    *,
    reading: Reading,
    data_dir: DataDir = None,
    trust: Trust = False,
) -> None:
    from anykg.answers.questions import as_facts, resolve
    from anykg.cli.loading import graph_named, model_named, refuse_unknown_model
    from anykg.cli.output import chosen_format, write_result
    from anykg.cli.progress import progress_bar

    written_as = chosen_format(format, out, graph, facts)
    refuse_unknown_model(model, device)
    given = as_facts(facts)
    loaded = graph_named(graph, data_dir, reading)
    if strict:
        resolve(loaded, given, strict=True)

    from anykg.answers.score import score as run

    scorer = model_named(model, device, trust)
    with progress_bar("scoring") as advance:
        scored = run(loaded, given, model=scorer, calibrated=calibrated, strict=strict, budget=budget, progress=advance)
    write_result(scored, written_as, out)
