"""Edges grouped by the node they end in and by relation, as the relational kernels walk them.

An edge (u, e, v) carries a message from v to u: u receives, v sends. Edges are int32 [E, 3] in the order given, which
is the order of every mask and weight per edge. Within a node, edges of one relation are neighbours (a run), so that a
relation's vector is read once for each run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Adjacency(NamedTuple):
    """The edges of a graph as a kernel reads them: an `Order` without positions."""

    nodes: np.ndarray
    runs: np.ndarray
    relations: np.ndarray
    others: np.ndarray


class Order(NamedTuple):
    """Edges sorted by node, then relation.

    Run q has the edges from runs[q] to runs[q + 1], node u the runs from nodes[u] to nodes[u + 1].
    """

    nodes: np.ndarray  # int32 [N + 1]
    runs: np.ndarray  # int32 [Q + 1]
    relations: np.ndarray  # int32 [Q], of the run
    others: np.ndarray  # int32 [E], the node at the other end
    positions: np.ndarray  # int32 [E], the position of the edge in the given order

    @property
    def adjacency(self) -> Adjacency:
        """The edges for a kernel."""
        return Adjacency(*self[:4])

    def kept(self, keep: np.ndarray | None) -> np.ndarray | None:
        """A mask `keep` [E] of edges in the given order, in the order of the kernel."""
        return None if keep is None else keep[self.positions]


FEW = 1 << 16
"""Up to this many edges are sorted by numpy, which is faster than importing numba."""


@dataclass(frozen=True, eq=False)
class RelationalEdges:
    """A graph for message passing: `triplets` int32 [E, 3] are (receiver, relation, sender)."""

    triplets: np.ndarray
    num_nodes: int
    num_relations: int
    with_inverses: bool = False
    """The second half of the edges are the inverses of the first, in the same order; relations r and r + K / 2 too."""

    @property
    def num_edges(self) -> int:
        """E."""
        return len(self.triplets)

    @cached_property
    def by_receiver(self) -> Order:
        """Edges by receiver."""
        return self._ordered(0, 2)

    @cached_property
    def by_sender(self) -> Order:
        """Edges by sender; with inverses these are the edges by receiver, inverted."""
        if not self.with_inverses:
            return self._ordered(2, 0)
        order, edges, relations = self.by_receiver, self.num_edges, self.num_relations
        return order._replace(
            relations=np.where(order.relations < relations // 2, order.relations, order.relations - relations)
            + np.int32(relations // 2),
            positions=(order.positions + np.int32(edges // 2)) % np.int32(max(edges, 1)),
        )

    @cached_property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Receivers, relations and senders as int64 [E], for torch's indexing."""
        receivers, relations, senders = (torch.from_numpy(column.astype(np.int64)) for column in self.triplets.T)
        return receivers, relations, senders

    def degrees(self, keep: np.ndarray | None = None) -> np.ndarray:
        """How many edges each node receives, int64 [N]; only those in `keep` (bool [E]) if given."""
        receivers = self.triplets[:, 0] if keep is None else self.triplets[keep.astype(bool), 0]
        return np.bincount(receivers, minlength=self.num_nodes)

    def _ordered(self, node: int, other: int) -> Order:
        nodes, relations = self.triplets[:, node], self.triplets[:, 1]
        if self.num_edges <= FEW:
            positions = np.lexsort((relations, nodes)).astype(np.int32)
        else:
            from anykg.models.nbf.kernels import stable_order

            positions = stable_order(relations, np.arange(self.num_edges, dtype=np.int32), self.num_relations)
            positions = stable_order(nodes, positions, self.num_nodes)
        node_of, relation_of = nodes[positions], relations[positions]
        first = np.ones(self.num_edges, bool)
        first[1:] = (node_of[1:] != node_of[:-1]) | (relation_of[1:] != relation_of[:-1])
        starts = np.flatnonzero(first)
        return Order(
            nodes=np.searchsorted(node_of[starts], np.arange(self.num_nodes + 1)).astype(np.int32),
            runs=np.append(starts, self.num_edges).astype(np.int32),
            relations=relation_of[starts],
            others=self.triplets[positions, other],
            positions=positions,
        )
