"""Reference implementation of Bellman-Ford networks in plain torch: the layer, the networks, TRIX's relation step.

Shapes: B queries, N nodes, K relation ids (2R, or 4 link types), D width. An edge (u, e, v) carries a message from v to
u. `fast` and `relation_step` compute the same with compiled kernels, and fall back to this for other devices, dtypes
and widths.

    aggregate_u = boundary_u + sum over edges (u, e, v) of state_v * weight_e
    state_u    <- state_u + ReLU(LayerNorm(Linear([state_u, aggregate_u])))

Ultra runs this twice. On the graph of relations, whose edges have four types, with ones at the query relation as
boundary and a learned weight for each type: the last states are vectors of all relations. Then on the graph itself,
with the query relation's vector at the head as boundary, and an MLP of the relations' vectors as weights. An MLP of
[state_u, query vector] is the score of u as the answer.

TRIX lets entities refine the relation vectors in between: see `relation_messages` and `relation_update`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anykg.models.nbf.edges import RelationalEdges

EPSILON = 1e-5  # of the layer normalisation


class Layer(NamedTuple):
    """The parameters of a layer; `weights` [U, K, D] are tables of K relation vectors."""

    weights: Tensor
    linear: Tensor  # [D, 2D], of [state, aggregate]
    bias: Tensor  # [D]
    scale: Tensor  # [D], of the layer normalisation
    shift: Tensor  # [D]


class BellmanFordLayer(nn.Module):
    """The learned part of a layer; the weights of its messages come from elsewhere."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(2 * width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, weights: Tensor) -> Layer:
        """The layer for relation vectors [U, K, D]."""
        return Layer(weights, self.linear.weight, self.linear.bias, self.norm.weight, self.norm.bias)


class Queries(NamedTuple):
    """B queries: the M nodes each starts from, the vectors put there (added at equal nodes), and its table."""

    heads: Tensor  # int64 [B, M]
    boundary: Tensor  # [B, M, D]
    tables: Tensor  # int64 [B], below U: which table of relation vectors belongs to the query


def propagate(
    layers: Sequence[Layer],
    queries: Queries,
    edges: RelationalEdges,
    *,
    start: Tensor | None = None,
    keep: np.ndarray | None = None,
    edge_weights: Tensor | None = None,
    targets: Tensor | None = None,
) -> Tensor:
    """States after the last layer: [B, N, D], or [M, D] for the targets [M], rows b * N + node.

    Args:
        layers: At least one.
        queries: The boundary.
        edges: The graph.
        start: [B, N, D], the first states; the boundary by default.
        keep: bool [E]; edges where it is False are ignored.
        edge_weights: [L, E], factors of the messages of each layer, to attribute a score to edges.
        targets: int64 [M]; only these rows are wanted.
    """
    count, width = len(queries.heads), queries.boundary.shape[-1]
    boundary = queries.boundary.new_zeros(count, edges.num_nodes, width)
    which = torch.arange(count, device=boundary.device)[:, None].expand_as(queries.heads)
    boundary = boundary.index_put((which, queries.heads), queries.boundary, accumulate=True)  # [B, N, D]
    receivers, relations, senders = (column.to(boundary.device) for column in edges.tensors)
    kept = slice(None) if keep is None else torch.from_numpy(keep.astype(bool)).to(boundary.device)
    receivers, relations, senders = receivers[kept], relations[kept], senders[kept]

    states = boundary if start is None else start
    for index, layer in enumerate(layers):
        messages = states[:, senders] * layer.weights[queries.tables][:, relations]  # [B, E, D]
        if edge_weights is not None:
            messages = messages * edge_weights[index, kept, None]
        states = states + update(states, boundary.index_add(1, receivers, messages), layer)
    return states if targets is None else states.reshape(-1, width)[targets]


def update(states: Tensor, received: Tensor, layer: Layer) -> Tensor:
    """ReLU(LayerNorm(Linear([state, aggregate]))), [..., D]."""
    mixed = F.linear(torch.cat([states, received], dim=-1), layer.linear, layer.bias)
    return F.layer_norm(mixed, mixed.shape[-1:], layer.scale, layer.shift, EPSILON).relu()


def read_out(states: Tensor, query: Tensor, hidden: nn.Linear, last: nn.Linear) -> Tensor:
    """An MLP's scores [B, N] of [state, query vector], for states [B, N, D] and query vectors [B, D]."""
    pairs = torch.cat([states, query[:, None].expand_as(states)], dim=-1)  # [B, N, 2D]
    scores: Tensor = last(hidden(pairs).relu()).squeeze(-1)
    return scores


def transform(states: Tensor, hidden: nn.Linear, last: nn.Linear) -> Tensor:
    """An MLP's new states [B, N, D] of [state, ones]."""
    result: Tensor = last(hidden(torch.cat([states, torch.ones_like(states)], dim=-1)).relu())
    return result


# -- TRIX: relations that meet in an entity ----------------------------------------------------------------------------

HEAD_HEAD, TAIL_TAIL, HEAD_TAIL, TAIL_HEAD = range(4)  # link types, as in the published checkpoints of Ultra


class Factors(NamedTuple):
    """f(x) = second @ ReLU(first @ x + offset) + bias, for each of the four link types."""

    first: Tensor  # [4, D, D] (output, input)
    offsets: Tensor  # [B, 4, D], or [1, 4, D] for all queries
    second: Tensor  # [4, D, D] (output, input)
    bias: Tensor  # [4, D]


class Links(NamedTuple):
    """All pairs of relations that meet in an entity, by link type: `receiver` gets a message from `sender`."""

    kind: Tensor  # int64 [P]
    receiver: Tensor  # int64 [P], below 2R
    sender: Tensor  # int64 [P]
    entity: Tensor  # int64 [P]


def relation_links(edges: RelationalEdges, keep: np.ndarray | None = None) -> Links:
    """The links of a graph with inverses: relations r1, r2 that an entity has as heads, tails, or one of each.

    With H(v) the relations of which v is a head and T(v) those of which it is a tail, head-tail links have r1 in H(v)
    and r2 in T(v), and so on; two heads, or two tails, are linked only if r1 and r2 differ.
    """
    triplets = edges.triplets if keep is None else edges.triplets[keep.astype(bool)]
    entities, heads = np.unique(triplets[:, :2], axis=0).T.astype(np.int64)  # pairs (v, r) with r in H(v), by v
    tails = (heads + edges.num_relations // 2) % max(edges.num_relations, 1)  # the same pairs, with r in T(v)
    groups = np.split(np.arange(len(entities)), np.flatnonzero(np.diff(entities)) + 1)
    grids = [np.stack(np.meshgrid(group, group)).reshape(2, -1) for group in groups]
    one, other = np.concatenate(grids, axis=1)  # every two pairs of one entity
    parts = []
    for kind, first, second in (
        (HEAD_HEAD, heads, heads),
        (TAIL_TAIL, tails, tails),
        (HEAD_TAIL, heads, tails),
        (TAIL_HEAD, tails, heads),
    ):
        linked = (one != other) | (kind not in (HEAD_HEAD, TAIL_TAIL))
        parts.append(np.stack([np.full(len(one), kind), first[one], second[other], entities[one]])[:, linked])
    return Links(*(torch.from_numpy(column) for column in np.concatenate(parts, axis=1)))


def relation_messages(
    states: Tensor, vectors: Tensor, factors: Factors, edges: RelationalEdges, *, keep: np.ndarray | None = None
) -> Tensor:
    """Messages between relations that meet in an entity: vector_r2 * f(x_v), summed over links: [4, B, 2R, D].

    Args:
        states: [B, N, D], x.
        vectors: [B, 2R, D] of the relations.
        factors: f.
        edges: The graph, with inverses.
        keep: bool [E]; edges where it is False are ignored.
    """
    kind, receiver, sender, entity = (column.to(states.device) for column in relation_links(edges, keep))
    received = []
    for index in range(4):
        of_kind = kind == index
        hidden = F.linear(states, factors.first[index]) + factors.offsets[:, index, None]
        values = F.linear(hidden.relu(), factors.second[index], factors.bias[index])  # [B, N, D]
        messages = vectors[:, sender[of_kind]] * values[:, entity[of_kind]]  # [B, P, D]
        received.append(torch.zeros_like(vectors).index_add(1, receiver[of_kind], messages))
    return torch.stack(received)


class RelationUpdate(NamedTuple):
    """The parameters of the update of relation vectors, for each of the four link types."""

    linear: Tensor  # [4, D, 2D], of [vector, received]
    bias: Tensor  # [4, D]
    scale: Tensor  # [4, D], of the layer normalisation
    shift: Tensor  # [4, D]


def relation_update(vectors: Tensor, received: Tensor, boundary: Tensor, layer: RelationUpdate) -> Tensor:
    """New vectors [B, 2R, D]: the old ones plus an update for each link type.

    `received` is [4, B, 2R, D], `boundary` [B, 2R, 1] or broadcastable to it.
    """
    result = vectors
    for index in range(4):
        one = Layer(vectors, *(parameter[index] for parameter in layer))
        result = result + update(vectors, received[index] + boundary, one)
    return result
