"""Write a task in the layouts of the public benchmarks.

PediaTypes and WikiTopics: `NAME-trans/train.txt`, `valid.txt`, `NAME-ind/observe.txt`, `test.txt`. Transductive ones:
`NAME/train.txt`, `valid.txt`, `test.txt`. In every folder `entities.dict` and `relations.dict` with an id and a name on
each line. Fields are separated by spaces, as in the published files, or by tabs where a name holds a space or a quote.
"""

from __future__ import annotations

from pathlib import Path

from anykg.atomic import write_text
from anykg.errors import DataError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.task import Task
from anykg.graph.vocabulary import Vocabulary


def write_task(task: Task, out: Path) -> list[Path]:
    """Write the two folders of a task of two graphs below `out`, and return them."""
    folders = [out / f"{task.name}-trans", out / f"{task.name}-ind"]
    _write(folders[0], {"train": task.train, "valid": task.valid})
    _write(folders[1], {"observe": task.observed, "test": task.test})
    return folders


def write_folder(task: Task, out: Path) -> Path:
    """Write the folder of a task of one graph below `out`, and return it."""
    folder = out / task.name
    _write(folder, {"train": task.train, "valid": task.valid, "test": task.test})
    return folder


def _write(folder: Path, graphs: dict[str, KnowledgeGraph]) -> None:
    """Write a file for each graph, all over the same vocabularies."""
    known = next(iter(graphs.values()))
    separator = _separator(known, folder)
    for stem, graph in graphs.items():
        rows = graph.to_polars().iter_rows()
        write_text(folder / f"{stem}.txt", "".join(separator.join(row) + "\n" for row in rows))
    _write_ids(folder / "entities.dict", known.entities)
    _write_ids(folder / "relations.dict", known.relations)


def _separator(graph: KnowledgeGraph, folder: Path) -> str:
    names = [*graph.entities, *graph.relations]
    for name in names:
        if any(character in name for character in "\t\r\n"):
            raise DataError(f"{folder}: a name with a tab or a line break cannot be written there: {name!r}.")
    return "\t" if any(" " in name or '"' in name for name in names) else " "


def _write_ids(path: Path, vocabulary: Vocabulary) -> None:
    write_text(path, "".join(f"{index}\t{name}\n" for index, name in enumerate(vocabulary)))
