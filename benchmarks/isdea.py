"""A training epoch of ISDEA+ on EN-FR (in $ANYKG_DATA): folded against message passing, in the same run.

Literal epochs are timed on a few of their steps. `measure` returns seconds and ratios; `main` prints them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from anykg.io.catalog import load_task
from anykg.models.isdea.isdea import ISDEA, ISDEAConfig
from anykg.threads import threads
from anykg.training.adam import Adam
from anykg.training.epoch import Batch, draw_epoch
from anykg.training.losses import loss_of
from benchmarks.busy import alone_and_busy


def seconds(model: ISDEA, batches: Sequence[Batch]) -> float:
    """Time to train on the batches, as the training loop does: on one thread, but for the literal form."""
    optimizer = Adam(model.parameters())
    with threads(torch=1 if model.config.form == "folded" else None):
        start = time.perf_counter()
        for step in batches:
            rows = torch.from_numpy(step.rows)
            loss = model.compiled_loss(step.graph, rows, model.recipe)
            if loss is None:
                loss = loss_of(model.training_scores(step.graph, rows, 0), model.recipe)
            loss.backward()
            optimizer.step(1e-3)
        return time.perf_counter() - start


def measure() -> dict[str, float]:
    batches = _batches()
    folded = ISDEA()
    start = time.perf_counter()
    seconds(folded, batches[:1])
    once = time.perf_counter() - start
    epoch = min(seconds(folded, batches) for _ in range(10))

    def whole_epoch(config: ISDEAConfig) -> float:
        model = ISDEA(config)
        seconds(model, batches[:1])
        return seconds(model, batches[1:4]) / 3 * len(batches)

    literal = whole_epoch(ISDEAConfig(form="literal"))
    return {
        "steps": len(batches),
        "precomputation_seconds": once,
        "folded_epoch_seconds": epoch,
        "literal_epoch_seconds": literal,
        "folded_speedup": literal / epoch,
        "gin_epoch_seconds": whole_epoch(ISDEAConfig(gnn="gin")),
        "gat_epoch_seconds": whole_epoch(ISDEAConfig(gnn="gat")),
        **{f"folded_epoch_{name}": value for name, value in alone_and_busy(_epoch).items()},
    }


def _epoch() -> Callable[[], float]:
    """One training epoch of the folded form."""
    model, batches = ISDEA(), _batches()
    return lambda: seconds(model, batches)


def _batches() -> list[Batch]:
    return [draw() for draw in draw_epoch([load_task("EN-FR").train], ISDEA.recipe, seed=0, epoch=0)]


def main() -> None:
    for name, value in measure().items():
        print(f"{name:28s} {value:10.3f}")


if __name__ == "__main__":
    main()
