"""A model for anykg: an MLP over six counts around a triplet. It reads no ids, so it is double equivariant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from anykg import KnowledgeGraph, LinkPredictor, Symmetry
from anykg.models.base import EncodedGraph
from anykg.models.recipe import Recipe


@dataclass(frozen=True)
class ToyConfig:
    """Settings; the docstring of a field is its help text in `anykg models toy`."""

    hidden: int = 16
    """Hidden units."""


class ToyModel(LinkPredictor):
    """Counts facts near the triplet."""

    Config = ToyConfig
    recipe = Recipe(batch_size=32, lr=0.01, targets="held-out", target_share=0.1, inverses=True, negative_relations=2)
    symmetry = Symmetry.EXACT

    def __init__(self, config: ToyConfig | None = None) -> None:
        super().__init__(config)
        self.mlp = nn.Sequential(nn.Linear(6, self.config.hidden), nn.ReLU(), nn.Linear(self.config.hidden, 1))

    def score_triplets(self, encoded: EncodedGraph, triplets: Tensor) -> Tensor:
        counts = count_near(encoded.graph, triplets.cpu().numpy())  # [B, 6]
        return self.mlp(torch.from_numpy(counts).to(self.mlp[0].weight).log1p()).squeeze(-1)


def count_near(graph: KnowledgeGraph, triplets: np.ndarray) -> np.ndarray:
    """For each triplet: facts of r that h begins, that t ends; facts of h, of t; neighbours in common; (t, r, h)."""
    heads, relations, tails = triplets.T
    begins, links = graph.derive(tables)  # computed once for a graph
    inverse = (relations + graph.num_relations) % (2 * graph.num_relations)
    degrees = begins.sum(axis=1)
    common = links[heads].multiply(links[tails]).sum(axis=1)
    back = graph.contains(triplets[:, [2, 1, 0]])
    columns = [begins[heads, relations], begins[tails, inverse], degrees[heads], degrees[tails], common, back]
    return np.stack(columns, axis=1).astype(np.float32)


def tables(graph: KnowledgeGraph) -> tuple[np.ndarray, sp.csr_array]:
    """How many facts of a relation or inverse an entity begins [N, 2R], and who is linked to whom [N, N]."""
    heads, relations, tails = graph.with_inverses().T
    begins = np.zeros((graph.num_entities, 2 * graph.num_relations), np.int32)
    np.add.at(begins, (heads, relations), 1)
    links = sp.csr_array((np.ones(len(heads)), (heads, tails)), shape=(graph.num_entities,) * 2)
    return begins, (links > 0).astype(np.float64)
