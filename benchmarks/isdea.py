"""A training epoch of ISDEA+ on a graph as large as PediaTypes EN-FR: folded against message passing, in the same run.

Literal epochs are timed on a few of their steps. `measure` returns seconds and ratios; `main` prints them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch

from anykg.data.graph import KnowledgeGraph
from anykg.data.vocabulary import Vocabulary
from anykg.models.isdea import ISDEA, ISDEAConfig
from anykg.training.epoch import Batch, draw_epoch
from anykg.training.losses import loss_of

ENTITIES, RELATIONS, TRIPLETS = 4_962, 122, 30_876


def skewed_graph() -> KnowledgeGraph:
    """Entities and relations drawn with the skew of real graphs."""
    random = np.random.default_rng(0)
    columns = [(random.pareto(1.0, size=2 * TRIPLETS) * n / 50).astype(np.int64) % n for n in (ENTITIES, RELATIONS)]
    tails = random.integers(ENTITIES, size=2 * TRIPLETS)
    rows = np.unique(np.stack([columns[0], columns[1], tails], axis=1), axis=0)
    names = (Vocabulary(kind, [str(i) for i in range(n)]) for kind, n in (("e", ENTITIES), ("r", RELATIONS)))
    return KnowledgeGraph(random.permutation(rows)[:TRIPLETS], *names)


def seconds(model: ISDEA, batches: Sequence[Batch]) -> float:
    """Time to train on the batches."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    start = time.perf_counter()
    for graph, rows in batches:
        optimizer.zero_grad()
        loss = loss_of(model.training_scores(graph, torch.from_numpy(rows), 0), model.recipe)
        loss.backward()
        optimizer.step()
    return time.perf_counter() - start


def measure() -> dict[str, float]:
    batches = draw_epoch([skewed_graph()], ISDEA.recipe, seed=0, epoch=0)
    folded = ISDEA()
    start = time.perf_counter()
    seconds(folded, batches[:1])
    once = time.perf_counter() - start
    epoch = min(seconds(folded, batches) for _ in range(5))

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
    }


def main() -> None:
    for name, value in measure().items():
        print(f"{name:28s} {value:10.3f}")


if __name__ == "__main__":
    main()
