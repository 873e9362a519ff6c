"""`anykg reproduce answers`: fill in the cells that are missing.

A cell is a graph, a number of minutes and a system: one that predicts links (`links`), or another use of answers with
its own graphs. Each cell is written as one line as soon as it is done, so that the same command resumes an interrupted
run. Cells made with other weights of the shipped network are recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from anykg.benchmarks import pykeen_baselines
from anykg.benchmarks.answers import completion, departments, explanations, links, planted
from anykg.benchmarks.answers.links import FIT, LIMIT, MINUTES, ZERO_SHOT, Tell
from anykg.benchmarks.cells import Cell, read_cells, write_cells
from anykg.benchmarks.runs import claimed
from anykg.errors import ConfigError
from anykg.io.catalog import load_task
from anykg.models.folders import FOUNDATION
from anykg.models.store import digest_of, load_model
from anykg.provenance import provenance

NAME = "answers"
CELLS_FILE = "cells.json"


class Use(NamedTuple):
    """A use of answers."""

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
WITHOUT_NETWORK = (*pykeen_baselines.NAMES, "audit")


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
    path = results / NAME / CELLS_FILE
    keys = _keys(graphs, minutes, systems, limit)
    for number, key in enumerate(keys, 1):
        name, length, system = key["graph"], key["minutes"], key["system"]
        if _find(read_cells(path), key) is None:
            tell(f"{number} of {len(keys)}: {name} {length:g} min {system} ...")
            if system in USES:
                _add(path, key | USES[system].measure(name, length, data_dir))
            else:
                _predict(path, [key | {"minutes": other} for other in _together(key, minutes)], data_dir, tell)
        done = _find(read_cells(path), key)
        assert done is not None
        tell(f"{name} {length:g} min {system}: {_summary(done)}")


def _keys(graphs: Sequence[str] | None, minutes: Sequence[float], systems: Sequence[str], limit: int) -> list[Cell]:
    """The keys of all requested cells; ConfigError if there are none for a system or a graph."""
    unknown = [system for system in systems if system not in SYSTEMS]
    if unknown:
        raise ConfigError(f"There is no system {unknown[0]!r}; there are {', '.join(SYSTEMS)}.")
    keys = []
    for length in minutes:
        for name in links.GRAPHS if graphs is None else [name for name in graphs if name not in departments.GRAPHS]:
            for system in (system for system in systems if system not in USES):
                key = {"graph": name, "minutes": 0.0 if system == ZERO_SHOT else length, "system": system}
                keys.append(key | {"limit": limit} | _weights_of(system))
    for use in (system for system in systems if system in USES):
        for name, length in USES[use].graphs.items():
            if graphs is None or name in graphs:
                keys.append({"graph": name, "minutes": length, "system": use} | _weights_of(use))
    for name in graphs or ():
        if not any(key["graph"] == name for key in keys):
            of_uses = (f"{system} has {', '.join(USES[system].graphs)}" for system in systems if system in USES)
            raise ConfigError(f"There is nothing to measure on {name}; {'; '.join(of_uses)}.")
    return keys


def _weights_of(system: str) -> Cell:
    """The digest of the network's weights, for systems that use it."""
    return {} if system in WITHOUT_NETWORK else {"weights": network_digest()}


@cache
def network_digest() -> str:
    """The digest of the shipped network's weights, as stored in cells."""
    return digest_of(load_model(FOUNDATION))[:16]


def _together(key: Cell, minutes: Sequence[float]) -> list[float]:
    """The minutes that one training serves: all for PyKEEN."""
    return sorted(set(minutes)) if key["system"] in pykeen_baselines.NAMES else [key["minutes"]]


def _predict(path: Path, keys: list[Cell], data_dir: Path | None, tell: Tell) -> None:
    """Add the cells of one system on one graph that are missing."""
    missing = [key for key in keys if _find(read_cells(path), key) is None]
    task, lengths = load_task(keys[0]["graph"], data_dir), [key["minutes"] for key in missing]
    figures = links.measure(keys[0]["system"], task, lengths, keys[0]["limit"], tell)
    for key, found in zip(missing, figures, strict=True):
        _add(path, key | found)


def _add(path: Path, cell: Cell) -> None:
    """Write a cell, replacing one made with other weights."""
    same = {name: cell.get(name) for name in ("graph", "minutes", "system", "limit")}
    with claimed(path.parent, wait=True):  # other processes may have added cells
        others = [other for other in read_cells(path) if not _matches(other, same)]
        write_cells(path, [*others, cell | {"made_with": provenance()}], experiment=NAME)


def _find(cells: Iterable[Cell], key: Cell) -> Cell | None:
    return next((cell for cell in cells if _matches(cell, key)), None)


def _matches(cell: Cell, key: Cell) -> bool:
    return all(cell.get(name) == value for name, value in key.items())


def _summary(cell: Cell) -> str:
    system = cell["system"]
    if system in USES:
        return USES[system].lines([cell])[-1]
    return f"MRR {100 * cell['figures']['mixed' if system == FIT else system]['mrr']:.1f}"
