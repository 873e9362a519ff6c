"""The paper's notation as code, for the tests of its statements.

A graph is its tensor A [N, R, N]; phi permutes entities, tau permutes relations; a representation of the graph is a
tensor [N, R, N, ...] with an entry for every triplet. Both act on all such tensors alike.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st

from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.models.registry import MODELS
from graphs import graphs

SMALL: dict[str, dict[str, Any]] = {
    "ultra": {"width": 16, "relation_layers": 2, "entity_layers": 2},
    "nbfnet": {"width": 16},
    "trix": {"width": 16},
    "rmpi": {"width": 8},
    "ingram": {
        "entity_width": 4, "relation_width": 4, "entity_ratio": 2, "relation_ratio": 2, "entity_layers": 2,
        "relation_layers": 2, "heads": 2,
    },
}  # fmt: skip
"""Settings that make the models quick; what is claimed of them holds at any width and depth."""
EXACT = ("gat", "gin", "graphconv", "ultra", "trix", "isdea+", "uqer")
"""Models whose triplet representations the paper, or their construction, says are double invariant."""


class Renamed(NamedTuple):
    """A graph, phi, tau, and the graph they make of it."""

    graph: KnowledgeGraph
    phi: np.ndarray
    tau: np.ndarray
    image: KnowledgeGraph


@st.composite
def renamed_graphs(draw: st.DrawFn, max_entities: int = 6, max_relations: int = 3, min_triplets: int = 1) -> Renamed:
    """Random graphs with a random renaming of entities and relations."""
    graph = draw(graphs(max_entities=max_entities, max_relations=max_relations, min_triplets=min_triplets))
    phi = np.array(draw(st.permutations(range(graph.num_entities))))
    tau = np.array(draw(st.permutations(range(graph.num_relations))))
    return Renamed(graph, phi, tau, graph.relabel(phi, tau))


def adjacency(graph: KnowledgeGraph) -> np.ndarray:
    """A [N, R, N], 1 where the triplet is a fact."""
    found = np.zeros((graph.num_entities, graph.num_relations, graph.num_entities), int)
    found[tuple(graph.triplets.T)] = 1
    return found


def act(phi: np.ndarray, tau: np.ndarray, tensor: np.ndarray) -> np.ndarray:
    """Definition 2.2: (phi tau Z)[phi i, tau k, phi j] = Z[i, k, j]."""
    moved = np.empty_like(tensor)
    moved[np.ix_(phi, tau, phi)] = tensor
    return moved


def triplets_of(graph: KnowledgeGraph) -> np.ndarray:
    """Every (i, k, j), facts or not: [N R N, 3]."""
    n, r = graph.num_entities, graph.num_relations
    return np.stack(np.meshgrid(np.arange(n), np.arange(r), np.arange(n), indexing="ij"), -1).reshape(-1, 3)


def move(triplets: np.ndarray, phi: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """(phi i, tau k, phi j) of triplets [B, 3]."""
    return np.stack([phi[triplets[:, 0]], tau[triplets[:, 1]], phi[triplets[:, 2]]], axis=1)


def build(name: str, graph: KnowledgeGraph, seed: int = 0, **settings: Any) -> LinkPredictor:
    """A small model with random weights."""
    torch.manual_seed(seed)
    model_class = MODELS.load(name)
    config = replace(model_class.Config(), **SMALL.get(name, {}) | settings)
    model: LinkPredictor = model_class.build(config, graph)
    return model.eval()


@torch.no_grad()
def scores(model: LinkPredictor, graph: KnowledgeGraph, triplets: np.ndarray, seed: int = 0) -> np.ndarray:
    """The triplet representation of a model: its scores [B]."""
    return model.score_triplets(model.encode(graph, seed), torch.from_numpy(triplets)).double().numpy()


@torch.no_grad()
def whole(model: LinkPredictor, graph: KnowledgeGraph, seed: int = 0) -> np.ndarray:
    """The graph representation of a model [N, R, N], asked for as `score_tails`, all entities at once."""
    n, r = graph.num_entities, graph.num_relations
    heads, relations = torch.arange(n).repeat_interleave(r), torch.arange(r).repeat(n)
    return model.score_tails(model.encode(graph, seed), heads, relations).double().numpy().reshape(n, r, n)


def close(one: np.ndarray, other: np.ndarray) -> bool:
    """Equal up to the rounding of float32, relative to the spread of the scores."""
    size = max(1.0, float(np.abs(one).max(initial=0)))
    return bool(np.abs(one - other).max(initial=0) <= 1e-4 * size)
