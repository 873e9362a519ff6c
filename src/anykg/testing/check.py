"""The checks behind `check_model`. A check is a function that yields a message for every violation."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from traceback import extract_tb
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anykg.evaluation.symmetry import sample_triplets, separates, verify
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor, Symmetry
from anykg.models.folders import WEIGHTS_FILE
from anykg.models.store import load_tensors, restore, save_weights
from anykg.settings import from_json
from anykg.testing.graphs import COMPANY, DIFFERENT, ISOMORPHIC, TEAM, TURNED, ids, random_graph
from anykg.testing.other_device import other_device

TOLERANCE = 1e-4
"""Tolerance for rounding, relative for scores above 1."""
NOISE = 0.1
"""Noise added to every weight, relative to its scale: zero-initialised layers would make some checks vacuous."""


class ContractError(AssertionError):
    """A model violates its contract; `failures` has messages by check."""

    def __init__(self, model: str, failures: dict[str, list[str]]) -> None:
        lines = [f"  {check}: {sentence}" for check, sentences in failures.items() for sentence in sentences]
        super().__init__(f"{model} breaks the model contract:\n" + "\n".join(lines))
        self.model, self.failures = model, failures


@dataclass(frozen=True)
class Case:
    """The model class, config and graph under test."""

    model_class: type[LinkPredictor]
    config: Any
    seed: int

    def build(self, graph: KnowledgeGraph) -> LinkPredictor:
        """A model for the graph, ready to score, always with the same weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            model = self.model_class.build(self.config, graph)
            with torch.no_grad():
                for parameter in model.parameters():
                    usual = float(parameter.square().mean().sqrt()) or max(parameter.shape[-1:], default=1) ** -0.5
                    parameter.add_(NOISE * usual * torch.randn(parameter.shape))
        return model.eval()


def check_model(model: type[LinkPredictor], config: Any = None, *, seed: int = 0) -> None:
    """Raise `ContractError` with all violations of a model class with this config."""
    case = Case(model, model.Config() if config is None else config, seed)
    failures: dict[str, list[str]] = {}
    for name, check in CHECKS.items():
        try:
            found = list(check(case))
        except Exception as error:  # a model may fail in any way
            at = extract_tb(error.__traceback__)[-1]
            found = [f"raised {type(error).__name__}: {error} ({Path(at.filename).name}:{at.lineno})"]
        if found:
            failures[name] = found
    if failures:
        raise ContractError(model.__name__, failures)


def symmetry(case: Case) -> Iterator[str]:
    """The declared symmetry holds, also between two graphs."""
    model = case.build(TEAM)
    if not isinstance(getattr(model, "symmetry", None), Symmetry):
        yield "declares none; set `symmetry` to a member of anykg.Symmetry."
        return
    for seed in (case.seed, case.seed + 1):
        graph = random_graph(30, 5, 90, seed)
        verdict = verify(case.build(graph), graph, count=80, seed=seed)
        if not verdict.holds:
            unit = " standard errors" if verdict.symmetry is Symmetry.IN_EXPECTATION else ""
            yield (
                f"declared {str(verdict.symmetry)!r}, but relabelling {verdict.relabelled} moved a score by "
                f"{verdict.largest:.3g}{unit} (allowed {verdict.allowed:.3g}); does a score depend on an id?"
            )
            return
    if model.symmetry is Symmetry.EXACT:
        pair = [_score(model, graph, [ids(graph, t)]) for graph, t in zip((TEAM, COMPANY), ISOMORPHIC, strict=True)]
        if not _close(*pair):
            yield (
                "declared 'exact', but isomorphic triplets of two graphs score "
                f"{pair[0].item():.6g} and {pair[1].item():.6g}."
            )


def separation(case: Case) -> Iterator[str]:
    """Structurally different triplets get different scores, for the structure that the model claims to read."""
    model = case.build(TEAM)
    graph = random_graph(30, 5, 90, case.seed)
    rows = sample_triplets(graph, 40, np.random.default_rng(case.seed))
    if len(torch.unique(_score(case.build(graph), graph, rows))) == 1:
        yield "all triplets score alike."
        return
    head, tail = torch.tensor([0]), torch.tensor([1])
    with torch.no_grad():
        relations = model.score_relations(model.encode(TEAM), head, tail)
    if (len(torch.unique(relations)) > 1) != model.reads_relations:
        yield f"reads_relations is {model.reads_relations}, but relations score {relations[0].tolist()}."
    if not model.reads_relations:
        return
    for part, pairs in DIFFERENT.items():
        if not any(separates(model, TEAM, one, other) for one, other in pairs):
            listed = "; ".join(f"{one} and {other}" for one, other in pairs)
            yield f"triplets that differ in their {part} score alike, although no relabelling relates them: {listed}."
    if separates(model, TEAM, *TURNED) != model.reads_direction:
        yield f"reads_direction is {model.reads_direction}, but the scores of {TURNED[0]} and {TURNED[1]} disagree."


def leak(case: Case) -> Iterator[str]:
    """A target's training score does not depend on whether the target is a fact of the graph."""
    graph = random_graph(20, 3, 60, case.seed)
    model = case.build(graph)
    if not list(model.parameters()):
        return
    rows = _training_rows(graph, 6)
    rows[::2] = torch.from_numpy(graph.inverted(rows[::2].numpy()))
    for row in rows:
        with torch.no_grad():
            seen = model.training_scores(graph, row[None], case.seed)[0, 0]
            unseen = model.training_scores(graph.without(row[:1].numpy()), row[None], case.seed)[0, 0]
        if not _close(seen, unseen):
            yield (
                f"a target scores {seen.item():.6g} in training if it is in the graph and {unseen.item():.6g} if not; "
                "remove targets in training_scores, as the default does."
            )
            return
    if model.hides_facts:
        hidden = torch.from_numpy(graph.triplets[:15].astype(np.int64))
        with torch.no_grad():
            asked = model.training_scores(graph, rows, case.seed, hidden)
            expected = model.training_scores(graph.without(hidden.numpy()), rows, case.seed, hidden)
        if not _close(asked, expected):
            yield "training_scores shows facts given as `targets`; hide them, or set hides_facts = False."


def saving(case: Case) -> Iterator[str]:
    """Saving and loading config and weights preserves the scores."""
    graph = random_graph(20, 3, 60, case.seed)
    model = case.build(graph)
    rows = sample_triplets(graph, 20, np.random.default_rng(case.seed))
    with tempfile.TemporaryDirectory() as folder:
        save_weights(Path(folder), model, {})
        config = from_json(type(model.config), json.loads(json.dumps(asdict(model.config))))
        again = type(model)(config)
        restore(again, load_tensors(Path(folder) / WEIGHTS_FILE)[0], Path(folder) / WEIGHTS_FILE)
    if not torch.equal(_score(model, graph, rows), _score(again.eval(), graph, rows)):
        yield "scores change when config and weights are saved and loaded; is something kept outside of them?"


def pieces(case: Case) -> Iterator[str]:
    """A score depends neither on the method that computes it nor on the rest of the batch."""
    graph = random_graph(15, 4, 40, case.seed)
    model = case.build(graph)
    rows = torch.from_numpy(sample_triplets(graph, 12, np.random.default_rng(case.seed)))
    direct = rows[rows[:, 1] < graph.num_relations]
    some = torch.tensor([[3, 0, 14]]).expand(len(rows), -1)
    with torch.no_grad():
        encoded = model.encode(graph, case.seed)
        whole = model.score_triplets(encoded, rows)
        if whole.shape != (len(rows),) or not whole.is_floating_point():
            yield f"score_triplets of 12 rows gives {whole.dtype} of shape {list(whole.shape)}; expected 12 floats."
            return
        if not _close(torch.cat([model.score_triplets(encoded, row[None]) for row in rows]), whole):
            yield "score_triplets gives other scores for the same rows one by one."
        if model.score_triplets(encoded, rows[:0]).shape != (0,):
            yield "score_triplets of no rows must be an empty tensor."
        tails = model.score_tails(encoded, rows[:, 0], rows[:, 1])
        chosen = model.score_tails(encoded, rows[:, 0], rows[:, 1], some)
        relations = model.score_relations(encoded, direct[:, 0], direct[:, 2])
        if tails.shape != (len(rows), graph.num_entities) or relations.shape != (len(direct), graph.num_relations):
            yield f"score_tails and score_relations have shapes {list(tails.shape)} and {list(relations.shape)}."
            return
        if not _close(tails.gather(1, rows[:, 2:]).squeeze(1), whole):
            yield "score_tails disagrees with score_triplets."
        if not _close(tails.gather(1, some), chosen):
            yield "score_tails gives other scores for a selection of candidates."
        one_by_one = [model.score_relations(encoded, row[:1], row[2:]) for row in direct]
        if not _close(torch.cat(one_by_one), relations):
            yield "score_relations gives other scores for the same rows one by one."
        agrees = _close(relations.gather(1, direct[:, 1:2]).squeeze(1), model.score_triplets(encoded, direct))
        if not agrees and not model.relations_apart:
            yield "score_relations disagrees with score_triplets; set relations_apart = True if it is meant to."
        batch = _training_rows(graph, 6)
        if list(model.parameters()):
            together = model.training_scores(graph, batch, case.seed)
            parts = [model.training_scores(graph, part, case.seed, batch[:, 0]) for part in torch.split(batch, 2)]
            if not _close(torch.cat(parts), together):
                yield "training_scores gives other scores for a batch in parts, with `targets` of the whole batch."


def randomness(case: Case) -> Iterator[str]:
    """Equal seeds give equal scores, and no global generator is touched."""
    graph = random_graph(20, 3, 60, case.seed)
    model = case.build(graph)
    rows = sample_triplets(graph, 20, np.random.default_rng(case.seed))
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    first, second = (_score(model, graph, rows, case.seed) for _ in range(2))
    if not torch.equal(first, second):
        yield "scores differ between two calls with one seed; draw from the seed given to encode."
    after = torch.get_rng_state(), np.random.get_state()[1]  # type: ignore[index]  # noqa: NPY002
    if not (torch.equal(before[0], after[0]) and np.array_equal(before[1], after[1])):
        yield "scoring uses a global random generator; draw from the seed given to encode."


def sparse_graphs(case: Case) -> Iterator[str]:
    """Entities and relations without facts, and graphs without any, have finite scores."""
    graph = random_graph(10, 3, 12, case.seed)
    model = case.build(graph)
    for name, kept in (("two relations", graph.triplets[:, 1] == 0), ("everything", np.zeros(len(graph), bool))):
        left = graph.subset(kept)
        with torch.no_grad():
            scores = model.score_tails(model.encode(left), torch.tensor([9, 0]), torch.tensor([2, 5]))
        if not torch.isfinite(scores).all():
            yield f"scores are not finite after the facts of {name} were removed."


def gradients(case: Case) -> Iterator[str]:
    """Training scores have finite gradients, and not all are zero."""
    graph = random_graph(20, 3, 60, case.seed)
    model = case.build(graph).train()
    if not list(model.parameters()):
        return
    rows = _training_rows(graph, 6)
    scores = model.training_scores(graph, rows, case.seed)
    if scores.shape != rows.shape[:2]:
        yield f"training_scores of rows {list(rows.shape)} has shape {list(scores.shape)}."
        return
    scores.sum().backward()  # type: ignore[no-untyped-call]
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    if not any(bool((gradient != 0).any()) for gradient in gradients):
        yield "no parameter has a gradient."
    if not all(bool(torch.isfinite(gradient).all()) for gradient in gradients):
        yield "a gradient is not finite."


def devices(case: Case) -> Iterator[str]:
    """The model computes on the device of its weights; tested on a simulated device, and on CUDA if available."""
    with other_device() as device:
        yield from _on(case, device, "a device other than the CPU")
    if torch.cuda.is_available():
        yield from _on(case, "cuda", "CUDA")


def _on(case: Case, device: str, called: str) -> Iterator[str]:
    graph = random_graph(20, 3, 60, case.seed)
    rows = torch.from_numpy(sample_triplets(graph, 10, np.random.default_rng(case.seed)))
    model = case.build(graph)
    expected = _score(model, graph, rows.numpy())
    moved = model.to(device)
    with torch.no_grad():
        encoded = moved.encode(graph)
        scores = moved.score_triplets(encoded, rows.to(device))
        moved.score_tails(encoded, rows[:, 0].to(device), rows[:, 1].to(device))
    if not _close(scores.cpu(), expected):
        yield f"scores on {called} differ from those on the CPU."
    if list(model.parameters()):
        moved.training_scores(graph, _training_rows(graph, 4).to(device), case.seed).sum().backward()  # type: ignore[no-untyped-call]


CHECKS: dict[str, Callable[[Case], Iterator[str]]] = {
    "symmetry": symmetry,
    "separation": separation,
    "leak": leak,
    "saving": saving,
    "pieces": pieces,
    "randomness": randomness,
    "sparse graphs": sparse_graphs,
    "gradients": gradients,
    "devices": devices,
}
"""The checks of `check_model`, in order."""


def _score(model: LinkPredictor, graph: KnowledgeGraph, rows: Any, seed: int = 0) -> Tensor:
    with torch.no_grad():
        return model.score_triplets(model.encode(graph, seed), torch.as_tensor(rows))


def _close(found: Tensor, expected: Tensor) -> bool:
    return torch.allclose(found, expected, atol=TOLERANCE, rtol=TOLERANCE)


def _training_rows(graph: KnowledgeGraph, count: int) -> Tensor:
    """Facts with two corrupted tails each [B, 3, 3]."""
    facts = graph.triplets[np.linspace(0, len(graph) - 1, count).astype(int)].astype(np.int64)
    rows = torch.from_numpy(facts)[:, None].repeat(1, 3, 1)
    rows[:, 1, 2], rows[:, 2, 2] = 0, 7
    return rows
