"""Read link-prediction tasks from folders, in the layouts of the public benchmarks.

| files | training graph | inference graph |
|---|---|---|
| `F/train`, `valid`, `test` | train, valid | the same: train observed, test predicted |
| `X-trans/train`, `valid` and `X-ind/observe`, `test` | train, valid | observe observed, test predicted |
| `F/train`, `msg`, `valid`, `test` | train | msg observed, test predicted |

In the last layout the validation triplets lie on the inference graph: they are known facts when test triplets are
ranked (`Task.inference_valid`), and `valid`, which is for the training graph, is empty. `.dict` files are not read,
because the triplets contain all names.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from anykg.errors import DataError
from anykg.graph.graph import COLUMNS, KnowledgeGraph
from anykg.graph.task import Task
from anykg.io.read import read_names

EXTENSIONS = tuple(extension + packing for extension in (".txt", ".tsv", ".csv") for packing in ("", ".gz", ".zst"))
ACCEPTED = (
    "a folder with train.txt, valid.txt and test.txt, a folder that also has msg.txt, or the two folders "
    "X-trans (train.txt, valid.txt) and X-ind (observe.txt, test.txt), given as either or as X"
)


def read_task(path: Path | str, name: str | None = None) -> Task:
    """The task in a folder, or in the pair of folders `<path>-trans` and `<path>-ind`."""
    path = Path(path)
    if path.is_file():
        raise DataError(f"{path}: expected a task, found a single file; a task is {ACCEPTED}.")
    if path.is_dir() and _has(path, "train", "msg", "test"):
        return _read_msg(path, name or path.resolve().name)
    if path.is_dir() and _has(path, "train", "valid", "test"):
        return _read_transductive(path, name or path.resolve().name)
    return _read_pair(path, name)


def read_observed(path: Path | str) -> KnowledgeGraph:
    """Like `read_task(path).observed`; the files of a separate training graph are not read."""
    path = Path(path)
    if path.is_dir() and _has(path, "train", "msg", "test"):
        return _read_together(_file(path, "msg"), _file(path, "test"))[0]
    if path.is_file() or (path.is_dir() and _has(path, "train", "valid", "test")):
        return read_task(path).observed
    _, _, inference = _pair_of(path)
    return _read_together(_file(inference, "observe"), _file(inference, "test"))[0]


def _read_transductive(folder: Path, name: str) -> Task:
    train, valid, test = _read_together(*(_file(folder, stem) for stem in ("train", "valid", "test")))
    return Task(name, train=train, valid=valid, observed=train, test=test)


def _read_pair(path: Path, name: str | None) -> Task:
    prefix, training, inference = _pair_of(path)
    train, valid = _read_together(_file(training, "train"), _file(training, "valid"))
    observed, test = _read_together(_file(inference, "observe"), _file(inference, "test"))
    return Task(name or prefix, train=train, valid=valid, observed=observed, test=test)


def _pair_of(path: Path) -> tuple[str, Path, Path]:
    """The common prefix of the two folders of a task, and the folders of its training and inference graphs."""
    prefix = path.resolve().name if path.is_dir() else path.name
    prefix = prefix.removesuffix("-trans").removesuffix("-ind")
    parent = path.resolve().parent if path.is_dir() else path.parent
    training, inference = parent / f"{prefix}-trans", parent / f"{prefix}-ind"
    if not training.is_dir() and not inference.is_dir():
        what = "none of these" if path.is_dir() else "nothing there"
        raise DataError(f"{path}: expected a task, found {what}; a task is {ACCEPTED}.")
    for folder in (training, inference):
        if not folder.is_dir():
            raise DataError(f"{folder}: there is no such folder; a task of two graphs is both {prefix}-trans and -ind.")
    return prefix, training, inference


def _read_msg(folder: Path, name: str) -> Task:
    (train,) = _read_together(_file(folder, "train"))
    observed, test = _read_together(_file(folder, "msg"), _file(folder, "test"))
    nothing = train.with_triplets(np.empty((0, 3), np.int32))
    valid = None
    if _found(folder, "valid"):
        # Names that only valid.txt has are not candidates, so its facts about them filter nothing.
        table = read_names(_file(folder, "valid")).table
        entities, relations = observed.entities.names.implode(), observed.relations.names.implode()
        table = table.filter(
            pl.col("head").is_in(entities), pl.col("tail").is_in(entities), pl.col("relation").is_in(relations)
        )
        valid = observed.with_triplets(_ids(observed, table))
    return Task(name, train=train, valid=nothing, observed=observed, test=test, inference_valid=valid)


def _read_together(*paths: Path) -> list[KnowledgeGraph]:
    """A graph for each file, over the shared vocabularies of all files."""
    tables = [read_names(path).table for path in paths]
    whole = KnowledgeGraph.from_polars(pl.concat(tables))
    return [whole.with_triplets(_ids(whole, table)) for table in tables]


def _ids(graph: KnowledgeGraph, table: pl.DataFrame) -> np.ndarray:
    """The triplets [E, 3] of a table of names."""
    vocabularies = (graph.entities, graph.relations, graph.entities)
    return np.stack([v.ids(table[name]) for v, name in zip(vocabularies, COLUMNS, strict=True)], axis=1)


def _has(folder: Path, *stems: str) -> bool:
    return all(_found(folder, stem) for stem in stems)


def _file(folder: Path, stem: str) -> Path:
    files = _found(folder, stem)
    if len(files) != 1:
        names = " and ".join(path.name for path in files) or "none"
        raise DataError(f"{folder}: expected one file {stem}.txt (or .tsv, .csv, also .gz or .zst), found {names}.")
    return files[0]


def _found(folder: Path, stem: str) -> list[Path]:
    return [path for extension in EXTENSIONS if (path := folder / (stem + extension)).is_file()]
