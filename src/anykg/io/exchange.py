"""Convert graphs to and from objects of other libraries.

Supported are pandas and polars frames, rows, NetworkX, igraph, rdflib, torch-geometric and PyKEEN. Frames go through
the same steps as files, so that columns and conditions can be set. pyarrow is not needed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from anykg.errors import DataError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.io.choices import BLANK, names_of
from anykg.io.columns import UNTYPED
from anykg.io.options import ReadOptions
from anykg.io.parsed import frame_of
from anykg.io.tables import of_frame

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    import rdflib
    from pykeen.triples import TriplesFactory
    from torch_geometric.data import Data, HeteroData

EDGE_KINDS = ("relation", "label", "type", "predicate")
"""Edge attributes of NetworkX and igraph that name the relation, in order of preference; then a multigraph's key."""
NODE_NAMES = ("entity_names", "names", "name", "node_id")
"""Attributes of a node store of torch-geometric that may name its nodes."""
TRIPLET = ("head", "relation", "tail")
logger = logging.getLogger("anykg")


def from_object(source: object, **reading: Any) -> KnowledgeGraph | None:
    """Make a graph of an object of another library; None if its type is not supported."""
    library = type(source).__module__.partition(".")[0]
    if library == "polars":
        return from_polars(source, **reading)
    if library == "pandas":
        return from_pandas(source, **reading)
    if library == "rdflib" and hasattr(source, "serialize"):
        return from_rdflib(source, **reading)
    if hasattr(source, "mapped_triples") and hasattr(source, "entity_to_id"):
        return from_pykeen(source)
    if hasattr(source, "edge_types") and hasattr(source, "node_types"):
        return from_hetero(source)
    if hasattr(source, "edge_index") and hasattr(source, "num_nodes"):
        return from_pyg(source)
    if hasattr(source, "edges") and hasattr(source, "is_directed") and hasattr(source, "is_multigraph"):
        return from_networkx(source)
    if hasattr(source, "get_edgelist") and hasattr(source, "vs"):
        return from_igraph(source)
    if isinstance(source, Iterable) and not isinstance(source, str | bytes):
        return from_rows(source, **reading)
    return None


# -- tables -----------------------------------------------------------------------------------------------------


def from_polars(frame: Any, **reading: Any) -> KnowledgeGraph:
    """Make a graph of a frame, by the names of its columns or `columns`; `where`, `relation`, `keep`, `drop` apply."""
    options = ReadOptions.of(**reading)
    names = names_of(of_frame(frame, options, "frame", "the frame"), options, "the frame")
    if names.table.is_empty():
        raise DataError("The frame has no facts: every row has a blank field or was left out.")
    if names.left_out.get(BLANK):
        logger.warning("The frame: rows with a blank field left out: %d.", names.left_out[BLANK])
    for note in names.notes:
        logger.warning("The frame: %s.", note)
    graph = KnowledgeGraph.from_polars(names.table)
    entities, relations = (v.with_labels(dict(names.labels)) for v in (graph.entities, graph.relations))
    return KnowledgeGraph(graph.triplets, entities, relations)


def from_pandas(frame: Any, **reading: Any) -> KnowledgeGraph:
    """Make a graph of a pandas frame; see `from_polars`."""
    columns = {
        str(name): frame[name].astype(object).where(frame[name].notna(), None).tolist() for name in frame.columns
    }
    return from_polars(frame_of(columns), **reading)


def from_rows(rows: Iterable[Any], relation: str | None = None) -> KnowledgeGraph:
    """Make a graph of (head, relation, tail) rows, mappings with these keys, or with `relation` of (head, tail) pairs.

    Names that are not text become text.
    """
    columns: tuple[list[str], list[str], list[str]] = ([], [], [])
    for number, row in enumerate(rows, 1):
        parts = [row.get(key, relation if key == "relation" else None) for key in TRIPLET] if _is_mapping(row) else row
        if relation is not None and not isinstance(parts, str) and hasattr(parts, "__len__") and len(parts) == 2:
            parts = [parts[0], relation, parts[1]]
        if isinstance(parts, str) or not hasattr(parts, "__len__") or len(parts) != 3:
            raise DataError(f"Row {number}: expected (head, relation, tail), found {row!r}.")
        for column, part in zip(columns, parts, strict=True):
            if part is None or part == "" or part != part:
                raise DataError(f"Row {number}: expected three names, found {tuple(parts)!r}.")
            column.append(part if isinstance(part, str) else str(part))
    return KnowledgeGraph.from_names(*columns)


def _is_mapping(row: object) -> bool:
    return isinstance(row, Mapping) or hasattr(row, "get")


def to_pandas(graph: KnowledgeGraph) -> pd.DataFrame:
    """A pandas frame with columns head, relation, tail."""
    import pandas as pd

    return pd.DataFrame(graph.to_polars().to_dict(as_series=False))


# -- graphs of other libraries ----------------------------------------------------------------------------------


def from_networkx(graph: Any) -> KnowledgeGraph:
    """Make a graph of a NetworkX graph; a relation is an edge's attribute (see EDGE_KINDS) or a multigraph's key.

    An undirected edge becomes one fact, in the direction in which NetworkX lists it. A node's attribute `label` or
    `name` is its label.
    """
    if graph.is_multigraph():
        edges = [(head, tail, key, data) for head, tail, key, data in graph.edges(keys=True, data=True)]
    else:
        edges = [(head, tail, None, data) for head, tail, data in graph.edges(data=True)]
    rows = [(head, _kind(data, key), tail) for head, tail, key, data in edges]
    labels = {
        str(node): next((data[word] for word in ("label", "name", "title") if isinstance(data.get(word), str)), None)
        for node, data in graph.nodes(data=True)
    }
    return _labelled(from_rows(rows), {name: label for name, label in labels.items() if label and label != name})


def to_networkx(graph: KnowledgeGraph) -> nx.MultiDiGraph:
    """A NetworkX `MultiDiGraph`, the relation as key and attribute of an edge, labels as attribute `label` of nodes."""
    import networkx as nx

    made = nx.MultiDiGraph()
    labels = graph.entities.labels
    for index, name in enumerate(graph.entities):
        label = None if labels is None else labels[index]
        made.add_node(name, **({} if label is None else {"label": label}))
    for head, relation, tail in graph.to_polars().iter_rows():
        made.add_edge(head, tail, key=relation, relation=relation)
    return made


def from_igraph(graph: Any) -> KnowledgeGraph:
    """Make a graph of an igraph graph; vertices are named by `name` or their number."""
    named = "name" in graph.vs.attributes()
    names = [str(name) for name in graph.vs["name"]] if named else [str(i) for i in range(len(graph.vs))]
    kind = next((word for word in EDGE_KINDS if word in graph.es.attributes()), None)
    kinds = graph.es[kind] if kind is not None else [UNTYPED] * len(graph.es)
    rows = [(names[a], relation, names[b]) for (a, b), relation in zip(graph.get_edgelist(), kinds, strict=True)]
    return from_rows(rows)


def _kind(data: Mapping[str, Any], key: object) -> Any:
    named = next((data[kind] for kind in EDGE_KINDS if data.get(kind) not in (None, "")), None)
    if named is not None:
        return named
    return key if isinstance(key, str) else UNTYPED


def from_rdflib(graph: Any, **reading: Any) -> KnowledgeGraph:
    """Make a graph of an rdflib graph or dataset, with its labels and prefixes; literals as in a file."""
    from anykg.io.rdf import read
    from anykg.io.read import graph_with
    from anykg.io.source import Source

    quads = hasattr(graph, "contexts")
    content = graph.serialize(format="nquads" if quads else "nt", encoding="utf-8")
    options = ReadOptions.of(**reading)
    format = "nq" if quads else "nt"
    parsed = read(Source(Path("the rdflib graph"), content, f".{format}"), options, format)
    prefixes = {prefix: str(iri) for prefix, iri in graph.namespaces()}
    names = names_of(parsed.but(prefixes=prefixes), options, "the rdflib graph")
    if names.table.is_empty():
        raise DataError("The rdflib graph has no facts between resources; literals='keep' reads literals.")
    return graph_with(KnowledgeGraph.from_polars(names.table), names.labels, prefixes)


def to_rdflib(graph: KnowledgeGraph) -> rdflib.Graph:
    """An rdflib graph with the facts and labels."""
    import rdflib

    from anykg.io.rdf import write

    return rdflib.Graph().parse(data=write(graph, "nt").decode(), format="nt")


def _labelled(graph: KnowledgeGraph, labels: dict[str, str]) -> KnowledgeGraph:
    return KnowledgeGraph(graph.triplets, graph.entities.with_labels(labels), graph.relations) if labels else graph


# -- tensors ----------------------------------------------------------------------------------------------------


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


def from_pyg(data: Any) -> KnowledgeGraph:
    """Make a graph of `edge_index` and `edge_type`; without names ids become the names, without types all are one."""
    types = getattr(data, "edge_type", None)
    heads, tails = data.edge_index[0].numpy(), data.edge_index[1].numpy()
    kinds = np.zeros_like(heads) if types is None else types.numpy()
    triplets = np.stack([heads, kinds, tails], 1)
    count = int(triplets[:, 1].max(initial=-1)) + 1
    entities = getattr(data, "entity_names", None) or [str(i) for i in range(data.num_nodes)]
    named = [UNTYPED] if types is None else [str(i) for i in range(count)]
    relations = getattr(data, "relation_names", None) or named
    return KnowledgeGraph(triplets, Vocabulary("entity", entities), Vocabulary("relation", relations))


def to_hetero(graph: KnowledgeGraph) -> HeteroData:
    """A torch-geometric `HeteroData` with one type of nodes, `entity`, and an edge type for each relation."""
    import torch
    from torch_geometric.data import HeteroData

    data = HeteroData()
    data["entity"].num_nodes = graph.num_entities
    data["entity"].names = list(graph.entities)
    for index, relation in enumerate(graph.relations):
        pairs = graph.triplets[graph.triplets[:, 1] == index][:, [0, 2]]
        data["entity", relation, "entity"].edge_index = torch.from_numpy(pairs.T.astype(np.int64).copy())
    return data


def from_hetero(data: Any) -> KnowledgeGraph:
    """Make a graph of a `HeteroData`; a node is named by its store's list of names, or as TYPE/NUMBER.

    Edge types that differ only in the types of their ends are one relation.
    """
    names = {kind: _node_names(data, kind) for kind in data.node_types}
    columns: tuple[list[str], list[str], list[str]] = ([], [], [])
    for source, relation, target in data.edge_types:
        heads, tails = data[source, relation, target].edge_index.tolist()
        columns[0].extend(names[source][head] for head in heads)
        columns[1].extend([relation] * len(heads))
        columns[2].extend(names[target][tail] for tail in tails)
    return KnowledgeGraph.from_names(*columns)


def _node_names(data: Any, kind: str) -> list[str]:
    store = data[kind]
    for word in NODE_NAMES:
        if word in store and isinstance(store[word], list) and len(store[word]) == store.num_nodes:
            return [str(name) for name in store[word]]
    return [f"{kind}/{index}" for index in range(store.num_nodes)]


def to_pykeen(graph: KnowledgeGraph) -> TriplesFactory:
    """A PyKEEN `TriplesFactory` with the same ids."""
    import torch
    from pykeen.triples import TriplesFactory

    return TriplesFactory(
        torch.from_numpy(graph.triplets.astype(np.int64)),
        entity_to_id={name: i for i, name in enumerate(graph.entities)},
        relation_to_id={name: i for i, name in enumerate(graph.relations)},
    )


def from_pykeen(factory: Any) -> KnowledgeGraph:
    """Make a graph of a PyKEEN `TriplesFactory`, keeping its ids."""
    entities, relations = (
        Vocabulary(kind, sorted(ids, key=ids.__getitem__))
        for kind, ids in (("entity", factory.entity_to_id), ("relation", factory.relation_to_id))
    )
    return KnowledgeGraph(factory.mapped_triples.numpy(), entities, relations)


def to_polars(graph: KnowledgeGraph) -> pl.DataFrame:
    """A polars frame with columns head, relation, tail."""
    return graph.to_polars()
