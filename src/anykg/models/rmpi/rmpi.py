"""RMPI, the NE variant with concatenation: messages between triplets that share an end.

The score of (u, r, v) is computed in its enclosing subgraph: u, v and the entities within two hops of both, a path from
one not passing through the other, with all triplets among them and the candidate itself. A triplet e = (a, x, b) hears
from others by six kinds of links: those coming in to a or going out of a, coming in to b or going out of b, parallel
(head a, tail b) and loop (head b, tail a); the last two are taken out of the first four, and e is its own parallel.

    h0 = vector of the relation                                     [D]
    h1 = h0 + ReLU(sum over kinds, sum over links, W1_kind h0)      for the triplets that touch u or v
    h2 = h1 + ReLU(sum over kinds, sum over links, W2_kind h1)      for the candidate
    NE = ReLU(sum over triplets touching u or v in the whole graph, attention W h0), the candidate left out
    score = Linear(Linear([h2 / |h2|, NE / |NE|]))

h0 is a vector of the relation alone, so sums over links are sums over relations: a link kind's W1 is applied to the R
vectors once, and what a triplet hears is a sum of two per-entity sums (its head's, its tail's) and one for the pair.
No triplet has a row of its own; see `anykg.models.rmpi.kernels`.

Relation vectors are learnt for the relations of the training graph. On a graph with other relations all are drawn from
the seed of `encode`, also those whose names occurred in training: names carry no information. They are drawn as spread
as the learnt ones, which an L2 penalty makes small; the public code draws standard normal ones, ten times as long as
those learnt on EN-FR, and keeps learnt ones where the name is the same.

Where it departs from the public code: its distances are those within the subgraph it is about to prune, ours those of
the graph; its disclosing subgraph loses neighbours that are far from the other root, ours has all of them; in training
it squares the dropout weights of parallel triplets and doubles attention, ours drops each triplet whole. A subgraph
without any triplet scores like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor, Symmetry
from anykg.models.recipe import Recipe
from anykg.models.rmpi.around import triplets_around
from anykg.models.rmpi.kernels import Around, Enclosed, enclose
from anykg.models.rmpi.ranges import range_sums
from anykg.seeds import derive, torch_stream

KINDS = 6
HEAD_IN, HEAD_OUT, TAIL_IN, TAIL_OUT, PARALLEL, LOOP = range(KINDS)
"""The kinds of links."""
CANDIDATES, ENTRIES = 1024, 1 << 22
"""Candidates scored at a time, and entries of their subgraphs: no more than so many, unless one alone has more."""


@dataclass(frozen=True)
class RMPIConfig:
    """The public defaults."""

    width: int = 32
    """Width of all vectors."""
    edge_dropout: float = 0.5
    """The share of a subgraph's triplets that is left out in training, drawn for each layer."""
    num_relations: int = 0
    """Relations of the training graph; set when the model is built."""
    relations: str = ""
    """A digest of their names; set when the model is built."""

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ConfigError(f"--width: expected 1 or more, found {self.width}.")
        if not 0 <= self.edge_dropout < 1:
            raise ConfigError(f"--edge-dropout: expected 0 or more and less than 1, found {self.edge_dropout}.")


@dataclass(frozen=True, eq=False)
class Encoded:
    """A graph and the vectors of its relations."""

    num_entities: int
    num_relations: int
    around: Around
    reach: np.ndarray  # [N]
    vectors: Tensor  # [R, D]


class RMPI(LinkPredictor):
    """Relational message passing over the triplets around a candidate."""

    Config = RMPIConfig
    # The public loss is the sum over a batch of 16, with an L2 penalty of 5e-2. Adam does not see the scale of a loss
    # but the penalty's share of the gradient: for a mean it is a sixteenth.
    recipe = Recipe(
        epochs=20,
        batch_size=16,
        lr=1e-3,
        weight_decay=5e-2 / 16,
        negative_entities=1,
        sides="either",
        fixed_negatives=True,
        loss="margin",
        margin=10.0,
        select="node/-mr",
        validation_limit=1000,
    )
    symmetry = Symmetry.ENTITIES_ONLY
    hides_facts = False

    def __init__(self, config: RMPIConfig = RMPIConfig()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.config = config
        width = config.width
        self.vectors = nn.Parameter(torch.randn(config.num_relations, width))
        self.first, self.second = (nn.Linear(width, KINDS * width) for _ in range(2))  # one map for each kind of link
        self.beside = nn.Linear(width, width)
        self.fuse = nn.Linear(2 * width, width)
        self.last = nn.Linear(width, 1)

    @classmethod
    def build(cls, config: RMPIConfig, graph: KnowledgeGraph) -> Self:
        return cls(replace(config, num_relations=graph.num_relations, relations=names_digest(graph)))

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> Encoded:
        vectors: Tensor = self.vectors
        if names_digest(graph) != self.config.relations:
            size = (graph.num_relations, self.config.width)
            drawn = torch.randn(size, generator=torch_stream(seed, "relation vectors")).to(self.vectors)
            vectors = drawn * self._spread()
        around, reach = graph.derive(triplets_around), graph.derive(entries_within_reach)
        return Encoded(graph.num_entities, graph.num_relations, around, reach, vectors)

    def _spread(self) -> float:
        """The standard deviation of the learnt vectors, over all of their numbers."""
        return float(self.vectors.detach().std()) if self.vectors.numel() > 1 else 1.0

    def score_triplets(self, encoded: Encoded, triplets: Tensor) -> Tensor:
        rows = as_facts(triplets, encoded.num_relations).cpu().numpy()
        parts = [self._score(encoded.vectors, part, enclose(encoded.around, part)) for part in blocks(encoded, rows)]
        return torch.cat(parts) if parts else encoded.vectors.new_zeros(0)

    def training_scores(self, graph: KnowledgeGraph, rows: Tensor, seed: int, targets: Tensor | None = None) -> Tensor:
        del targets  # each row's subgraph treats the row as if it were not known
        encoded = self.encode(graph, seed)
        flat = as_facts(rows.reshape(-1, 3), graph.num_relations).cpu().numpy()
        subgraphs = enclose(encoded.around, flat, self.config.edge_dropout, derive(seed, "edge dropout"))
        return self._score(encoded.vectors, flat, subgraphs).view(rows.shape[:2])

    def _score(self, vectors: Tensor, triplets: np.ndarray, subgraphs: Enclosed) -> Tensor:
        """Scores [C] of triplets [C, 3] in their subgraphs."""
        relations = torch.from_numpy(triplets[:, 1])
        passed = F.normalize(self._pass_messages(vectors, relations, subgraphs), dim=-1)  # [C, D]
        beside = F.normalize(self._attend(vectors, relations, subgraphs.beside), dim=-1)  # [C, D]
        scores: Tensor = self.last(self.fuse(torch.cat([passed, beside], dim=-1))).squeeze(-1)
        return scores

    def _pass_messages(self, vectors: Tensor, relations: Tensor, subgraphs: Enclosed) -> Tensor:
        """h2 of the candidates [C, D]."""
        rows, links = subgraphs.rows, subgraphs.links
        entries = subgraphs.columns, subgraphs.first
        by_entity, by_pair = self._tables(vectors)
        heard = range_sums(rows[:-1], rows[1:], *entries, by_entity)  # [Q, 2 D]: as a head, as a tail
        between = range_sums(links[:, 0], links[:, 1], *entries, by_pair)  # [L, 2 D]: going out of the root, coming in
        root, neighbour = (heard[torch.from_numpy(subgraphs.ends[:, side])] for side in (0, 1))  # [L, 2 D]
        added = torch.relu(root + torch.cat([neighbour[:, self.width :], neighbour[:, : self.width]], 1) + between)
        return self._second_layer(vectors, relations, added, subgraphs)

    def _tables(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """What an entry of each column adds to all triplets at an entity, and to those of its own pair; [2R, 2D] each.

        Columns are in, then out; halves are for triplets that go out of the entity (as a head), then that come in.
        """
        spoken = self.first(vectors).view(-1, KINDS, self.width)  # [R, 6, D]
        by_entity = torch.cat([spoken[:, [HEAD_IN, TAIL_IN]], spoken[:, [HEAD_OUT, TAIL_OUT]]])  # [2R, 2, D]
        own = spoken[:, [PARALLEL, LOOP]] - spoken[:, [HEAD_OUT, HEAD_IN]] - spoken[:, [TAIL_IN, TAIL_OUT]]  # [R, 2, D]
        by_pair = torch.cat([own.flip(1), own])  # [2R, 2, D]: coming in is a loop to what goes out
        return by_entity.flatten(1), by_pair.flatten(1)

    def _second_layer(self, vectors: Tensor, relations: Tensor, added: Tensor, subgraphs: Enclosed) -> Tensor:
        """h2 of the candidates [C, D], from what layer 1 added to the triplets of each link [L, 2 D] (out, in)."""
        count, width = len(relations), self.width
        links = subgraphs.links
        entries = subgraphs.columns, subgraphs.second
        # Sums over the triplets of a link, in and out, of h0 and of a constant one that carries the bias.
        ones = torch.cat([vectors, vectors.new_ones(len(vectors), 1)], dim=1)  # [R, D + 1]
        nothing = torch.zeros_like(ones)
        table = torch.cat([torch.cat([ones, nothing], 1), torch.cat([nothing, ones], 1)])  # [2R, 2 (D + 1)]: in, out
        sums = range_sums(links[:, 0], links[:, 1], *entries, table).view(-1, 2, width + 1)  # [L, 2, D + 1]
        turned = torch.stack([added[:, width:], added[:, :width]], dim=1)  # [L, 2, D]: in, out
        h1 = torch.cat([sums[..., :width] + sums[..., width:] * turned, sums[..., width:]], dim=-1)  # [L, 2, D + 1]
        owner = torch.from_numpy(subgraphs.ends[:, 0])  # roots are rows; number them 0, 1 for each candidate
        place = torch.empty(len(subgraphs.rows) - 1, dtype=torch.long)
        roots = torch.from_numpy(subgraphs.roots)
        place[roots], place[roots + 1] = 2 * torch.arange(count), 2 * torch.arange(count) + 1
        around = h1.new_zeros(2 * count, 2, width + 1).index_add(0, place[owner], h1).view(count, 4, width + 1)
        direct = torch.from_numpy(subgraphs.direct[:, 0])
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
        weights = self.second.weight.view(KINDS, width, width).transpose(1, 2).reshape(-1, width)
        message = kinds[..., :width].flatten(1) @ weights + kinds[..., width] @ self.second.bias.view(KINDS, width)
        return vectors[relations] + added[direct, :width] + torch.relu(message)

    def _attend(self, vectors: Tensor, relations: Tensor, counts: np.ndarray) -> Tensor:
        """NE [C, D] over neighbours given by how many there are of each relation [C, R]; 0 where there are none."""
        projected = self.beside(vectors)  # [R, D]
        attention = F.leaky_relu(projected @ projected.T, 0.2)[relations]  # [C, R]
        number = torch.from_numpy(counts)
        logits = (attention + number.log()).masked_fill(number == 0, -torch.inf)
        alone = (number == 0).all(dim=1, keepdim=True)
        weights = torch.softmax(logits.masked_fill(alone, 0.0), dim=1).masked_fill(alone, 0.0)
        return torch.relu(weights @ projected)

    @property
    def width(self) -> int:
        """D."""
        return int(self.config.width)


def blocks(encoded: Encoded, triplets: np.ndarray) -> list[np.ndarray]:
    """The triplets [B, 3] in parts whose subgraphs fit; entries are counted as if every entity near were in them."""
    ends = encoded.reach[triplets[:, 0]] + encoded.reach[triplets[:, 2]]
    filled = np.cumsum(ends + ENTRIES // CANDIDATES) // ENTRIES
    return np.split(triplets, np.flatnonzero(np.diff(filled)) + 1) if len(triplets) else []


def entries_within_reach(graph: KnowledgeGraph) -> np.ndarray:
    """For each entity [N], its triplets and those of its neighbours, each as often as it is listed."""
    around = graph.derive(triplets_around)
    degrees = np.diff(around.offsets)
    owners = np.repeat(np.arange(graph.num_entities), degrees)
    nearby = np.bincount(owners, weights=degrees[around.other], minlength=graph.num_entities)
    reach: np.ndarray = degrees + nearby.astype(np.int64)
    return reach


def as_facts(triplets: Tensor, num_relations: int) -> Tensor:
    """The same triplets [B, 3] without inverse relations: (tail, r, head) for (head, r + R, tail)."""
    inverse = (triplets[:, 1] >= num_relations)[:, None]
    turned = triplets.flip(1) - torch.tensor([0, num_relations, 0], device=triplets.device)
    return torch.where(inverse, turned, triplets)


def names_digest(graph: KnowledgeGraph) -> str:
    """A hash of a graph's relation names, in order."""
    return graph.derive(_names_digest)


def _names_digest(graph: KnowledgeGraph) -> str:
    return blake2b("\x1f".join(graph.relations).encode(), digest_size=8).hexdigest()
