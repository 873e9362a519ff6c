"""`anykg finetune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anykg.cli.options import DataDir, Device, GraphName, ModelName, Trust
from anykg.cli.reading import Reading, takes_reading

EXAMPLES = """
Train a model further on your graph, and keep the new weights only if they do better on hidden facts.

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
    minutes: Annotated[float, typer.Option(help="Time to train.")] = 5.0,
    model: ModelName = "anykg-small",
    seed: Annotated[int, typer.Option(help="Seeds everything random.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a training that was stopped.")] = False,
    device: Device = "cpu",
    *,
    reading: Reading,
    data_dir: DataDir = None,
    trust: Trust = False,
) -> None:
    from anykg.answers.calibration import digest_of
    from anykg.cli.loading import graph_named, model_named
    from anykg.cli.output import note, say
    from anykg.cli.progress import progress_bar
    from anykg.models.store import folder_of, read_description
    from anykg.training.finetune import finetune as run

    loaded = model_named(model, device, trust)
    name = read_description(folder_of(model))["model"]
    targets = graph_named(graph, data_dir, reading)
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
            on_epoch=lambda record: note("  ".join(f"{key} {value:.4g}" for key, value in record.items())),
        )
    say(
        f"{outcome.steps:,} steps. MRR on {outcome.facts:,} hidden facts, ranked among all entities: "
        f"{outcome.before:.3f} before, {outcome.after:.3f} after."
    )
    if outcome.better:
        say(f"Saved the new weights to {out}. Next: anykg predict {graph} --model {out} ...")
    else:
        say(f"That is not better, so {out} holds the original weights of {model}; keep using {model}.")
