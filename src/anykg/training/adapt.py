"""Train a model further on one graph, in memory, for a number of steps or seconds."""

from __future__ import annotations

import time
from itertools import count

from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.models.recipe import Recipe
from anykg.progress import Progress
from anykg.seeds import derive
from anykg.threads import threads
from anykg.training.epoch import draw_epoch
from anykg.training.step import learning_rate, optimizer_for, refuse_unsupported, repeatable, take_step


def adapt(
    model: LinkPredictor,
    graph: KnowledgeGraph,
    recipe: Recipe,
    *,
    steps: int = 0,
    seconds: float = 0.0,
    seed: int = 0,
    progress: Progress | None = None,
) -> int:
    """Train `model` in place on `graph` and return the number of steps; nothing is written to disk.

    Training ends after `steps` steps or `seconds` seconds, whichever comes first; 0 means no limit, and at least one of
    them is required. The recipe's epochs, validation and checkpoint have no effect. A linear schedule ends at 0.
    `progress` is called with (steps done, steps), or with (seconds spent, seconds) if only the time is bounded.
    """
    if steps <= 0 and seconds <= 0:
        raise ConfigError("adapt needs steps or seconds above 0.")
    refuse_unsupported(type(model).__name__, model, recipe)
    if not len(graph):
        raise ConfigError("adapt needs a graph with at least one fact.")
    optimizer = optimizer_for(model, recipe)
    was_training, started, done = model.training, time.monotonic(), 0
    model.train()
    with repeatable(), threads(torch=1 if model.one_thread else None):
        for epoch in count():
            for number, draw in enumerate(draw_epoch([graph], recipe, seed, epoch)):
                spent = time.monotonic() - started
                share = max(done / steps if steps else 0.0, spent / seconds if seconds else 0.0)
                if share >= 1:
                    model.train(was_training)
                    return done
                rate = learning_rate(recipe, done, share)
                take_step(model, optimizer, rate, draw(), recipe, derive(seed, "step", epoch, number))
                done += 1
                if progress and steps:
                    progress(done, steps)
                elif progress:
                    progress(min(int(time.monotonic() - started), int(seconds)), int(seconds))
    raise AssertionError("epochs do not end")
