"""PyKEEN's ComplEx and RotatE, trained for a given time on the same facts; for comparison with `anykg fit`.

Settings are those of the papers that made these models strong. ComplEx (Lacroix et al. 2018): inverse relations, all
entities as candidates (LCWA), cross-entropy, N3, a small start, Adagrad; PyKEEN's own default, a standard normal start
with a weak L2 norm, overfits at once. RotatE (Sun et al. 2019): inverse relations, 64 self-adversarial negatives and
Adam.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph

NAMES = ("pykeen-complex", "pykeen-rotate")
MOST_EPOCHS = 10_000
RANK = 200
N3 = 0.01
"""Weight of the cubed moduli."""
MARGIN, ROTATE_LR = 3.0, 1e-2
"""Of RotatE; not checked at convergence. PyKEEN measures a Euclidean distance, the paper (margin 9) a sum of moduli."""

ScoreTails = Callable[[Tensor, Tensor], Tensor]
"""Scores [B, N] of heads [B] and relations [B], inverses from R on."""


class _TimeIsUp(Exception):
    """The time to train has passed."""


def train(name: str, graph: KnowledgeGraph, seconds: float, seed: int = 0) -> ScoreTails:
    """Train a baseline for a time and return its scores."""
    try:
        from pykeen.training.callbacks import TrainingCallback
        from pykeen.triples import TriplesFactory
    except ImportError as error:
        raise ConfigError("The comparison needs PyKEEN: pip install 'anykg[pykeen]'.") from error

    started = time.monotonic()

    class Stop(TrainingCallback):  # type: ignore[misc]
        """Ends the training when the time is up."""

        def on_batch(self, epoch: int, batch: Any, batch_loss: float, **kwargs: Any) -> None:
            if time.monotonic() - started > seconds:
                raise _TimeIsUp

    factory = TriplesFactory(
        mapped_triples=torch.from_numpy(graph.triplets.astype(np.int64)),
        entity_to_id={name: index for index, name in enumerate(graph.entities)},
        relation_to_id={name: index for index, name in enumerate(graph.relations)},
        create_inverse_triples=True,
    )
    model, loop, batch_size = _set_up(name, factory, seed)
    with suppress(_TimeIsUp):
        loop.train(
            triples_factory=factory,
            num_epochs=MOST_EPOCHS,
            batch_size=batch_size,
            callbacks=Stop(),
            use_tqdm=False,
            use_tqdm_batch=False,
        )
    model.eval()
    r = graph.num_relations

    def score_tails(heads: Tensor, relations: Tensor) -> Tensor:
        scores = torch.empty(len(heads), graph.num_entities)
        direct = relations < r
        with torch.no_grad():
            if bool(direct.any()):
                scores[direct] = model.predict_t(torch.stack([heads[direct], relations[direct]], 1))
            if bool((~direct).any()):
                scores[~direct] = model.predict_h(torch.stack([relations[~direct] - r, heads[~direct]], 1))
        return scores

    return score_tails


def _set_up(name: str, factory: Any, seed: int) -> tuple[Any, Any, int]:
    """The model, its training loop and the batch size."""
    from pykeen.models import ComplEx, RotatE
    from pykeen.training import LCWATrainingLoop, SLCWATrainingLoop

    if name == "pykeen-complex":
        start = partial(torch.nn.init.normal_, std=0.01)
        model = ComplEx(
            triples_factory=factory,
            embedding_dim=RANK,
            loss="crossentropy",
            entity_initializer=start,
            relation_initializer=start,
            regularizer="powersum",
            regularizer_kwargs={"weight": N3, "p": 3.0},
            random_seed=seed,
        )
        optimizer: torch.optim.Optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
        return model, LCWATrainingLoop(model=model, triples_factory=factory, optimizer=optimizer), 512
    if name == "pykeen-rotate":
        settings = {"loss": "nssa", "loss_kwargs": {"margin": MARGIN, "adversarial_temperature": 1.0}}
        model = RotatE(triples_factory=factory, embedding_dim=RANK, random_seed=seed, **settings)
        optimizer = torch.optim.Adam(model.parameters(), lr=ROTATE_LR)
        sampler = {"negative_sampler_kwargs": {"num_negs_per_pos": 64}}
        return model, SLCWATrainingLoop(model=model, triples_factory=factory, optimizer=optimizer, **sampler), 512
    raise ConfigError(f"There is no baseline {name!r}; there are {', '.join(NAMES)}.")
