"""TRIX's relation step, factorised: `reference.relation_messages` at a cost linear in (entity, relation) pairs.

`relation_kernels` has the formula. Compiled for float32 on a CPU and widths that are multiples of 16; in torch for
everything else. So is the update of the relations' vectors, without gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from anykg.models.nbf import fast
from anykg.models.nbf.edges import RelationalEdges
from anykg.models.nbf.fast import PIECES, flat, pieces_of
from anykg.models.nbf.near import NearStates
from anykg.models.nbf.reference import EPSILON, HEAD_HEAD, HEAD_TAIL, TAIL_HEAD, TAIL_TAIL, Factors, RelationUpdate
from anykg.threads import spread

if TYPE_CHECKING:
    from anykg.models.nbf.relation_kernels import FactorWeights


def relation_messages(
    states: Tensor | NearStates,
    vectors: Tensor,
    factors: Factors,
    edges: RelationalEdges,
    *,
    keep: np.ndarray | None = None,
) -> Tensor:
    """As `reference.relation_messages`, [4, B, 2R, D]; the factors of states that all queries share are computed once.

    For those, the offsets of the factors must be the same for all queries.
    """
    if isinstance(states, NearStates):
        return _near_messages(states, vectors, factors, edges, keep)
    pairs = len(edges.by_receiver.relations)
    if not fast.kernels_apply(states) or fast.is_small(len(states), pairs, states.shape[-1]):
        return _factorised(states, vectors, factors, edges, keep)
    vectors, offsets = vectors.expand(len(states), -1, -1), factors.offsets.expand(len(states), -1, -1)
    runs = kept_runs(edges, keep)
    result: Tensor = _Messages.apply(  # type: ignore[no-untyped-call]
        states, vectors, factors.first, offsets, factors.second, factors.bias, edges, runs
    )
    return result


def relation_update(vectors: Tensor, received: Tensor, boundary: Tensor, layer: RelationUpdate) -> Tensor:
    """As `reference.relation_update`, [B, 2R, D], with one product for all link types."""
    width = vectors.shape[-1]
    shape, rows = received.shape, received.shape[1] * received.shape[2]
    if not torch.is_grad_enabled() and fast.kernels_apply(vectors) and not fast.is_small(*vectors.shape):
        return _updated(vectors, received, boundary, layer)
    own = F.linear(vectors, layer.linear[..., :width].flatten(0, 1))  # [B, 2R, 4D]
    own = own.view(rows, 4, width).movedim(1, 0)  # [4, B * 2R, D]
    other = (received + boundary).reshape(4, rows, width)
    mixed = torch.baddbmm(own + layer.bias[:, None], other, layer.linear[..., width:].transpose(1, 2))
    normal = F.layer_norm(mixed, mixed.shape[-1:], eps=EPSILON)
    parts = torch.addcmul(layer.shift[:, None], normal, layer.scale[:, None]).relu()
    return vectors + parts.sum(0).view(shape[1:])


def meeting_counts(edges: RelationalEdges, relations: Tensor, keep: np.ndarray | None = None) -> Tensor:
    """In how many entities each relation meets each of the wanted ones [U], by link type: [4, U, 2R]."""
    order, wanted = edges.by_receiver, relations.cpu().numpy()
    if fast.is_small(len(wanted), len(order.relations), 1):
        count = count_meetings
    else:
        from anykg.models.nbf.relation_kernels import count_meetings as count
    counts = count(order.nodes, order.relations, kept_runs(edges, keep), wanted, edges.num_relations)
    return torch.from_numpy(counts).to(relations.device).movedim(1, 0)


def count_meetings(
    nodes: np.ndarray, relations: np.ndarray, keep: np.ndarray | None, wanted: np.ndarray, num_relations: int
) -> np.ndarray:
    """As the kernel of this name: float32 [U, 4, 2R]."""
    entities, heads = np.repeat(np.arange(len(nodes) - 1), np.diff(nodes)), relations.astype(np.int64)  # [Q]
    if keep is not None:
        entities, heads = entities[keep], heads[keep]
    counts = np.zeros((len(wanted), 4, num_relations), np.float32)
    inverse = (np.arange(num_relations) + num_relations // 2) % max(num_relations, 1)
    for found, asked in zip(counts, wanted, strict=True):
        for own, of_heads, of_tails in ((asked, HEAD_HEAD, TAIL_HEAD), (inverse[asked], HEAD_TAIL, TAIL_TAIL)):
            there = np.isin(entities, entities[heads == own])
            met = np.bincount(heads[there], minlength=num_relations)
            found[of_heads], found[of_tails] = met, met[inverse]
        found[HEAD_HEAD, asked] = found[TAIL_TAIL, asked] = 0
    return counts


def kept_runs(edges: RelationalEdges, keep: np.ndarray | None) -> np.ndarray | None:
    """Which (entity, relation) pairs have an edge that is kept: bool [Q]; None if all have."""
    order = edges.by_receiver
    if keep is None or not len(order.relations):
        return None
    return np.logical_or.reduceat(keep[order.positions].astype(bool), order.runs[:-1])


def _factorised(
    states: Tensor, vectors: Tensor, factors: Factors, edges: RelationalEdges, keep: np.ndarray | None
) -> Tensor:
    order, runs = edges.by_receiver, kept_runs(edges, keep)
    kept = slice(None) if runs is None else runs
    pairs = np.repeat(np.arange(edges.num_nodes), np.diff(order.nodes))[kept], order.relations[kept].astype(np.int64)
    entities, heads = (torch.from_numpy(column).to(states.device) for column in pairs)  # [Q]: head in H(entity)
    tails = (heads + edges.num_relations // 2) % max(edges.num_relations, 1)
    vectors = vectors.expand(len(states), -1, -1)
    hidden = torch.einsum("bnd,ked->kbne", states, factors.first) + factors.offsets.movedim(1, 0)[:, :, None]
    values = torch.einsum("kbnd,ked->kbne", hidden.relu(), factors.second) + factors.bias[:, None, None]
    nothing = torch.zeros_like(states)
    of_heads = nothing.index_add(1, entities, vectors[:, heads])[:, entities]  # [B, Q, D]
    of_tails = nothing.index_add(1, entities, vectors[:, tails])[:, entities]
    received = [vectors] * 4
    for kind, to, others in (
        (HEAD_HEAD, heads, of_heads - vectors[:, heads]),
        (TAIL_TAIL, tails, of_tails - vectors[:, tails]),
        (HEAD_TAIL, heads, of_tails),
        (TAIL_HEAD, tails, of_heads),
    ):
        received[kind] = torch.zeros_like(vectors).index_add(1, to, values[kind][:, entities] * others)
    return torch.stack(received)


def _near_messages(
    states: NearStates, vectors: Tensor, factors: Factors, edges: RelationalEdges, keep: np.ndarray | None
) -> Tensor:
    """The messages, without gradients."""
    from anykg.models.nbf.relation_kernels import relation_kernels

    offsets = factors.offsets.expand(states.queries, -1, -1)
    weights = _weights(factors.first, offsets, factors.second, factors.bias)
    known, common = states.common.factors.get(factors.first), states.common.states[0]  # [N, D]
    if known is None:
        known = common.new_empty(len(common), 4, common.shape[1])
        spread(relation_kernels(common.shape[1]).factors, flat(common), flat(known), weights)
        states.common.factors[factors.first] = known
    vectors = vectors.expand(states.queries, -1, -1)
    return _sent(states.own, states.rows, known, vectors, weights, edges, kept_runs(edges, keep))


def _sent(
    states: Tensor,
    rows: np.ndarray,
    known: Tensor,
    vectors: Tensor,
    weights: FactorWeights,
    edges: RelationalEdges,
    runs: np.ndarray | None,
) -> Tensor:
    """Messages [4, B, 2R, D] for states at rows [A] and known factors [N, 4, D] elsewhere."""
    from anykg.models.nbf.relation_kernels import Incidence, Known, relation_kernels

    (queries, count, width), order = vectors.shape, edges.by_receiver
    # A query is a long task: of an odd number of them, the last would keep one of two cores waiting.
    pieces = max(pieces_of(queries), 2 if queries < 2 * PIECES else 1)
    out = vectors.new_zeros(queries, pieces, 4, count, width)
    starts = np.arange(queries)[:, None] * edges.num_nodes + edges.num_nodes * np.arange(pieces) // pieces
    bounds = np.append(np.searchsorted(rows, starts.ravel()), len(rows))
    arrays = flat(states), Known(rows, bounds, flat(known)), flat(vectors), flat(out)
    incidence = Incidence(order.nodes, order.relations, count)
    spread(relation_kernels(width).forward, *arrays, incidence, runs, weights)
    return (out.sum(1) if pieces > 1 else out[:, 0]).movedim(1, 0)


def _updated(vectors: Tensor, received: Tensor, boundary: Tensor, layer: RelationUpdate) -> Tensor:
    """`relation_update` compiled, without gradients."""
    from anykg.models.nbf.relation_kernels import UpdateWeights, relation_kernels

    queries, count, width = vectors.shape
    out = vectors.new_empty(queries, count, width)
    weights = UpdateWeights(flat(layer.linear.transpose(1, 2)), flat(layer.bias), flat(layer.scale), flat(layer.shift))
    arrays = flat(vectors), flat(received.movedim(1, 0)), flat(boundary.expand(queries, count, 1))
    spread(relation_kernels(width).update, *arrays, count, flat(out), weights)
    return out


class _Messages(torch.autograd.Function):
    """Saves only its inputs: the factors are recomputed in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        vectors: Tensor,
        first: Tensor,
        offsets: Tensor,
        second: Tensor,
        bias: Tensor,
        edges: RelationalEdges,
        runs: np.ndarray | None,
    ) -> Tensor:
        ctx.save_for_backward(states, vectors, first, offsets, second, bias)
        ctx.edges, ctx.runs = edges, runs
        everything = np.arange(states.shape[0] * states.shape[1], dtype=np.int32)
        return _sent(states, everything, states[:0], vectors, _weights(first, offsets, second, bias), edges, runs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        from anykg.models.nbf.relation_kernels import Incidence, Sums, relation_kernels

        states, vectors, first, offsets, second, bias = ctx.saved_tensors
        (queries, _, width), edges, order = states.shape, ctx.edges, ctx.edges.by_receiver
        pieces = pieces_of(queries)
        grad_states = torch.empty_like(states, memory_format=torch.contiguous_format)
        grad_vectors = states.new_zeros(queries, pieces, edges.num_relations, width)
        grad_first = states.new_empty(queries * pieces, width, 4, width)
        grad_offsets = states.new_zeros(queries, pieces, 4, width)
        grad_second = states.new_empty(queries * pieces, 4, width, width)
        grad_bias = states.new_zeros(queries * pieces, 4, width)
        gradients = (grad_states, grad_vectors, grad_first, grad_offsets, grad_second, grad_bias)
        incidence = Incidence(order.nodes, order.relations, edges.num_relations)
        weights, sums = _weights(first, offsets, second, bias), Sums(*map(flat, gradients))
        inputs = flat(grad.movedim(1, 0)), flat(states), flat(vectors)
        spread(relation_kernels(width).backward, *inputs, incidence, ctx.runs, weights, sums)
        return (
            grad_states,
            grad_vectors.sum(1),
            grad_first.sum(0).permute(1, 2, 0),
            grad_offsets.sum(1),
            grad_second.sum(0).transpose(1, 2),
            grad_bias.sum(0),
            None,
            None,
        )


def _weights(first: Tensor, offsets: Tensor, second: Tensor, bias: Tensor) -> FactorWeights:
    from anykg.models.nbf.relation_kernels import FactorWeights

    there = flat(first.transpose(1, 2)), flat(offsets), flat(second.transpose(1, 2)), flat(bias)
    return FactorWeights(*there, flat(first), flat(second))
