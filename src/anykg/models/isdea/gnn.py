"""The streams of ISDEA+ by message passing: any graph convolution, any set function over the other relations.

`streams` yields blocks [2, P, (T + 1) D]: for pairs (entity, relation k), in order, the states s^0..s^T of the stream
of k and of the stream of all others. Pairs are distinct and sorted by relation. Two ways, one function:

literal  For the relations of a block, every entity is a node once for each relation, and the convolution runs on that
         graph. Right for every convolution.
near     Only nodes within T hops of the requested pairs. A relation that no one within t - 1 hops of an entity has
         leaves its state s^t as if the relation did not exist, so all such relations share one node (relation 2R,
         "none"). On all-ones inputs the first layer sees how many triplets an entity has, and each number is computed
         once. Right for convolutions whose result at a node depends on it and its neighbours' states alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from anykg.errors import ConfigError
from anykg.graph.attributes import attribute_values
from anykg.graph.graph import KnowledgeGraph
from anykg.models.isdea.folded import BLOCK, normalised_edges
from anykg.plugins import import_extra, import_object

if TYPE_CHECKING:
    from anykg.models.isdea.isdea import ISDEA

NODES = 2**20
"""Nodes (entity, relation) of a literal block, when scoring."""
PAIRS = 2**12
"""Pairs of a near block, when scoring."""

LOCAL = ("gcn", "gin", "gat", "graphconv", "sage")
"""Kernels whose result at a node depends on it and its neighbours' states alone."""

Operator = Callable[[Tensor, Tensor, Tensor], Tensor]
"""States [V, D], edges [2, M] from source to target and their weights [M] -> what each node gathers [V, D]."""


def kernel(name: str, width: int) -> nn.Module:
    """The torch-geometric convolution width -> width called `name`, or at the import path `name`."""
    pyg = import_extra("torch_geometric.nn", "pyg", f"The graph convolution {name}")

    if name == "gin":
        return pyg.GINConv(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)))  # type: ignore[no-any-return]
    if name == "gat":
        # Attention over equal states that include the node's own cannot detect whether there are neighbours.
        return pyg.GATConv(width, width, add_self_loops=False)  # type: ignore[no-any-return]
    if name == "graphconv":
        return pyg.GraphConv(width, width)  # type: ignore[no-any-return]
    if name == "sage":
        return pyg.SAGEConv(width, width)  # type: ignore[no-any-return]
    if ":" in name:
        convolution = import_object(name)(width, width)
        if isinstance(convolution, nn.Module):
            return convolution
    raise ConfigError(f"isdea: expected gnn to be {', '.join(LOCAL)} or MODULE:CLASS of a convolution, found {name!r}.")


def streams(model: ISDEA, graph: KnowledgeGraph, entities: Tensor, relations: Tensor) -> Iterator[Tensor]:
    """Blocks of both streams' states for distinct pairs sorted by relation."""
    operators = [[_operator(model, layer, stream) for stream in (0, 1)] for layer in range(model.config.layers)]
    near = model.config.form == "folded" and model.config.gnn in LOCAL and not model.config.inputs
    if near:
        blocks = [slice(start, start + PAIRS) for start in range(0, len(entities), PAIRS)]
    else:
        size = max(NODES // max(graph.num_entities, 1), 1)
        kinds = relations.unique_consecutive()  # type: ignore[no-untyped-call]
        bounds = [*torch.searchsorted(relations, kinds[::size].contiguous()).tolist(), len(relations)]
        blocks = [slice(a, b) for a, b in pairwise(bounds)]
    if torch.is_grad_enabled() and near:
        blocks = [slice(None)]  # one block shares more nodes, and the backward pass keeps all blocks anyway
    run = _near if near else _literal
    for block in blocks:
        yield run(model, operators, graph, entities[block], relations[block])


def _operator(model: ISDEA, layer: int, stream: int) -> Operator:
    if model.config.gnn == "gcn":
        return partial(_gcn, model.hop_weight[layer, stream])
    convolution = model.kernels[2 * layer + stream]
    return lambda states, edges, weights: convolution(states, edges)


def _gcn(weight: Tensor, states: Tensor, edges: Tensor, weights: Tensor) -> Tensor:
    gathered = torch.zeros_like(states).index_add(0, edges[1], states[edges[0]] * weights[:, None])
    return gathered @ weight


# -- literal ----------------------------------------------------------------------------------------------------


def _literal(
    model: ISDEA, operators: list[list[Operator]], graph: KnowledgeGraph, entities: Tensor, relations: Tensor
) -> Tensor:
    """Node k' * N + i is entity i with the k'-th relation of the block."""
    n = graph.num_entities
    kinds, kind = relations.unique(return_inverse=True)  # type: ignore[no-untyped-call]
    edges = normalised_edges(graph)
    ends = torch.from_numpy(np.stack([edges.source, edges.target])).to(entities.device)  # [2, M]
    of = torch.from_numpy(edges.relation).to(entities.device)
    weights = torch.from_numpy(edges.weight).to(model.self_bias)
    nodes = torch.arange(len(kinds), device=entities.device)[:, None]
    everywhere = (ends[:, None] + n * nodes).view(2, -1), weights.repeat(len(kinds))  # [2, K, M] -> [2, K M]
    own = (of == kinds[:, None]).view(-1)  # [K M]

    start = first_states(model, graph)  # [N, D]
    results = []
    for stream in (0, 1):
        states = start.repeat(len(kinds), 1)
        seen = [states]
        for layer in range(model.config.layers):
            operator = operators[layer][stream]
            if layer:
                gathered = operator(states, *everywhere)
            elif stream == 0 or model.config.aggregation == "sum":
                chosen = own if stream == 0 else ~own
                gathered = operator(states, everywhere[0][:, chosen], everywhere[1][chosen])
            else:
                gathered = _literal_others(model, operator, graph, start, kinds, (ends, of, weights))
            states = states @ model.self_weight[layer, stream] + model.self_bias[layer, stream] + gathered
            seen.append(states)
        results.append(torch.cat(seen, dim=1)[kind * n + entities])
    return torch.stack(results)


def first_states(model: ISDEA, graph: KnowledgeGraph) -> Tensor:
    """The states s^0 [N, D]: ones, plus a linear map of the attributes that the model reads."""
    ones = model.self_bias.new_ones(graph.num_entities, model.config.width)
    if not model.config.inputs:
        return ones
    values = graph.derive(attribute_values, model.config.attributes)  # [N, A]
    return ones + torch.from_numpy(values).to(ones) @ model.weights["inputs"]


def _literal_others(
    model: ISDEA,
    operator: Operator,
    graph: KnowledgeGraph,
    start: Tensor,
    kinds: Tensor,
    edges: tuple[Tensor, Tensor, Tensor],
) -> Tensor:
    """A set function of all relations but k: [K N, D] for the relations `kinds` [K]."""
    ends, of, weights = edges
    n, count = graph.num_entities, 2 * graph.num_relations
    values = operator(start.repeat(count, 1), ends + n * of, weights)  # [2R N, D]
    entity = torch.arange(n, device=ends.device)
    own = (kinds[:, None] * n + entity).view(-1)
    absent = values.new_zeros(model.config.width)  # every relation has a value at every entity
    return _others(model, values, entity.repeat(count), n, own, entity.repeat(len(kinds)), absent, count)


# -- near -------------------------------------------------------------------------------------------------------


class _Hop(NamedTuple):
    """One layer over the whole graph, from the V nodes of the layer below to the nodes of this one."""

    self_index: Tensor  # the position of each node in the layer below
    edges: Tensor  # [2, M] from a node below to V + a node of this layer
    weight: Tensor  # [M]


class _Incidence(NamedTuple):
    """The pairs (entity, relation) that have triplets, ascending; key = entity * (2R + 1) + relation."""

    keys: np.ndarray
    counts: np.ndarray  # triplets of each pair
    weights: np.ndarray  # A_k 1


def _near(
    model: ISDEA, operators: list[list[Operator]], graph: KnowledgeGraph, entities: Tensor, relations: Tensor
) -> Tensor:
    position, hops, nodes = _plan(model, graph, entities.cpu().numpy(), relations.cpu().numpy())
    firsts = _first_layer(model, operators[0], graph, nodes)
    results = []
    for stream in (0, 1):
        ones = firsts[stream].new_ones(firsts[stream].shape)
        states = ones @ model.self_weight[0, stream] + model.self_bias[0, stream] + firsts[stream]
        seen = [ones, states]
        for layer, hop in enumerate(hops, start=1):
            own = states[hop.self_index]
            gathered = operators[layer][stream](torch.cat([states, own]), hop.edges, hop.weight)[len(states) :]
            states = own @ model.self_weight[layer, stream] + model.self_bias[layer, stream] + gathered
            seen = [*(before[hop.self_index] for before in seen), states]
        results.append(torch.cat(seen, dim=1)[position])
    return torch.stack(results)


def _plan(
    model: ISDEA, graph: KnowledgeGraph, entities: np.ndarray, relations: np.ndarray
) -> tuple[Tensor, list[_Hop], np.ndarray]:
    """The position of each pair in the last layer, the hops in order, and the nodes (keys) of the first layer."""
    layers, columns = model.config.layers, 2 * graph.num_relations + 1
    edges, within = normalised_edges(graph), graph.derive(_within, layers)

    def nodes_of(layer: int, entity: np.ndarray, relation: np.ndarray) -> np.ndarray:
        keys = entity * columns + relation
        return np.where(within[layer - 1][keys], keys, entity * columns + columns - 1)

    nodes, position = _distinct(nodes_of(layers, entities, relations), graph.num_entities * columns)
    hops = []
    for layer in range(layers - 1, 0, -1):
        entity, relation = np.divmod(nodes, columns)
        counts = edges.offsets[entity + 1] - edges.offsets[entity]
        target = np.repeat(np.arange(len(nodes)), counts)
        at = np.arange(len(target)) + np.repeat(edges.offsets[entity] - (np.cumsum(counts) - counts), counts)
        needed = np.concatenate(
            [nodes_of(layer, entity, relation), nodes_of(layer, edges.source[at], relation[target])]
        )
        above = len(nodes)
        nodes, positions = _distinct(needed, graph.num_entities * columns)
        ends = np.stack([positions[above:], target + len(nodes)])
        hops.append(
            _Hop(*(_like(model.self_bias, a) for a in (positions[:above], ends, edges.weight[at].astype(np.float32))))
        )
    return _like(model.self_bias, position), hops[::-1], nodes


def _first_layer(
    model: ISDEA, operators: list[Operator], graph: KnowledgeGraph, nodes: np.ndarray
) -> tuple[Tensor, Tensor]:
    """What the nodes (keys) gather in the first layer, in both streams."""
    columns, incidence = 2 * graph.num_relations + 1, graph.derive(_incidence)
    amounts = incidence.weights if model.config.gnn == "gcn" else incidence.counts
    group = incidence.keys // columns
    own = np.searchsorted(incidence.keys, nodes)
    own[own == len(incidence.keys)] = 0
    own = np.where(incidence.keys[own] == nodes, own, -1) if len(incidence.keys) else np.full(len(nodes), -1)
    entity = nodes // columns
    mine = np.append(amounts, 0)[own]
    first = _from_ones(model, operators[0], mine)
    if model.config.aggregation == "sum":
        total = np.bincount(group, amounts, graph.num_entities).astype(amounts.dtype)
        return first, _from_ones(model, operators[1], total[entity] - mine)
    values = _from_ones(model, operators[1], np.append(amounts, 0))
    of, own_at, asked = (_like(values, a) for a in (group, own, entity))
    return first, _others(
        model, values[:-1], of, graph.num_entities, own_at, asked, values[-1], 2 * graph.num_relations
    )


def _from_ones(model: ISDEA, operator: Operator, amounts: np.ndarray) -> Tensor:
    """What a node gathers from all-ones neighbours, by their number (or for gcn their weight): [P, D]."""
    distinct, inverse = np.unique(amounts, return_inverse=True)
    repeats = np.ones(len(distinct), np.int64) if model.config.gnn == "gcn" else distinct
    target = np.repeat(np.arange(1, len(distinct) + 1), repeats)  # node 0 stands for every neighbour
    edges = _like(model.self_bias, np.stack([np.zeros_like(target), target]))
    weights = _like(model.self_bias, np.repeat(distinct, repeats).astype(np.float32))
    ones = model.self_bias.new_ones(len(distinct) + 1, model.config.width)
    return operator(ones, edges, weights)[1:][_like(model.self_bias, inverse)]


def _incidence(graph: KnowledgeGraph) -> _Incidence:
    edges = normalised_edges(graph)
    keys, starts, counts = np.unique(
        edges.target * (2 * graph.num_relations + 1) + edges.relation, return_index=True, return_counts=True
    )
    weights = np.add.reduceat(edges.weight, starts) if len(starts) else edges.weight
    return _Incidence(keys, counts, weights)


def _within(graph: KnowledgeGraph, layers: int) -> list[np.ndarray]:
    """For each layer t, by key: whether an entity within t - 1 hops has the relation, bool [N (2R + 1)]."""
    n, columns = graph.num_entities, 2 * graph.num_relations + 1
    edges = normalised_edges(graph)
    links = sparse.csr_array((np.ones(len(edges.target), np.float32), (edges.target, edges.source)), shape=(n, n))
    now = np.zeros((n, columns), bool)
    now[edges.target, edges.relation] = True
    tables = [now]
    for _ in range(layers - 1):
        now = now.copy()
        for start in range(0, columns, BLOCK):
            now[:, start : start + BLOCK] |= (links @ now[:, start : start + BLOCK].astype(np.float32)) > 0
        tables.append(now)
    return [table.reshape(-1) for table in tables]


def _distinct(keys: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct keys below `size`, ascending, and the position of each key among them."""
    there = np.zeros(size, bool)
    there[keys] = True
    distinct = np.flatnonzero(there)
    positions = np.empty(size, np.int64)
    positions[distinct] = np.arange(len(distinct))
    return distinct, positions[keys]


def _like(example: Tensor, array: np.ndarray) -> Tensor:
    """The array on the device of `example`; floats in its dtype."""
    tensor = torch.from_numpy(array).to(example.device)
    return tensor.to(example.dtype) if tensor.is_floating_point() else tensor


# -- set functions ----------------------------------------------------------------------------------------------


def _others(
    model: ISDEA, values: Tensor, group: Tensor, groups: int, own: Tensor, asked: Tensor, absent: Tensor, count: int
) -> Tensor:
    """A set function of the messages of all `count` relations but one to an entity: [P, D].

    values [M, D] are messages of relations to the entities group [M]; all others send `absent` [D]. Row p is for entity
    asked[p] without the relation whose value is at own[p], or -1 if that one is absent.
    """
    kind = model.config.aggregation
    if kind == "deepsets":
        values, absent = model.element(values), model.element(absent)
    missing = (count - torch.bincount(group, minlength=groups))[:, None]  # [groups, 1]
    mine = torch.where(own[:, None] >= 0, values[own], absent) if len(values) else absent.expand(len(own), -1)
    if kind == "max":
        return _max_of_others(values, group, missing, own, mine, asked, absent)
    total = values.new_zeros(groups, values.shape[1]).index_add(0, group, values) + missing * absent
    rest = total[asked] - mine
    return rest / (count - 1) if kind == "mean" else model.whole(rest)


def _max_of_others(
    values: Tensor, group: Tensor, missing: Tensor, own: Tensor, mine: Tensor, asked: Tensor, absent: Tensor
) -> Tensor:
    """The maximum without the own value: the second largest if the own value is the unique maximum."""

    def largest(candidates: Tensor) -> Tensor:
        lowest = candidates.new_full((len(missing), candidates.shape[1]), -torch.inf)
        return lowest.scatter_reduce(0, group[:, None].expand_as(candidates), candidates, "amax")

    best = largest(values)
    top = values == best[group]
    second = largest(values.masked_fill(top, -torch.inf))
    ties = torch.zeros_like(best).index_add(0, group, top.to(best.dtype))
    alone = (own[:, None] >= 0) & (mine == best[asked]) & (ties[asked] == 1)
    others = torch.where(alone, second[asked], best[asked])
    some_missing = missing[asked] > (own[:, None] < 0).long()
    return torch.where(some_missing, torch.maximum(others, absent), others)
