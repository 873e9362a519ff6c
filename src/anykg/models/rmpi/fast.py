"""RMPI for many candidates at once: the function of `reference.py`, with the same signature.

h0 depends on the relation alone, so sums over links are sums over relations: the W1 of a kind of link is applied to the
R vectors once, and the messages to a triplet are the sum of two per-entity sums (its head's, its tail's) and one for
the pair. Triplets need no rows of their own; `kernels.py` finds the subgraphs as ranges of table rows to sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from anykg.graph.graph import KnowledgeGraph
from anykg.models.rmpi.around import entries_within_reach, triplets_around
from anykg.models.rmpi.kernels import Enclosed, enclose
from anykg.models.rmpi.sums import range_sums

if TYPE_CHECKING:
    from anykg.models.rmpi.rmpi import RMPI

KINDS = 6
HEAD_IN, HEAD_OUT, TAIL_IN, TAIL_OUT, PARALLEL, LOOP = range(KINDS)
"""The kinds of links."""
CANDIDATES, ENTRIES = 1024, 1 << 22
"""Bounds on the candidates scored at a time and on the entries of their subgraphs."""


def scores(model: RMPI, graph: KnowledgeGraph, vectors: Tensor, triplets: np.ndarray) -> Tensor:
    """Scores [C] of candidates [C, 3] without inverse relations, from relation vectors [R, D]."""
    around = graph.derive(triplets_around)
    parts = [score_enclosed(model, vectors, part, enclose(around, part)) for part in blocks(graph, triplets)]
    return torch.cat(parts) if parts else vectors.new_zeros(0)


def training_scores(
    model: RMPI, graph: KnowledgeGraph, vectors: Tensor, triplets: np.ndarray, drop: float, seed: int
) -> Tensor:
    """The same with a share `drop` of each subgraph's triplets left out, drawn for each layer."""
    return score_enclosed(model, vectors, triplets, enclose(graph.derive(triplets_around), triplets, drop, seed))


def blocks(graph: KnowledgeGraph, triplets: np.ndarray) -> list[np.ndarray]:
    """Cut triplets [B, 3] into parts whose subgraphs fit, counting entries as if every entity near were in them."""
    reach = graph.derive(entries_within_reach)
    ends = reach[triplets[:, 0]] + reach[triplets[:, 2]]
    filled = np.cumsum(ends + ENTRIES // CANDIDATES) // ENTRIES
    return np.split(triplets, np.flatnonzero(np.diff(filled)) + 1) if len(triplets) else []


def score_enclosed(model: RMPI, vectors: Tensor, triplets: np.ndarray, subgraphs: Enclosed) -> Tensor:
    """Scores [C] of triplets [C, 3] in their subgraphs."""
    relations = _ids(vectors, triplets[:, 1])
    passed = F.normalize(_pass_messages(model, vectors, relations, subgraphs), dim=-1)  # [C, D]
    beside = F.normalize(_attend(model, vectors, relations, subgraphs.beside), dim=-1)  # [C, D]
    scores: Tensor = model.last(model.fuse(torch.cat([passed, beside], dim=-1))).squeeze(-1)
    return scores


def _pass_messages(model: RMPI, vectors: Tensor, relations: Tensor, subgraphs: Enclosed) -> Tensor:
    """h2 of the candidates [C, D]."""
    rows, links, width = subgraphs.rows, subgraphs.links, model.width
    entries = subgraphs.columns, subgraphs.first
    by_entity, by_pair = _tables(model, vectors)
    sums = range_sums(rows[:-1], rows[1:], *entries, by_entity)  # [Q, 2 D]: as a head, as a tail
    between = range_sums(links[:, 0], links[:, 1], *entries, by_pair)  # [L, 2 D]: leaving the root, entering it
    root, neighbour = (sums[_ids(vectors, subgraphs.ends[:, side])] for side in (0, 1))  # [L, 2 D]
    added = torch.relu(root + torch.cat([neighbour[:, width:], neighbour[:, :width]], 1) + between)
    return _second_layer(model, vectors, relations, added, subgraphs)


def _tables(model: RMPI, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """What an entry of each column adds to all triplets at an entity, and to those of its own pair; [2R, 2D] each.

    Columns are in, then out; halves are for triplets that leave the entity (as a head), then that enter it.
    """
    messages = model.first(vectors).view(-1, KINDS, model.width)  # [R, 6, D]
    by_entity = torch.cat([messages[:, [HEAD_IN, TAIL_IN]], messages[:, [HEAD_OUT, TAIL_OUT]]])  # [2R, 2, D]
    own = messages[:, [PARALLEL, LOOP]] - messages[:, [HEAD_OUT, HEAD_IN]] - messages[:, [TAIL_IN, TAIL_OUT]]
    by_pair = torch.cat([own.flip(1), own])  # [2R, 2, D]: what enters is a loop to what leaves
    return by_entity.flatten(1), by_pair.flatten(1)


def _second_layer(model: RMPI, vectors: Tensor, relations: Tensor, added: Tensor, subgraphs: Enclosed) -> Tensor:
    """h2 of the candidates [C, D], from what layer 1 added to the triplets of each link [L, 2 D] (out, in)."""
    count, width, links = len(relations), model.width, subgraphs.links
    # Sums over the triplets of a link, in and out, of h0 and of a constant one that carries the bias.
    ones = torch.cat([vectors, vectors.new_ones(len(vectors), 1)], dim=1)  # [R, D + 1]
    nothing = torch.zeros_like(ones)
    table = torch.cat([torch.cat([ones, nothing], 1), torch.cat([nothing, ones], 1)])  # [2R, 2 (D + 1)]: in, out
    sums = range_sums(links[:, 0], links[:, 1], subgraphs.columns, subgraphs.second, table).view(-1, 2, width + 1)
    turned = torch.stack([added[:, width:], added[:, :width]], dim=1)  # [L, 2, D]: in, out
    h1 = torch.cat([sums[..., :width] + sums[..., width:] * turned, sums[..., width:]], dim=-1)  # [L, 2, D + 1]
    root_number = np.empty(len(subgraphs.rows) - 1, np.int64)  # roots are rows; number them 2c, 2c + 1
    root_number[subgraphs.roots], root_number[subgraphs.roots + 1] = 2 * np.arange(count), 2 * np.arange(count) + 1
    owner = _ids(vectors, root_number[subgraphs.ends[:, 0]])
    around = h1.new_zeros(2 * count, 2, width + 1).index_add(0, owner, h1).view(count, 4, width + 1)
    direct = _ids(vectors, subgraphs.direct[:, 0])
    loop, parallel = h1[direct].unbind(1)  # [C, D + 1]: from v to u, from u to v
    kinds = torch.stack(
        [
            around[:, 0] - loop,  # HEAD_IN
            around[:, 1] - parallel,  # HEAD_OUT
            around[:, 2] - parallel,  # TAIL_IN
            around[:, 3] - loop,  # TAIL_OUT
            parallel,
            loop,
        ],
        dim=1,
    )  # [C, 6, D + 1]
    # Stacked as [6, D out, D in]; to [6 D in, D out].
    weights = model.second.weight.view(KINDS, width, width).transpose(1, 2).reshape(-1, width)
    message = kinds[..., :width].flatten(1) @ weights + kinds[..., width] @ model.second.bias.view(KINDS, width)
    return vectors[relations] + added[direct, :width] + torch.relu(message)


def _attend(model: RMPI, vectors: Tensor, relations: Tensor, counts: np.ndarray) -> Tensor:
    """NE [C, D] over neighbours given by their number of each relation [C, R]; 0 where there are none."""
    projected = model.beside(vectors)  # [R, D]
    attention = F.leaky_relu(projected @ projected.T, 0.2)[relations]  # [C, R]
    number = torch.from_numpy(counts).to(vectors)
    logits = (attention + number.log()).masked_fill(number == 0, -torch.inf)
    alone = (number == 0).all(dim=1, keepdim=True)
    weights = torch.softmax(logits.masked_fill(alone, 0.0), dim=1).masked_fill(alone, 0.0)
    return torch.relu(weights @ projected)


def _ids(vectors: Tensor, array: np.ndarray) -> Tensor:
    """Indices on the device of the vectors."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(vectors.device)
