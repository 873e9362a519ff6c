"""InGram: attention over a graph of relations, then over the graph of entities, from inputs drawn at random.

Relation vectors [2R, d'] attend to one another along affinities (see `anykg.models.ingram.affinity`); entity vectors
[N, d] then attend to the triplets that arrive at them, inverses included, and to themselves. A triplet scores
sum(h_head * W z_relation * h_tail), which is the same from both ends: a relation r + R scores as r.

DEq-InGram is the same model with `samples` M > 1: the mean of M triplet scores, each from its own inputs. A mean of dot
products is one dot product of the M vectors side by side, so M draws are scored as fast as one wide one.

Departures from the public implementation, none of which changes the function: W [h_v, h_u, z_r] is taken apart into
products per node and per relation; the input projection, which no activation follows, is folded into the first layer.
Two that do: equal affinities share a bin, and an entity that nothing arrives at has a self-loop of mean 0, not NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anykg.errors import CheckpointError, ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor, Symmetry, without_targets
from anykg.models.ingram.affinity import relation_graph
from anykg.models.ingram.segment import Arrivals, arrivals, attend
from anykg.models.recipe import Recipe
from anykg.seeds import torch_generator

_GAIN = math.sqrt(2)  # of ReLU


@dataclass(frozen=True)
class InGramConfig:
    """Settings of InGram; the defaults are the paper's."""

    entity_width: int = 32
    """Width of an entity's input and output vector."""
    relation_width: int = 32
    """Width of a relation's input and output vector."""
    entity_ratio: int = 8
    """Hidden units of an entity per unit of its width."""
    relation_ratio: int = 4
    """Hidden units of a relation per unit of its width."""
    entity_layers: int = 4
    """Layers over entities."""
    relation_layers: int = 3
    """Layers over relations."""
    heads: int = 8
    """Attention heads in every layer."""
    bins: int = 10
    """Number of bins of affinity between relations."""
    inputs: Literal["random", "ones"] = "random"
    """Input vectors drawn at random, or all ones, which makes the model exactly equivariant but weaker."""
    samples: int = 1
    """Number of draws of the inputs whose scores are averaged at inference; more than one is DEq-InGram."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name != "inputs" and value < 1:
                raise ConfigError(f"Expected {name} of at least 1, found {value}.")
        for name, width in (("entity", self.entity_hidden), ("relation", self.relation_hidden)):
            if width % self.heads:
                raise ConfigError(
                    f"Expected a hidden {name} width that {self.heads} heads divide, found {width}; "
                    f"change {name}_width, {name}_ratio or heads."
                )
        if self.inputs == "ones" and self.samples > 1:
            raise ConfigError(f"Inputs of ones are not random, so averaging {self.samples} samples has no effect.")

    @property
    def entity_hidden(self) -> int:
        """Hidden units of an entity."""
        return self.entity_width * self.entity_ratio

    @property
    def relation_hidden(self) -> int:
        """Hidden units of a relation."""
        return self.relation_width * self.relation_ratio


class Edges(NamedTuple):
    """What attends to what; the same for all draws of the inputs."""

    entities: Arrivals
    """Every triplet and its inverse, from head to tail; the kind is its relation, 2R of them."""
    relations: Arrivals
    """Every affinity i -> j, arriving at i; the kind is its bin."""


def build_edges(graph: KnowledgeGraph, bins: int) -> Edges:
    """The edges of both levels."""
    heads, relations, tails = graph.with_inverses().T
    links = relation_graph(graph, bins)
    return Edges(
        arrivals(tails, heads, relations, graph.num_entities),
        arrivals(links.sources, links.targets, links.bins, 2 * graph.num_relations),
    )


@dataclass(frozen=True)
class Encoded:
    """Vectors of all entities and relations in each of M draws."""

    entities: Tensor  # [N, M d]
    relations: Tensor  # [R, M d], ready to be multiplied with those of entities
    samples: int  # M

    @property
    def num_entities(self) -> int:
        """N."""
        return len(self.entities)

    @property
    def num_relations(self) -> int:
        """R."""
        return len(self.relations)


class AttentionLayer(nn.Module):
    """One attention layer of either level, projections, residual and ReLU included: states [N, W] -> [N, W].

    The weights of W [h_v, h_u, z_r], W' [h_u, z_r] and the residual are kept by what they are multiplied with.
    """

    def __init__(self, width: int, heads: int, kind_width: int = 0, bins: int = 0) -> None:
        super().__init__()
        self.shape = (heads, width // heads)
        self.node_weight = nn.Parameter(torch.empty(4, width, width))  # receiver, sender, value, residual
        self.node_bias = nn.Parameter(torch.zeros(3, width))  # receiver, value, residual
        self.vector = nn.Parameter(torch.empty(1, *self.shape))
        nn.init.xavier_normal_(self.vector, _GAIN)
        fans = 3 * width + kind_width, 3 * width + kind_width, 2 * width + kind_width, 2 * width
        for weight, fan in zip(self.node_weight, fans, strict=True):
            nn.init.normal_(weight, std=_glorot(fan))
        if kind_width:
            self.kind_weight = nn.Parameter(torch.empty(2, width, kind_width))  # attention, value
            for weight, fan in zip(self.kind_weight, fans[1:3], strict=True):
                nn.init.normal_(weight, std=_glorot(fan))
        if bins:
            self.bins = nn.Parameter(torch.zeros(bins, heads))

    def forward(self, edges: Arrivals, inputs: Tensor, before: nn.Linear | None, kinds: Tensor | None) -> Tensor:
        """`inputs` are the states, or the inputs of the projection `before` that yields them.

        Kinds with vectors [K, kind_width] take part in logits and values, and loops are added; without, a bin has a
        logit of its own.
        """
        receiver, value, residual = self.node_bias
        weight = self.node_weight.flatten(0, 1)  # [4 W, W]
        bias = torch.cat([receiver, torch.zeros_like(receiver), value, residual])
        if before is not None:
            weight, bias = weight @ before.weight, F.linear(before.bias, weight, bias)
        nodes = F.linear(inputs, weight, bias).view(-1, 4, *self.shape)
        if kinds is not None:
            terms = F.linear(kinds, self.kind_weight.flatten(0, 1)).view(-1, 2, *self.shape)
            extra = inputs.new_zeros(len(kinds), self.shape[0])
        else:
            terms, extra = inputs.new_zeros(len(self.bins), 2, *self.shape), self.bins
        return attend(edges, nodes, terms, self.vector[0], extra, loops=kinds is not None).flatten(1)


class InGram(LinkPredictor):
    """InGram, and DEq-InGram if `samples` > 1."""

    Config = InGramConfig
    recipe = Recipe(
        epochs=10_000,
        batch_size=0,
        lr=1e-3,
        gradient_norm=0.1,
        targets="resplit",
        target_share=0.25,
        negative_entities=10,
        sides="either",
        strict=False,
        loss="margin",
        margin=2.0,
        validate_every=200,
        select="node/mrr",
        patience=10,
    )
    grid: ClassVar = {
        "margin": ("1", "2"),
        "lr": ("0.0005", "0.001"),
        "entity_layers": ("2", "3", "4"),
        "relation_layers": ("2", "3", "4"),
    }

    reads_direction = False  # a product of three vectors

    def __init__(self, config: InGramConfig = InGramConfig()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.config = config
        self.symmetry = Symmetry.EXACT if config.inputs == "ones" else Symmetry.IN_EXPECTATION
        self.entity_in = nn.Linear(config.entity_width, config.entity_hidden)
        self.relation_in = nn.Linear(config.relation_width, config.relation_hidden)
        self.relation_layers = nn.ModuleList(
            AttentionLayer(config.relation_hidden, config.heads, bins=config.bins)
            for _ in range(config.relation_layers)
        )
        self.entity_layers = nn.ModuleList(
            AttentionLayer(config.entity_hidden, config.heads, kind_width=config.relation_hidden)
            for _ in range(config.entity_layers)
        )
        self.entity_out = nn.Linear(config.entity_hidden, config.entity_width)
        self.relation_out = nn.Linear(config.relation_hidden, config.relation_width)
        self.relation_score = nn.Linear(config.relation_width, config.entity_width)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_normal_(module.weight, _GAIN)
                nn.init.zeros_(module.bias)

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> Encoded:
        return self._encode(graph, seed, self.config.samples)

    def training_scores(self, graph: KnowledgeGraph, rows: Tensor, seed: int, targets: Tensor | None = None) -> Tensor:
        """Scores from one draw of the inputs; targets that are facts are removed from the graph."""
        graph = without_targets(graph, rows, targets)
        encoded = self._encode(graph, seed, samples=1)
        return self.score_triplets(encoded, rows.reshape(-1, 3)).view(rows.shape[:2])

    def represent(self, edges: Edges, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """Output vectors [N, d] and [2R, d'] from inputs [N, d] and [2R, d']."""
        for i, layer in enumerate(self.relation_layers):
            relations = layer(edges.relations, relations, None if i else self.relation_in, None)
        for i, layer in enumerate(self.entity_layers):
            entities = layer(edges.entities, entities, None if i else self.entity_in, relations)
        return self.entity_out(entities), self.relation_out(relations)

    def score_triplets(self, encoded: Encoded, triplets: Tensor) -> Tensor:
        return self._score_draws(encoded, triplets).mean(-1)

    def score_errors(self, encoded: Encoded, triplets: Tensor) -> Tensor | None:
        if encoded.samples == 1:
            return None
        return self._score_draws(encoded, triplets).std(-1) / math.sqrt(encoded.samples)

    def score_tails(
        self, encoded: Encoded, heads: Tensor, relations: Tensor, candidates: Tensor | None = None
    ) -> Tensor:
        asked = encoded.entities[heads] * encoded.relations[relations % encoded.num_relations]  # [B, M d]
        return _products(asked / encoded.samples, encoded.entities, candidates)

    def score_relations(
        self, encoded: Encoded, heads: Tensor, tails: Tensor, candidates: Tensor | None = None
    ) -> Tensor:
        asked = encoded.entities[heads] * encoded.entities[tails]  # [B, M d]
        if candidates is not None:
            candidates = candidates % encoded.num_relations
        return _products(asked / encoded.samples, encoded.relations, candidates)

    def _encode(self, graph: KnowledgeGraph, seed: int, samples: int) -> Encoded:
        edges = graph.derive(build_edges, self.config.bins)

        def draw(sample: int) -> tuple[Tensor, Tensor]:
            entities = self._inputs(graph.num_entities, self.config.entity_width, seed, "entity inputs", sample)
            relations = self._inputs(
                2 * graph.num_relations, self.config.relation_width, seed, "relation inputs", sample
            )
            entities, relations = self.represent(edges, entities, relations)
            return entities, self.relation_score(relations[: graph.num_relations])

        draws = [draw(sample) for sample in range(samples)]
        entities, relations = (torch.cat(vectors, dim=1) for vectors in zip(*draws, strict=True))  # [., M d]
        return Encoded(entities, relations, samples)

    def _inputs(self, count: int, width: int, seed: int, name: str, sample: int) -> Tensor:
        """Vectors [count, width]: Glorot-normal with the gain of ReLU, or ones."""
        if self.config.inputs == "ones":
            return self.entity_in.weight.new_ones(count, width)
        values = torch.randn(count, width, generator=torch_generator(seed, name, sample))
        return (values * _glorot(count + width)).to(self.entity_in.weight)

    def _score_draws(self, encoded: Encoded, triplets: Tensor) -> Tensor:
        """Scores [B, M] of triplets [B, 3] in each draw."""
        heads, relations, tails = triplets.unbind(-1)
        # index_select: its gradient adds rows, several times faster than that of indexing
        parts = (
            encoded.entities.index_select(0, heads),
            encoded.relations.index_select(0, relations % encoded.num_relations),
            encoded.entities.index_select(0, tails),
        )
        width = encoded.entities.shape[1] // encoded.samples
        return (parts[0] * parts[1] * parts[2]).view(len(triplets), encoded.samples, width).sum(-1)


def import_ingram_weights(weights: Mapping[str, Tensor]) -> InGram:
    """A model from the parameters of the public implementation; its settings are inferred from their shapes."""
    try:
        hidden, width = weights["ent_proj1.weight"].shape
        relation_hidden, relation_width = weights["rel_proj1.weight"].shape
        bins, heads, _ = weights["layers_rel.0.attn_bin"].shape
    except KeyError as error:
        raise CheckpointError(f"Expected the parameters of InGram, but there is none named {error}.") from error
    config = InGramConfig(
        entity_width=width,
        relation_width=relation_width,
        entity_ratio=hidden // width,
        relation_ratio=relation_hidden // relation_width,
        entity_layers=sum(name.startswith("layers_ent.") and name.endswith(".attn_vec") for name in weights),
        relation_layers=sum(name.startswith("layers_rel.") and name.endswith(".attn_vec") for name in weights),
        heads=heads,
        bins=bins,
    )
    model = InGram(config)
    try:
        model.load_state_dict(_renamed(weights, config))
    except (KeyError, RuntimeError) as error:
        raise CheckpointError(f"These are not the parameters of an InGram with {config}: {error}.") from error
    return model


def _renamed(weights: Mapping[str, Tensor], config: InGramConfig) -> dict[str, Tensor]:
    """Parameters of the public implementation under our names and in our layout."""
    projections = {"proj1": "in", "proj2": "out", "proj": "score"}
    ours = {}
    for level, short in (("entity", "ent"), ("relation", "rel")):
        for theirs, mine in projections.items():
            for part in ("weight", "bias"):
                if f"{short}_{theirs}.{part}" in weights:  # entities have no third projection
                    ours[f"{level}_{mine}.{part}"] = weights[f"{short}_{theirs}.{part}"]
    for level, short, count, width in (
        ("entity", "ent", config.entity_layers, config.entity_hidden),
        ("relation", "rel", config.relation_layers, config.relation_hidden),
    ):
        for i in range(count):
            layer, residual, mine = f"layers_{short}.{i}", f"res_proj_{short}.{i}", f"{level}_layers.{i}"
            attention, values = weights[f"{layer}.attn_proj.weight"], weights[f"{layer}.aggr_proj.weight"]
            biases = (f"{layer}.attn_proj.bias", f"{layer}.aggr_proj.bias", f"{residual}.bias")
            ours[f"{mine}.node_weight"] = torch.stack(
                [
                    attention[:, :width],
                    attention[:, width : 2 * width],
                    values[:, :width],
                    weights[f"{residual}.weight"],
                ]
            )
            ours[f"{mine}.node_bias"] = torch.stack([weights[name] for name in biases])
            ours[f"{mine}.vector"] = weights[f"{layer}.attn_vec"]
            if level == "entity":
                ours[f"{mine}.kind_weight"] = torch.stack([attention[:, 2 * width :], values[:, width:]])
            else:
                ours[f"{mine}.bins"] = weights[f"{layer}.attn_bin"].squeeze(-1)
    return ours


def _products(asked: Tensor, vectors: Tensor, candidates: Tensor | None) -> Tensor:
    """Dot products of asked [B, M d] with all vectors [C, M d], or with candidates [B, C] among them."""
    if candidates is None:
        return asked @ vectors.T
    return torch.einsum("bd,bcd->bc", asked, vectors[candidates])


def _glorot(fans: int) -> float:
    """The standard deviation of Glorot's initialisation before ReLU; `fans` counts inputs and outputs."""
    return _GAIN * math.sqrt(2 / fans)
