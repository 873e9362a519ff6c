"""ISDEA+: any graph neural network made double equivariant, by distinguishing each relation from all the others.

`reference.py` has the equations. Every (entity i, relation k), inverses included, has a vector X_ik, computed from two
streams of states that gather over k's triplets and over those of all other relations; the score of (i, k, j) is an MLP
of X_ik, X_jk and the distances between i and j.

With the GCN kernel a training step does not touch the graph (`folded.py`) and is compiled as a whole (`fused.py`,
`kernels.py`). Other kernels and set functions pass messages (`gnn.py`). Departures from the public code: scores are
logits, and the two biases that are only ever added (of W and of the GCN kernel) are one parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anykg.errors import ConfigError
from anykg.graph.attributes import SEPARATOR, attribute_names
from anykg.graph.bfs import look_up, unreached
from anykg.graph.distances import distance_table, triplet_distances
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import EncodedGraph, LinkPredictor, Symmetry, without_targets
from anykg.models.isdea.folded import first_layers, folded_scalars, moves
from anykg.models.isdea.fused import can_fuse, fused_loss, fused_scores
from anykg.models.isdea.packed import Packed, Part
from anykg.models.recipe import Recipe

ROWS = 2**17
"""Rows (triplets, or pairs of entity and relation) computed at once when scoring."""


@dataclass(frozen=True)
class ISDEAConfig:
    """Settings of ISDEA+; the defaults are the published ones."""

    gnn: str = "gcn"
    """Graph convolution: gcn, gin, gat, graphconv, sage, or MODULE:CLASS of any torch-geometric one."""
    aggregation: Literal["sum", "mean", "max", "deepsets"] = "sum"
    """How the first-layer results of the other relations are aggregated; sum gathers over all their triplets at
    once."""
    readout: Literal["full", "plain"] = "full"
    """Both ends, their product and embedded distances (public code), or both ends and distances (paper's text)."""
    form: Literal["folded", "literal"] = "folded"
    """How scores are computed: from precomputed scalars or, if these do not suffice, from the neighbourhood of the
    requested rows; or by message passing over the whole graph for each requested relation. The scores are the same."""
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
    inputs: str = ""
    """Attributes of entities in their initial states, besides ones, separated by |; by default those of the training
    graph, if it has any."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names in `inputs`."""
        return tuple(self.inputs.split(SEPARATOR)) if self.inputs else ()


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
    one_thread = True
    symmetry = Symmetry.EXACT

    def __init__(self, config: ISDEAConfig = ISDEAConfig()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.config = config
        layers, width = config.layers, config.width
        if layers < 1:
            raise ConfigError(f"isdea: expected layers of 1 or more, found {layers}.")
        self.weights = Packed(_parts(config))
        if config.gnn != "gcn":
            from anykg.models.isdea.gnn import kernel

            self.kernels = nn.ModuleList(kernel(config.gnn, width) for _ in range(2 * layers))
        if config.aggregation == "deepsets":
            self.element = nn.Sequential(nn.Linear(width, width), nn.ReLU())
            self.whole = nn.Linear(width, width)
        plain = config.gnn == "gcn" and config.aggregation in ("sum", "mean") and not config.inputs
        self._folds = config.form == "folded" and plain

    @classmethod
    def build(cls, config: ISDEAConfig, graph: KnowledgeGraph) -> ISDEA:
        """A model that reads the attributes that the graph's entities have."""
        names = attribute_names(graph)
        return cls(config if config.inputs or not names else replace(config, inputs=SEPARATOR.join(names)))

    @classmethod
    def foreign_code(cls, config: ISDEAConfig) -> list[str]:
        return [config.gnn] if ":" in config.gnn else []

    @property
    def self_weight(self) -> Tensor:
        """W of each layer and stream [T, 2, D, D]; stream 0 is that of k, stream 1 that of all others."""
        return self.weights["maps"][:, :, 0]

    @property
    def hop_weight(self) -> Tensor:
        """V of the GCN kernel of each layer and stream [T, 2, D, D]."""
        return self.weights["maps"][:, :, 1]

    @property
    def self_bias(self) -> Tensor:
        """The bias b of each layer and stream [T, 2, D]."""
        return self.weights["map_biases"]

    def upgrade(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Accept checkpoints of version 0.1, which store all packed tensors as one, `weights.flat`."""
        flat = tensors.get("weights.flat")
        if flat is None or flat.shape != self.weights.flat.shape:
            return tensors
        rest = {name: value for name, value in tensors.items() if name != "weights.flat"}
        return rest | {f"weights.{name}": value for name, value in self.weights.named(flat).items()}

    # -- scores -------------------------------------------------------------------------------------------------

    def score_triplets(self, encoded: EncodedGraph, triplets: Tensor) -> Tensor:
        return torch.cat([self._scores(encoded.graph, triplets[block]) for block in _blocks(len(triplets), ROWS // 4)])

    def training_scores(self, graph: KnowledgeGraph, rows: Tensor, seed: int, targets: Tensor | None = None) -> Tensor:
        del seed
        return self._scores(without_targets(graph, rows, targets), rows.reshape(-1, 3)).view(rows.shape[:2])

    def compiled_loss(
        self,
        graph: KnowledgeGraph,
        rows: Tensor,
        recipe: Recipe,
        targets: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Tensor | None:
        if not (recipe.loss == "bce" and self._folds and can_fuse(self)):
            return None
        graph = without_targets(graph, rows, targets)  # the graph itself if the recipe holds targets out
        asked, hops = rows.numpy().reshape(-1, 3), moves(self, graph.num_relations)
        scalars, steps = folded_scalars(graph, self.config.layers), distance_features(graph, asked)
        positive = np.arange(len(asked)) % rows.shape[1] == 0 if labels is None else labels.numpy()
        return fused_loss(self, hops, scalars, asked, steps, positive, recipe.positive_weight)

    def score_tails(
        self, encoded: EncodedGraph, heads: Tensor, relations: Tensor, candidates: Tensor | None = None
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
        if self._folds and can_fuse(self):
            asked, hops = triplets.numpy(), moves(self, graph.num_relations)
            scalars = folded_scalars(graph, self.config.layers)
            return fused_scores(self, hops, scalars, asked, distance_features(graph, asked))
        kinds = 2 * graph.num_relations
        pairs = triplets[:, ::2].T * kinds + triplets[:, 1]  # [2, B]: heads, then tails
        pairs, inverse = pairs.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        states = self._states(graph, pairs // kinds, pairs % kinds)[inverse]  # [2, B, D]
        parts = [states[0], states[1], self._distances(graph, triplets)]
        if self.config.readout == "full":
            parts.insert(2, states[0] * states[1])
        return self._mlp("scorer", torch.cat(parts, dim=1), torch.relu, last=False).view(-1)

    def _read_tails(self, own: Tensor, tails: Tensor, distances: Tensor) -> Tensor:
        """Scores [B, N] of heads [B, D] with tails [B, N, D]: the read-out, its product with the head folded in."""
        weight = self.weights["scorer.weight.0"].T  # [inputs, hidden]
        d = self.config.states
        by_tail = weight[d : 2 * d]
        if self.config.readout == "full":
            by_tail = by_tail + own[:, :, None] * weight[2 * d : 3 * d]  # [B, D, hidden]
        row = (own @ weight[:d] + self.weights["scorer.bias.0"])[:, None]  # [B, 1, hidden]
        hidden = row + tails @ by_tail + distances @ weight[-distances.shape[-1] :]
        return self._mlp("scorer", torch.relu(hidden), torch.relu, last=False, first=1).squeeze(-1)

    def _distances(self, graph: KnowledgeGraph, triplets: Tensor) -> Tensor:
        """The distances of triplets [B, 3] as the read-out takes them: [B, 2], or [B, D] embedded."""
        steps = self._steps(graph, triplets)
        return self._mlp("distance", steps, torch.tanh) if self.config.readout == "full" else steps

    def _steps(self, graph: KnowledgeGraph, triplets: Tensor) -> Tensor:
        return torch.from_numpy(distance_features(graph, triplets.cpu().numpy())).to(self.self_bias)

    # -- states of (entity, relation) pairs ---------------------------------------------------------------------

    def _states(self, graph: KnowledgeGraph, entities: Tensor, relations: Tensor) -> Tensor:
        """X [P, D] of pairs (entities [P], relations [P])."""
        if not self._folds:
            return self._passed_states(graph, entities, relations)
        parts = [
            self._mix(first_layers(self, graph, entities[block], relations[block]))
            for block in _blocks(len(entities), ROWS)
        ]
        return torch.cat(parts)

    def _passed_states(self, graph: KnowledgeGraph, entities: Tensor, relations: Tensor) -> Tensor:
        """The same by passing messages: every distinct pair once, in blocks of one or few relations."""
        from anykg.models.isdea.gnn import streams

        keys = relations * graph.num_entities + entities
        pairs, inverse = keys.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        parts = [
            self._mix(torch.baddbmm(self.weights["streams.bias.0"], rows, self.weights["streams.weight.0"]))
            for rows in streams(self, graph, pairs % graph.num_entities, pairs // graph.num_entities)
        ]
        return torch.cat(parts)[inverse] if parts else self.self_bias.new_zeros(0, self.config.states)

    def _mix(self, first: Tensor) -> Tensor:
        """X [P, D] from the first MLP layer of both streams [2, P, hidden], its tanh still to come."""
        hidden = torch.tanh(first)
        for layer in (1, 2):
            weight, bias = self.weights[f"streams.weight.{layer}"], self.weights[f"streams.bias.{layer}"]
            hidden = torch.tanh(torch.baddbmm(bias, hidden, weight))
        return self._mlp("combine", hidden[0] + hidden[1], torch.tanh)

    def _mlp(
        self, name: str, inputs: Tensor, activation: Callable[[Tensor], Tensor], *, first: int = 0, last: bool = True
    ) -> Tensor:
        """Three linear maps (from the `first` on), an activation after each, or after all but the last."""
        for layer in range(first, 3):
            inputs = F.linear(inputs, self.weights[f"{name}.weight.{layer}"], self.weights[f"{name}.bias.{layer}"])
            if layer < 2 or last:
                inputs = activation(inputs)
        return inputs


def _parts(config: ISDEAConfig) -> dict[str, Part]:
    """Every weight and bias, in the order that the compiled kernels expect."""
    layers, width = config.layers, config.width
    maps = 2 if config.gnn == "gcn" else 1  # of the state, and of what it gathers
    parts = {
        "maps": Part((layers, 2, maps, width, width), width),
        "map_biases": Part((layers, 2, width), width),
    }
    if config.inputs:
        parts["inputs"] = Part((len(config.attributes), width), len(config.attributes))
    hidden, states, readout = config.hidden, config.states, 2 * config.states + 2
    sizes = [(layers + 1) * width, hidden, hidden, hidden]
    parts |= {f"streams.weight.{i}": Part((2, a, b), a) for i, (a, b) in enumerate(pairwise(sizes))}
    parts |= {f"streams.bias.{i}": Part((2, 1, b), a) for i, (a, b) in enumerate(pairwise(sizes))}
    mlps = {"combine": [hidden, states, states, states]}
    if config.readout == "full":
        mlps["distance"] = [2] + [config.distance] * 3
        readout = 3 * states + config.distance
    for name, sizes in (mlps | {"scorer": [readout, config.scorer, config.scorer, 1]}).items():
        parts |= {f"{name}.weight.{i}": Part((b, a), a) for i, (a, b) in enumerate(pairwise(sizes))}
        parts |= {f"{name}.bias.{i}": Part((b,), a) for i, (a, b) in enumerate(pairwise(sizes))}
    return parts


def distance_features(graph: KnowledgeGraph, triplets: np.ndarray) -> np.ndarray:
    """d(head, tail) / N and d(tail, head) / N of triplets [B, 3], float32 [B, 2]; 1 where there is no path."""
    table = distance_table(graph, directed=True)
    if table is not None:  # a table lookup, since training steps are short
        features, neighbours = look_up(table, graph.derive(_feature_of_step), triplets)
        if not (len(neighbours) and graph.contains(triplets[neighbours]).any()):  # a fact must not see itself
            return np.asarray(features)
    steps = triplet_distances(graph, triplets, directed=True, leave_out="triplet")
    return np.where(steps < 0, np.float32(1), steps / np.float32(graph.num_entities)).astype(np.float32)


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

    by_map = [stacked(maps, "weight").mT for maps in (("mlp_3", "mlp_4"), ("mlp_1", "mlp_2"))]
    ours = {
        "maps": torch.stack(by_map, dim=2),
        "map_biases": stacked(("mlp_1", "mlp_2"), "bias") + stacked(("mlp_3", "mlp_4"), "bias"),
    }
    for layer in range(3):
        both = [{kind: public[f"{m}.linear{layer + 1}.{kind}"] for kind in ("weight", "bias")} for m in _STREAM_MLPS]
        ours[f"streams.weight.{layer}"] = torch.stack([m["weight"].T for m in both])
        ours[f"streams.bias.{layer}"] = torch.stack([m["bias"][None] for m in both])
        for mine, theirs in _OTHER_MLPS.items():
            for kind in ("weight", "bias"):
                ours[f"{mine}.{kind}.{layer}"] = public[f"{theirs}.linear{layer + 1}.{kind}"]
    return {f"weights.{name}": value for name, value in ours.items()}


_STREAM_MLPS = ("mlp_r", "mlp_r_not")
_OTHER_MLPS = {"combine": "combine", "distance": "heuristics_embedding", "scorer": "predictor"}


def _blocks(count: int, size: int) -> list[slice]:
    """Slices of at most `size` that cover `count` rows; one empty slice if there are none."""
    return [slice(start, start + size) for start in range(0, max(count, 1), size)]
