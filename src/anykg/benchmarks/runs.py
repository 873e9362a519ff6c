"""Run the cells of an experiment: each in its own folder, skipping finished cells and resuming stopped ones.

A cell is locked by a lock on its folder that the system releases with its holder, so several processes can share a list
and a killed process leaves no locks behind.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock, Timeout

from anykg.atomic import write_json
from anykg.benchmarks.experiment import MESSAGE, VALID, Cell, Experiment, ModelRow
from anykg.benchmarks.experts import Experts
from anykg.evaluation.evaluate import evaluate
from anykg.evaluation.protocol import Target, protocol_named
from anykg.evaluation.report import as_json
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.task import Task, merge_tasks
from anykg.io.catalog import find, get_dataset, load_task
from anykg.models.base import LinkPredictor
from anykg.models.registry import MODELS
from anykg.seeds import initialising
from anykg.training.epoch import message_graph
from anykg.training.loop import TrainingGraph, train

RESULT_FILE = "result.json"
KINDS: tuple[Target, ...] = ("node", "relation")
Tests = dict[str, dict[str, Any]]
"""The results of a cell: by graph, by kind of question."""
Tell = Callable[[Cell, str], None]


def folder_of(runs: Path, experiment: Experiment, cell: Cell) -> Path:
    """The folder of a cell."""
    return runs / experiment.home / cell.model.name / cell.task / str(cell.seed)


def run_all(
    experiment: Experiment, runs: Path, *, data_dir: Path | None = None, minutes: float | None = None, tell: Tell
) -> int:
    """Run the unfinished cells, starting none after `minutes`; returns how many are still missing."""
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    experiment = with_available_graphs(experiment, data_dir)
    for cell in experiment.cells():
        if deadline is not None and time.monotonic() > deadline:
            break
        summary = run_if_missing(experiment, cell, runs, data_dir)
        if summary is not None:
            tell(cell, summary)
    return len(missing_cells(experiment, runs))


def run_if_missing(experiment: Experiment, cell: Cell, runs: Path, data_dir: Path | None) -> str | None:
    """Run a cell unless it is done or claimed by another process, and report the outcome."""
    folder = folder_of(runs, experiment, cell)
    with claimed(folder) as mine:
        if mine and not _is_done(experiment, cell, folder):
            return _summary(run_cell(experiment, cell, runs, data_dir))
    return None


def missing_cells(experiment: Experiment, runs: Path) -> list[Cell]:
    """The cells that are not done."""
    return [c for c in experiment.cells() if not _is_done(experiment, c, folder_of(runs, experiment, c))]


def with_available_graphs(experiment: Experiment, data_dir: Path | None) -> Experiment:
    """The experiment without its optional graphs that are not available."""
    absent = tuple(name for name in experiment.optional if find(get_dataset(name), data_dir) is None)
    return experiment.without(absent)


def run_cell(experiment: Experiment, cell: Cell, runs: Path, data_dir: Path | None) -> Tests:
    """Train one model on one task, and evaluate both kinds of question on every graph that is not done yet.

    Results are written graph by graph, so that an interrupted cell resumes at the current graph.
    """
    started = time.monotonic()
    folder = folder_of(runs, experiment, cell)
    tests, before = read_cell(folder, cell)
    graphs = training_graphs(experiment, cell, data_dir)
    if cell.model.graphs == "experts":
        model: LinkPredictor | Experts = _experts(experiment, cell, runs, data_dir)
    else:
        model = _trained(experiment, cell, runs, graphs)
    for asked in _asked_graphs(experiment, cell, graphs, data_dir):
        if asked.name not in tests:
            tests[asked.name] = _asked(experiment, cell, model, asked)
            seconds = round(before + time.monotonic() - started, 1)
            write_json(folder / RESULT_FILE, {"tests": tests, "seconds": seconds})
    return tests


def training_graphs(experiment: Experiment, cell: Cell, data_dir: Path | None) -> list[TrainingGraph]:
    """The training graphs of a cell: one, several, or several merged by the names of entities and relations."""
    tasks = [_load(name, data_dir) for name in experiment.trained_on(cell.task)]
    names = experiment.training_names(cell)
    if len(names) < len(tasks):
        tasks = [merge_tasks(tasks, cell.task)]
    return [TrainingGraph(name, task.train, task.valid) for name, task in zip(names, tasks, strict=True)]


def _trained(experiment: Experiment, cell: Cell, runs: Path, graphs: list[TrainingGraph]) -> LinkPredictor:
    """The cell's trained model; its weights may belong to another row, which is trained if necessary."""
    row = cell.model.weights_of or cell.model
    name, model_class = row.model or row.name, _class_of(row)
    with initialising(cell.seed):
        model: LinkPredictor = model_class.build(replace(model_class.Config(), **row.config), graphs[0].train)
    folder = folder_of(runs, experiment, cell._replace(model=row))
    with nullcontext() if row is cell.model else claimed(folder, wait=True):
        recipe = replace(model.recipe, **row.recipe)
        model = train(name, model, graphs, recipe, out=folder, seed=cell.seed, resume=True)
    return model.with_config(**cell.model.config)


def _class_of(row: ModelRow) -> Any:
    return MODELS.load(row.model or row.name)


def _experts(experiment: Experiment, cell: Cell, runs: Path, data_dir: Path | None) -> Experts:
    """A model for each training graph and one for all of them merged: those of other cells, trained if necessary."""
    assert cell.model.weights_of is not None
    models = {}
    for task in dict.fromkeys([*cell.task.split("+"), cell.task]):
        other = cell._replace(model=cell.model.weights_of, task=task)
        with claimed(folder_of(runs, experiment, other), wait=True):
            models[task] = _trained(experiment, other, runs, training_graphs(experiment, other, data_dir))
    return Experts(models)


class _AskedGraph(NamedTuple):
    name: str
    observed: KnowledgeGraph
    test: KnowledgeGraph
    also_known: KnowledgeGraph | None


def _asked_graphs(
    experiment: Experiment, cell: Cell, graphs: list[TrainingGraph], data_dir: Path | None
) -> Iterator[_AskedGraph]:
    """Yield the test graphs of a cell, read one at a time."""
    trained = {graph.name: graph for graph in graphs}
    for name in experiment.tested_on(cell):
        kind, _, rest = name.partition(":")
        if kind == VALID:
            yield _AskedGraph(name, trained[rest].train, trained[rest].valid, None)
        elif kind == MESSAGE:
            row = cell.model.weights_of or cell.model
            recipe = replace(_class_of(row).recipe, **row.recipe)
            messages = message_graph(trained[rest].train, recipe, cell.seed)
            yield _AskedGraph(name, messages, trained[rest].valid, trained[rest].train)
        else:
            task = _load(name, data_dir)
            yield _AskedGraph(name, task.observed, task.test, task.known)


def _asked(experiment: Experiment, cell: Cell, model: LinkPredictor | Experts, graph: _AskedGraph) -> dict[str, Any]:
    by_protocol = {}
    for protocol in experiment.protocols(cell.model):
        by_protocol[protocol] = {kind: _figures(cell, model, graph, kind, protocol) for kind in KINDS}
    first, *others = by_protocol
    return by_protocol[first] | {"also": {protocol: by_protocol[protocol] for protocol in others}}


def _figures(
    cell: Cell, model: LinkPredictor | Experts, graph: _AskedGraph, kind: Target, protocol: str
) -> dict[str, Any]:
    rules, limit, chosen = protocol_named(protocol), cell.model.limits.get(kind), {}
    if isinstance(model, Experts):
        name = model.best(graph.observed, kind, rules, cell.seed, limit)
        model, chosen = model.models[name], {"expert": name}
    evaluation = evaluate(
        model,
        graph.observed,
        graph.test,
        task=kind,
        protocol=rules,
        seed=cell.seed,
        limit=limit,
        also_known=graph.also_known,
    )
    found = as_json(
        evaluation,
        graph.observed,
        model=cell.model.name,
        dataset=graph.name,
        reads_relations=model.reads_relations,
    )
    return found | chosen


@lru_cache(maxsize=12)
def _load(name: str, data_dir: Path | None) -> Task:
    """A task, read once per process and cached with data derived by models, so all topics should fit in memory."""
    return load_task(name, data_dir)


def read_cell(folder: Path, cell: Cell) -> tuple[Tests, float]:
    """The results of a cell so far, by graph, and the seconds it took."""
    path = folder / RESULT_FILE
    if not path.exists():
        return {}, 0.0
    content = json.loads(path.read_text(encoding="utf-8"))
    # Older files, from before cells had several test graphs, hold the figures of the task's own graph.
    return content.get("tests") or {cell.task: content}, content["seconds"]


def _is_done(experiment: Experiment, cell: Cell, folder: Path) -> bool:
    return set(experiment.tested_on(cell)) <= set(read_cell(folder, cell)[0])


@contextmanager
def claimed(folder: Path, *, wait: bool = False) -> Iterator[bool]:
    """Whether this process holds the lock of a folder within the context; with `wait`, block until it does."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=-1 if wait else 0)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _summary(tests: Tests) -> str:
    means = (np.mean([test[kind]["metrics"]["hits@10"] for test in tests.values()]) for kind in KINDS)
    return ", ".join(f"{kind} Hits@10 {100 * mean:.1f}" for kind, mean in zip(KINDS, means, strict=True))
