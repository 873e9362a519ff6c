"""Train a model a little further on one graph, and keep that only if it helps.

A tenth of the graph's facts (at most 1,000) is hidden: one half chooses among the weights of the training, the other
half, which nothing was chosen by, compares the result with the original. The training has a folder of its own inside
the one that is asked for, which holds a model only when that comparison is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from anykg.atomic import write_json
from anykg.errors import ConfigError, DataError
from anykg.evaluation.evaluate import evaluate
from anykg.evaluation.metrics import summarise
from anykg.evaluation.protocol import PROTOCOLS
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.split import hold_out
from anykg.models.base import LinkPredictor
from anykg.models.recipe import Recipe
from anykg.models.store import MODEL_FILE, WEIGHTS_FILE, load_tensors, read_description, restore, save_weights
from anykg.seeds import stream
from anykg.training.loop import OnEpoch, Report, TrainingGraph, train

SHARE, MOST = 0.1, 1000
"""Of the facts, hidden; and at most so many."""
WORK_FOLDER = "training"
STEPS = 50
"""Between two validations."""
LEARNING_RATE = 5e-4

OnTime = Callable[[float, float], None]


@dataclass(frozen=True)
class Outcome:
    """What came of it: MRR on hidden facts before and after, all entities ranked."""

    before: float
    after: float
    facts: int
    """How many the comparison is over."""
    steps: int

    @property
    def better(self) -> bool:
        """Whether the new weights were kept."""
        return self.after > self.before


class _TimeIsUp(Exception):
    """The budget is spent."""


def recipe_for(model: LinkPredictor) -> Recipe:
    """The model's own recipe in small portions, at a rate that does not wash out what it knows."""
    whole = model.recipe.batch_size == 0  # an epoch is one step
    return replace(
        model.recipe,
        epochs=1_000_000,  # time ends it
        steps_per_epoch=STEPS,
        validate_every=STEPS if whole else 1,
        lr=min(model.recipe.lr, LEARNING_RATE),
        validation_limit=200,
        patience=0,
    )


def finetune(
    name: str,
    model: LinkPredictor,
    graph: KnowledgeGraph,
    *,
    out: Path,
    minutes: float,
    called: str = "graph",
    started_from: str = "",
    seed: int = 0,
    resume: bool = False,
    on_time: OnTime | None = None,
    on_epoch: OnEpoch | None = None,
) -> Outcome:
    """Train `model` (registered as `name`) on a graph for so many minutes; `out` then holds the better weights.

    Args:
        name: The model's name in the registry.
        model: The model; it ends with the weights that are kept.
        graph: Its facts are the targets.
        out: The folder to write to.
        minutes: How long to train.
        called: What to call the graph in `model.json`.
        started_from: What to call the model there; a training that another one began is not resumed.
        seed: Everything random follows from it.
        resume: Go on with a training that was stopped.
        on_time: Told (seconds spent, seconds in all) after each step.
        on_epoch: Told the figures of each validation.
    """
    if minutes <= 0:
        raise ConfigError(f"--minutes: expected more than 0, found {minutes}.")
    if (out / MODEL_FILE).exists() and not resume:
        raise ConfigError(f"{out}: holds a model already; pass --resume to go on with its training, or another --out.")
    rest, choosing, comparing = hidden_facts(graph, seed)
    work = out / WORK_FOLDER
    original = {key: value.clone() for key, value in model.state_dict().items()}
    before = _mrr(model, rest, comparing, choosing)
    started, steps = time.monotonic(), 0

    def count(report: Report) -> None:
        nonlocal steps
        steps = report.epoch * report.steps + report.step
        spent = time.monotonic() - started
        if on_time:
            on_time(spent, 60 * minutes)
        if spent > 60 * minutes:
            raise _TimeIsUp

    graphs = [TrainingGraph(called, rest, choosing)]
    try:
        train(
            name,
            model,
            graphs,
            recipe_for(model),
            out=work,
            seed=seed,
            resume=resume,
            started_from=started_from,
            on_step=count,
            on_epoch=on_epoch,
        )
    except _TimeIsUp:
        restore(model, load_tensors(work / WEIGHTS_FILE)[0], work / WEIGHTS_FILE)
    outcome = Outcome(before, _mrr(model.eval(), rest, comparing, choosing), len(comparing), steps)
    if not outcome.better:
        model.load_state_dict(original)
    save_weights(out, model, {"before": outcome.before, "after": outcome.after, "kept": outcome.better})
    write_json(out / MODEL_FILE, read_description(work))
    return outcome


def hidden_facts(graph: KnowledgeGraph, seed: int) -> tuple[KnowledgeGraph, KnowledgeGraph, KnowledgeGraph]:
    """What is left to train on, facts to choose weights by, and facts to compare by."""
    rest, hidden = hold_out(graph, min(SHARE, MOST / max(len(graph), 1)), seed, "finetune")
    if len(hidden) < 2:
        raise DataError(
            f"Only {len(hidden)} of the {len(graph)} facts can be hidden without leaving an entity or a relation "
            "without any, too few to tell whether training helps; use the model as it is."
        )
    first = np.zeros(len(hidden), bool)
    first[stream(seed, "finetune", "halves").permutation(len(hidden))[: len(hidden) // 2]] = True
    return rest, hidden.subset(first), hidden.subset(~first)


def _mrr(model: LinkPredictor, rest: KnowledgeGraph, facts: KnowledgeGraph, also_known: KnowledgeGraph) -> float:
    result = evaluate(model, rest, facts, task="node", protocol=PROTOCOLS["full"], also_known=also_known)
    return summarise(result.ranks.by(result.protocol.ties))["mrr"]
