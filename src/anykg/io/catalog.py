"""Resolve names of datasets, paths, addresses and objects to graphs and tasks.

A name of the catalog (case-insensitive), a path, `-` for standard input, an address or a database works wherever a
graph or a task is expected; to read a folder with the name of a dataset, write ./NAME. Files of datasets are searched
in the given directory, then in $ANYKG_DATA, then in the user's cache. No dataset is downloaded here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import reduce
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Unpack

from anykg.errors import ConfigError, DataError, UnknownName, nearest
from anykg.io import addresses
from anykg.io.datasets import DATASETS, Dataset
from anykg.io.options import Reading as Reading

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    import polars as pl

    from anykg.graph.graph import KnowledgeGraph
    from anykg.graph.task import Task

    GraphLike: TypeAlias = (
        KnowledgeGraph | Path | str | pd.DataFrame | pl.DataFrame | nx.Graph | Iterable[Sequence[str | int]]
    )
    """A graph, a file, a dataset's name, a pandas or polars frame, a NetworkX graph, or (head, relation, tail) rows."""
else:
    GraphLike = Any

_BY_NAME = {row.name.casefold(): row for row in DATASETS}


class Located(NamedTuple):
    """The location of a dataset or path."""

    name: str
    path: Path | str
    """A file of triplets, a folder, the common prefix of two folders, `-`, or an address."""
    is_graph: bool
    """Whether it is a single graph, instead of a task with training and test facts."""
    parts: tuple[Located, ...] = ()
    """The tasks that a mixture is merged from."""


def load_task(name_or_path: str | Path, data_dir: Path | None = None, **reading: Unpack[Reading]) -> Task:
    """A task of the catalog, in a folder, or split from one file of triplets (8 : 1 : 1)."""
    located = locate(name_or_path, data_dir)
    if located.is_graph:
        from anykg.graph.split import split_task

        return split_task(load_graph(name_or_path, data_dir, **reading), located.name)
    return _read_task(located, reading)


def load_graph(name_or_path: str | Path, data_dir: Path | None = None, **reading: Unpack[Reading]) -> KnowledgeGraph:
    """The whole graph in a file; for a task, the graph observed at inference."""
    located = locate(name_or_path, data_dir)
    if located.is_graph:
        from anykg.io.read import read_graph

        graph = read_graph(located.path, **reading)
    else:
        graph = _read_observed(located, reading)
    graph.name = located.name
    return graph


def as_graph(source: GraphLike, data_dir: Path | None = None, **reading: Unpack[Reading]) -> KnowledgeGraph:
    """Return the graph that `source` stands for.

    Args:
        source: A KnowledgeGraph, a file, an address, a database, the name of a dataset, a pandas or polars DataFrame,
            (head, relation, tail) rows, or a graph of NetworkX, igraph, rdflib, torch-geometric or PyKEEN. Names that
            are not text, such as integers, become text.
        data_dir: Folder that is searched for datasets first.
        **reading: Reading options; see `anykg.io.options.ReadOptions`.
    """
    from anykg.graph.graph import KnowledgeGraph

    if isinstance(source, str | Path):
        return load_graph(source, data_dir, **reading)
    if isinstance(source, KnowledgeGraph):
        if reading:
            raise ConfigError(f"{' and '.join(sorted(reading))} only applies to reading files, not to {_kind(source)}.")
        return source
    from anykg.io.exchange import from_object

    try:
        graph = from_object(source, **reading)
    except TypeError as error:
        if not reading:
            raise
        raise ConfigError(f"{' and '.join(sorted(reading))} cannot be given for {_kind(source)}.") from error
    if graph is None:
        raise DataError(
            "Expected a graph, a file, a dataset name, a DataFrame, a list of (head, relation, tail), or a graph of "
            f"NetworkX, igraph, rdflib, torch-geometric or PyKEEN; found {_kind(source)}."
        )
    return graph


def as_task(source: GraphLike | Task, data_dir: Path | None = None, **reading: Unpack[Reading]) -> Task:
    """Return the task that `source` stands for: one of the catalog, a folder, or a random split of a single graph."""
    from anykg.graph.split import split_task
    from anykg.graph.task import Task

    if isinstance(source, Task):
        return source
    if isinstance(source, str | Path):
        return load_task(source, data_dir, **reading)
    return split_task(as_graph(source, data_dir, **reading), name_of(source))


def name_of(source: object) -> str:
    """Return the display name of a graph-like in results: its name or file, else "graph"."""
    if isinstance(source, str) and addresses.scheme_of(source):
        return addresses.name_of(source)
    if isinstance(source, str | Path):
        return Path(source).name
    name = getattr(source, "name", None)
    return name if isinstance(name, str) and name else "graph"


def _kind(source: object) -> str:
    return f"a {type(source).__module__}.{type(source).__qualname__}".replace("a builtins.", "")


def get_dataset(name: str) -> Dataset:
    """The row called `name`, ignoring case; raises `UnknownName` with near matches."""
    row = _BY_NAME.get(name.casefold())
    if row is None:
        raise UnknownName("dataset (`anykg data list` shows them all)", name, _near(name))
    return row


def data_dirs(data_dir: Path | None = None) -> list[Path]:
    """The directories to search, in order; downloads go to the first."""
    given = [data_dir] if data_dir is not None else []
    if os.environ.get("ANYKG_DATA"):
        given.append(Path(os.environ["ANYKG_DATA"]))
    from platformdirs import user_cache_path

    return [*given, user_cache_path("anykg") / "data"]


def find(row: Dataset, data_dir: Path | None = None) -> Path | None:
    """The file, folder or common prefix of two folders with a dataset's triplets; None if they are not present."""
    if row.family == "embedded":
        return Path(str(files("anykg.io").joinpath(row.prefix)))
    triplets = [file for file in row.files if file.endswith(".txt")]
    for directory in data_dirs(data_dir):
        if all((directory / file).is_file() for file in triplets):
            return directory / row.prefix
    return None


def locate(name_or_path: str | Path, data_dir: Path | None = None) -> Located:
    """Locate a dataset or a path; raises an `InputError` that says how to get it."""
    name = str(name_or_path)
    row = _BY_NAME.get(name.casefold())
    if row is not None:
        location = find(row, data_dir)
        if location is None:
            raise DataError(_not_here(row, data_dir))
        parts = tuple(Located(part.name, location.parent / part.prefix, False) for part in row.parts)
        return Located(row.name, location, row.layout == "graph", parts)
    if name == "-":
        return Located("standard input", name, True)
    if addresses.scheme_of(name):
        addresses.is_address(name)  # raises for unknown schemes
        return Located(addresses.name_of(name), name, True)
    path = Path(name).expanduser()
    if path.is_file() or addresses.is_database(path) or _is_graph_folder(path):
        return Located(path.resolve().name, path, True)
    if path.is_dir() or any(path.with_name(path.name + end).is_dir() for end in ("-trans", "-ind") if path.name):
        return Located(path.resolve().name, path, False)
    raise UnknownName("file, folder or dataset (`anykg data list` shows them all)", name, _near(name))


def _is_graph_folder(path: Path) -> bool:
    if not path.is_dir():
        return False
    from anykg.io.property_graphs import is_graph_folder

    return is_graph_folder(path)


def _read_task(located: Located, reading: Reading) -> Task:
    from anykg.io.layouts import read_task

    _refuse_options(located, reading)
    if located.parts:
        from anykg.graph.task import merge_tasks

        return merge_tasks([read_task(part.path, part.name) for part in located.parts], located.name)
    return read_task(located.path, located.name)


def _read_observed(located: Located, reading: Reading) -> KnowledgeGraph:
    """Like `_read_task(...).observed`, without reading training graphs."""
    from anykg.graph.graph import KnowledgeGraph
    from anykg.io.layouts import read_observed

    _refuse_options(located, reading)
    return reduce(KnowledgeGraph.union, (read_observed(part.path) for part in located.parts or (located,)))


def _refuse_options(located: Located, reading: Reading) -> None:
    given = sorted(name for name in reading if name != "cache")
    if given:
        raise ConfigError(
            f"{located.path}: a folder in a public layout has no reading options, but {' and '.join(given)} "
            "was given; that is for a single file."
        )


def _not_here(row: Dataset, data_dir: Path | None) -> str:
    directories = " or ".join(str(directory) for directory in data_dirs(data_dir))
    if not row.source and not row.parts:
        return (
            f"{row.name} is not in {directories}; it has no public address, so put its train.txt, valid.txt and "
            f"test.txt into {row.prefix} there."
        )
    return f"{row.name} is not in {directories}; `anykg data fetch {row.name}` downloads it."


def _near(name: str) -> list[str]:
    names = [row.name for row in DATASETS]
    return nearest(name, names) or [known for known in names if name and name.casefold() in known.casefold()][:3]
