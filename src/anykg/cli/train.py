"""The command `anykg train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anykg.cli.options import DataDir, Device, Trust
from anykg.cli.reading import Reading, takes_reading

EXAMPLES = """
Train a model and keep its best weights in a folder.

Any setting of the model or its training can be given as --name value; `anykg models MODEL` lists them. Ctrl-C saves
the state, and --resume continues from it.

Examples:

  anykg train gin EN-FR --out runs/gin

  anykg train gin my/facts.tsv --out runs/gin --epochs 20 --lr 0.01

  anykg train gin EN-FR --out runs/gin --resume

  anykg train ultra EN-FR FR-EN --weights anykg-small --loss softmax --out runs/further

  anykg train trix one.tsv.gz another.tsv --checkpoint last --mixture sqrt --out runs/trix

  torchrun --nproc-per-node 2 -m anykg train ultra EN-FR --out runs/ultra
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("train", help=EXAMPLES, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(
        train
    )


@takes_reading()
def train(
    context: typer.Context,
    model: Annotated[str, typer.Argument(help="The name of a model (see `anykg models`), or MODULE:CLASS.")],
    datasets: Annotated[
        list[str], typer.Argument(help="Names or paths of datasets; several graphs are kept separate.")
    ],
    out: Annotated[Path, typer.Option(help="The folder to write to.")],
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a stopped training run.")] = False,
    weights: Annotated[str | None, typer.Option(help="Start from the weights of this model or folder.")] = None,
    grid: Annotated[
        bool, typer.Option("--grid", help="Select hyperparameters from the model's grid by validation.")
    ] = False,
    data_dir: DataDir = None,
    device: Device = "cpu",
    trust: Trust = False,
    *,
    reading: Reading,
) -> None:
    from anykg.answers.train import train as run
    from anykg.cli.output import note, say
    from anykg.cli.progress import progress_bar
    from anykg.cli.settings import setting_pairs, split_arguments

    named, rest = split_arguments([*datasets, *context.args])
    settings: dict[str, Any] = dict(setting_pairs(rest))
    names = ", ".join(named) if len(named) < 4 else f"{len(named)} graphs"
    with progress_bar(f"training {model} on {names}") as advance:
        result = run(
            model,
            named,
            out=out,
            seed=seed,
            resume=resume,
            weights=weights,
            grid=grid,
            device=device,
            trust=trust,
            data_dir=data_dir,
            reading=reading,
            on_epoch=lambda record: note("  ".join(f"{name} {value:.4g}" for name, value in record.items())),
            progress=advance,
            **settings,
        )
    if result.chosen:
        say("Best by validation: " + ", ".join(f"{name} {value}" for name, value in result.chosen.items()))
    if result.leads:
        say(f"Saved the {result.kept} weights to {out}. Next: anykg evaluate {out} {named[0]}")
