"""Reference implementation of ISDEA+ in plain torch, for the GCN kernel and the published read-out.

N entities, R relations, 2R with inverses. Every triplet (u, k, v), inverses included, puts 1 / sqrt(deg(u) deg(v)) at
row u, column v of A_k; deg counts distinct neighbours, a self-loop twice. A is the sum of all A_k. For a relation k two
streams of states [N, D] start from ones (plus attributes of entities times a matrix, where a model reads some) and run
for T layers without activation:

    own:     s <- s W + b + A_k s V,         then  s <- s W + b + A s V
    others:  s <- s W' + b' + (A - A_k) s V',  then  s <- s W' + b' + A s V'

    X = MLP(MLP([s^0, ..., s^T]) + MLP'([s'^0, ..., s'^T]))                             [N, states]
    score(i, k, j) = MLP([X_i, X_j, X_i * X_j, MLP([d(i, j) / N, d(j, i) / N])])

All MLPs have three layers, with tanh after each, or with ReLU between them in the last one. d is the distance over
observed triplets in their own direction without the one being scored, N if there is no path.

`ISDEA.score_triplets` is the same function. Faster forms are in `folded.py` (a training step without the graph),
`fused.py` (that step compiled as a whole) and `gnn.py` (other convolutions and set functions).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from anykg.graph.distances import triplet_distances
from anykg.graph.graph import KnowledgeGraph
from anykg.models.isdea.gnn import first_states

if TYPE_CHECKING:
    from anykg.models.isdea.isdea import ISDEA


def scores(model: ISDEA, graph: KnowledgeGraph, triplets: Tensor) -> Tensor:
    """Scores [B] of triplets [B, 3], one relation at a time."""
    scores = torch.zeros(len(triplets))
    for relation in triplets[:, 1].unique().tolist():  # type: ignore[no-untyped-call]
        rows = torch.nonzero(triplets[:, 1] == relation).squeeze(1)
        states = entity_states(model, graph, relation)  # [N, D]
        head, tail = states[triplets[rows, 0]], states[triplets[rows, 2]]  # [B', D]
        distance = _mlp(model, "distance", distances(graph, triplets[rows]), torch.tanh, last=True)
        scores[rows] = _mlp(model, "scorer", torch.cat([head, tail, head * tail, distance], dim=1), torch.relu).squeeze(
            1
        )
    return scores


def entity_states(model: ISDEA, graph: KnowledgeGraph, relation: int) -> Tensor:
    """X [N, states] of all entities for one relation."""
    whole, own = adjacency(graph), adjacency(graph, relation)  # [N, N]
    streams = []
    for stream, first in enumerate((own, whole - own)):
        state = first_states(model, graph)
        seen = [state]
        for layer in range(model.config.layers):
            gathered = torch.sparse.mm(first if layer == 0 else whole, state)
            state = (
                state @ model.self_weight[layer, stream]
                + model.self_bias[layer, stream]
                + gathered @ model.hop_weight[layer, stream]
            )
            seen.append(state)
        hidden = torch.cat(seen, dim=1)  # [N, (T + 1) D]
        for layer in range(3):
            weight, bias = (model.weights[f"streams.{part}.{layer}"][stream] for part in ("weight", "bias"))
            hidden = torch.tanh(hidden @ weight + bias)
        streams.append(hidden)
    return _mlp(model, "combine", streams[0] + streams[1], torch.tanh, last=True)


def adjacency(graph: KnowledgeGraph, relation: int | None = None) -> Tensor:
    """A, or A_k of one relation: sparse [N, N]."""
    n = graph.num_entities
    pairs = np.unique(np.sort(graph.triplets[:, [0, 2]], axis=1), axis=0)  # undirected edges, each once
    degree = np.bincount(pairs.ravel(), minlength=n)
    edges = graph.with_inverses()
    if relation is not None:
        edges = edges[edges[:, 1] == relation]
    ends = edges[:, [0, 2]].T
    values = 1.0 / np.sqrt(degree[ends[0]] * degree[ends[1]])
    return torch.sparse_coo_tensor(
        torch.from_numpy(ends.copy()), torch.from_numpy(values).float(), (n, n), check_invariants=False
    ).coalesce()


def distances(graph: KnowledgeGraph, triplets: Tensor) -> Tensor:
    """d(i, j) / N and d(j, i) / N of triplets [B, 3]: [B, 2]."""
    steps = torch.from_numpy(triplet_distances(graph, triplets.numpy(), directed=True, leave_out="triplet"))
    return torch.where(steps < 0, 1.0, steps / graph.num_entities)


def _mlp(
    model: ISDEA, name: str, inputs: Tensor, activation: Callable[[Tensor], Tensor], *, last: bool = False
) -> Tensor:
    for layer in range(3):
        inputs = F.linear(inputs, model.weights[f"{name}.weight.{layer}"], model.weights[f"{name}.bias.{layer}"])
        if layer < 2 or last:
            inputs = activation(inputs)
    return inputs
