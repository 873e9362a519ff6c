"""Train PyKEEN's ComplEx and RotatE for a given time on the same facts, for comparison with `anykg fit`.

Settings are those of the papers that made these models strong. ComplEx (Lacroix et al. 2018): inverse relations, all
entities as candidates (LCWA), cross-entropy, N3, small initial values, Adagrad; PyKEEN's own default, standard normal
initialisation with a weak L2 penalty, overfits immediately. RotatE (Sun et al. 2019): no inverse relations,
self-adversarial negatives at temperature 1, margin 9 and Adam. Settings for a few minutes on a CPU were chosen once for
all graphs, on validation facts of UMLS: 32 negatives and small batches (MRR 82 after 25 seconds of one core; 41 with 64
negatives, batches of 512 and rank 200, which makes too few steps; 80 with margin 3).
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
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
COMPLEX_BATCH = 512
RANK = 200
"""Complex numbers in a vector of ComplEx."""
N3 = 0.01
"""Weight of the cubed moduli."""
ROTATE_RANK, MARGIN, ROTATE_LR, NEGATIVES = 128, 9.0, 1e-2, 32
ROTATE_STEPS, FEWEST_FACTS, MOST_FACTS = 64, 128, 1024
"""Steps in a pass of RotatE, within these bounds on the facts in a step: on small graphs it needs many steps."""

ScoreTails = Callable[[Tensor, Tensor], Tensor]
"""Scores [B, N] of heads [B] and relations [B], inverses from R on."""


class _TimeIsUp(Exception):
    """The training time is over."""


def train(name: str, graph: KnowledgeGraph, seconds: Sequence[float], seed: int = 0) -> Iterator[ScoreTails]:
    """Train a baseline once and return its scores after each of some times, earliest first.

    A score function is valid until the next one is requested.
    """
    try:
        from pykeen.training.callbacks import TrainingCallback
        from pykeen.triples import TriplesFactory
    except ImportError as error:
        raise ConfigError("The comparison needs PyKEEN: pip install 'anykg[pykeen]'.") from error

    if name not in NAMES:
        raise ConfigError(f"There is no baseline {name!r}; there are {', '.join(NAMES)}.")
    factory = TriplesFactory(
        mapped_triples=torch.from_numpy(graph.triplets.astype(np.int64)),
        entity_to_id={name: index for index, name in enumerate(graph.entities)},
        relation_to_id={name: index for index, name in enumerate(graph.relations)},
        create_inverse_triples=name == "pykeen-complex",
    )
    waiting = sorted(seconds)
    reached: list[dict[str, Tensor]] = []
    started = time.monotonic()
    model, loop, batch_size = _set_up(name, factory, seed)

    class Watch(TrainingCallback):  # type: ignore[misc]
        """Keeps the weights at the given times and stops training at the last."""

        def on_batch(self, epoch: int, batch: Any, batch_loss: float, **kwargs: Any) -> None:
            while len(reached) < len(waiting) and time.monotonic() - started > waiting[len(reached)]:
                reached.append(copy.deepcopy(model.state_dict()))
            if len(reached) == len(waiting):
                raise _TimeIsUp

    with suppress(_TimeIsUp):
        loop.train(
            triples_factory=factory,
            num_epochs=MOST_EPOCHS,
            batch_size=batch_size,
            callbacks=Watch(),
            use_tqdm=False,
            use_tqdm_batch=False,
        )
    model.eval()
    reached += [copy.deepcopy(model.state_dict())] * (len(waiting) - len(reached))
    for weights in reached:
        model.load_state_dict(weights)
        yield partial(_score_tails, model, graph)


@torch.no_grad()
def _score_tails(model: Any, graph: KnowledgeGraph, heads: Tensor, relations: Tensor) -> Tensor:
    scores, r = torch.empty(len(heads), graph.num_entities), graph.num_relations
    direct = relations < r
    if bool(direct.any()):
        scores[direct] = model.predict_t(torch.stack([heads[direct], relations[direct]], 1))
    if bool((~direct).any()):
        scores[~direct] = model.predict_h(torch.stack([relations[~direct] - r, heads[~direct]], 1))
    return scores


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
        return model, LCWATrainingLoop(model=model, triples_factory=factory, optimizer=optimizer), COMPLEX_BATCH
    settings = {"loss": "nssa", "loss_kwargs": {"margin": MARGIN, "adversarial_temperature": 1.0}}
    model = RotatE(triples_factory=factory, embedding_dim=ROTATE_RANK, random_seed=seed, **settings)
    optimizer = torch.optim.Adam(model.parameters(), lr=ROTATE_LR)
    batch = int(np.clip(factory.num_triples // ROTATE_STEPS, FEWEST_FACTS, MOST_FACTS))
    sampler = {"negative_sampler_kwargs": {"num_negs_per_pos": NEGATIVES}}
    return model, SLCWATrainingLoop(model=model, triples_factory=factory, optimizer=optimizer, **sampler), batch
