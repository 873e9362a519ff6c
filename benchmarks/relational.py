"""The kernels of Ultra and TRIX against plain torch (gather, multiply, index_add) in the same run.

Forward: 16 tail queries scored against all entities, relation vectors included. Training: scores, loss and gradients
of 16 targets, for Ultra with 256 negatives each, for TRIX with softmax over all entities. The plain form of TRIX has
the explicit graph of relations: every two relations that meet in an entity, listed once beforehand. TRIX is also
compared with Ultra at its own width, and 16 questions for a relation with Ultra's answers to them, one pass for each
relation.

Times are the best of several, in seconds; memory is the peak of a fresh process above what it held before. Each is
timed in a process of its own, since the gigabytes that the training of the reference leaves with the allocator more
than halve the time of its forward, which then need not ask the system for memory: that case is printed too. The graph
is the inference graph of EN-FR if ANYKG_DATA names the folder of the benchmarks, else a random one of the same size
(4,933 entities, 48,330 edges with inverses). Each work is also timed beside one busy process (`benchmarks.busy`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.models.base import LinkPredictor
from anykg.models.nbf import fast, reference, trix
from anykg.models.nbf.relation_graph import entity_graph
from anykg.models.nbf.trix import TRIX
from anykg.models.nbf.ultra import Ultra, UltraConfig
from anykg.seeds import generator
from anykg.training.losses import self_adversarial, softmax
from benchmarks.busy import alone_and_busy
from benchmarks.fresh import in_fresh_process

QUERIES, NEGATIVES, WIDTH, LAYERS = 16, 256, 64, 6
TRIX_WIDTH = 32
ROUNDS = 4


def measure() -> dict[str, float]:
    """Seconds, ratios, MiB, and the share of the matrix products' rate that the whole forward reaches."""
    entities = _graph().num_entities
    rate = _product_rate(entities)
    products = 2 * QUERIES * entities * 2 * WIDTH * WIDTH * (LAYERS + 1)  # the read-out counts as a layer
    result = {}
    for name in ("forward", "training", "trix_forward", "trix_training"):
        ours, theirs = in_fresh_process(_times, name)
        memory = in_fresh_process(_peak, name, False), in_fresh_process(_peak, name, True)
        result |= {
            f"{name}_seconds": ours,
            f"{name}_reference_seconds": theirs,
            f"{name}_ratio": theirs / ours,
            f"{name}_mib": memory[0],
            f"{name}_reference_mib": memory[1],
            f"{name}_memory_share": memory[0] / memory[1],
        }
    ours, theirs = in_fresh_process(_times, "forward", "training")
    result["forward_after_training_ratio"] = theirs / ours
    for name in ("forward", "training", "relations"):
        trix, ultra = in_fresh_process(_compared, f"trix_{name}", f"narrow_{name}")
        result |= {
            f"trix_{name}_beside_ultra_seconds": trix,
            f"ultra_{name}_at_that_width_seconds": ultra,
            f"trix_{name}_times_ultra": trix / ultra,
        }
    for name in ("forward", "training", "trix_forward", "trix_training"):
        result |= {f"{name}_{key}": value for key, value in alone_and_busy(_work, name).items()}
    return result | {
        "product_gflops": rate / 1e9,
        "forward_share_of_product_rate": products / result["forward_seconds"] / rate,
    }


def _work(name: str) -> Callable[[], object]:
    return WORKS[name](_graph())


def _times(name: str, before: str | None = None) -> tuple[float, float]:
    """Best seconds of kernels and reference, taken in turns and equally often: neither has the quieter machine."""
    graph = _graph()
    work = WORKS[name](graph)
    work()  # compiles
    if before is not None:
        with _reference(graph):
            WORKS[before](graph)()
    ours = theirs = float("inf")
    for _ in range(ROUNDS):
        ours = min(ours, _best(work, 1))
        with _reference(graph):
            theirs = min(theirs, _best(work, 1))
    return ours, theirs


def _compared(one: str, other: str) -> tuple[float, float]:
    """Best seconds of two works, taken in turns."""
    graph = _graph()
    works = [WORKS[name](graph) for name in (one, other)]
    best = [float("inf")] * 2
    for _ in range(1 + 3 * ROUNDS):  # the first compiles
        best = [min(time_, _best(work, 1)) for time_, work in zip(best, works, strict=True)]
    return best[0], best[1]


def _ultra(width: int = WIDTH) -> Ultra:
    torch.manual_seed(0)
    return Ultra(UltraConfig(width=width)).eval()


def _trix() -> TRIX:
    torch.manual_seed(0)
    return TRIX().eval()


def _facts(graph: KnowledgeGraph) -> torch.Tensor:
    return torch.from_numpy(generator(0, "queries").permutation(graph.triplets)[:QUERIES].astype(np.int64))


def _forward(model: LinkPredictor, graph: KnowledgeGraph) -> Callable[[], object]:
    chosen = _facts(graph)

    @torch.no_grad()
    def work() -> object:
        return model.score_tails(model.encode(graph), chosen[:, 0], chosen[:, 1])

    return work


def _relations(model: LinkPredictor, graph: KnowledgeGraph) -> Callable[[], object]:
    chosen = _facts(graph)

    @torch.no_grad()
    def work() -> object:
        return model.score_relations(model.encode(graph), chosen[:, 0], chosen[:, 2])

    return work


def _training(model: LinkPredictor, graph: KnowledgeGraph) -> Callable[[], object]:
    random = generator(0, "targets")
    targets = random.permutation(graph.triplets)[:QUERIES].astype(np.int64)
    rows = np.repeat(targets[:, None], 1 + NEGATIVES, axis=1)
    half = QUERIES // 2
    rows[:half, 1:, 2] = random.integers(graph.num_entities, size=(half, NEGATIVES))
    rows[half:, 1:, 0] = random.integers(graph.num_entities, size=(QUERIES - half, NEGATIVES))
    batch = torch.from_numpy(rows)

    def work() -> object:
        model.zero_grad()
        self_adversarial(model.training_scores(graph, batch, 0)).backward()
        return None

    return work


def _softmax_training(model: LinkPredictor, graph: KnowledgeGraph) -> Callable[[], object]:
    chosen = _facts(graph)

    def work() -> object:
        model.zero_grad()
        softmax(model.training_tail_scores(graph, chosen[:, :2], chosen), chosen[:, 2]).backward()
        return None

    return work


WORKS: dict[str, Callable[[KnowledgeGraph], Callable[[], object]]] = {
    "forward": lambda graph: _forward(_ultra(), graph),
    "training": lambda graph: _training(_ultra(), graph),
    "trix_forward": lambda graph: _forward(_trix(), graph),
    "trix_training": lambda graph: _softmax_training(_trix(), graph),
    "trix_relations": lambda graph: _relations(_trix(), graph),
    "narrow_forward": lambda graph: _forward(_ultra(TRIX_WIDTH), graph),
    "narrow_training": lambda graph: _softmax_training(_ultra(TRIX_WIDTH), graph),
    "narrow_relations": lambda graph: _relations(_ultra(TRIX_WIDTH), graph),
}


@contextmanager
def _reference(graph: KnowledgeGraph) -> Iterator[None]:
    """Plain torch; all links between relations are listed once, and masks do not change them."""
    links = graph.derive(_links)
    with (
        patch.object(fast, "kernels_apply", lambda states: False),
        patch.object(trix, "relation_messages", reference.relation_messages),
        patch.object(trix, "relation_update", reference.relation_update),
        patch.object(reference, "relation_links", lambda edges, keep=None: links),
    ):
        yield


def _links(graph: KnowledgeGraph) -> reference.Links:
    return reference.relation_links(graph.derive(entity_graph))


def _peak(name: str, plain: bool) -> float:
    """MiB that one step needs above what the process held before it."""
    graph = _graph()
    small = KnowledgeGraph(graph.triplets[:100], graph.entities, graph.relations)
    WORKS[name](small)()  # load what is compiled
    work = WORKS[name](graph)
    graph.derive(_links)
    before = _status("VmRSS")
    with _reference(graph) if plain else nullcontext():
        work()
    return max(_status("VmHWM") - before, 0.0)


def _status(field: str) -> float:
    """MiB of a field of this process; a child's ru_maxrss would count what its parent held when it was started."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(field))) / 1024


def _product_rate(entities: int) -> float:
    """Operations a second of torch's own product [N, 2D] x [2D, D]."""
    left, right = torch.randn(entities, 2 * WIDTH), torch.randn(2 * WIDTH, WIDTH)
    out = torch.empty(entities, WIDTH)
    return 2 * left.numel() * WIDTH / _best(lambda: torch.mm(left, right, out=out), 50)


def _graph() -> KnowledgeGraph:
    folder = os.environ.get("ANYKG_DATA")
    path = Path(folder or "") / "PediaTypes" / "EN2FR-15K-V2-ind" / "observe.txt"
    if folder and path.exists():
        return KnowledgeGraph.from_names(*zip(*(line.split() for line in path.read_text().splitlines()), strict=True))
    random = generator(0, "graph")
    columns = [random.integers(size, size=24_165) for size in (4_933, 200, 4_933)]
    names = (Vocabulary("entity", map(str, range(4_933))), Vocabulary("relation", map(str, range(200))))
    return KnowledgeGraph(np.stack(columns, axis=1), *names)


def _best(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print the figures."""
    for name, value in measure().items():
        print(f"{name:32s} {value:10.3f}")


if __name__ == "__main__":
    main()
