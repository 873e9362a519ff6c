"""Graphs as objects of other libraries, and back: torch-geometric, PyKEEN."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary

if TYPE_CHECKING:
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
