"""An experiment as a declarative file: which models, tasks and seeds make up one of the paper's tables."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, NamedTuple

from anykg.core.errors import ConfigError, UnknownName, nearest


@dataclass(frozen=True)
class ModelRow:
    """A model of a table."""

    name: str
    """The registered model, unless it uses the weights of another row."""
    published: str = ""
    """What the paper calls it; empty if it has no such row."""
    weights_of: ModelRow | None = None
    """The row above it whose trained weights it uses; its own if none."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the model other than its defaults, at inference."""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """Settings of its training other than its defaults."""
    protocols: tuple[str, ...] = ()
    """How it is tested; the first is the one of the paper's row. The experiment's if empty."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Of which kind of question only a seeded sample is asked, and how large: {relation = 500}."""


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

    def protocols(self, model: ModelRow) -> tuple[str, ...]:
        """How a row is tested."""
        return model.protocols or (self.protocol,)

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
    models: dict[str, ModelRow] = {}
    for key, row in text["models"].items():
        trained_by = models[row["weights_of"]] if "weights_of" in row else None
        models[key] = ModelRow(key, **row | {"weights_of": trained_by, "protocols": tuple(row.get("protocols", ()))})
    return Experiment(
        name, text["title"], tuple(text["tasks"]), text["seeds"], text["protocol"], tuple(models.values())
    )


def _known(kind: str, asked: list[str] | None, known: list[str]) -> list[str]:
    for name in asked or []:
        if name not in known:
            raise ConfigError(f"There is no {kind} {name!r} in this experiment; it has {', '.join(known)}.")
    return known if asked is None else asked
