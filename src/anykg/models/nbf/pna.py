"""NBFNet's Bellman-Ford network with principal neighbourhood aggregation (PNA), for B queries at once.

    features_u = mean, largest, smallest and deviation of boundary_u and of state_v * weight_e over edges (u, e, v)
    state_u   <- ReLU(Linear([state_u, features_u x (1, log-degree_u, 1 / log-degree_u)]))

The boundary is a vector at the query's head, zero elsewhere, and the first state. All queries have the same relation
vectors, which saves most of the work without changing the result:

- after layer l, a query's states differ from those of a query without a head, the *background*, only at nodes at most l
  edges from the head; the background is computed once for all queries, and after the first layer depends on a node's
  degree alone, as all messages are zero;
- if few nodes are read at the end, the last layers are computed only for what reaches them.

`propagate` runs compiled on a CPU in float32 for widths that are multiples of 16 and makes nothing larger than the
states it computes; in the backward pass, four times that. Everything else, and gradients of edge weights, is left to
the reference in torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from anykg.models.nbf.aggregate import SMALLEST_VARIANCE, aggregate, degree_scales, message_counts
from anykg.models.nbf.edges import RelationalEdges
from anykg.models.nbf.fast import PIECES, flat, kernels_apply
from anykg.threads import spread

if TYPE_CHECKING:
    from anykg.models.nbf.pna_kernels import Degrees, Parameters, Problem, Rows


class Layer(NamedTuple):
    """The parameters of a layer."""

    weights: Tensor  # [K, D], the relation vectors
    linear: Tensor  # [D, 13 D], of the state and the features
    bias: Tensor  # [D]


def propagate(
    layers: Sequence[Layer],
    heads: Tensor,
    start: Tensor,
    edges: RelationalEdges,
    *,
    keep: np.ndarray | None = None,
    edge_weights: Tensor | None = None,
    targets: Tensor | None = None,
    background: Sequence[Tensor] | None = None,
    fast: bool = True,
) -> Tensor:
    """States after the last layer: [B, N, D], or [M, D] for the targets [M], rows b * N + node.

    Args:
        layers: At least one.
        heads: int64 [B].
        start: [B, D], the vectors at the heads.
        edges: The graph.
        keep: bool [E]; edges where it is False are ignored.
        edge_weights: [L, E], factors of the messages of each layer, to attribute a score to edges.
        targets: int64 [M]; only these rows are wanted.
        background: What `background_states` returned for these layers and edges, if there is no mask.
        fast: Use the compiled kernels where they apply.
    """
    if not fast or not kernels_apply(start) or edge_weights is not None:
        return _reference(layers, heads, start, edges, keep, edge_weights, targets)
    if torch.is_grad_enabled():
        plan = _plan(len(layers), heads, edges, keep, targets, known=False)
        parameters = [tensor for layer in layers for tensor in layer]
        final: Tensor = _Propagate.apply(plan, start, _first_background(layers[0], plan), *parameters)  # type: ignore[no-untyped-call]
    else:
        plan = _plan(len(layers), heads, edges, keep, targets, known=background is not None)
        given = [_first_background(layers[0], plan)] if background is None else background
        final = _forward(plan, layers, start, given)[0][-1][torch.from_numpy(plan.read)]
    return final if targets is not None else final.view(len(heads), edges.num_nodes, -1)


@torch.no_grad()
def background_states(layers: Sequence[Layer], edges: RelationalEdges) -> list[Tensor] | None:
    """The states [N, D] of a query without a head after each layer; None if the kernels do not apply."""
    start = layers[0].bias.new_zeros(0, len(layers[0].bias))
    if not kernels_apply(start):
        return None
    from anykg.models.nbf.pna_kernels import Rows

    everyone = np.arange(edges.num_nodes, dtype=np.int32)
    rows = [
        Rows(everyone[:0], np.zeros_like(everyone), 1, 1, 1),
        Rows(everyone[:0], everyone, len(everyone), len(everyone), 0),
        *[Rows(everyone, everyone, len(everyone), 0, 0)] * (len(layers) - 1),
    ]
    plan = _Plan(edges, None, np.full(1, -1, np.int32), _degrees(edges, None), rows, everyone)
    return _forward(plan, layers, start, [_first_background(layers[0], plan)], every=True)[0][1:]


def _reference(
    layers: Sequence[Layer],
    heads: Tensor,
    start: Tensor,
    edges: RelationalEdges,
    keep: np.ndarray | None,
    edge_weights: Tensor | None,
    targets: Tensor | None,
) -> Tensor:
    boundary = start.new_zeros(len(heads), edges.num_nodes, start.shape[-1])
    boundary = boundary.index_put((torch.arange(len(heads), device=heads.device), heads), start)  # [B, N, D]
    states = boundary
    for index, layer in enumerate(layers):
        factors = None if edge_weights is None else edge_weights[index]
        received = aggregate(states, layer.weights, boundary, edges, keep=keep, edge_weights=factors, reduce="pna")
        states = F.linear(torch.cat([states, received], dim=-1), layer.linear, layer.bias).relu()
    return states if targets is None else states.reshape(-1, start.shape[-1])[targets]


# -- which states are computed --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Plan:
    """What every layer computes, and the graph as the kernels read it."""

    edges: RelationalEdges
    keep: np.ndarray | None  # uint8 [E], in the order given
    heads: np.ndarray  # int32 [1 + B], -1 for the background
    degrees: Degrees
    rows: list[Rows]  # of the start and of each layer
    read: np.ndarray  # [M], rows of the last table


def _plan(
    depth: int, heads: Tensor, edges: RelationalEdges, keep: np.ndarray | None, targets: Tensor | None, known: bool
) -> _Plan:
    """With `known`, all states of the background are given, otherwise those after the first layer that are needed."""
    from anykg.models.nbf.kernels import add_senders
    from anykg.models.nbf.pna_kernels import Rows

    count, shape = edges.num_nodes, (1 + len(heads), edges.num_nodes)
    starts = (count * np.arange(1, 1 + len(heads)) + heads.numpy()).astype(np.int32)
    order, near, reached = edges.by_sender, [], starts  # near: cells that may differ from the background
    for _ in range(depth):
        flags = np.zeros(shape, np.uint8)
        add_senders(flags.ravel(), reached, order.nodes, order.runs, order.others, count)
        near.append(flags)
        reached = np.flatnonzero(flags).astype(np.int32)

    wanted = np.zeros(shape, np.uint8)
    wanted.ravel()[slice(count, None) if targets is None else count + targets.numpy()] = 1
    order, rows = edges.by_receiver, []
    for index in range(depth - 1, -1, -1):
        far = wanted[1:] > near[index][1:]  # read from the background
        own = wanted & near[index]
        own[0] = 1 if known else wanted[0] | far.any(0)
        cells = np.flatnonzero(own).astype(np.int32)
        where = np.full(shape, -1, np.int32)
        where.ravel()[cells] = np.arange(len(cells))
        np.copyto(where[1:], where[0], where=far)
        shared = int(np.searchsorted(cells, count))
        given = shared if known or index == 0 else 0
        cells = cells[given:]
        rows.append(Rows(cells, where.ravel(), shared, given, 0))
        wanted = np.zeros(shape, np.uint8)
        add_senders(wanted.ravel(), cells, order.nodes, order.runs, order.others, count)

    where = np.zeros(shape, np.int32)  # the first states: zero, and those of the heads
    where.ravel()[starts] = np.arange(1, 1 + len(starts))
    rows.append(Rows(starts, where.ravel(), 1, 1, 1))
    rows.reverse()
    last = rows[-1].where
    return _Plan(
        edges=edges,
        keep=None if keep is None else keep.astype(np.uint8),
        heads=np.append(-1, heads.numpy()).astype(np.int32),
        degrees=_degrees(edges, keep),
        rows=rows,
        read=last[count:] if targets is None else last[count + targets.numpy()],
    )


def _degrees(edges: RelationalEdges, keep: np.ndarray | None) -> Degrees:
    from anykg.models.nbf.pna_kernels import Degrees

    counts = message_counts(edges, keep, torch.empty(()))
    _, scales, inverses = degree_scales(counts).unbind(1)
    return Degrees(*(flat(column) for column in (counts, scales, inverses)))


def _first_background(layer: Layer, plan: _Plan) -> Tensor:
    """The background's states after the first layer: only the deviation, the least one, is not zero."""
    width, degrees = len(layer.bias), plan.degrees
    nodes = np.flatnonzero(plan.rows[1].where[: plan.edges.num_nodes] >= 0)
    _, some, which = np.unique(degrees.counts[nodes], return_index=True, return_inverse=True)
    scales = np.stack([np.ones(len(some), np.float32), *(x[nodes[some]] for x in degrees[1:])], axis=1)  # [C, 3]
    of_deviation = layer.linear[:, 10 * width :].reshape(width, width, 3).sum(1)  # [D, 3]
    states = F.linear(torch.from_numpy(scales) * SMALLEST_VARIANCE**0.5, of_deviation, layer.bias).relu()
    return states.index_select(0, torch.from_numpy(which))


# -- compiled -------------------------------------------------------------------------------------------------------


def _forward(
    plan: _Plan,
    layers: Sequence[Layer],
    start: Tensor,
    background: Sequence[Tensor],
    *,
    save: bool = False,
    every: bool = False,
) -> tuple[list[Tensor], list[np.ndarray]]:
    """The tables of states: all of them with `save` or `every`, otherwise the last; with `save`, what layers save.

    `background` has the rows that are given, for each layer that does not compute them.
    """
    from anykg.models.nbf.pna_kernels import Table, pna_kernels

    width, kept = start.shape[1], plan.edges.by_receiver.kept(plan.keep)
    states = torch.cat([start.new_zeros(1, width), start.detach()])
    problem = _problem(plan, states)
    tables, memories = [states], []
    for index, layer in enumerate(layers):
        before, after = plan.rows[index : index + 2]
        out = torch.empty(after.given + len(after.cells), width)
        if after.given:
            out[: after.given] = background[index]
        memory = np.empty(len(after.cells) * 4 * width, np.float32) if save else None
        old, new = Table(flat(states), before), Table(flat(out), after)
        parameters = _parameters(layer, _matrix(layer.linear))
        spread(pna_kernels(width).forward, old, new, memory, problem, kept, parameters)
        states = out
        tables = [*tables, out] if save or every else [out]
        if memory is not None:
            memories.append(memory)
    return tables, memories


class _Propagate(torch.autograd.Function):
    """Keeps every layer's states and features; nothing per edge."""

    @staticmethod
    def forward(ctx: Any, plan: _Plan, start: Tensor, background: Tensor, *parameters: Tensor) -> Tensor:
        ctx.plan = plan
        ctx.tables, ctx.memories = _forward(plan, _layers(parameters), start, [background], save=True)
        ctx.save_for_backward(*parameters)
        final: Tensor = ctx.tables[-1][torch.from_numpy(plan.read)]
        return final

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        plan, tables, memories = ctx.plan, ctx.tables, ctx.memories
        grad_out = torch.zeros_like(tables[-1]).index_add_(0, torch.from_numpy(plan.read), grad.contiguous())
        grad_start = torch.zeros_like(tables[0])
        grad_background, grads = grad_out, list[Tensor]()
        for index, layer in reversed(list(enumerate(_layers(ctx.saved_tensors)))):
            grad_background = grad_out[: plan.rows[index + 1].given]  # those of the first layer in the end
            grad_out, of_layer = _backward(plan, index, layer, tables, memories[index], grad_out, grad_start)
            grads = [*of_layer, *grads]
        return None, (grad_start + grad_out)[1:], grad_background, *grads


def _backward(
    plan: _Plan,
    index: int,
    layer: Layer,
    tables: list[Tensor],
    memory: np.ndarray,
    grad_out: Tensor,
    grad_start: Tensor,
) -> tuple[Tensor, list[Tensor]]:
    """The gradients of a layer's input table and parameters; that of the boundary is added to `grad_start`."""
    from anykg.models.nbf.pna_kernels import CellGradients, EdgeGradients, Table, pna_kernels

    (before, after), width = plan.rows[index : index + 2], grad_out.shape[1]
    kernels, states = pna_kernels(width), tables[index]
    old, new = Table(flat(states), before), Table(flat(tables[index + 1]), after)
    grad_moments, grad_own = (np.empty(len(after.cells) * parts * width, np.float32) for parts in (4, 1))
    grad_matrix = np.empty((PIECES, 5 * width, 3 * width), np.float32)
    grad_bias = np.empty((PIECES, width), np.float32)
    sums = grad_matrix.reshape(-1), grad_bias.reshape(-1)
    of_cells = CellGradients(flat(grad_out), grad_moments, grad_own, flat(grad_start), *sums)
    parameters = _parameters(layer, _matrix(layer.linear).T)
    problem, kept = _problem(plan, tables[0]), plan.edges.by_receiver.kept(plan.keep)
    spread(kernels.backward_cells, old, new, memory, problem, kept, parameters, of_cells)
    grad_before = torch.zeros_like(states)
    grad_weights = np.zeros((PIECES, *layer.weights.shape), np.float32)
    of_edges = EdgeGradients(grad_moments, grad_own, flat(grad_before), grad_weights.reshape(-1))
    order = plan.edges.by_sender
    edges = order.adjacency, order.kept(plan.keep)
    spread(kernels.backward_edges, old, new, memory, *edges, flat(layer.weights), of_edges)
    results = grad_weights.sum(0), _linear(grad_matrix.sum(0)), grad_bias.sum(0)
    return grad_before, [torch.from_numpy(values) for values in results]


def _layers(parameters: Sequence[Tensor]) -> list[Layer]:
    return [Layer(*parameters[at : at + 3]) for at in range(0, len(parameters), 3)]


def _problem(plan: _Plan, start: Tensor) -> Problem:
    """The first table is also the boundary: its row 0 is zero."""
    from anykg.models.nbf.pna_kernels import Asked, Problem

    return Problem(plan.edges.by_receiver.adjacency, plan.degrees, Asked(plan.heads, flat(start)))


def _parameters(layer: Layer, matrix: Tensor) -> Parameters:
    from anykg.models.nbf.pna_kernels import Parameters

    return Parameters(flat(layer.weights), flat(matrix), flat(layer.bias))


def _matrix(linear: Tensor) -> Tensor:
    """The linear layer [D, 13 D] as the kernels multiply: [5D, 3D], by input and scaling; the state is not scaled."""
    width = len(linear)
    matrix = linear.new_zeros(5 * width, 3, width)
    matrix[:width, 0] = linear[:, :width].T
    matrix[width:] = linear[:, width:].reshape(width, 4 * width, 3).permute(1, 2, 0)
    return matrix.view(5 * width, 3 * width)


def _linear(matrix: np.ndarray) -> np.ndarray:
    """The inverse of `_matrix`."""
    width = len(matrix) // 5
    by_scaling = matrix.reshape(5 * width, 3, width)
    own, features = by_scaling[:width, 0], by_scaling[width:].transpose(2, 0, 1)
    return np.concatenate([own.T, features.reshape(width, 12 * width)], axis=1)
