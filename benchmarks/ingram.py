"""InGram at the paper's setting: an epoch against the literal form in the same run, and M samples against one.

The literal form multiplies W with [h_v, h_u, z_r] for every triplet, as the equations are written. Times are the best
of several, in seconds, on the training graph of EN-FR if ANYKG_DATA names the folder of the benchmarks, else on a
random one of the same size.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import polars as pl
import torch
from torch import Tensor

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.models.ingram import reference
from anykg.models.ingram.ingram import Edges, InGram
from anykg.seeds import generator
from anykg.training.negatives import corrupt
from anykg.training.spanning import resplit
from benchmarks.busy import alone_and_busy
from benchmarks.fresh import in_fresh_process

_SAMPLES = 10


class LiteralInGram(InGram):
    """The same model with every product taken per edge."""

    def represent(self, edges: Edges, entities: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        return reference.represent(self, edges, entities, relations)


def measure() -> dict[str, float]:
    """Seconds of an epoch in both forms, and of encoding one and several samples, with their ratios."""
    epoch, literal = in_fresh_process(_epoch, False), in_fresh_process(_epoch, True)
    one, several = in_fresh_process(_encode, False)
    one_cold, several_cold = in_fresh_process(_encode, True)
    return {
        "epoch": epoch,
        "epoch, literal": literal,
        "epoch, times faster than literal": literal / epoch,
        "encode, 1 sample": one,
        "encode, 10 samples": several,
        "encode, 10 samples / 1": several / one,
        "encode with relation graph, 10 samples / 1": several_cold / one_cold,
        **{f"epoch, {name}": value for name, value in alone_and_busy(_busy_epoch).items()},
    }


def _busy_epoch() -> Callable[[], None]:
    torch.manual_seed(0)
    return _epochs(InGram(), _graph())


def _epoch(literal: bool) -> float:
    torch.manual_seed(0)
    model = LiteralInGram() if literal else InGram()
    return _best(_epochs(model, _graph()), 3 if literal else 8)


def _encode(cold: bool) -> tuple[float, float]:
    """Seconds of 1 and of 10 samples; cold ones make the edges of both levels anew."""
    graph, model = _graph(), InGram()

    def encode(chosen: InGram) -> Callable[[], object]:
        def run() -> None:
            with torch.inference_mode():
                chosen.encode(graph.with_triplets(graph.triplets) if cold else graph)

        return run

    return _one_of_many(encode(model)), _best(encode(model.with_config(samples=_SAMPLES)), 4)


def _one_of_many(run: Callable[[], object]) -> float:
    """Seconds of one call, from as many in a row as there are samples: a short run would find a quieter moment."""
    return _best(lambda: [run() for _ in range(_SAMPLES)], 4) / _SAMPLES


def _epochs(model: InGram, graph: KnowledgeGraph) -> Callable[[], None]:
    """A function that trains for one more epoch at each call."""
    recipe, epochs = model.recipe, count()
    optimizer = torch.optim.Adam(model.parameters(), lr=recipe.lr)

    def run() -> None:
        epoch = next(epochs)
        messages, targets = resplit(graph, recipe.target_share, 0, epoch)
        negatives = corrupt(
            graph,
            targets.astype(np.int64),
            entities=recipe.negative_entities,
            relations=0,
            sides=recipe.sides,
            inverses=False,
            strict=recipe.strict,
            random=generator(0, "negatives", epoch),
        )
        rows = torch.from_numpy(np.concatenate([targets[:, None], negatives], axis=1))  # [B, 1 + K, 3]
        scores = model.training_scores(messages, rows, epoch)
        loss = (recipe.margin - scores[:, :1] + scores[:, 1:]).relu().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.gradient_norm)
        optimizer.step()

    return run


def _graph() -> KnowledgeGraph:
    folder = os.environ.get("ANYKG_DATA")
    path = Path(folder or ".") / "PediaTypes" / "EN2FR-15K-V2-trans" / "train.txt"
    if folder and path.exists():
        return KnowledgeGraph.from_polars(pl.read_csv(path, separator=" ", has_header=False, infer_schema=False))
    print("ANYKG_DATA does not lead to EN-FR: a random graph of its size stands in.")
    random = generator(0, "stand-in")
    popular = 1 / (10 + np.arange(4962.0))
    ends = random.choice(4962, size=(2, 31_000), p=popular / popular.sum())
    triplets = np.stack([ends[0], random.integers(122, size=31_000), ends[1]], axis=1)
    return KnowledgeGraph(
        triplets, Vocabulary("entity", map(str, range(4962))), Vocabulary("relation", map(str, range(122)))
    )


def _best(run: Callable[[], object], repeats: int) -> float:
    run()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main() -> None:
    for name, value in measure().items():
        print(f"{name:45s} {value:12.6f}")


if __name__ == "__main__":
    main()
