"""Save graphs as files for jobs: fast to read, and unchanged even if the source has changed or was standard input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from anykg.atomic import atomic_path
from anykg.errors import DataError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary

PARTS = {"entity": "entities.parquet", "relation": "relations.parquet"}
FACTS = "facts.npy"


def save_snapshot(graph: KnowledgeGraph, folder: Path) -> Path:
    """Write a graph into a folder of its own below `folder`, unless it is there; returns that folder."""
    own = folder / graph.digest[:24]
    if (own / FACTS).exists():
        return own
    for vocabulary in (graph.entities, graph.relations):
        labels = vocabulary.labels
        if labels is None:
            labels = pl.repeat(None, len(vocabulary), dtype=pl.String, eager=True)
        with atomic_path(own / PARTS[vocabulary.kind]) as temporary:
            pl.DataFrame({"name": vocabulary.names, "label": labels}).write_parquet(temporary)
    with atomic_path(own / FACTS) as temporary, temporary.open("wb") as file:
        np.save(file, graph.triplets)  # written last: its presence means that the snapshot is complete
    return own


def load_snapshot(folder: Path, name: str, digest: str) -> KnowledgeGraph:
    """Read a snapshot that `save_snapshot` wrote."""
    try:
        vocabularies = []
        for kind, file in PARTS.items():
            table = pl.read_parquet(folder / file)
            labels = None if table["label"].null_count() == table.height else table["label"]
            vocabularies.append(Vocabulary(kind, table["name"], labels))
        graph = KnowledgeGraph(np.load(folder / FACTS, allow_pickle=False), *vocabularies)
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise DataError(f"{folder}: the copy of the graph cannot be read ({error}); restart `anykg serve`.") from error
    if graph.digest != digest:
        raise DataError(f"{folder}: the copy of the graph is damaged; remove it and restart `anykg serve`.")
    graph.name = name
    return graph
