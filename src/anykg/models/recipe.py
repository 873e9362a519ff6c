"""How a model is trained: targets, negatives, loss, optimiser and validation, as one frozen dataclass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from anykg.errors import SettingError


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a model is trained. A model's defaults are an instance of this in its file."""

    epochs: int = 10
    """Number of epochs over the targets."""
    steps_per_epoch: int = 0
    """Number of steps per epoch, over a sample of the targets that is redrawn each time; 0 uses all targets."""
    batch_size: int = 256
    """Number of target triplets per step; 0 uses all of them at once."""
    batches: Literal["mixed", "relation"] = "mixed"
    """Batches of targets with their negatives, with all relations mixed; or of rows (targets and negatives) of one
    relation, with the same number of rows. The latter needs loss = bce."""
    batch_nodes: int = 0
    """Upper bound on entities x targets per step, so that large graphs have smaller batches; 0 means no bound."""
    part_facts: int = 0
    """Train on a part of each graph that has more facts than this: the facts around a random one, redrawn every epoch.
    Steps on large graphs then cost less and can have more targets; 0 uses whole graphs. Needs targets = all."""
    whole_share: float = 0.0
    """With part_facts, share of the epochs in which a large graph is still used as a whole, drawn for each graph and
    epoch."""
    mixture: Literal["size", "sqrt", "even"] = "size"
    """Sampling of several graphs: in proportion to their targets, to the square root of these, or uniformly."""
    pieces: int = 1
    """Number of parts in which a batch is computed one after the other, accumulating gradients: less memory, the same
    step."""
    lr: float = 1e-3
    """Learning rate."""
    schedule: Literal["constant", "linear"] = "constant"
    """Keep the learning rate, or decay it linearly to 0 by the last step."""
    warmup: int = 0
    """Number of warm-up steps over which the learning rate rises linearly from 0."""
    weight_decay: float = 0.0
    """L2 penalty (adam) or decoupled decay (adamw)."""
    optimizer: Literal["adam", "adamw"] = "adam"
    """Optimiser."""
    gradient_norm: float = 0.0
    """Clip the gradient to this norm; 0 does not clip."""
    targets: Literal["all", "held-out", "resplit"] = "all"
    """The targets: all triplets of the graph; a part that is held out once; or a different part that is held out every
    epoch, such that the rest stays connected and keeps every relation."""
    target_share: float = 1.0
    """The part held out, with targets = held-out or resplit."""
    hide_pairs: float = 0.0
    """Share of the steps in which other facts between the two entities of a target are masked as well, so that the
    answer cannot be read off them; for models that mask their targets (ultra, nbfnet, trix, ingram)."""
    hide: float = 0.0
    """Upper bound on the share of all facts that is masked in a step, besides the targets; each step draws its own
    share between 0 and this. For models that mask their targets."""
    inverses: bool = False
    """Also train on the inverse of every target."""
    negative_entities: int = 4
    """Number of corrupted heads or tails per target."""
    sides: Literal["tail", "either", "halves"] = "tail"
    """Corrupt tails; heads or tails, drawn for each negative; or tails in one half of the batch and heads in the
    other."""
    negative_relations: int = 0
    """Number of corrupted relations per target."""
    strict: bool = True
    """Never use a known fact as a negative."""
    fixed_negatives: bool = False
    """Draw the negatives once instead of in every epoch."""
    loss: Literal["bce", "balanced-bce", "self-adversarial", "margin", "softmax"] = "bce"
    """Binary cross-entropy over all rows; with the negatives of a target averaged; with them weighted by the softmax
    of their scores; a margin between a target and each of its negatives; or the cross-entropy of the target's softmax
    over all entities, other known answers masked (ultra, nbfnet, trix)."""
    softmax_bound: int = 2_000_000
    """Upper bound on entities x targets for which loss = softmax ranks a target against all entities; above this, it
    ranks against negative_entities sampled ones."""
    relation_every: int = 0
    """Every this many steps, predict the relation of the targets instead of an entity: softmax cross-entropy over all
    relations, with other known ones masked. For models with a separate network for relations (trix); 0 means never."""
    positive_weight: float = 1.0
    """Weight of a positive in loss = bce."""
    margin: float = 2.0
    """Margin in loss = margin."""
    validate_every: int = 1
    """Number of epochs between validations."""
    select: str = "node/mrr"
    """The validation metric to maximise: TASK/METRIC, or TASK/-METRIC to minimise."""
    validation_limit: int = 0
    """Validate on a random sample of this many triplets; 0 uses all."""
    patience: int = 0
    """Stop after this many validations without improvement; 0 disables early stopping."""
    checkpoint: Literal["best", "last"] = "best"
    """Keep the weights with the best validation metric, or the last ones; with last, a graph given as a single file is
    used for training as a whole, without a validation part."""

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
