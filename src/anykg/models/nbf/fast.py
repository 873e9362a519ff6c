"""The Bellman-Ford network of `reference` with fused layers, forward and backward, for B queries at once.

Per query the state of every node starts as the boundary: a vector at the query's heads, zero elsewhere. Three
observations save most of the work without changing the result:

- zero states send nothing, so after the first layer all nodes that receive no message from a head share one state: the
  first layer is computed for the heads and their neighbours only;
- in the second layer, a node whose neighbours all have that state needs the numbers of its edges, not their states;
- if few nodes are read at the end, the last layers are computed only for what reaches them.

The kernels take float32 on a CPU and widths that are multiples of 16; everything else, and gradients of edge weights,
is left to `reference`. So is a question or two about a small graph: plain torch answers those in milliseconds, while
importing numba and loading kernels takes half a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from anykg.models.nbf import reference
from anykg.models.nbf.aggregate import aggregate
from anykg.models.nbf.edges import RelationalEdges
from anykg.models.nbf.reference import Layer, Queries, update
from anykg.threads import spread

if TYPE_CHECKING:
    from anykg.models.nbf.kernels import Gradients, Parameters

PIECES = 16  # partial sums of a parameter's gradient: fixed, so that results do not depend on the number of threads
SMALL = 300_000
"""Up to this many floats of messages, torch answers one or two queries faster than numba is imported."""
FEW_QUERIES = 2
FEW_START = 0.05  # up to this share of rows with states of their own, the others are computed from numbers of edges,
MANY_ROWS = 1 << 16  # if there are so many rows that states do not fit the processor's cache
FULL = 0.8  # above this share of rows a layer is computed for all of them


def kernels_apply(states: Tensor) -> bool:
    """Whether the compiled kernels can compute with such states [..., D]."""
    return states.device.type == "cpu" and states.dtype == torch.float32 and states.shape[-1] % 16 == 0


def is_small(queries: int, messages: int, width: int) -> bool:
    """Whether plain torch is faster for this number of queries and of messages per query."""
    return queries <= FEW_QUERIES and queries * messages * width <= SMALL and not torch.is_grad_enabled()


def pieces_of(queries: int) -> int:
    """The number of pieces per query: few queries are split, so that every core has work."""
    return -(-8 // max(queries, 1))


def empty_rows(count: int, width: int) -> Tensor:
    """A float32 tensor [count, width] to be filled.

    Writing to new memory costs a page fault per page, which for the states of a layer takes about as long as the layer.
    On Linux, numpy requests huge pages for large arrays and torch does not. Training reuses its memory from step to
    step, so it allocates with torch.
    """
    return torch.from_numpy(np.empty((count, width), np.float32))


def flat(tensor: Tensor) -> np.ndarray:
    """A tensor as the flat array that the kernels read."""
    array: np.ndarray = tensor.detach().contiguous().view(-1).numpy()
    return array


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
    """As `reference.propagate`; without gradients, `start` may be overwritten."""
    # Triplets are scored by the hundreds, as in explanations, for which the kernels pay off.
    small = targets is None and is_small(len(queries.heads), edges.num_edges, queries.boundary.shape[-1])
    if small or not kernels_apply(queries.boundary) or edge_weights is not None:
        return reference.propagate(
            layers, queries, edges, start=start, keep=keep, edge_weights=edge_weights, targets=targets
        )
    rest, rows, background = list(layers), None, queries.boundary.new_zeros(queries.boundary.shape[-1])
    if start is None:
        first = _first_layer(layers[0], queries, edges, keep)
        rest, rows, background, start = rest[1:], first.rows, first.background, first.states
    plan = _plan(len(rest), queries, edges, keep, targets)
    inputs = (background, start, queries.boundary)
    if torch.is_grad_enabled():
        parameters = [tensor for layer in rest for tensor in layer]
        final: Tensor = _Propagate.apply(plan, rows, *inputs, *parameters)  # type: ignore[no-untyped-call]
    else:
        final = _wanted(plan, _forward(plan, rows, *inputs, rest, save=False)[0][-1])
    return final if targets is not None else final.view(len(queries.heads), edges.num_nodes, -1)


# -- the first layer ------------------------------------------------------------------------------------------------


class _Start(NamedTuple):
    """States after the first layer: `states` at `rows`, `background` everywhere else."""

    rows: np.ndarray  # int64 [A], sorted
    background: Tensor  # [D]
    states: Tensor  # [A, D]


def _first_layer(layer: Layer, queries: Queries, edges: RelationalEdges, keep: np.ndarray | None) -> _Start:
    every = np.arange(len(queries.heads))[:, None] * edges.num_nodes + queries.heads.numpy()  # [B, M]
    own, order = np.unique(every), edges.by_sender
    heads = own % edges.num_nodes
    first = order.runs[order.nodes[heads]].astype(np.int64)
    counts = order.runs[order.nodes[heads + 1]] - first
    sources = np.repeat(np.arange(len(own)), counts)  # the head each message comes from
    positions = np.arange(len(sources)) + np.repeat(first - np.cumsum(counts) + counts, counts)
    if keep is not None:
        kept = keep[order.positions[positions]].astype(bool)
        sources, positions = sources[kept], positions[kept]
    receiving = own[sources] - heads[sources] + order.others[positions]
    rows = np.unique(np.concatenate([own, receiving]))

    # A small graph of its own: the rows are its nodes, only heads send, relations are numbered over all tables.
    num_tables, num_weights, width = layer.weights.shape
    relations = (
        queries.tables.numpy()[own[sources] // edges.num_nodes] * num_weights
        + edges.triplets[order.positions[positions], 1]
    )
    own_at, receiver_at = np.searchsorted(rows, own), np.searchsorted(rows, receiving)
    small = np.stack([receiver_at, relations, own_at[sources]], axis=1).astype(np.int32)
    small_edges = RelationalEdges(small, len(rows), num_tables * num_weights)
    before = queries.boundary.new_zeros(len(rows), width)  # [A, D]
    boundary_rows = torch.from_numpy(np.searchsorted(rows, every).ravel())
    before = before.index_put((boundary_rows,), queries.boundary.reshape(-1, width), accumulate=True)
    received = aggregate(before[None], layer.weights.reshape(-1, width), before[None], small_edges, fast=False)[0]
    nothing = before.new_zeros(1, width)
    return _Start(rows, update(nothing, nothing, layer)[0], before + update(before, received, layer))


# -- the other layers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Plan:
    """Which rows every layer computes, and the graph as the kernels read it."""

    edges: RelationalEdges
    keep: np.ndarray | None  # uint8 [E], in the order given
    heads: np.ndarray  # int32 [B, M]
    tables: np.ndarray  # int32 [B]
    rows: list[np.ndarray]  # int32: rows[l] are those wanted of layer l + 1, rows[0] of the first layer
    targets: np.ndarray | None  # int64 [M]

    @property
    def num_rows(self) -> int:
        return len(self.heads) * self.edges.num_nodes


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
        for index in range(depth - 1, -1 if torch.is_grad_enabled() else 0, -1):
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


def _forward(
    plan: _Plan,
    start_rows: np.ndarray | None,
    background: Tensor,
    start: Tensor,
    boundary: Tensor,
    layers: Sequence[Layer],
    *,
    save: bool,
) -> tuple[list[Tensor], list[Any]]:
    """States [B * N, D] after each layer (only the last without `save`), and what each layer saves for `backward`.

    The first states are `start` at `start_rows` and the background elsewhere, or all of `start` if there are no rows.
    """
    from anykg.models.nbf.kernels import Asked, layer_kernels

    width, kernels = boundary.shape[-1], layer_kernels(boundary.shape[-1])
    order = plan.edges.by_receiver
    kept, queries = order.kept(plan.keep), (plan.tables, plan.heads.shape[1], plan.heads.ravel(), flat(boundary))
    allocate: Callable[[int, int], Tensor] = background.new_empty if save else empty_rows
    if start_rows is None:
        states = start.detach().reshape(-1, width)
    else:
        states = allocate(plan.num_rows, width).copy_(background.detach())
        states[torch.from_numpy(start_rows)] = start.detach()
    history, memories = [states], []
    spare: Tensor | None = None
    for index, (layer, rows) in enumerate(zip(layers, plan.rows[1:], strict=True)):
        out = allocate(*states.shape) if spare is None else spare
        memory = tuple(np.empty(len(rows) * size, np.float32) for size in (width, width, 1)) if save else None
        if index == 0 and start_rows is not None and plan.keep is None and not save:
            rows = _alike(plan, rows, start_rows, background, layer, out)
        parameters = _parameters(layer, layer.linear.T)
        spread(
            kernels.forward, flat(states), flat(out), memory, order.adjacency, kept, Asked(rows, *queries), parameters
        )
        if save:
            history.append(out)
            memories.append(memory)
        else:
            history, spare = [out], states
        states = out
    return history, memories


def _alike(
    plan: _Plan, rows: np.ndarray, start_rows: np.ndarray, background: Tensor, layer: Layer, out: Tensor
) -> np.ndarray:
    """Compute the rows that have the background's state and receive nothing else; return the others."""
    from anykg.models.nbf.kernels import Parameters, add_senders, layer_kernels

    if len(rows) < MANY_ROWS or len(start_rows) > FEW_START * plan.num_rows:
        return rows
    order, width = plan.edges.by_sender, background.shape[0]
    reached = np.zeros(plan.num_rows, np.uint8)
    add_senders(reached, start_rows.astype(np.int32), order.nodes, order.runs, order.others, plan.edges.num_nodes)
    near = reached[rows] > 0
    far = rows[~near]
    own, other = layer.linear[:, :width], layer.linear[:, width:]  # of the state, of the aggregate
    vectors = (layer.bias + own @ background, layer.scale, layer.shift)
    parameters = Parameters(
        flat(layer.weights * background), layer.weights.shape[1], flat(other.T), *(flat(vector) for vector in vectors)
    )
    adjacency, kernel = plan.edges.by_receiver.adjacency, layer_kernels(width).forward_alike
    spread(kernel, flat(out), far, flat(background), adjacency, plan.tables, parameters)
    left: np.ndarray = rows[near]
    return left


def _wanted(plan: _Plan, states: Tensor) -> Tensor:
    return states if plan.targets is None else states[torch.from_numpy(plan.targets)]


class _Propagate(torch.autograd.Function):
    """Layers 2 to L. Keeps every layer's states, aggregates and normalised products; nothing per edge."""

    @staticmethod
    def forward(ctx: Any, plan: _Plan, start_rows: np.ndarray | None, *tensors: Tensor) -> Tensor:
        background, start, boundary, *parameters = tensors
        layers = [Layer(*parameters[at : at + 5]) for at in range(0, len(parameters), 5)]
        ctx.plan, ctx.start_rows = plan, start_rows
        history, ctx.memories = _forward(plan, start_rows, background, start, boundary, layers, save=True)
        ctx.history = history[:-1]
        ctx.save_for_backward(boundary, *parameters)
        return _wanted(plan, history[-1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        from anykg.models.nbf.kernels import Gradients

        plan: _Plan = ctx.plan
        boundary, *parameters = ctx.saved_tensors
        layers = [Layer(*parameters[at : at + 5]) for at in range(0, len(parameters), 5)]
        grad_out = torch.zeros(plan.num_rows, boundary.shape[-1])
        if plan.targets is None:
            grad_out.copy_(grad.view_as(grad_out))
        else:
            np.add.at(grad_out.numpy(), plan.targets, grad.numpy())
        # Zeroed once: an earlier layer writes all rows that a later one has written, and reads no others but zeros.
        spare, received = torch.zeros_like(grad_out), torch.zeros_like(grad_out)
        grad_boundary = torch.zeros_like(boundary)
        grads: list[Tensor] = []
        for index in range(len(layers) - 1, -1, -1):
            gradients = Gradients(flat(grad_out), flat(spare), flat(received))
            of_layer = _backward(plan, index, layers[index], ctx.history.pop(), ctx.memories.pop(), gradients)
            grad_boundary += _at_heads(plan, received)
            grads = [*of_layer, *grads]
            grad_out, spare = spare, grad_out
        if ctx.start_rows is None:
            return None, None, None, grad_out.view(len(plan.heads), -1, boundary.shape[-1]), grad_boundary, *grads
        grad_start = grad_out[torch.from_numpy(ctx.start_rows)]
        grad_background = grad_out.sum(0) - grad_start.sum(0)
        return None, None, grad_background, grad_start, grad_boundary, *grads


def _at_heads(plan: _Plan, values: Tensor) -> Tensor:
    """The rows of the heads, [B, M, D]."""
    return values[torch.from_numpy(np.arange(len(plan.heads))[:, None] * plan.edges.num_nodes + plan.heads)]


def _backward(
    plan: _Plan, index: int, layer: Layer, states: Tensor, memory: tuple[np.ndarray, ...], gradients: Gradients
) -> list[Tensor]:
    """Fill the gradients of a layer's input and aggregates from those of its output; return those of its parameters.

    Rows without a gradient are zero.
    """
    from anykg.models.nbf.kernels import Wanted, layer_kernels

    rows, wanted, width = plan.rows[index + 1], plan.rows[index], states.shape[1]
    queries, nodes = len(plan.heads), plan.edges.num_nodes
    kernels, parameters, before = layer_kernels(width), _parameters(layer, layer.linear), flat(states)
    grad_linear = np.empty((PIECES, width, 2 * width), np.float32)
    grad_vectors = np.empty((PIECES, 3, width), np.float32)
    sums = grad_linear.reshape(-1), grad_vectors.reshape(-1)
    spread(kernels.backward_rows, gradients, before, memory, rows, parameters, *sums)
    grad_weights = np.zeros((queries, pieces_of(queries), *layer.weights.shape[1:]), np.float32)
    bounds = np.searchsorted(wanted, np.arange(queries + 1) * nodes)
    order = plan.edges.by_sender
    edges = Wanted(wanted, bounds, plan.tables), order.adjacency, order.kept(plan.keep)
    spread(kernels.backward_edges, gradients, before, *edges, parameters, grad_weights.reshape(-1))
    of_weights = np.zeros(layer.weights.shape, np.float32)
    for table, parts in zip(plan.tables, grad_weights, strict=True):
        for part in parts:
            of_weights[table] += part
    results = (of_weights, grad_linear.sum(0), *grad_vectors.sum(0))
    return [torch.from_numpy(values) for values in results]


def _parameters(layer: Layer, linear: Tensor) -> Parameters:
    from anykg.models.nbf.kernels import Parameters

    vectors = flat(layer.bias), flat(layer.scale), flat(layer.shift)
    return Parameters(flat(layer.weights), layer.weights.shape[1], flat(linear), *vectors)
