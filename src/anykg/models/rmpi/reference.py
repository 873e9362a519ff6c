"""Reference implementation of RMPI in plain torch, one candidate at a time; `fast.py` has the same signature.

The score of (u, r, v) is computed in its enclosing subgraph: u, v and the entities within two hops of both, where a
path from one does not pass through the other, with all triplets among them and the candidate itself. A triplet
e = (a, x, b) receives messages from the triplets f = (c, y, d) of the subgraph over six kinds of links:

    head in     d = a         head out    c = a         parallel    c = a and d = b
    tail in     d = b         tail out    c = b         loop        c = b and d = a

Parallel and loop links are not counted among the first four, and e is parallel to itself.

    h0 = vector of the relation                                                                     [D]
    h1 = h0 + ReLU(sum over kinds, sum over links, W1_kind h0)      for the triplets that touch u or v
    h2 = h1 + ReLU(sum over kinds, sum over links, W2_kind h1)      for the candidate
    NE = ReLU(attention over all triplets of the graph that touch u or v, without the candidate, of W h0)
    score = Linear(Linear([h2 / |h2|, NE / |NE|]))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anykg.graph.graph import KnowledgeGraph

if TYPE_CHECKING:
    from anykg.models.rmpi.rmpi import RMPI

Triplet = tuple[int, int, int]


def scores(model: RMPI, graph: KnowledgeGraph, vectors: Tensor, triplets: np.ndarray) -> Tensor:
    """Scores [C] of candidates [C, 3] without inverse relations, from relation vectors [R, D]."""
    facts: list[Triplet] = [(h, r, t) for h, r, t in graph.triplets.tolist()]
    return torch.stack([_score(model, facts, vectors, (u, r, v)) for u, r, v in triplets.tolist()])


def _score(model: RMPI, facts: list[Triplet], vectors: Tensor, candidate: Triplet) -> Tensor:
    u, r, v = candidate
    inside = (_within_two_hops(facts, u, v) & _within_two_hops(facts, v, u)) | {u, v}
    subgraph = [f for f in facts if f[0] in inside and f[2] in inside and f != candidate] + [candidate]
    touching = [f for f in subgraph if {u, v} & {f[0], f[2]}]

    h0 = {f: vectors[f[1]] for f in subgraph}
    h1 = h0 | {f: h0[f] + torch.relu(_messages(model.first, h0, f)) for f in touching}
    h2 = h1[candidate] + torch.relu(_messages(model.second, h1, candidate))  # [D]

    beside = [f for f in facts if {u, v} & {f[0], f[2]} and f != candidate]
    return model.last(model.fuse(torch.cat([_unit(h2), _unit(_attend(model, vectors, r, beside))]))).squeeze(0)  # type: ignore[no-any-return]


def _within_two_hops(facts: list[Triplet], root: int, apart: int) -> set[int]:
    """The entities within two hops of `root` on paths that avoid `apart`."""

    def neighbours(of: set[int]) -> set[int]:
        return {b for a, _, b in facts if a in of} | {a for a, _, b in facts if b in of}

    near = neighbours({root}) - {root, apart}
    return (near | neighbours(near)) - {root, apart}


def _messages(layer: nn.Linear, states: dict[Triplet, Tensor], e: Triplet) -> Tensor:
    """Sum [D] over the six kinds of links into e = (a, x, b); `layer` holds W of all kinds [6 D, D]."""
    (a, _, b), total = e, torch.zeros(layer.in_features).to(layer.weight)
    for f, state in states.items():
        c, _, d = f
        parallel, loop = c == a and d == b, c == b and d == a
        links = [
            d == a and not loop,
            c == a and not parallel,
            d == b and not parallel,
            c == b and not loop,
            parallel,
            loop,
        ]
        by_kind = layer(state).view(6, -1)  # [6, D]
        total = total + by_kind[torch.tensor(links)].sum(0)
    return total


def _attend(model: RMPI, vectors: Tensor, relation: int, beside: list[Triplet]) -> Tensor:
    """NE [D]; 0 where there is no triplet to attend to."""
    if not beside:
        return torch.zeros_like(vectors[relation])
    mapped = model.beside(vectors[[f[1] for f in beside]])  # [F, D]
    logits = F.leaky_relu(mapped @ model.beside(vectors[relation]), 0.2)  # [F]
    return torch.relu(torch.softmax(logits, dim=0) @ mapped)


def _unit(vector: Tensor) -> Tensor:
    return F.normalize(vector, dim=0)
