"""An experiment as a declarative file: training tasks, test graphs, models and seeds.

A task is a training set: a task of the catalog, or graphs of one family joined by "+" (`infra+sci`). Columns are test
sets, each a list of graphs to average over; a model is never tested on a graph of a topic that it was trained on.
Experiments may share their cells: a cell is trained once, and each experiment tests it on its own graphs.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from anykg.errors import ConfigError, UnknownName, nearest

OWN = "own"
"""In a column: the inference graph of the task itself."""
VALID = "valid"
"""In a column: the training graphs, tested on the facts of their valid.txt."""
MESSAGE = "message"
"""The same, tested on the message-passing part of the training graph: held-out facts are not observed."""


@dataclass(frozen=True)
class ModelRow:
    """A model of a table."""

    name: str
    """The name of the row."""
    published: str = ""
    """Its name in the paper; empty if the paper has no such row."""
    model: str = ""
    """The registered model; the row's name if empty."""
    weights_of: ModelRow | None = None
    """The earlier row whose trained weights it uses; its own if empty."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the model other than its defaults, at inference."""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """Settings of its training other than its defaults."""
    graphs: Literal["merged", "apart", "experts"] = "merged"
    """Whether several training graphs are merged by name, kept separate and sampled in turn, or have one model each in
    addition to the merged one (all from `weights_of`), of which one is selected per graph; see `experts`."""
    training_graph: Literal["valid", "message"] = "valid"
    """In a column of training graphs: the whole graph is observed, or only the part that is not held out as targets,
    as in the public code of ISDEA+."""
    protocols: tuple[str, ...] = ()
    """The protocols, that of the paper's row first; the experiment's if empty."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Sizes of random samples of questions, by kind: {relation = 500}."""


class Cell(NamedTuple):
    """One run: a model trained on a task with a seed, and tested on the graphs of the experiment."""

    model: ModelRow
    task: str
    seed: int


@dataclass(frozen=True)
class Experiment:
    """One of the paper's tables or figures."""

    name: str
    title: str
    tasks: tuple[str, ...]
    seeds: int
    protocol: str
    models: tuple[ModelRow, ...]
    family: str = ""
    """Prefix of the names of training graphs in the catalog."""
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: {"zero-shot": (OWN,)})
    """The columns of the tables: names, and the graphs that each is the mean of."""
    metrics: tuple[str, ...] = ("hits@10", "hits@5", "hits@1", "mrr")
    optional: tuple[str, ...] = ()
    """Graphs that are skipped if they are not available."""
    pairs: tuple[tuple[str, str], ...] = ()
    """Pairs of tasks to compare: without and with the graphs suspected of negative transfer."""
    plot: Literal["", "heatmaps", "pairs", "lines"] = ""
    cells_of: str = ""
    """The experiment whose cells it shares; its own if empty."""

    @property
    def home(self) -> str:
        """The folder of its runs and figures."""
        return self.cells_of or self.name

    def protocols(self, model: ModelRow) -> tuple[str, ...]:
        """The protocols of a row."""
        return model.protocols or (self.protocol,)

    def trained_on(self, task: str) -> tuple[str, ...]:
        """The training graphs of a task, by their names in the catalog."""
        return tuple(self.family + name for name in task.split("+")) if self.family else (task,)

    def training_names(self, cell: Cell) -> tuple[str, ...]:
        """The names of a cell's training graphs; a merged one is named like the task."""
        names = self.trained_on(cell.task)
        return (cell.task,) if cell.model.graphs == "merged" and len(names) > 1 else names

    def tested_on(self, cell: Cell) -> tuple[str, ...]:
        """The graphs a cell is tested on."""
        return tuple(dict.fromkeys(name for column in self.columns for name in self.averaged(cell, column)))

    def averaged(self, cell: Cell, column: str) -> tuple[str, ...]:
        """The graphs that a cell's figure in a column is the mean of, none if it was trained on the topic.

        `valid:NAME` or `message:NAME` is a training graph with the facts of its valid.txt.
        """
        trained = tuple(f"{cell.model.training_graph}:{name}" for name in self.training_names(cell))
        special = {OWN: (cell.task,), VALID: trained}
        unseen = (graph for graph in self.columns[column] if not self.family or graph not in self.trained_on(cell.task))
        return tuple(name for graph in unseen for name in special.get(graph, (graph,)))

    def cells(self) -> list[Cell]:
        """Every run, ordered by seed; models that keep training graphs apart are skipped for a single graph."""
        return [
            Cell(model, task, seed)
            for seed in range(self.seeds)
            for model in self.models
            for task in self.tasks
            if model.graphs != "apart" or len(self.trained_on(task)) > 1
        ]

    def only(self, models: list[str] | None, tasks: list[str] | None, seeds: int | None) -> Experiment:
        """A part of the table."""
        return replace(
            self,
            models=tuple(m for m in self.models if m.name in _known("model", models, [m.name for m in self.models])),
            tasks=tuple(t for t in self.tasks if t in _known("task", tasks, list(self.tasks))),
            seeds=self.seeds if seeds is None else seeds,
        )

    def without(self, graphs: tuple[str, ...]) -> Experiment:
        """The same without some test graphs; a column that needs one of them is left out."""
        return replace(self, columns={k: v for k, v in self.columns.items() if not set(v) & set(graphs)})


def experiment_names() -> list[str]:
    """Every experiment described in this folder."""
    paths = files("anykg.benchmarks").joinpath("experiments").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in paths if file.name.endswith(".toml"))


def load_experiment(name: str) -> Experiment:
    """The experiment described in `NAME.toml` of this folder."""
    known = experiment_names()
    if name not in known:
        raise UnknownName("experiment", name, nearest(name, known) or known)
    file = files("anykg.benchmarks").joinpath("experiments", f"{name}.toml")
    text: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    shared = load_experiment(text["cells_of"]) if "cells_of" in text else None
    models = {model.name: model for model in shared.models} if shared else {}
    for key, row in text["models"].items():
        settings = row | {"protocols": tuple(row["protocols"])} if "protocols" in row else row
        if "weights_of" in row:
            settings = settings | {"weights_of": models[row["weights_of"]]}
        models[key] = replace(models.get(key, ModelRow(key)), **settings)
    given: dict[str, Any] = {key: tuple(text[key]) for key in ("tasks", "metrics", "optional") if key in text}
    given |= {key: text[key] for key in ("title", "seeds", "protocol", "family", "plot") if key in text}
    given |= {"cells_of": shared.home} if shared else {}
    if "columns" in text:
        given["columns"] = {column: tuple(graphs) for column, graphs in text["columns"].items()}
    given["pairs"] = tuple((without, with_it) for without, with_it in text.get("pairs", ()))
    return Experiment(name=name, models=tuple(models[key] for key in text["models"]), **given)


def _known(kind: str, asked: list[str] | None, known: list[str]) -> list[str]:
    for name in asked or []:
        if name not in known:
            raise ConfigError(f"There is no {kind} {name!r} in this experiment; it has {', '.join(known)}.")
    return known if asked is None else asked
