"""Train a model on one or several graphs and keep its best weights in a folder."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch

from anykg.answers.results import GraphInfo, Result
from anykg.devices import device_named
from anykg.errors import ConfigError, SettingError
from anykg.graph.task import Task
from anykg.io.catalog import GraphLike, Reading, as_graph, as_task, locate
from anykg.models.base import LinkPredictor
from anykg.models.folders import MODEL_FILE
from anykg.models.recipe import Recipe
from anykg.models.registry import MODELS
from anykg.models.store import load_model, restore
from anykg.progress import Progress, ignore
from anykg.seeds import initialising
from anykg.settings import changed, unknown_setting
from anykg.training import loop
from anykg.training.grid import search
from anykg.training.workers import Workers, joined_workers


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Training(Result):
    """A trained model, its folder, and its training log; rows are epochs."""

    predictor: LinkPredictor
    """The model with its best weights."""
    folder: Path
    log: pl.DataFrame
    chosen: dict[str, str]
    """Settings selected by validation, with `grid`."""
    kept: str = "best"
    """Which weights were kept: best or last."""
    leads: bool = True
    """False in all but the first of several processes that train together."""

    def to_polars(self) -> pl.DataFrame:
        """Return a row for each epoch: loss, validation metric, seconds."""
        return self.log

    def summary(self) -> dict[str, Any]:
        """Return the folder, the epochs and the settings that a grid search chose."""
        return {"folder": str(self.folder), "epochs": self.log.height, "chosen": self.chosen}


class _Job(NamedTuple):
    """Settings shared by all runs of one training."""

    name: str
    model_class: type[LinkPredictor]
    start: LinkPredictor | None
    started_from: str | None
    graphs: Sequence[loop.TrainingGraph]
    seed: int
    device: torch.device
    workers: Workers


def train(
    model: str,
    graphs: GraphLike | Task | Sequence[Path | str | Task],
    *,
    out: Path | str,
    seed: int = 0,
    resume: bool = False,
    weights: Path | str | None = None,
    grid: bool = False,
    device: str = "cpu",
    trust: bool = False,
    data_dir: Path | None = None,
    reading: Reading | None = None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
    progress: Progress = ignore,
    **settings: Any,
) -> Training:
    """Train a model and keep its best weights in a folder.

    Args:
        model: The name of a model, such as "isdea+", or MODULE:CLASS.
        graphs: A task, or any graph, of which a random tenth is used for validation (none with checkpoint="last"); or a
            list of names, paths and tasks, which are trained on together.
        out: The folder to write to.
        seed: Seed of all random choices.
        resume: Continue a stopped training run.
        weights: Start from the weights and the settings of this model.
        grid: Select hyperparameters from the model's own grid by validation.
        device: The device: cpu, cuda, cuda:1, mps.
        trust: Import the class of `weights` if it is not one of anykg's own.
        data_dir: Folder that is searched for datasets first.
        reading: How to read files: columns, separator, header, literals, labels.
        on_epoch: Called with the figures of each epoch.
        progress: Called with (done, total) steps.
        **settings: Settings of the model or its training, such as epochs or lr; `anykg models NAME` lists them.
    """
    folder = Path(out)
    model_class = MODELS.load(model, trust=trust)
    start = None if weights is None else load_model(weights, trust=trust)
    if start is not None and not isinstance(start, model_class):
        raise SettingError("weights", f"expected a model of kind {model}, found {type(start).__name__}")
    _, recipe = apply_settings(model_class, settings, start)  # report wrong settings before anything is read
    learnt = [_training_graph(source, recipe, data_dir, reading or {}) for source in _listed(graphs)]
    with joined_workers(device_named(device)) as (workers, chosen_device):
        started_from = None if weights is None else str(weights)
        job = _Job(model, model_class, start, started_from, learnt, seed, chosen_device, workers)

        def run(values: Mapping[str, Any], target: Path) -> tuple[LinkPredictor, Recipe]:
            return _run(job, {**settings, **values}, target, resume or grid, on_epoch, progress)

        best: dict[str, str] = {}
        if grid and workers.size > 1:
            raise ConfigError(
                "A grid search trains one model after the other in one process; start it without torchrun."
            )
        if not grid:
            predictor, _ = run({}, folder)
        elif (folder / MODEL_FILE).exists() and not (folder / "grid.json").exists():
            raise ConfigError(f"{folder}: already holds a model; choose another folder.")
        elif not model_class.grid:
            raise ConfigError(f"{model} has no grid of settings; give them one by one.")
        else:
            best = search(model_class.grid, folder, lambda values, target: str(run(values, target)[1].select))
            predictor = load_model(folder, trust=trust)
    log = _log(folder / "grid" / ",".join(f"{name}={value}" for name, value in best.items()) if best else folder)
    return Training(
        command="train",
        graph=GraphInfo.of(learnt[0].train, learnt[0].name) if len(learnt) == 1 else None,
        model=model,
        predictor=predictor,
        folder=folder,
        log=log,
        chosen=best,
        kept=recipe.checkpoint,
        leads=workers.leads,
    )


def apply_settings(
    model_class: type[LinkPredictor], settings: Mapping[str, Any], start: LinkPredictor | None = None
) -> tuple[Any, Recipe]:
    """The config of `start` or the model's own, and its recipe, with some fields changed to values given or to text."""
    config, recipe = model_class.Config() if start is None else start.config, model_class.recipe
    names = [{field.name for field in dataclasses.fields(part)} for part in (config, recipe)]
    values: list[dict[str, Any]] = [{}, {}]
    for name, value in settings.items():
        owner = next((index for index, known in enumerate(names) if name in known), None)
        if owner is None:
            raise unknown_setting(name, sorted(names[0] | names[1]))
        values[owner][name] = value
    return changed(config, values[0]), changed(recipe, values[1])


def _run(
    job: _Job,
    settings: Mapping[str, Any],
    folder: Path,
    resume: bool,
    on_epoch: Callable[[dict[str, Any]], None] | None,
    progress: Progress,
) -> tuple[LinkPredictor, Recipe]:
    config, recipe = apply_settings(job.model_class, settings, job.start)
    with initialising(job.seed):
        built = job.model_class.build(config, job.graphs[0].train)
    if job.start is not None:
        restore(built, job.start.state_dict(), Path(str(job.started_from)))
    trained = loop.train(
        job.name,
        built.to(job.device),
        job.graphs,
        recipe,
        out=folder,
        seed=job.seed,
        resume=resume,
        started_from=job.started_from,
        workers=job.workers,
        on_step=lambda report: progress(report.epoch * report.steps + report.step, recipe.epochs * report.steps),
        on_epoch=on_epoch if job.workers.leads else None,
    )
    return trained, recipe


def _training_graph(source: Any, recipe: Recipe, data_dir: Path | None, reading: Reading) -> loop.TrainingGraph:
    """A training graph and its validation facts; none for a single graph if the last weights are kept."""
    named = isinstance(source, str | Path)
    single = locate(source, data_dir).is_graph if named else not isinstance(source, Task)
    if single and recipe.checkpoint == "last":
        graph = as_graph(source, data_dir, **reading)
        return loop.TrainingGraph(graph.name, graph, graph.subset(np.arange(0)))
    task = as_task(source, data_dir, **reading)
    return loop.TrainingGraph(task.name, task.train, task.valid)


def _listed(graphs: Any) -> list[Any]:
    """Several graphs, or one: rows of triples are one graph."""
    if isinstance(graphs, list | tuple) and graphs and all(isinstance(part, str | Path | Task) for part in graphs):
        return list(graphs)
    return [graphs]


def _log(folder: Path) -> pl.DataFrame:
    path = folder / loop.LOG_FILE
    if not path.exists():
        return pl.DataFrame()
    return pl.DataFrame([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()])
