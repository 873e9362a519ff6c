"""ISDEA+: any graph neural network made double equivariant, by telling each relation from all the others.

Every (entity i, relation k), inverses included, has two streams of states, all ones at first: one gathers over k's
triplets in the first layer, the other over the triplets of all other relations; later layers gather over the whole
graph. With T layers, no activation between them (as SIGN), for the stream of k

    s^1 = s^0 W + b + GNN(s^0 over A_k),    s^(t+1) = s^t W + b + GNN(s^t over A)

and alike for the other stream, with its own maps. MLPs of both streams' [s^0, ..., s^T] are added and read by another
MLP: X_ik. The score of (i, k, j) is an MLP of [X_ik, X_jk, X_ik * X_jk, e], e an MLP of the shortest distances d(i, j)
and d(j, i) over observed triplets in units of N, the triplet asked about left out; an unreachable entity is N away.

With the GCN kernel GNN(s over A) = A s V all states are affine in the scalars of `structure.folded`, so the maps before
the first tanh fold into one matrix for each stream, and no graph is left in a training step: the same function. Other
kernels and set functions pass messages: see `isdea_gnn`. Departures from the public code: scores are logits, and the
two biases that are only ever added (of W and of the GCN kernel) are one parameter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from anykg.core.contract import LinkPredictor, Recipe, Symmetry
from anykg.core.errors import ConfigError
from anykg.data.graph import KnowledgeGraph
from anykg.models.isdea_fused import can_fuse, fused_scores
from anykg.ops.bfs import unreached
from anykg.structure.distances import distance_table, triplet_distances
from anykg.structure.folded import folded_scalars

ROWS = 2**17
"""Rows (triplets, or pairs of entity and relation) computed at once when scoring."""


@dataclass(frozen=True)
class ISDEAConfig:
    """The published model by default."""

    gnn: str = "gcn"
    """Graph convolution: gcn, gin, gat, graphconv, sage, or MODULE:CLASS of any torch-geometric one."""
    aggregation: Literal["sum", "mean", "max", "deepsets"] = "sum"
    """How the other relations' first-layer results become one; sum gathers over all their triplets at once."""
    readout: Literal["full", "plain"] = "full"
    """Both ends, their product and embedded distances (public code), or both ends and distances (paper's text)."""
    form: Literal["folded", "literal"] = "folded"
    """How it is computed: from precomputed scalars, or where these do not suffice from the neighbourhood of the rows
    asked for; or by passing messages over the whole graph for each relation asked for. The scores are the same."""
    layers: int = 3
    """Graph layers T."""
    width: int = 16
    """Width of the streams' states."""
    hidden: int = 64
    """Width of the MLPs over the streams."""
    states: int = 32
    """Width of X_ik."""
    distance: int = 16
    """Width of the embedded distances (readout full)."""
    scorer: int = 128
    """Hidden units of the scoring MLP."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """The graph; what the scores need of it is kept with it."""

    graph: KnowledgeGraph

    @property
    def num_entities(self) -> int:
        return self.graph.num_entities

    @property
    def num_relations(self) -> int:
        return self.graph.num_relations


class ISDEA(LinkPredictor):
    """The ISDEA+ model."""

    Config = ISDEAConfig
    config: ISDEAConfig
    recipe = Recipe(
        epochs=10,
        batch_size=21,
        lr=4e-4,
        targets="held-out",
        target_share=0.1,
        inverses=True,
        negative_entities=2,
        sides="tail",
        negative_relations=2,
        loss="bce",
    )
    grid: ClassVar = {"lr": ("0.01", "0.001", "0.0001"), "weight_decay": ("0.0005", "0.0")}
    symmetry = Symmetry.EXACT

    def __init__(self, config: ISDEAConfig = ISDEAConfig()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.config = config
        layers, width, hidden = config.layers, config.width, config.hidden
        if layers < 1:
            raise ConfigError(f"isdea: expected layers of 1 or more, found {layers}.")
        # Dimension [2]: the stream of k, the stream of all others.
        self.self_weight = _uniform(width, layers, 2, width, width)
        self.self_bias = _uniform(width, layers, 2, width)
        if config.gnn == "gcn":
            self.hop_weight = _uniform(width, layers, 2, width, width)
        else:
            from anykg.models.isdea_gnn import kernel

            self.kernels = nn.ModuleList(kernel(config.gnn, width) for _ in range(2 * layers))
        if config.aggregation == "deepsets":
            self.element = nn.Sequential(nn.Linear(width, width), nn.ReLU())
            self.whole = nn.Linear(width, width)
        sizes = [(layers + 1) * width, hidden, hidden, hidden]
        self.stream_weights = nn.ParameterList(_uniform(a, 2, a, b) for a, b in pairwise(sizes))
        self.stream_biases = nn.ParameterList(_uniform(a, 2, 1, b) for a, b in pairwise(sizes))
        self.combine = _mlp([hidden, config.states, config.states, config.states], nn.Tanh, last=True)
        self.embed_distance: nn.Module = nn.Identity()
        inputs = 2 * config.states + 2
        if config.readout == "full":
            self.embed_distance = _mlp([2] + [config.distance] * 3, nn.Tanh, last=True)
            inputs = 3 * config.states + config.distance
        self.scorer = _mlp([inputs, config.scorer, config.scorer, 1], nn.ReLU, last=False)
        self.fused_parameters: list[Tensor] = []
        self._known_moves: dict[tuple[object, ...], Tensor] = {}
        self._folds = config.form == "folded" and config.gnn == "gcn" and config.aggregation in ("sum", "mean")

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> Encoded:
        del seed
        return Encoded(graph)

    # -- scores -------------------------------------------------------------------------------------------------

    def score_triplets(self, encoded: Encoded, triplets: Tensor) -> Tensor:
        return torch.cat([self._scores(encoded.graph, triplets[block]) for block in _blocks(len(triplets), ROWS // 4)])

    def training_scores(self, graph: KnowledgeGraph, rows: Tensor, seed: int) -> Tensor:
        del seed
        triplets = rows.reshape(-1, 3)
        if not (self._folds and can_fuse(self)):
            return self._scores(graph, triplets).view(rows.shape[:2])
        asked, kinds = triplets.numpy(), 2 * graph.num_relations
        pairs, places = np.unique(asked[:, ::2].T * kinds + asked[:, 1], return_inverse=True)  # heads, then tails
        features = self._scalars(graph, torch.from_numpy(pairs // kinds), torch.from_numpy(pairs % kinds))
        steps = distance_features(graph, asked)
        moves = self._moves(graph.num_relations)
        return fused_scores(self, moves, features, places.reshape(-1), steps).view(rows.shape[:2])

    def score_tails(
        self, encoded: Encoded, heads: Tensor, relations: Tensor, candidates: Tensor | None = None
    ) -> Tensor:
        if candidates is not None:
            return super().score_tails(encoded, heads, relations, candidates)
        graph, count = encoded.graph, encoded.num_entities
        kinds, kind = relations.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        everyone = torch.arange(count, device=heads.device)
        states = self._states(graph, everyone.repeat(len(kinds)), kinds.repeat_interleave(count))
        states = states.view(len(kinds), count, -1)  # [K, N, D]: every entity with every relation asked for
        scores = []
        for block in _blocks(len(heads), max(ROWS // count, 1)):
            head, relation, tails = heads[block], relations[block], states[kind[block]]  # tails [B, N, D]
            own = tails[torch.arange(len(head), device=head.device), head]  # [B, D]
            columns = [
                head[:, None].expand(-1, count),
                relation[:, None].expand(-1, count),
                everyone.expand(len(head), -1),
            ]
            distances = self._distances(graph, torch.stack(columns, dim=-1).view(-1, 3))
            scores.append(self._read_tails(own, tails, distances.view(len(head), count, -1)))  # [B, N, 2 or D]
        return torch.cat(scores)

    def _scores(self, graph: KnowledgeGraph, triplets: Tensor) -> Tensor:
        """Scores [B]."""
        kinds = 2 * graph.num_relations
        pairs = triplets[:, ::2].T * kinds + triplets[:, 1]  # [2, B]: heads, then tails
        pairs, places = pairs.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        states = self._states(graph, pairs // kinds, pairs % kinds)[places]  # [2, B, D]
        parts = [states[0], states[1], self._distances(graph, triplets)]
        if self.config.readout == "full":
            parts.insert(2, states[0] * states[1])
        scores: Tensor = self.scorer(torch.cat(parts, dim=1)).view(-1)
        return scores

    def _read_tails(self, own: Tensor, tails: Tensor, distances: Tensor) -> Tensor:
        """Scores [B, N] of heads [B, D] with tails [B, N, D]: the read-out, its product with the head folded in."""
        first = self.scorer[0]
        plain, bias = first.parameters()
        weight = plain.T  # [inputs, hidden]
        d = self.config.states
        by_tail = weight[d : 2 * d]
        if self.config.readout == "full":
            by_tail = by_tail + own[:, :, None] * weight[2 * d : 3 * d]  # [B, D, hidden]
        row = (own @ weight[:d] + bias)[:, None]  # [B, 1, hidden]
        hidden = row + tails @ by_tail + distances @ weight[-distances.shape[-1] :]
        scores: Tensor = self.scorer[1:](hidden).squeeze(-1)
        return scores

    def _distances(self, graph: KnowledgeGraph, triplets: Tensor) -> Tensor:
        """What the read-out sees of the distances of triplets [B, 3]: [B, 2], or [B, D] embedded."""
        embedded: Tensor = self.embed_distance(self._steps(graph, triplets))
        return embedded

    def _steps(self, graph: KnowledgeGraph, triplets: Tensor) -> Tensor:
        return torch.from_numpy(distance_features(graph, triplets.cpu().numpy())).to(self.self_bias)

    # -- states of (entity, relation) pairs ---------------------------------------------------------------------

    def _states(self, graph: KnowledgeGraph, entities: Tensor, relations: Tensor) -> Tensor:
        """X [P, D] of pairs (entities [P], relations [P])."""
        if not self._folds:
            return self._passed_states(graph, entities, relations)
        first = torch.bmm(self._fold(self._moves(graph.num_relations)), self.stream_weights[0])  # [2, 2T + 1, hidden]
        parts = [
            self._mix(torch.baddbmm(self.stream_biases[0], rows.expand(2, -1, -1), first))
            for rows in (self._scalars(graph, entities[b], relations[b]) for b in _blocks(len(entities), ROWS))
        ]
        return torch.cat(parts)

    def _scalars(self, graph: KnowledgeGraph, entities: Tensor, relations: Tensor) -> Tensor:
        """1, A 1, .., A^T 1, A_k 1, .., A^(T-1) A_k 1 of pairs: [P, 2T + 1]."""
        scalars = folded_scalars(graph, self.config.layers)
        pairs = entities * (2 * graph.num_relations) + relations
        rows = torch.cat([scalars.entity[entities.cpu()], scalars.pair[pairs.cpu()]], dim=1)
        return rows.to(self.self_bias)

    def _passed_states(self, graph: KnowledgeGraph, entities: Tensor, relations: Tensor) -> Tensor:
        """The same by passing messages: every distinct pair once, in blocks of one or few relations."""
        from anykg.models.isdea_gnn import streams

        keys = relations * graph.num_entities + entities
        pairs, place = keys.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        parts = [
            self._mix(torch.baddbmm(self.stream_biases[0], rows, self.stream_weights[0]))
            for rows in streams(self, graph, pairs % graph.num_entities, pairs // graph.num_entities)
        ]
        return torch.cat(parts)[place]

    def _moves(self, num_relations: int) -> Tensor:
        """How a hop moves the coefficients of the scalars: [first or later, stream, to, from].

        A later hop takes each scalar to its product with A; the first one takes 1 to A_k 1, or to A 1 - A_k 1.
        """
        key = (num_relations, self.self_bias.dtype, self.self_bias.device)
        if key not in self._known_moves:
            layers = self.config.layers
            share = 1.0 if self.config.aggregation == "sum" else 1.0 / (2 * num_relations - 1)
            moves = self.self_bias.new_zeros(2, 2, 2 * layers + 1, 2 * layers + 1)
            moves[0, 0, layers + 1, 0] = 1.0
            moves[0, 1, 1, 0], moves[0, 1, layers + 1, 0] = share, -share
            later = [*range(layers), *range(layers + 1, 2 * layers)]
            moves[1, :, [c + 1 for c in later], later] = 1.0
            self._known_moves[key] = moves
        return self._known_moves[key]

    def _fold(self, moves: Tensor) -> Tensor:
        """The states s^0..s^T of each stream as coefficients of the scalars: [2, 2T + 1, (T + 1) D]."""
        now = self.self_bias.new_zeros(2, moves.shape[-1], self.config.width)
        now[:, 0] = 1.0
        seen = [now]
        for layer in range(self.config.layers):
            moved = torch.bmm(moves[min(layer, 1)], now)
            now = torch.bmm(now, self.self_weight[layer]) + torch.bmm(moved, self.hop_weight[layer])
            now = torch.cat([now[:, :1] + self.self_bias[layer][:, None], now[:, 1:]], dim=1)
            seen.append(now)
        return torch.cat(seen, dim=2)

    def _mix(self, first: Tensor) -> Tensor:
        """X [P, D] from the first MLP layer of both streams [2, P, hidden], its tanh still to come."""
        hidden = torch.tanh(first)
        for weight, bias in zip(self.stream_weights[1:], self.stream_biases[1:], strict=True):
            hidden = torch.tanh(torch.baddbmm(bias, hidden, weight))
        states: Tensor = self.combine(hidden[0] + hidden[1])
        return states


def distance_features(graph: KnowledgeGraph, triplets: np.ndarray) -> np.ndarray:
    """d(head, tail) / N and d(tail, head) / N of triplets [B, 3], float32 [B, 2]; 1 where there is no path."""
    table = distance_table(graph, directed=True)
    if table is None or graph.contains(triplets).any():
        steps = triplet_distances(graph, triplets, directed=True, leave_out="triplet")
        return np.where(steps < 0, np.float32(1), steps / np.float32(graph.num_entities)).astype(np.float32)
    # No triplet is a fact, so none is to be left out: a training step has no time for more than looking up.
    heads, tails = triplets[:, 0], triplets[:, 2]
    steps = table[np.stack([heads, tails], axis=1), np.stack([tails, heads], axis=1)]  # [B, 2]
    found: np.ndarray = graph.derive(_feature_of_step)[steps]
    return found


def _feature_of_step(graph: KnowledgeGraph) -> np.ndarray:
    """The feature of each number in the distance table, float32; its largest number stands for no path."""
    table = distance_table(graph, directed=True)
    assert table is not None
    count = unreached(table)
    return np.append(np.arange(count, dtype=np.float32) / np.float32(graph.num_entities), np.float32(1))


def import_isdea_weights(public: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The public code's parameters as a state dict of the default model."""
    layers = 1 + max(int(name.split(".")[1]) for name in public if name.startswith("mlp_1."))

    def stacked(maps: tuple[str, str], kind: str) -> Tensor:
        return torch.stack(
            [torch.stack([public[f"{m}.{layer}.linear1.{kind}"] for m in maps]) for layer in range(layers)]
        )

    ours = {
        "self_weight": stacked(("mlp_3", "mlp_4"), "weight").mT,
        "hop_weight": stacked(("mlp_1", "mlp_2"), "weight").mT,
        "self_bias": stacked(("mlp_1", "mlp_2"), "bias") + stacked(("mlp_3", "mlp_4"), "bias"),
    }
    for place in range(3):
        both = [{kind: public[f"{m}.linear{place + 1}.{kind}"] for kind in ("weight", "bias")} for m in _STREAM_MLPS]
        ours[f"stream_weights.{place}"] = torch.stack([m["weight"].T for m in both])
        ours[f"stream_biases.{place}"] = torch.stack([m["bias"][None] for m in both])
        for mine, theirs in _OTHER_MLPS.items():
            for kind in ("weight", "bias"):
                ours[f"{mine}.{2 * place}.{kind}"] = public[f"{theirs}.linear{place + 1}.{kind}"]
    return {name: value.contiguous() for name, value in ours.items()}


_STREAM_MLPS = ("mlp_r", "mlp_r_not")
_OTHER_MLPS = {"combine": "combine", "embed_distance": "heuristics_embedding", "scorer": "predictor"}


def _blocks(count: int, size: int) -> list[slice]:
    """Slices of at most `size` that cover `count` rows; one empty slice if there are none."""
    return [slice(start, start + size) for start in range(0, max(count, 1), size)]


def _uniform(inputs: int, *shape: int) -> nn.Parameter:
    """Drawn as the parameters of a linear map with so many inputs."""
    return nn.Parameter(torch.empty(shape).uniform_(-(inputs**-0.5), inputs**-0.5))


def _mlp(sizes: list[int], activation: type[nn.Module], *, last: bool) -> nn.Sequential:
    """Linear maps with an activation after each, or after all but the last."""
    modules: list[nn.Module] = []
    for before, after in pairwise(sizes):
        modules += [nn.Linear(before, after), activation()]
    return nn.Sequential(*(modules if last else modules[:-1]))
