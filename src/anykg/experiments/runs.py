"""Run the cells of an experiment: each in its own folder, done ones skipped, stopped ones resumed.

A cell is claimed by a lock on its folder that the system drops with its holder, so several processes can share a list
and a killed one leaves nothing behind.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from anykg.core.atomic import write_json
from anykg.core.contract import LinkPredictor
from anykg.core.seeds import derive
from anykg.data.catalog import load_task
from anykg.data.task import Task
from anykg.evaluation.evaluate import evaluate
from anykg.evaluation.protocol import Task as TaskKind
from anykg.evaluation.protocol import protocol_named
from anykg.evaluation.report import as_json
from anykg.experiments.recipe import Cell, Experiment
from anykg.models.registry import MODELS
from anykg.training.loop import TrainingGraph, train

RESULT_FILE = "result.json"
KINDS: tuple[TaskKind, ...] = ("node", "relation")
Tell = Callable[[Cell, str], None]


def folder_of(runs: Path, experiment: Experiment, cell: Cell) -> Path:
    """Where a cell lives."""
    return runs / experiment.name / cell.model.name / cell.task / str(cell.seed)


def run_all(
    experiment: Experiment, runs: Path, *, data_dir: Path | None = None, minutes: float | None = None, tell: Tell
) -> int:
    """Run what is not done yet, starting no cell after `minutes`; returns how many are missing still."""
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    for cell in experiment.cells():
        folder = folder_of(runs, experiment, cell)
        if deadline is not None and time.monotonic() > deadline:
            break
        with claimed(folder) as mine:
            if mine and not (folder / RESULT_FILE).exists():
                started = time.monotonic()
                result = run_cell(experiment, cell, runs, data_dir)
                write_json(folder / RESULT_FILE, result | {"seconds": round(time.monotonic() - started, 1)})
                tell(cell, _summary(result))
    return sum(not (folder_of(runs, experiment, cell) / RESULT_FILE).exists() for cell in experiment.cells())


def run_cell(experiment: Experiment, cell: Cell, runs: Path, data_dir: Path | None) -> dict[str, Any]:
    """Train one model on one task, and ask it both kinds of question."""
    task = load_task(cell.task, data_dir)
    model = _trained(experiment, cell, runs, task)
    by_protocol = {
        protocol: {kind: _asked(cell, model, task, kind, protocol) for kind in KINDS}
        for protocol in experiment.protocols(cell.model)
    }
    first, *others = by_protocol
    return by_protocol[first] | {"also": {protocol: by_protocol[protocol] for protocol in others}}


def _trained(experiment: Experiment, cell: Cell, runs: Path, task: Task) -> LinkPredictor:
    """The cell's model with its weights, which another row may have trained, or must now."""
    row = cell.model.weights_of or cell.model
    model_class = MODELS.load(row.name)
    torch.manual_seed(derive(cell.seed, "weights"))
    model: LinkPredictor = model_class.build(model_class.Config(), task.train)
    graphs = [TrainingGraph(task.name, task.train, task.valid)]
    folder = folder_of(runs, experiment, cell._replace(model=row))
    with nullcontext() if row is cell.model else claimed(folder, wait=True):
        recipe = replace(model.recipe, **row.recipe)
        model = train(row.name, model, graphs, recipe, out=folder, seed=cell.seed, resume=True)
    return model.with_config(**cell.model.config)


def _asked(cell: Cell, model: LinkPredictor, task: Task, kind: TaskKind, protocol: str) -> dict[str, Any]:
    evaluation = evaluate(
        model,
        task.observed,
        task.test,
        task=kind,
        protocol=protocol_named(protocol),
        seed=cell.seed,
        limit=cell.model.limits.get(kind),
        also_known=task.valid if task.valid.entities == task.observed.entities else None,
    )
    return as_json(
        evaluation,
        task.observed,
        model=cell.model.name,
        dataset=task.name,
        reads_relations=model.reads_relations,
    )


def read_results(experiment: Experiment, runs: Path) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """The cells that are done, with what they found."""
    for cell in experiment.cells():
        path = folder_of(runs, experiment, cell) / RESULT_FILE
        if path.exists():
            yield cell, json.loads(path.read_text(encoding="utf-8"))


@contextmanager
def claimed(folder: Path, *, wait: bool = False) -> Iterator[bool]:
    """Whether this process alone may work in a folder, for as long as the context lasts; `wait` until it may."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True


def _summary(result: dict[str, Any]) -> str:
    return ", ".join(f"{kind} Hits@10 {100 * result[kind]['metrics']['hits@10']:.1f}" for kind in KINDS)
