"""`anykg train`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from anykg.cli.options import DataDir, Device
from anykg.cli.reading import Reading, takes_reading

EXAMPLES = """
Train a model and keep its best weights in a folder.

Any setting of the model or its training can be given as --name value; `anykg models MODEL` lists them.

Examples:

  anykg train gin EN-FR --out runs/gin

  anykg train gin my/facts.tsv --out runs/gin --epochs 20 --lr 0.01

  anykg train gin EN-FR --out runs/gin --resume

  anykg train ultra EN-FR FR-EN --weights anykg-small --loss softmax --out runs/further

  anykg train trix one.tsv.gz another.tsv --keep last --mixture sqrt --out runs/trix

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
    model: Annotated[str, typer.Argument(help="A model's name (see `anykg models`) or MODULE:CLASS.")],
    datasets: Annotated[list[str], typer.Argument(help="Datasets by name or path; several graphs are kept apart.")],
    out: Annotated[Path, typer.Option(help="The folder to write to.")],
    seed: Annotated[int, typer.Option(help="Everything random follows from it.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a stopped run left off.")] = False,
    weights: Annotated[str | None, typer.Option(help="Start from the weights of this model or folder.")] = None,
    grid: Annotated[bool, typer.Option("--grid", help="Choose settings by validation over the model's grid.")] = False,
    data_dir: DataDir = None,
    device: Device = "cpu",
    *,
    reading: Reading,
) -> None:
    import numpy as np
    import torch
    from rich.console import Console

    from anykg.cli.progress import progress_bar
    from anykg.cli.settings import parse_settings, split_arguments
    from anykg.devices import device_named
    from anykg.errors import ConfigError
    from anykg.io.catalog import load_graph, load_task, locate
    from anykg.models.registry import MODELS
    from anykg.models.store import MODEL_FILE, load_model, restore
    from anykg.seeds import derive
    from anykg.training import loop
    from anykg.training.grid import search
    from anykg.training.workers import join_workers

    place = device_named(device)
    model_class = MODELS.load(model)
    named, arguments = split_arguments([*datasets, *context.args])
    given = None if weights is None else load_model(weights)
    if given is not None and not isinstance(given, model_class):
        raise ConfigError(f"--weights {weights}: expected a model of kind {model}, found {type(given).__name__}.")
    start = None if given is None else given.config
    _, wanted = parse_settings(arguments, model_class, start)  # complain before anything is read

    def read(name: str) -> loop.TrainingGraph:
        located = locate(name, data_dir)
        if located.is_file and wanted.keep == "last":
            graph = load_graph(name, data_dir, **reading)
            return loop.TrainingGraph(located.name, graph, graph.subset(np.arange(0)))
        task = load_task(name, data_dir, **reading)
        return loop.TrainingGraph(task.name, task.train, task.valid)

    graphs = [read(name) for name in named]
    graph_names = ", ".join(named) if len(named) < 4 else f"{len(named)} graphs"
    workers, place = join_workers(place)
    console = Console(stderr=True, quiet=not workers.leads)

    def run(settings: Mapping[str, str], folder: Path) -> str:
        chosen = [*arguments, *(f"--{name}={value}" for name, value in settings.items())]
        config, recipe = parse_settings(chosen, model_class, start)
        torch.manual_seed(derive(seed, "weights"))
        built = model_class.build(config, graphs[0].train)
        if given is not None:
            restore(built, given.state_dict(), Path(str(weights)))
        built = built.to(place)
        with progress_bar(f"training {model} on {graph_names} {' '.join(map('='.join, settings.items()))}") as advance:
            loop.train(
                model,
                built,
                graphs,
                recipe,
                out=folder,
                seed=seed,
                resume=resume or grid,
                started_from=weights,
                workers=workers,
                on_step=lambda r: advance(r.epoch * r.steps + r.step, recipe.epochs * r.steps),
                on_epoch=lambda record: console.print(_line(record), highlight=False),
            )
        return str(recipe.select)

    if grid and workers.size > 1:
        raise ConfigError("--grid runs one training after the other in one process; start it without torchrun.")
    if not grid:
        run({}, out)
    elif (out / MODEL_FILE).exists() and not (out / "grid.json").exists():
        raise ConfigError(f"{out}: holds a model already; give another --out.")
    elif not model_class.grid:
        raise ConfigError(f"{model} has no grid of settings to choose from; give them as --name value.")
    else:
        best = search(model_class.grid, out, run)
        typer.echo("Best by validation: " + ", ".join(f"{name} {value}" for name, value in best.items()))
    if workers.leads:
        typer.echo(f"Saved the {wanted.keep} weights to {out}. Next: anykg evaluate {out} {named[0]}")


def _line(record: dict[str, float]) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in record.items())
