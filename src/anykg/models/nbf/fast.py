"""A Bellman-Ford network of fused layers, forward and backward, for B queries at once.

Per query the state of every node starts as the boundary: a vector at the query's head, zero elsewhere. A layer is that
of `relational_kernels`. Two facts save most of the work without changing the result:

- zero states send nothing, so after the first layer all nodes that do not hear from the head share one state: the
  first layer is computed for the head and its neighbours only;
- where few nodes are read at the end, the last layers are computed only for what reaches them.

`propagate` picks the kernels for float32 on a CPU and widths that are multiples of 16, and `propagate_reference`
(gather, multiply, index_add; any device and type, gradients to edge weights) for everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anykg.models.nbf.aggregate import aggregate
from anykg.models.nbf.edges import Order, RelationalEdges

EPSILON = 1e-5  # of the layer normalisation
PIECES = 16  # partial sums of a parameter's gradient: fixed, so that results do not depend on the number of threads
FULL = 0.8  # above this share of rows a layer is computed for all of them


class Layer(NamedTuple):
    """The parameters of a layer; `weights` [U, K, D] are tables of K relation vectors."""

    weights: Tensor
    linear: Tensor  # [D, 2D], of [state, aggregate]
    bias: Tensor  # [D]
    scale: Tensor  # [D], of the layer normalisation
    shift: Tensor  # [D]


class Queries(NamedTuple):
    """B queries: the node each starts from, the vector put there, and its table of relation vectors."""

    heads: Tensor  # int64 [B]
    boundary: Tensor  # [B, D]
    tables: Tensor  # int64 [B], below U


def propagate(
    layers: Sequence[Layer],
    queries: Queries,
    edges: RelationalEdges,
    *,
    keep: np.ndarray | None = None,
    edge_weights: Tensor | None = None,
    targets: Tensor | None = None,
) -> Tensor:
    """States after the last layer: [B, N, D], or [M, D] for the targets [M], rows b * N + node.

    Args:
        layers: At least one.
        queries: What starts where.
        edges: The graph.
        keep: bool [E]; edges that are False are not there.
        edge_weights: [L, E], factors of the messages of each layer; for attribution.
        targets: int64 [M]; only these rows are wanted.
    """
    if not _fused(queries.boundary) or edge_weights is not None:
        return propagate_reference(layers, queries, edges, keep=keep, edge_weights=edge_weights, targets=targets)
    start = _first_layer(layers[0], queries, edges, keep)
    plan = _plan(len(layers) - 1, queries, edges, keep, targets)
    inputs = (start.background, start.states, queries.boundary)
    if torch.is_grad_enabled():
        parameters = [tensor for layer in layers[1:] for tensor in layer]
        final: Tensor = _Propagate.apply(plan, start.rows, *inputs, *parameters)  # type: ignore[no-untyped-call]
    else:
        final = _wanted(plan, _forward(plan, start.rows, *inputs, layers[1:], save=False)[0][-1])
    return final if targets is not None else final.view(len(queries.heads), edges.num_nodes, -1)


def propagate_reference(
    layers: Sequence[Layer],
    queries: Queries,
    edges: RelationalEdges,
    *,
    keep: np.ndarray | None = None,
    edge_weights: Tensor | None = None,
    targets: Tensor | None = None,
    fast: bool = False,
) -> Tensor:
    """The same layer by layer; with `fast`, aggregation alone is compiled."""
    count, width = len(queries.heads), queries.boundary.shape[1]
    boundary = queries.boundary.new_zeros(count, edges.num_nodes, width)
    boundary = boundary.index_put((torch.arange(count, device=boundary.device), queries.heads), queries.boundary)
    states = boundary
    for index, layer in enumerate(layers):
        received = aggregate(
            states,
            layer.weights[queries.tables],
            boundary,
            edges,
            keep=keep,
            edge_weights=None if edge_weights is None else edge_weights[index],
            fast=fast,
        )
        states = states + _update(states, received, layer)
    return states if targets is None else states.reshape(-1, width)[targets]


def _fused(states: Tensor) -> bool:
    return states.device.type == "cpu" and states.dtype == torch.float32 and states.shape[-1] % 16 == 0


def _update(states: Tensor, received: Tensor, layer: Layer) -> Tensor:
    """ReLU(LayerNorm(Linear([state, aggregate])))."""
    mixed = F.linear(torch.cat([states, received], dim=-1), layer.linear, layer.bias)
    return F.layer_norm(mixed, mixed.shape[-1:], layer.scale, layer.shift, EPSILON).relu()


# -- the first layer ------------------------------------------------------------------------------------------------


class _Start(NamedTuple):
    """States after the first layer: `states` at `rows`, `background` everywhere else."""

    rows: np.ndarray  # int64 [A], sorted
    background: Tensor  # [D]
    states: Tensor  # [A, D]


def _first_layer(layer: Layer, queries: Queries, edges: RelationalEdges, keep: np.ndarray | None) -> _Start:
    heads, order = queries.heads.numpy(), edges.by_sender
    first = order.runs[order.nodes[heads]].astype(np.int64)
    counts = order.runs[order.nodes[heads + 1]] - first
    sources = np.repeat(np.arange(len(heads)), counts)  # the query each message belongs to
    positions = np.arange(len(sources)) + np.repeat(first - np.cumsum(counts) + counts, counts)
    if keep is not None:
        kept = keep[order.places[positions]].astype(bool)
        sources, positions = sources[kept], positions[kept]
    own = np.arange(len(heads)) * edges.num_nodes + heads
    receiving = sources * edges.num_nodes + order.others[positions]
    rows = np.unique(np.concatenate([own, receiving]))

    # A small graph of its own: the rows are its nodes, only heads send, relations are numbered over all tables.
    num_tables, num_weights, width = layer.weights.shape
    relations = queries.tables.numpy()[sources] * num_weights + edges.triplets[order.places[positions], 1]
    own_place, receiver_place = np.searchsorted(rows, own), np.searchsorted(rows, receiving)
    small = np.stack([receiver_place, relations, own_place[sources]], axis=1).astype(np.int32)
    small_edges = RelationalEdges(small, len(rows), num_tables * num_weights)
    before = queries.boundary.new_zeros(len(rows), width)  # [A, D]
    before = before.index_put((torch.from_numpy(own_place),), queries.boundary)
    received = aggregate(before[None], layer.weights.reshape(-1, width), before[None], small_edges)[0]
    nothing = before.new_zeros(1, width)
    return _Start(rows, _update(nothing, nothing, layer)[0], before + _update(before, received, layer))


# -- the other layers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Plan:
    """Which rows every layer computes, and the graph as the kernels read it."""

    edges: RelationalEdges
    keep: np.ndarray | None  # uint8 [E], in the order given
    heads: np.ndarray  # int32 [B]
    tables: np.ndarray  # int32 [B]
    rows: list[np.ndarray]  # int32: rows[l] are those wanted of layer l + 1, rows[0] of the first layer
    targets: np.ndarray | None  # int64 [M]

    @property
    def num_rows(self) -> int:
        return len(self.heads) * self.edges.num_nodes

    def kept(self, order: Order) -> np.ndarray | None:
        """The mask in the order of the kernel."""
        return None if self.keep is None else self.keep[order.places]


def _plan(
    depth: int, queries: Queries, edges: RelationalEdges, keep: np.ndarray | None, targets: Tensor | None
) -> _Plan:
    from anykg.models.nbf.kernels import add_senders

    size = len(queries.heads) * edges.num_nodes
    everything = np.arange(size, dtype=np.int32)
    rows = [everything] * (depth + 1)
    if targets is not None:
        rows[depth] = np.unique(targets.numpy()).astype(np.int32)
        order = edges.by_receiver
        for index in range(depth - 1, -1, -1):
            flags = np.zeros(size, np.uint8)
            add_senders(flags, rows[index + 1], order.nodes, order.runs, order.others, edges.num_nodes)
            wanted = np.flatnonzero(flags)
            if len(wanted) > FULL * size:
                break
            rows[index] = wanted.astype(np.int32)
    return _Plan(
        edges=edges,
        keep=None if keep is None else keep.astype(np.uint8),
        heads=queries.heads.numpy().astype(np.int32),
        tables=queries.tables.numpy().astype(np.int32),
        rows=rows,
        targets=None if targets is None else targets.numpy(),
    )


def _flat(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().contiguous().view(-1).numpy()
    return array


def _forward(
    plan: _Plan,
    start_rows: np.ndarray,
    background: Tensor,
    start: Tensor,
    boundary: Tensor,
    layers: Sequence[Layer],
    *,
    save: bool,
) -> tuple[list[Tensor], list[Any]]:
    """States [B * N, D] after each layer (after the last alone without `save`), and what each layer keeps."""
    from anykg.models.nbf.kernels import layer_kernels

    width = boundary.shape[1]
    order, kernels = plan.edges.by_receiver, layer_kernels(width)
    kept = plan.kept(order)
    states = background.detach().repeat(plan.num_rows, 1)
    states[torch.from_numpy(start_rows)] = start.detach()
    history, memories = [states], []
    spare: Tensor | None = None
    for layer, rows in zip(layers, plan.rows[1:], strict=True):
        out = torch.empty_like(states) if spare is None else spare
        memory = tuple(np.empty(len(rows) * size, np.float32) for size in (width, width, 1)) if save else None
        kernels.forward(
            _flat(states), _flat(out), memory, rows, plan.edges.num_nodes,
            order.nodes, order.runs, order.relations, order.others, kept,
            _flat(layer.weights), plan.tables, layer.weights.shape[1], plan.heads, _flat(boundary),
            _flat(layer.linear.T), _flat(layer.bias), _flat(layer.scale), _flat(layer.shift), np.float32(EPSILON),
        )  # fmt: skip
        if save:
            history.append(out)
            memories.append(memory)
        else:
            history, spare = [out], states
        states = out
    return history, memories


def _wanted(plan: _Plan, states: Tensor) -> Tensor:
    return states if plan.targets is None else states[torch.from_numpy(plan.targets)]


class _Propagate(torch.autograd.Function):
    """Layers 2 to L. Keeps every layer's states, aggregates and normalised products; nothing per edge."""

    @staticmethod
    def forward(ctx: Any, plan: _Plan, start_rows: np.ndarray, *tensors: Tensor) -> Tensor:
        background, start, boundary, *parameters = tensors
        layers = [Layer(*parameters[at : at + 5]) for at in range(0, len(parameters), 5)]
        ctx.plan, ctx.start_rows = plan, start_rows
        history, ctx.memories = _forward(plan, start_rows, background, start, boundary, layers, save=True)
        ctx.history = history[:-1]
        ctx.save_for_backward(boundary, *parameters)
        return _wanted(plan, history[-1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        plan: _Plan = ctx.plan
        boundary, *parameters = ctx.saved_tensors
        layers = [Layer(*parameters[at : at + 5]) for at in range(0, len(parameters), 5)]
        grad_out = torch.zeros(plan.num_rows, boundary.shape[1])
        if plan.targets is None:
            grad_out.copy_(grad)
        else:
            np.add.at(grad_out.numpy(), plan.targets, grad.numpy())
        # Zeroed once: an earlier layer writes all rows that a later one has written, and reads no others but zeros.
        spare, received = torch.zeros_like(grad_out), torch.zeros_like(grad_out)
        grad_boundary = torch.zeros_like(boundary)
        grads: list[Tensor] = []
        for index in range(len(layers) - 1, -1, -1):
            buffers = _Gradients(grad_out, spare, received)
            of_layer = _backward(plan, index, layers[index], ctx.history.pop(), ctx.memories.pop(), buffers)
            grad_boundary += _at_heads(plan, received)
            grads = [*of_layer, *grads]
            grad_out, spare = spare, grad_out
        grad_start = grad_out[torch.from_numpy(ctx.start_rows)]
        grad_background = grad_out.sum(0) - grad_start.sum(0)
        return None, None, grad_background, grad_start, grad_boundary, *grads


class _Gradients(NamedTuple):
    """Of a layer's output, its input and its aggregates, [B * N, D] each; rows without one are zero."""

    out: Tensor
    states: Tensor
    received: Tensor


def _at_heads(plan: _Plan, values: Tensor) -> Tensor:
    """The rows of the heads, [B, D]."""
    return values[torch.from_numpy(np.arange(len(plan.heads)) * plan.edges.num_nodes + plan.heads)]


def _backward(
    plan: _Plan, index: int, layer: Layer, states: Tensor, memory: tuple[np.ndarray, ...], grads: _Gradients
) -> list[Tensor]:
    """Fill the gradients of a layer's input and aggregates from those of its output; return those of its parameters."""
    from anykg.models.nbf.kernels import layer_kernels

    rows, wanted, width = plan.rows[index + 1], plan.rows[index], states.shape[1]
    queries, nodes = len(plan.heads), plan.edges.num_nodes
    order, kernels = plan.edges.by_sender, layer_kernels(width)
    grad_linear = np.empty((PIECES, width, 2 * width), np.float32)
    grad_vectors = np.empty((PIECES, 3, width), np.float32)
    kernels.backward_rows(
        _flat(grads.out), _flat(grads.states), _flat(grads.received), _flat(states), memory, rows,
        _flat(layer.linear), _flat(layer.scale), _flat(layer.shift), grad_linear.reshape(-1), grad_vectors.reshape(-1),
    )  # fmt: skip
    pieces = -(-8 // max(queries, 1))  # few queries are cut up, so that every core has work
    num_weights = layer.weights.shape[1]
    grad_weights = np.zeros((queries, pieces, num_weights, width), np.float32)
    bounds = np.searchsorted(wanted, np.arange(queries + 1) * nodes)
    kernels.backward_edges(
        _flat(grads.states), _flat(grads.received), _flat(states), wanted, bounds, pieces, nodes,
        order.nodes, order.runs, order.relations, order.others, plan.kept(order),
        _flat(layer.weights), plan.tables, num_weights, grad_weights.reshape(-1),
    )  # fmt: skip
    of_weights = np.zeros(layer.weights.shape, np.float32)
    for table, parts in zip(plan.tables, grad_weights, strict=True):
        for part in parts:
            of_weights[table] += part
    parameters = (of_weights, grad_linear.sum(0), *grad_vectors.sum(0))
    return [torch.from_numpy(values) for values in parameters]


# -- the read-out ---------------------------------------------------------------------------------------------------


def read_out(states: Tensor, query: Tensor, hidden: nn.Linear, last: nn.Linear) -> Tensor:
    """An MLP's scores [B, N] of [state, query vector], for states [B, N, D] and query vectors [B, D].

    The query's half of the first product is the same for all nodes and taken once.
    """
    width = states.shape[-1]
    own, other = hidden.weight[:, :width], hidden.weight[:, width:]  # [2D, D] each
    offsets = F.linear(query, other, hidden.bias)  # [B, 2D]
    if not _fused(states):
        scores: Tensor = last(F.relu(F.linear(states, own) + offsets[:, None])).squeeze(-1)
        return scores
    scores = _ReadOut.apply(states, offsets, own, last.weight[0])  # type: ignore[no-untyped-call]
    return scores + last.bias


class _ReadOut(torch.autograd.Function):
    """last . ReLU(own @ state + offset), [B, N]; keeps nothing but the states."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, offsets: Tensor, own: Tensor, last: Tensor) -> Tensor:
        from anykg.models.nbf.kernels import layer_kernels

        ctx.save_for_backward(states, offsets, own, last)
        scores = states.new_empty(states.shape[:2])
        layer_kernels(states.shape[-1]).read_out(
            _flat(states), _flat(scores), states.shape[1], _flat(offsets), _flat(own.T), _flat(last), np.float32(0)
        )
        return scores

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        from anykg.models.nbf.kernels import layer_kernels

        states, offsets, own, last = ctx.saved_tensors
        queries, count, width = states.shape
        pieces = -(-8 // max(queries, 1))
        grad_states = torch.empty_like(states, memory_format=torch.contiguous_format)
        grad_own = states.new_empty(queries * pieces, width, 2 * width)
        grad_offsets, grad_last = (states.new_empty(queries, pieces, 2 * width) for _ in range(2))
        layer_kernels(width).read_out_backward(
            _flat(states), _flat(grad), count, pieces, _flat(offsets), _flat(own.T), _flat(own), _flat(last),
            _flat(grad_states), _flat(grad_own), _flat(grad_offsets), _flat(grad_last),
        )  # fmt: skip
        return grad_states, grad_offsets.sum(1), grad_own.sum(0).T, grad_last.sum((0, 1))
