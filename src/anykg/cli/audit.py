"""The command `anykg audit`."""

from __future__ import annotations

from typing import Annotated

import typer

from anykg.cli.options import ClusterAddress, DataDir, GraphName, Rows, RowsOut, listed
from anykg.cli.reading import Reading, takes_reading

EXAMPLES = """
List known facts that the rest of the graph contradicts, least plausible first, with a reason for each: at most --top
of those below --max-plausibility.

The facts are split into folds. Each fold is scored by embeddings, rules and a schema fitted to the other folds. Prints
a time estimate first. After Ctrl-C, the same command continues with the unfinished folds. The result is stored as well,
so listing other facts of the same audit takes no time; --again repeats it.

Examples:

  anykg audit facts.tsv

  anykg audit facts.tsv --relations "works for" --top 20 --out suspicious.tsv

  anykg audit FB15k-237 --minutes 20

  anykg audit FB15k-237 --epochs 20 --cluster auto
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("audit", help=EXAMPLES)(audit)


@takes_reading()
def audit(
    graph: GraphName,
    top: Annotated[int | None, listed("Maximum number of facts; default: 1 in 50, at least 10, at most 100.")] = None,
    max_plausibility: Annotated[
        float, typer.Option(help="Only list facts with a lower plausibility; 1 lists any.", min=0, max=1)
    ] = 0.5,
    relations: Annotated[list[str] | None, typer.Option(help="Only list facts of this relation (repeatable).")] = None,
    folds: Annotated[int, typer.Option(help="Number of folds that are held out in turn.", min=2)] = 10,
    minutes: Annotated[
        float | None, typer.Option(help="Approximate time; default 1, plus 1 for every 15,000 facts, up to 20.")
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            help="Epochs of ComplEx instead of a time limit; the result then depends only on the seed.", min=1
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed for drawing the folds.")] = 0,
    again: Annotated[bool, typer.Option("--again", help="Repeat the audit even if its result is stored.")] = False,
    format: Rows = None,
    out: RowsOut = None,
    cluster: ClusterAddress = None,
    *,
    reading: Reading,
    data_dir: DataDir = None,
) -> None:
    from anykg.answers.inputs import look_up
    from anykg.cli.loading import graph_named
    from anykg.cli.output import chosen_format, note, write_result
    from anykg.cli.progress import progress_bar

    written_as = chosen_format(format, out, graph)
    loaded = graph_named(graph, data_dir, reading)
    look_up(loaded.relations, relations or [])

    from anykg.answers.audit import audit as run
    from anykg.answers.audit import default_minutes, effort_of
    from anykg.answers.auditing.plausibility import is_kept

    time = default_minutes(loaded) if minutes is None else minutes
    effort = effort_of(loaded, folds, time, epochs)
    if not again and is_kept(loaded, folds=folds, effort=effort, seed=seed):
        note("Using the stored result of an earlier audit, which took as long or longer; --again repeats it.")
    else:
        takes = f"{epochs} epochs each" if epochs else f"about {time:.2g} min"
        note(f"{len(loaded):,} facts in {folds} folds, {takes}.")
    with progress_bar("auditing") as advance:
        result = run(
            loaded,
            count=top,
            max_plausibility=max_plausibility,
            relations=relations,
            folds=folds,
            minutes=time,
            epochs=epochs,
            seed=seed,
            again=again,
            cluster=cluster,
            progress=advance,
        )
    write_result(result, written_as, out)
