"""Reference implementation of InGram in plain torch: the equations as published, with a row for every edge.

Relation vectors z [2R, d'] and entity vectors h [N, d] are projected to hidden width, updated layer by layer, and
projected back. A layer is attention with H heads over the edges j -> i that arrive at a node i, a residual, and ReLU.

    relations: an edge for every affinity between i and j, of bin s
        logit = a . LeakyReLU(W [z_i, z_j] + b) + c_s             value = W' z_j + b'
    entities: an edge for every triplet (u, r, v) and its inverse, from u to v, and a loop from v to v, whose relation
    vector is the mean over the edges that arrive at v
        logit = a . LeakyReLU(W [h_v, h_u, z_r] + b)              value = W' [h_u, z_r] + b'

    out_i = ReLU(sum over edges of softmax(logit) * value + U x_i + c)

A triplet scores sum(h_head * (W z_relation) * h_tail). `InGram.represent` is the same function, with W [h_v, h_u, z_r]
taken apart into products per node and per relation (`segment.py`), and compiled (`kernels.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from anykg.models.ingram.ingram import AttentionLayer, Edges, InGram
    from anykg.models.ingram.segment import Arrivals


def represent(model: InGram, edges: Edges, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
    """Output vectors [N, d] and [2R, d'] from inputs [N, d] and [2R, d']."""
    z, h = model.relation_in(relations), model.entity_in(entities)
    for layer in model.relation_layers:
        z = relation_layer(layer, edges.relations, z)  # type: ignore[arg-type]
    for layer in model.entity_layers:
        h = entity_layer(layer, edges.entities, h, z)  # type: ignore[arg-type]
    return model.entity_out(h), model.relation_out(z)


def relation_layer(layer: AttentionLayer, edges: Arrivals, states: Tensor) -> Tensor:
    """States [2R, W] after a layer over affinities."""
    to, source, bins = _ids(edges, states)
    w_to, w_from, w_value, _ = layer.node_weight
    rows = torch.cat([states[to], states[source]], dim=1) @ torch.cat([w_to, w_from], dim=1).T  # [E, W]
    values = states[source] @ w_value.T
    return _attend(layer, to, rows, layer.bins[bins], values, states)


def entity_layer(layer: AttentionLayer, edges: Arrivals, states: Tensor, relations: Tensor) -> Tensor:
    """States [N, W] after a layer over triplets, with relation vectors [2R, W']."""
    to, source, relation = _ids(edges, states)
    of_edge = relations[relation]  # [E, W']
    arriving = torch.bincount(to, minlength=len(states)).clamp(min=1)[:, None]
    loops = states.new_zeros(len(states), relations.shape[1]).index_add(0, to, of_edge) / arriving  # [N, W']
    everyone = torch.arange(len(states), device=states.device)
    to, source, of_edge = torch.cat([to, everyone]), torch.cat([source, everyone]), torch.cat([of_edge, loops])
    w_to, w_from, w_value, _ = layer.node_weight
    w_relation, w_relation_value = layer.kind_weight
    rows = torch.cat([states[to], states[source], of_edge], dim=1) @ torch.cat([w_to, w_from, w_relation], dim=1).T
    values = torch.cat([states[source], of_edge], dim=1) @ torch.cat([w_value, w_relation_value], dim=1).T
    return _attend(layer, to, rows, states.new_zeros(1, 1), values, states)


def _attend(layer: AttentionLayer, to: Tensor, rows: Tensor, extra: Tensor, values: Tensor, states: Tensor) -> Tensor:
    """Softmax over the edges of each node, weighted sum of values, residual, ReLU; rows and values [E, W]."""
    shape, (bias, value_bias, residual_bias) = (len(rows), *layer.shape), layer.node_bias
    active = F.leaky_relu(rows + bias, 0.2).view(shape)  # [E, H, D]
    logits = (active * layer.vector).sum(-1) + extra  # [E, H]
    lowest = logits.new_full((len(states), layer.shape[0]), -torch.inf)
    highest = lowest.scatter_reduce(0, to[:, None].expand_as(logits), logits.detach(), "amax")  # [N, H]
    weights = (logits - highest[to]).exp()
    weights = weights / torch.zeros_like(lowest).index_add(0, to, weights)[to]
    messages = weights[..., None] * (values + value_bias).view(shape)  # [E, H, D]
    sums = messages.new_zeros(len(states), *messages.shape[1:]).index_add(0, to, messages).flatten(1)  # [N, W]
    return torch.relu(sums + F.linear(states, layer.node_weight[3], residual_bias))


def _ids(edges: Arrivals, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Receivers, senders and kinds [E] of the edges."""
    receivers, senders, kinds = (
        torch.from_numpy(ids).long().to(states.device) for ids in (edges.receivers, edges.senders, edges.kinds)
    )
    return receivers, senders, kinds
