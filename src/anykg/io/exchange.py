"""Graphs as objects of other libraries, and back: rows, pandas, NetworkX, torch-geometric, PyKEEN."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from anykg.errors import DataError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from pykeen.triples import TriplesFactory
    from torch_geometric.data import Data


def to_pyg(graph: KnowledgeGraph) -> Data:
    """A torch-geometric `Data` with edge_index [2, E], edge_type [E] and the names as plain lists."""
    import torch
    from torch_geometric.data import Data

    triplets = torch.from_numpy(graph.triplets.astype(np.int64))
    return Data(
        edge_index=triplets[:, [0, 2]].T.contiguous(),
        edge_type=triplets[:, 1].contiguous(),
        num_nodes=graph.num_entities,
        entity_names=list(graph.entities),
        relation_names=list(graph.relations),
    )


def from_pyg(data: Data) -> KnowledgeGraph:
    """A graph from `edge_index` and `edge_type`; without names, ids become the names."""
    triplets = np.stack([data.edge_index[0].numpy(), data.edge_type.numpy(), data.edge_index[1].numpy()], 1)
    count = int(triplets[:, 1].max(initial=-1)) + 1
    entities = getattr(data, "entity_names", None) or [str(i) for i in range(data.num_nodes)]
    relations = getattr(data, "relation_names", None) or [str(i) for i in range(count)]
    return KnowledgeGraph(triplets, Vocabulary("entity", entities), Vocabulary("relation", relations))


def to_pykeen(graph: KnowledgeGraph) -> TriplesFactory:
    """A PyKEEN `TriplesFactory` with the same ids."""
    import torch
    from pykeen.triples import TriplesFactory

    return TriplesFactory(
        torch.from_numpy(graph.triplets.astype(np.int64)),
        entity_to_id={name: i for i, name in enumerate(graph.entities)},
        relation_to_id={name: i for i, name in enumerate(graph.relations)},
    )


def from_pykeen(factory: TriplesFactory) -> KnowledgeGraph:
    """A graph from a PyKEEN `TriplesFactory`, keeping its ids."""
    entities, relations = (
        Vocabulary(kind, sorted(ids, key=ids.__getitem__))
        for kind, ids in (("entity", factory.entity_to_id), ("relation", factory.relation_to_id))
    )
    return KnowledgeGraph(factory.mapped_triples.numpy(), entities, relations)


EDGE_KINDS = ("relation", "label", "type", "predicate")
"""Edge attributes of a NetworkX graph that name the relation, the first one found; then a multigraph's key."""
UNNAMED = "related to"
"""The relation of edges that have no name."""


def from_rows(rows: Iterable[Any]) -> KnowledgeGraph:
    """Make a graph of (head, relation, tail) rows or of mappings with these keys; names become text."""
    columns: tuple[list[str], list[str], list[str]] = ([], [], [])
    for number, row in enumerate(rows, 1):
        parts = [row.get(key) for key in ("head", "relation", "tail")] if hasattr(row, "get") else row
        if isinstance(parts, str) or not hasattr(parts, "__len__") or len(parts) != 3:
            raise DataError(f"Row {number}: expected (head, relation, tail), found {row!r}.")
        for column, part in zip(columns, parts, strict=True):
            if part is None or part == "" or part != part:
                raise DataError(f"Row {number}: expected three names, found {tuple(parts)!r}.")
            column.append(part if isinstance(part, str) else str(part))
    return KnowledgeGraph.from_names(*columns)


def from_pandas(frame: pd.DataFrame) -> KnowledgeGraph:
    """Make a graph of a frame with the columns head, relation and tail, or of three columns in that order."""
    names = ["head", "relation", "tail"]
    if not set(names) <= set(frame.columns):
        if len(frame.columns) != 3:
            raise DataError(f"Expected columns head, relation, tail; found {', '.join(map(str, frame.columns))}.")
        names = list(frame.columns)
    return from_rows(zip(*(frame[name].tolist() for name in names), strict=True))


def from_networkx(graph: nx.Graph) -> KnowledgeGraph:
    """Make a graph of a NetworkX graph; a relation is an edge's attribute (see EDGE_KINDS) or a multigraph's key.

    An undirected edge becomes one fact, in the direction in which NetworkX lists it.
    """
    if graph.is_multigraph():
        edges = [(head, tail, key, data) for head, tail, key, data in graph.edges(keys=True, data=True)]
    else:
        edges = [(head, tail, None, data) for head, tail, data in graph.edges(data=True)]
    rows = []
    for head, tail, key, data in edges:
        named = next((data[kind] for kind in EDGE_KINDS if data.get(kind) not in (None, "")), None)
        if named is None:
            named = key if isinstance(key, str) else UNNAMED
        rows.append((head, named, tail))
    return from_rows(rows)
