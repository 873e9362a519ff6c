"""What a model promises, and what it may rely on.

Shapes: B queries, N entities, R relations, E triplets, D width, C candidates. Relation ids r + R are inverses, so that
a head query (?, r, t) is the tail query (t, r + R, ?). Models score. They never rank, filter, print, pick a device
or read a file. Randomness at inference comes from the seed given to `encode`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from anykg.errors import ConfigError

if TYPE_CHECKING:
    from anykg.graph.graph import KnowledgeGraph


class Symmetry(StrEnum):
    """What relabelling entities and relations does to the scores."""

    EXACT = "exact"
    """Nothing, to rounding."""
    IN_EXPECTATION = "in expectation"
    """Their distribution over the random draws stays the same."""
    ENTITIES_ONLY = "entities only"
    """Relabelling entities does nothing; relabelling relations does."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a model is trained. A model's defaults are an instance of this in its file."""

    epochs: int = 10
    """Passes over the targets."""
    steps_per_epoch: int = 0
    """Steps in an epoch, over a part of the targets drawn anew each time; 0 goes through all of them."""
    batch_size: int = 256
    """Target triplets in a step; 0 takes them all at once."""
    batch_nodes: int = 0
    """At most so many entities times targets in a step, so that large graphs have smaller batches; 0 sets no bound."""
    mixture: Literal["size", "sqrt", "even"] = "size"
    """How often each of several graphs is learnt from: by its targets, by their square root, or all equally."""
    pieces: int = 1
    """Parts in which a batch is computed, one after the other, their gradients added: less memory, the same step."""
    lr: float = 1e-3
    """Learning rate."""
    schedule: Literal["constant", "linear"] = "constant"
    """Keep the learning rate, or let it fall to 0 by the last step."""
    weight_decay: float = 0.0
    """L2 penalty (adam) or decoupled decay (adamw)."""
    optimizer: Literal["adam", "adamw"] = "adam"
    """Optimiser."""
    gradient_norm: float = 0.0
    """Clip the gradient to this norm; 0 leaves it."""
    targets: Literal["all", "held-out", "resplit"] = "all"
    """What is learnt from: all triplets of the graph; a part held out once; a part held out anew every epoch, the
    rest keeping the graph connected and every relation."""
    target_share: float = 1.0
    """The part held out, with targets = held-out or resplit."""
    hide_pairs: float = 0.0
    """Share of the steps in which a target's other facts between the same two entities are left out too, so that the
    answer cannot be read off them; for models that leave out their targets (ultra, nbfnet, ingram)."""
    inverses: bool = False
    """Learn from every target's inverse too."""
    negative_entities: int = 4
    """Corrupted heads or tails for each target."""
    sides: Literal["tail", "either", "halves"] = "tail"
    """Corrupt tails; heads or tails, drawn for each negative; tails in one half of the batch, heads in the other."""
    negative_relations: int = 0
    """Corrupted relations for each target."""
    strict: bool = True
    """Never use a known fact as a negative."""
    fixed_negatives: bool = False
    """Draw the negatives once instead of every epoch."""
    loss: Literal["bce", "balanced-bce", "self-adversarial", "margin"] = "bce"
    """Binary cross-entropy over all rows; with the negatives of a target averaged; with them weighted by the softmax
    of their scores; or a margin between a target and each of its negatives."""
    positive_weight: float = 1.0
    """Weight of a positive in loss = bce."""
    margin: float = 2.0
    """Margin in loss = margin."""
    validate_every: int = 1
    """Epochs between validations."""
    select: str = "node/mrr"
    """What validation maximises: TASK/METRIC, or TASK/-METRIC to minimise."""
    validation_limit: int = 0
    """Validate on a seeded sample of so many triplets; 0 takes all."""
    patience: int = 0
    """Stop after so many validations without gain; 0 never stops early."""

    def __post_init__(self) -> None:
        least = {"epochs": 0, "steps_per_epoch": 0, "batch_size": 0, "lr": 0, "weight_decay": 0, "gradient_norm": 0}
        least |= {
            "batch_nodes": 0,
            "negative_entities": 0,
            "negative_relations": 0,
            "validation_limit": 0,
            "patience": 0,
        }
        for name, smallest in (least | {"validate_every": 1, "pieces": 1}).items():
            if getattr(self, name) < smallest:
                flag = name.replace("_", "-")
                raise ConfigError(f"--{flag}: expected {smallest} or more, found {getattr(self, name)}.")
        if not 0 < self.target_share <= 1:
            raise ConfigError(f"--target-share: expected more than 0 and at most 1, found {self.target_share}.")
        if not 0 <= self.hide_pairs <= 1:
            raise ConfigError(f"--hide-pairs: expected 0 to 1, found {self.hide_pairs}.")
        if self.negative_entities + self.negative_relations == 0:
            raise ConfigError("--negative-entities: expected 1 or more negatives for each target, found none.")


@dataclass(frozen=True, eq=False)
class EncodedGraph:
    """For models whose scores need the graph alone: what they compute of it is kept with the graph itself."""

    graph: KnowledgeGraph

    @property
    def num_entities(self) -> int:
        """N."""
        return self.graph.num_entities

    @property
    def num_relations(self) -> int:
        """R."""
        return self.graph.num_relations


class LinkPredictor(nn.Module):
    """The contract of every model. `score_triplets` is all a model must have besides `encode`."""

    Config: ClassVar[type]
    """A frozen dataclass with the model's settings; a field's docstring is its help."""
    recipe: ClassVar[Recipe] = Recipe()
    grid: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Values of settings that `anykg train --grid` chooses from by validation."""
    one_thread: ClassVar[bool] = False
    """Its training steps are so small that waiting for a second thread costs more than it saves."""
    symmetry: Symmetry
    reads_relations: bool = True
    """False for models that score every relation alike."""

    config: Any

    @classmethod
    def build(cls, config: Any, graph: KnowledgeGraph) -> Self:
        """A model to train on `graph`; only a model with vectors per relation needs to look at it."""
        del graph
        return cls(config)

    def with_config(self, **settings: Any) -> Self:
        """The same weights under other settings, such as more samples at inference."""
        other = type(self)(replace(self.config, **settings))
        other.load_state_dict(self.state_dict())
        one = next(self.parameters(), None)
        return (other if one is None else other.to(one)).train(self.training)

    def encode(self, graph: KnowledgeGraph, seed: int = 0) -> Any:
        """Everything the scores need of the graph, computed once. `seed` is for models that draw inputs."""
        raise NotImplementedError

    def score_triplets(self, encoded: Any, triplets: Tensor) -> Tensor:
        """Scores [B] of triplets [B, 3]; a relation r + R scores (tail, r, head)."""
        raise NotImplementedError

    def score_tails(self, encoded: Any, heads: Tensor, relations: Tensor, candidates: Tensor | None = None) -> Tensor:
        """Scores of (head, relation, ?): [B, N], or [B, C] for candidates [B, C]."""
        if candidates is None:
            everyone = torch.arange(encoded.num_entities, device=heads.device)
            candidates = everyone.expand(len(heads), -1)
        shape = candidates.shape
        rows = torch.stack([heads[:, None].expand(shape), relations[:, None].expand(shape), candidates], dim=-1)
        return self.score_triplets(encoded, rows.reshape(-1, 3)).view(candidates.shape)

    def score_relations(self, encoded: Any, heads: Tensor, tails: Tensor, candidates: Tensor | None = None) -> Tensor:
        """Scores of (head, ?, tail): [B, R], or [B, C] for candidates [B, C]."""
        if candidates is None:
            everything = torch.arange(encoded.num_relations, device=heads.device)
            candidates = everything.expand(len(heads), -1)
        shape = candidates.shape
        rows = torch.stack([heads[:, None].expand(shape), candidates, tails[:, None].expand(shape)], dim=-1)
        return self.score_triplets(encoded, rows.reshape(-1, 3)).view(candidates.shape)

    def score_errors(self, encoded: Any, triplets: Tensor) -> Tensor | None:
        """Standard errors [B] of the scores of triplets [B, 3], from a model that averages over random draws."""
        del encoded, triplets
        return None

    def training_scores(self, graph: KnowledgeGraph, rows: Tensor, seed: int, targets: Tensor | None = None) -> Tensor:
        """Scores [B, 1 + K] of a batch's rows [B, 1 + K, 3], the target first, its negatives after it.

        A target that is a fact of `graph` must not be read off that fact. Where the rows are only a part of a batch, or
        more is to be left out, `targets` [G, 3] are all facts to leave out, so that every part is scored as the whole
        would be.
        """
        del targets
        encoded = self.encode(graph, seed)
        return self.score_triplets(encoded, rows.reshape(-1, 3)).view(rows.shape[:2])

    def compiled_loss(self, graph: KnowledgeGraph, rows: Tensor, recipe: Recipe) -> Tensor | None:
        """The recipe's loss of `training_scores`, from a model that has it compiled as a whole; None if it has not."""
        del graph, rows, recipe
        return None
