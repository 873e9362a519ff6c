"""How a model is trained: targets, negatives, loss, optimiser and validation, as one frozen dataclass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from anykg.errors import SettingError


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a model is trained. A model's defaults are an instance of this in its file."""

    epochs: int = 10
    """Passes over the targets."""
    steps_per_epoch: int = 0
    """Steps in an epoch, over a part of the targets redrawn each time; 0 goes through all of them."""
    batch_size: int = 256
    """Target triplets in a step; 0 takes them all at once."""
    batches: Literal["mixed", "relation"] = "mixed"
    """Steps over targets with their negatives, all relations mixed; or over rows, targets and negatives, that share one
    relation, as many as such targets and negatives would be. The latter needs loss = bce."""
    batch_nodes: int = 0
    """Upper bound on entities x targets per step, so that large graphs have smaller batches; 0 sets no bound."""
    part_facts: int = 0
    """Learn from a part of each graph that has more facts than this: those around one of them, drawn anew every epoch.
    Steps over large graphs then cost less and can have more targets; 0 uses whole graphs. Needs targets = all."""
    whole_share: float = 0.0
    """With part_facts, share of the epochs in which a large graph is learned from as a whole all the same, drawn for
    each graph and epoch."""
    mixture: Literal["size", "sqrt", "even"] = "size"
    """How often each of several graphs is sampled: by its targets, by their square root, or all equally."""
    pieces: int = 1
    """Parts in which a batch is computed, one after the other, their gradients added: less memory, the same step."""
    lr: float = 1e-3
    """Learning rate."""
    schedule: Literal["constant", "linear"] = "constant"
    """Keep the learning rate, or decay it linearly to 0 by the last step."""
    warmup: int = 0
    """Steps over which the learning rate rises linearly from 0."""
    weight_decay: float = 0.0
    """L2 penalty (adam) or decoupled decay (adamw)."""
    optimizer: Literal["adam", "adamw"] = "adam"
    """Optimiser."""
    gradient_norm: float = 0.0
    """Clip the gradient to this norm; 0 leaves it."""
    targets: Literal["all", "held-out", "resplit"] = "all"
    """The targets: all triplets of the graph; a part held out once; or another part held out every epoch, such that the
    rest keeps the graph connected and every relation."""
    target_share: float = 1.0
    """The part held out, with targets = held-out or resplit."""
    hide_pairs: float = 0.0
    """Share of the steps in which a target's other facts between the same two entities are left out too, so that the
    answer cannot be read off them; for models that leave out their targets (ultra, nbfnet, trix, ingram)."""
    hide: float = 0.0
    """Upper bound on the share of all facts hidden together in a step, besides the targets; each step draws its own
    share between 0 and this. For models that leave out their targets."""
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
    loss: Literal["bce", "balanced-bce", "self-adversarial", "margin", "softmax"] = "bce"
    """Binary cross-entropy over all rows; with the negatives of a target averaged; with them weighted by the softmax
    of their scores; a margin between a target and each of its negatives; or the cross-entropy of the target's softmax
    over all entities, other known answers masked (ultra, nbfnet, trix)."""
    softmax_bound: int = 2_000_000
    """Upper bound on entities x targets for which loss = softmax ranks a target against all entities; above it,
    against negative_entities sampled ones."""
    relation_every: int = 0
    """Every this many steps, ask for the relation of the targets instead of an entity: softmax cross-entropy over all
    relations, other known ones masked. For models with a network of their own for relations (trix); 0 never does."""
    positive_weight: float = 1.0
    """Weight of a positive in loss = bce."""
    margin: float = 2.0
    """Margin in loss = margin."""
    validate_every: int = 1
    """Epochs between validations."""
    select: str = "node/mrr"
    """What validation maximises: TASK/METRIC, or TASK/-METRIC to minimise."""
    validation_limit: int = 0
    """Validate on a seeded sample of this many triplets; 0 takes all."""
    patience: int = 0
    """Stop after this many validations without improvement; 0 never stops early."""
    checkpoint: Literal["best", "last"] = "best"
    """Keep the weights with the best validation, or the last ones; with last, a graph given as a single file is
    learned from as a whole instead of setting a part aside for validation."""

    def __post_init__(self) -> None:
        least = {"epochs": 0, "steps_per_epoch": 0, "batch_size": 0, "lr": 0, "weight_decay": 0, "gradient_norm": 0}
        least |= {
            "batch_nodes": 0,
            "part_facts": 0,
            "negative_entities": 0,
            "negative_relations": 0,
            "validation_limit": 0,
            "patience": 0,
            "warmup": 0,
            "softmax_bound": 0,
            "relation_every": 0,
        }
        for name, smallest in (least | {"validate_every": 1, "pieces": 1}).items():
            if getattr(self, name) < smallest:
                raise SettingError(name, f"expected {smallest} or more, found {getattr(self, name)}")
        if not 0 < self.target_share <= 1:
            raise SettingError("target_share", f"expected more than 0 and at most 1, found {self.target_share}")
        if not 0 <= self.hide_pairs <= 1:
            raise SettingError("hide_pairs", f"expected 0 to 1, found {self.hide_pairs}")
        if not 0 <= self.whole_share <= 1:
            raise SettingError("whole_share", f"expected 0 to 1, found {self.whole_share}")
        if not 0 <= self.hide < 1:
            raise SettingError("hide", f"expected 0 or more and less than 1, found {self.hide}")
        if self.part_facts and self.targets != "all":
            raise SettingError("part_facts", f"expected 0 with targets {self.targets}, found {self.part_facts}")
        if self.part_facts and self.fixed_negatives:
            raise SettingError("part_facts", f"expected 0 with fixed negatives, found {self.part_facts}")
        if self.batches == "relation" and self.loss != "bce":
            raise SettingError("batches", f"relation needs loss bce, which compares no rows, found {self.loss}")
        if self.negative_entities + self.negative_relations == 0:
            raise SettingError("negative_entities", "expected 1 or more negatives for each target, found none")
