"""An experiment as a declarative file: which models, tasks and seeds make up one of the paper's tables."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import NamedTuple

from anykg.core.errors import ConfigError, UnknownName, nearest


@dataclass(frozen=True)
class ModelRow:
    """A model of a table."""

    name: str
    published: str
    """What the paper calls it."""


class Cell(NamedTuple):
    """One run: a model trained and tested on a task from a seed."""

    model: ModelRow
    task: str
    seed: int


@dataclass(frozen=True)
class Experiment:
    """One of the paper's tables."""

    name: str
    title: str
    tasks: tuple[str, ...]
    seeds: int
    protocol: str
    models: tuple[ModelRow, ...]

    def cells(self) -> list[Cell]:
        """Every run, a seed of everything before the next seed."""
        return [Cell(m, task, seed) for seed in range(self.seeds) for m in self.models for task in self.tasks]

    def only(self, models: list[str] | None, tasks: list[str] | None, seeds: int | None) -> Experiment:
        """A part of the table."""
        return replace(
            self,
            models=tuple(m for m in self.models if m.name in _known("model", models, [m.name for m in self.models])),
            tasks=tuple(t for t in self.tasks if t in _known("task", tasks, list(self.tasks))),
            seeds=self.seeds if seeds is None else seeds,
        )


def load_experiment(name: str) -> Experiment:
    """The experiment described in `NAME.toml` of this folder."""
    folder = files("anykg.experiments")
    known = sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml"))
    if name not in known:
        raise UnknownName("experiment", name, nearest(name, known) or known)
    text = tomllib.loads(folder.joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    models = tuple(ModelRow(key, **row) for key, row in text["models"].items())
    return Experiment(name, text["title"], tuple(text["tasks"]), text["seeds"], text["protocol"], models)


def _known(kind: str, asked: list[str] | None, known: list[str]) -> list[str]:
    for name in asked or []:
        if name not in known:
            raise ConfigError(f"There is no {kind} {name!r} in this experiment; it has {', '.join(known)}.")
    return known if asked is None else asked
