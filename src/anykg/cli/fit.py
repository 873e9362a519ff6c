"""The command `anykg fit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anykg.cli.options import ClusterAddress, DataDir, GraphName, TrainedModel, Trust
from anykg.cli.reading import Reading, takes_reading

EXAMPLES = """
Fit a model to your graph in minutes: train several kinds of models and learn how to combine them.

The components are a shipped model (as it is, and adapted to the graph), ComplEx, rules, the graph's schema, popularity,
degree and PageRank. Their weights are learnt from held-out facts. A table compares the components with each other and
with the default model without fitting. Ctrl-C mixes the components that are finished.

Examples:

  anykg fit facts.tsv --out runs/mine

  anykg fit facts.tsv --minutes 10 --out runs/mine --resume

  anykg predict facts.tsv --model runs/mine --head Alice --relation knows --calibrated
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("fit", help=EXAMPLES)(fit)


@takes_reading()
def fit(
    graph: GraphName,
    out: Annotated[Path, typer.Option(help="The folder to write to.")],
    minutes: Annotated[float, typer.Option(help="Time limit; small graphs finish earlier.")] = 2.0,
    model: TrainedModel = "anykg-base",
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted fit.")] = False,
    negatives: Annotated[
        Path | None, typer.Option(help="Rejected triples: a file of triples, or the decisions file of `anykg serve`.")
    ] = None,
    cluster: ClusterAddress = None,
    *,
    reading: Reading,
    data_dir: DataDir = None,
    trust: Trust = False,
) -> None:
    from anykg.answers.fitting.negatives import find_negatives, read_negatives
    from anykg.cli.loading import graph_named, model_named, refuse_unknown_model
    from anykg.cli.output import note, say
    from anykg.cli.progress import progress_bar

    refuse_unknown_model(model)
    rejected = [] if negatives is None else read_negatives(negatives)
    loaded = graph_named(graph, data_dir, reading)
    find_negatives(loaded, rejected)

    from anykg.answers.fit import fit as run

    foundation = model_named(model, "cpu", trust)
    with progress_bar("seconds") as advance:
        made = run(
            loaded,
            minutes=minutes,
            out=out,
            model=foundation,
            seed=seed,
            resume=resume,
            negatives=rejected,
            cluster=cluster,
            tell=note,
            progress=advance,
        )
    say(repr(made))
    say("MRR and Hits@10 are measured on hidden facts; the mix is the weighted sum of the components' scores.")
    say(f"Saved to {out}. Next: anykg predict {graph} --model {out} ...")
