"""`anykg reproduce answers`: fill in the cells that are missing.

A cell is a graph, a number of minutes and a system: one that predicts links (`links`), or a use of answers that has
graphs of its own. It is written as one line as soon as it is done, so that the same command resumes an interrupted run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from anykg.benchmarks import pykeen_baselines
from anykg.benchmarks.answers import completion, departments, explanations, links, planted
from anykg.benchmarks.answers.links import FIT, LIMIT, MINUTES, ZERO_SHOT, Tell
from anykg.benchmarks.cells import Cell, read_cells, write_cells
from anykg.benchmarks.runs import claimed
from anykg.errors import ConfigError
from anykg.io.catalog import load_task
from anykg.provenance import provenance

NAME = "answers"
CELLS_FILE = "cells.json"


class Use(NamedTuple):
    """Something that answers are used for."""

    graphs: Mapping[str, float]
    """Minutes for each graph; 0 where nothing is fitted."""
    measure: Callable[[str, float, Path | None], dict[str, Any]]
    """The figures of a graph, given the minutes and the data directory."""
    lines: Callable[[list[Cell]], list[str]]
    """Markdown of some cells."""


USES = {
    "complete": Use(completion.GRAPHS, completion.measure, completion.lines),
    "audit": Use(planted.GRAPHS, planted.measure, planted.lines),
    "explain": Use(explanations.GRAPHS, explanations.measure, explanations.lines),
    "departments": Use(departments.GRAPHS, departments.measure, departments.lines),
}
SYSTEMS = (*links.SYSTEMS, *USES)


def run(
    graphs: Sequence[str] | None = None,
    minutes: Sequence[float] = MINUTES,
    systems: Sequence[str] = SYSTEMS,
    *,
    results: Path,
    limit: int = LIMIT,
    data_dir: Path | None = None,
    tell: Tell = lambda text: None,
) -> None:
    """Fill in the cells that are missing, of all graphs or of some."""
    unknown = [system for system in systems if system not in SYSTEMS]
    if unknown:
        raise ConfigError(f"There is no system {unknown[0]!r}; there are {', '.join(SYSTEMS)}.")
    path = results / NAME / CELLS_FILE
    predictors = [system for system in systems if system not in USES]
    combinations = [
        (length, name, system) for length in minutes for name in graphs or links.GRAPHS for system in predictors
    ]
    for number, (length, name, system) in enumerate(combinations, 1):
        key = _key(name, length, system, limit)
        if _find(read_cells(path), key) is None:
            tell(f"{number} of {len(combinations)}: {name} {key['minutes']:g} min {system} ...")
            others = minutes if system in pykeen_baselines.NAMES else [length]
            keys = [_key(name, other, system, limit) for other in sorted(set(others))]
            keys = [part for part in keys if _find(read_cells(path), part) is None]
            figures = links.measure(system, load_task(name, data_dir), [part["minutes"] for part in keys], limit, tell)
            for part, found in zip(keys, figures, strict=True):
                _add(path, part | found)
        done = _find(read_cells(path), key)
        assert done is not None
        shown = done["figures"]["mixed" if system == FIT else system]["mrr"]
        tell(f"{name} {key['minutes']:g} min {system}: MRR {100 * shown:.1f}")
    for use in (system for system in systems if system in USES):
        for name, length in USES[use].graphs.items():
            key = {"graph": name, "minutes": length, "system": use}
            if (graphs is None or name in graphs) and _find(read_cells(path), key) is None:
                tell(f"{name} {use} ...")
                _add(path, key | USES[use].measure(name, length, data_dir))


def _add(path: Path, cell: Cell) -> None:
    with claimed(path.parent, wait=True):  # other processes may have added cells
        write_cells(path, [*read_cells(path), cell | {"made_with": provenance()}], experiment=NAME)


def _key(name: str, minutes: float, system: str, limit: int) -> Cell:
    """The key of a cell; zero-shot does not depend on the minutes."""
    return {"graph": name, "minutes": 0.0 if system == ZERO_SHOT else minutes, "system": system, "limit": limit}


def _find(cells: Iterable[Cell], key: Cell) -> Cell | None:
    return next((cell for cell in cells if all(cell.get(name) == value for name, value in key.items())), None)
