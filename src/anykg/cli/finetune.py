"""`anykg finetune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anykg.cli.options import DataDir, Device, GraphName, ModelName, Trust
from anykg.cli.reading import Reading, takes_reading

EXAMPLES = """
Train a model a little further on your graph, and keep that only if it helps on facts it did not see.

Examples:

  anykg finetune facts.tsv --minutes 5 --out runs/mine

  anykg predict facts.tsv --model runs/mine --head Alice --relation knows
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("finetune", help=EXAMPLES)(finetune)


@takes_reading()
def finetune(
    graph: GraphName,
    out: Annotated[Path, typer.Option(help="The folder to write to.")],
    minutes: Annotated[float, typer.Option(help="How long to train.")] = 5.0,
    model: ModelName = "anykg-small",
    seed: Annotated[int, typer.Option(help="Everything random follows from it.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a stopped run left off.")] = False,
    device: Device = "cpu",
    *,
    reading: Reading,
    data_dir: DataDir = None,
    trust: Trust = False,
) -> None:
    from rich.console import Console

    from anykg.answers.calibration import digest_of
    from anykg.cli.progress import progress_bar
    from anykg.devices import device_named
    from anykg.io.catalog import load_graph
    from anykg.models.store import folder_of, load_model, read_description
    from anykg.training.finetune import finetune as run

    place = device_named(device)
    loaded = load_model(model, trust=trust).to(place)
    name = read_description(folder_of(model))["model"]
    targets = load_graph(graph, data_dir, **reading)
    console = Console(stderr=True)
    with progress_bar(f"seconds of training {model}") as advance:
        outcome = run(
            name,
            loaded,
            targets,
            out=out,
            minutes=minutes,
            called=graph,
            started_from=f"{model} {digest_of(loaded)}",
            seed=seed,
            resume=resume,
            on_time=lambda spent, total: advance(int(min(spent, total)), int(total)),
            on_epoch=lambda record: console.print(
                "  ".join(f"{key} {value:.4g}" for key, value in record.items()), highlight=False
            ),
        )
    typer.echo(
        f"{outcome.steps:,} steps. On {outcome.facts:,} hidden facts, all entities ranked: MRR {outcome.before:.3f} "
        f"before, {outcome.after:.3f} after."
    )
    if outcome.better:
        typer.echo(f"Saved the new weights to {out}. Next: anykg predict {graph} --model {out} ...")
    else:
        typer.echo(f"That is no better, so {out} holds the original weights of {model}; go on using {model}.")
