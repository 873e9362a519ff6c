"""GAT, GIN and GraphConv: the paper's baselines, which see edges but not their types.

Entities start as ones [N, 1]; 3 layers of width 32 over both directions of every edge give h [N, 32]. The score of
(i, k, j) is an MLP (128-32-1) of [h_i, h_j, d(i, j), d(j, i)], k ignored. d is a learned vector for the distance 0, 1,
2, 3 or more over edges in both directions, all triplets between i and j left out. (j, k + R, i) is scored in its own
direction, as [h_j, h_i, ...]: training uses every triplet and its inverse.

Departures from the public code: batches of 1,024 instead of 256, which train as well in a quarter of the time; the
targets of a batch are removed from the graph before entities are encoded, so that no degree counts them, unless
`visible_targets` is set (GraphConv on DB-YG: MRR 43.6 without, 40.6 with; the paper has 38.7). What the paper calls
GraphConv scales entity vectors to length 1 in the public code: see `normalize`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from anykg.errors import ConfigError
from anykg.graph.distances import triplet_distances
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import EncodedGraph, LinkPredictor, Symmetry, without_targets
from anykg.models.recipe import Recipe
from anykg.plugins import import_extra

FARTHEST = 3
"""Distances beyond this share a vector."""


@dataclass(frozen=True)
class HomogeneousConfig:
    """Settings of the network; the defaults are the published ones."""

    width: int = 32
    """Hidden units of an entity and of the read-out."""
    layers: int = 3
    """Graph convolutions."""
    heads: int = 2
    """Attention heads (gat)."""
    visible_targets: bool = False
    """Keep the targets of a training batch in the graph from which entities are encoded, as in the public code."""
    normalize: bool = False
    """Scale entity vectors to length 1 after every layer, as in the public code, which has torch-geometric's SAGEConv
    with sums and `normalize` (otherwise the same function) in place of GraphConv."""
    glorot: bool = False
    """Initialise weights by Glorot and Bengio's rule and biases to zero, as in the public code, instead of torch's
    defaults."""
    readout: int = 0
    """Hidden units of a further first layer of the read-out. Runs of version 0.1 have 128; they also score (j, k + R,
    i) as (i, k, j)."""

    def __post_init__(self) -> None:
        for name, least in (("width", 1), ("layers", 1), ("heads", 1), ("readout", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, found {getattr(self, name)}.")
        if self.width % self.heads:
            raise ConfigError(f"width must be a multiple of heads ({self.heads}), found {self.width}.")


@dataclass(frozen=True, eq=False)
class Encoded(EncodedGraph):
    """Entity vectors of one graph."""

    states: Tensor  # [N, D]


def _pyg() -> Any:
    return import_extra("torch_geometric.nn", "pyg", "A graph convolution")


def edge_index(graph: KnowledgeGraph) -> Tensor:
    """Both directions of every triplet [2, 2E]."""
    forward = torch.from_numpy(graph.triplets.astype(np.int64))[:, [0, 2]].T
    return torch.cat([forward, forward.flip(0)], dim=1)


def adjacency_matrix(graph: KnowledgeGraph) -> Tensor:
    """Number of triplets between two entities, in either direction: sparse [N, N]; faster than gathering."""
    edges = edge_index(graph)
    matrix = torch.sparse_coo_tensor(
        edges, torch.ones(edges.shape[1]), (graph.num_entities,) * 2, check_invariants=False
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return matrix.coalesce().to_sparse_csr()


class HomogeneousGNN(LinkPredictor):
    """A torch-geometric convolution stacked, with distances at the read-out."""

    Config = HomogeneousConfig
    recipe = Recipe(
        epochs=10,
        batch_size=1024,
        lr=1e-3,
        weight_decay=5e-4,
        gradient_norm=1.0,
        inverses=True,
        negative_entities=4,
        sides="tail",
        positive_weight=4.0,
    )
    symmetry = Symmetry.EXACT
    reads_relations = False
    hides_facts = False
    edges: Callable[[KnowledgeGraph], Tensor] = staticmethod(adjacency_matrix)
    """The graph as the convolutions take it, on a CPU."""

    def __init__(self, config: HomogeneousConfig = HomogeneousConfig()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.config = config
        widths = [1] + [config.width] * config.layers
        self.convolutions = nn.ModuleList(self.convolution(before, after) for before, after in pairwise(widths))
        self.distance = nn.Embedding(FARTHEST + 2, config.width)
        sizes = [4 * config.width, *([config.readout] if config.readout else []), config.width]
        hidden = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
        self.readout = nn.Sequential(*hidden, nn.Linear(config.width, 1))
        if config.glorot:
            self._draw_by_glorot()

    @torch.no_grad()
    def _draw_by_glorot(self) -> None:
        for parameter in (*self.convolutions.parameters(), *self.readout.parameters()):
            if parameter.ndim == 1:
                parameter.zero_()
            elif parameter.ndim == 2:
                nn.init.xavier_uniform_(parameter)
        bound = (6 / (1 + self.config.width)) ** 0.5
        self.distance.weight.uniform_(-bound, bound)

    def convolution(self, before: int, after: int) -> Any:
        """One layer [N, before] -> [N, after]."""
        raise NotImplementedError

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> Encoded:
        del seed
        return Encoded(graph, self._states(graph))

    def training_scores(self, graph: KnowledgeGraph, rows: Tensor, seed: int, targets: Tensor | None = None) -> Tensor:
        del seed
        seen = graph if self.config.visible_targets else without_targets(graph, rows, targets)
        encoded = Encoded(graph, self._states(seen))
        return self.score_triplets(encoded, rows.reshape(-1, 3)).view(rows.shape[:2])

    def score_triplets(self, encoded: Encoded, triplets: Tensor) -> Tensor:
        ends = triplets[:, [0, 2]]  # [B, 2]
        if self.config.readout:
            ends = torch.where((triplets[:, 1] >= encoded.num_relations)[:, None], ends.flip(1), ends)
        asked = triplets.cpu().numpy()
        lengths = triplet_distances(encoded.graph, asked, directed=False, leave_out="pair", limit=FARTHEST)
        steps = torch.from_numpy(np.where(lengths < 0, FARTHEST + 1, lengths)).long().to(triplets.device)  # [B, 2]
        rows = torch.cat([encoded.states[ends].flatten(1), self.distance(steps).flatten(1)], dim=1)  # [B, 4 D]
        scores: Tensor = self.readout(rows).squeeze(1)
        return scores

    def _states(self, graph: KnowledgeGraph) -> Tensor:
        """Vectors [N, D] of the entities."""
        device = self.distance.weight.device
        edges = graph.derive(self.edges if device.type == "cpu" else edge_index).to(device)
        states = torch.ones(graph.num_entities, 1, device=device)
        for i, convolution in enumerate(self.convolutions):
            states = convolution(states, edges)
            if self.config.normalize:
                states = nn.functional.normalize(states, dim=1)
            if i + 1 < len(self.convolutions):
                states = torch.relu(states)
        return states


def no_edges(graph: KnowledgeGraph) -> Tensor:
    """An empty edge list [2, 0]."""
    del graph
    return torch.empty(2, 0, dtype=torch.long)


class GAT(HomogeneousGNN):
    """Graph attention. On all-ones inputs a weighted mean stays constant, so only distances distinguish triplets.

    Each entity is its own neighbour, so the edges only change the last digits, which would randomly break ties between
    equal distances; on a CPU they are left out.
    """

    edges = staticmethod(no_edges)

    def convolution(self, before: int, after: int) -> Any:
        return _pyg().GATConv(before, after // self.config.heads, heads=self.config.heads)


class GIN(HomogeneousGNN):
    """Graph isomorphism network."""

    def convolution(self, before: int, after: int) -> Any:
        return _pyg().GINConv(nn.Sequential(nn.Linear(before, after), nn.ReLU(), nn.Linear(after, after)))


class GraphConv(HomogeneousGNN):
    """Two linear maps, of the entity and of the sum of its neighbours."""

    def convolution(self, before: int, after: int) -> Any:
        return _pyg().GraphConv(before, after)
