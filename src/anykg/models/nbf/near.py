"""States that most entities share between queries.

If all queries have the same relation vectors, L layers of a Bellman-Ford network from their heads tell apart only the
entities within L edges of the heads of a query. Every other entity has the state that it has without a query, which is
computed once for all queries.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from anykg.models.nbf import fast
from anykg.models.nbf.edges import RelationalEdges
from anykg.models.nbf.reference import Queries

FEW = 0.5
"""Up to this share of rows to compute, the states without a query included, the others are shared."""


@dataclass(frozen=True, eq=False)
class CommonStates:
    """The states of all entities without a query."""

    states: Tensor
    """[1, N, D]."""
    factors: dict[Tensor, Tensor] = field(default_factory=dict)
    """Their factors [N, 4, D] in relation steps, by the first weights of the MLP."""


@dataclass(frozen=True, eq=False)
class NearStates:
    """States [B, N, D] of B queries: `own` at some rows, the common ones elsewhere."""

    queries: int
    """B."""
    common: CommonStates
    rows: np.ndarray
    """int32 [A]: b * N + entity, ascending."""
    own: Tensor
    """[1, A, D]."""

    def everywhere(self) -> Tensor:
        """All states, [B, N, D]."""
        states = self.common.states.repeat(self.queries, 1, 1)
        states.view(-1, states.shape[-1])[torch.from_numpy(self.rows)] = self.own[0]
        return states


def near_rows(queries: Queries, edges: RelationalEdges, layers: int, more: int) -> np.ndarray | None:
    """The rows, b * N + entity, that a number of layers tell apart: int32 [A], ascending.

    None if these and `more` rows are many, or if the kernels, which compute without gradients, do not apply.
    """
    heads, boundary = queries.heads, queries.boundary
    if torch.is_grad_enabled() or not fast.kernels_apply(boundary):
        return None
    if fast.is_small(len(heads), edges.num_edges, boundary.shape[-1]):
        return None
    from anykg.models.nbf.kernels import add_senders

    order = edges.by_sender
    reached = np.zeros(len(heads) * edges.num_nodes, np.uint8)
    rows: np.ndarray = (np.arange(len(heads))[:, None] * edges.num_nodes + heads.numpy()).ravel().astype(np.int32)
    for _ in range(layers):
        add_senders(reached, rows, order.nodes, order.runs, order.others, edges.num_nodes)
        rows = np.flatnonzero(reached).astype(np.int32)
        if more + len(rows) > FEW * len(reached):
            return None
    return rows


def nowhere(queries: Queries) -> Queries:
    """A query that starts nowhere, with the relation vectors of the first."""
    return Queries(torch.zeros_like(queries.heads[:1]), torch.zeros_like(queries.boundary[:1]), queries.tables[:1])
