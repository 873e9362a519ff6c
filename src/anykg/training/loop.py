"""The training loop: epochs, validation, early stopping, checkpoints, interruption and resumption.

Every random number comes from a generator named by epoch and step, so a run that is interrupted and resumed from
`last.safetensors` ends with exactly the weights of an uninterrupted one.
"""

from __future__ import annotations

import json
import signal
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from anykg.atomic import write_text
from anykg.errors import CheckpointError, ConfigError, Interrupted, SettingError
from anykg.evaluation.evaluate import evaluate
from anykg.evaluation.metrics import METRICS, summarise
from anykg.evaluation.protocol import PROTOCOLS
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.sketch import sketch
from anykg.models.base import LinkPredictor
from anykg.models.folders import MODEL_FILE
from anykg.models.recipe import Recipe
from anykg.models.store import load_tensors, restore, save_description, save_tensors, save_weights
from anykg.provenance import provenance
from anykg.seeds import derive
from anykg.threads import threads
from anykg.training.adam import Adam
from anykg.training.epoch import draw_epoch, message_graph
from anykg.training.step import learning_rate, optimizer_for, refuse_unsupported, repeatable, take_step
from anykg.training.workers import ALONE, WorkerLost, Workers

LAST_FILE, LOG_FILE = "last.safetensors", "log.jsonl"
SAVE_SECONDS = 60.0
"""Seconds between checkpoints: an upper bound on the training lost when the process is killed."""
SHOWN = 60
"""Maximum number of characters of a setting in messages; some are lists of hashes."""


class TrainingGraph(NamedTuple):
    """A graph to train on, and facts for validation."""

    name: str
    train: KnowledgeGraph
    valid: KnowledgeGraph


class Report(NamedTuple):
    """The values shown in a progress display after each step."""

    epoch: int
    step: int
    steps: int
    loss: float


OnStep = Callable[[Report], None]
OnEpoch = Callable[[dict[str, Any]], None]


@dataclass
class _State:
    """The training state besides weights and optimiser."""

    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    best: float | None = None
    stale: int = 0
    """Number of validations since the best one."""
    seconds: float = 0.0
    log: list[dict[str, Any]] = field(default_factory=list)


def train(
    name: str,
    model: LinkPredictor,
    graphs: Sequence[TrainingGraph],
    recipe: Recipe,
    *,
    out: Path,
    seed: int = 0,
    resume: bool = False,
    workers: Workers = ALONE,
    started_from: str | None = None,
    on_step: OnStep | None = None,
    on_epoch: OnEpoch | None = None,
) -> LinkPredictor:
    """Train, keep the best weights in `out`, and return the model with them.

    With several `workers`, each of them calls this with the same arguments. `started_from` describes the origin of the
    model's initial weights, if they are not random.
    """
    task, metric, sign = _selection(recipe)
    if recipe.epochs and not list(model.parameters()):
        raise ConfigError(f"{name} has no parameters: there is nothing to train.")
    refuse_unsupported(name, model, recipe)
    trained = {
        "datasets": [g.name for g in graphs],
        "digests": [[g.train.digest, g.valid.digest] for g in graphs],
        "config": asdict(model.config),
        "recipe": asdict(recipe),
        "seed": seed,
    } | ({"started_from": started_from} if started_from else {})
    optimizer = optimizer_for(model, recipe)
    state = _State()
    if workers.leads and (out / MODEL_FILE).exists() and not resume:
        raise ConfigError(
            f"{out}: already holds a model; pass resume=True to continue its training, or choose another folder."
        )
    if (out / LAST_FILE).exists():
        state = _resume(out / LAST_FILE, model, optimizer, trained)
    elif workers.leads:
        facts = [sketch(g.train) for g in graphs]
        save_description(out, name, model, trained | {"facts": facts, "made_with": provenance()})
        save_weights(out, model, {"epoch": 0})
    sources = [g.train for g in graphs]
    saved_at = started = time.monotonic() - state.seconds

    def save_last() -> None:
        state.seconds = time.monotonic() - started
        if not workers.leads:
            return
        save_tensors(out / LAST_FILE, _tensors(model, optimizer), {"state": asdict(state), "trained": trained})
        write_text(out / LOG_FILE, "".join(json.dumps(line) + "\n" for line in state.log))

    with _stop_requested() as stopped, repeatable():
        while state.epoch < recipe.epochs and not _exhausted(state, recipe):
            batches = draw_epoch(sources, recipe, seed, state.epoch)
            model.train()
            for step in range(state.step, len(batches)):
                batch, number = batches[step](), derive(seed, "step", state.epoch, step)
                done = (state.epoch + step / len(batches)) / recipe.epochs
                rate = learning_rate(recipe, state.epoch * len(batches) + step, done)
                try:
                    with threads(torch=1 if model.one_thread else None):
                        loss, stop = take_step(model, optimizer, rate, batch, recipe, number, workers, stopped())
                except WorkerLost as error:
                    save_last()  # the weights are those before the step
                    raise Interrupted(f"{error} Continue with resume=True, out='{out}'.") from error
                state.step, state.loss_sum = step + 1, state.loss_sum + loss
                if on_step:
                    on_step(Report(state.epoch, step + 1, len(batches), loss))
                stop = stop or (workers.size == 1 and stopped())
                if stop or time.monotonic() - saved_at > SAVE_SECONDS:
                    save_last()
                    saved_at = time.monotonic()
                if stop:
                    raise Interrupted(f"Stopped in epoch {state.epoch + 1}; continue with resume=True, out='{out}'.")
            record: dict[str, Any] = {"epoch": state.epoch + 1, "loss": state.loss_sum / max(len(batches), 1)}
            state.epoch, state.step, state.loss_sum = state.epoch + 1, 0, 0.0
            validated = state.epoch % recipe.validate_every == 0 or state.epoch == recipe.epochs
            if validated:
                value = workers.broadcast(
                    _validate(model, graphs, recipe, task, metric, seed) if workers.leads else None
                )
                if value is not None:
                    record[f"{task}/{metric}"] = value
                # Without validation the last weights are kept. Ties keep the most recent weights too: if validation is
                # too easy to distinguish them, longer training generalises better to other graphs.
                better = value is None or state.best is None or sign * value > sign * state.best
                if (better or value == state.best or recipe.checkpoint == "last") and workers.leads:
                    save_weights(out, model, record)
                state.best, state.stale = (value, 0) if better else (state.best, state.stale + 1)
            record["seconds"] = round(time.monotonic() - started, 3)
            state.log.append(record)
            stop = workers.size == 1 and stopped()  # several learn of it, all at once, from their next step
            if validated or stop or time.monotonic() - saved_at > SAVE_SECONDS:
                save_last()
                saved_at = time.monotonic()
            if on_epoch:
                on_epoch(record)
            if stop:
                raise Interrupted(f"Stopped after epoch {state.epoch}; continue with resume=True, out='{out}'.")
    workers.broadcast(None)  # the best weights are written
    best, _ = load_tensors(out / "weights.safetensors")
    restore(model, best, out / "weights.safetensors")
    return model.eval()


def _validate(
    model: LinkPredictor, graphs: Sequence[TrainingGraph], recipe: Recipe, task: str, metric: str, seed: int
) -> float | None:
    """The mean over the graphs that have validation facts to rank; None if none has."""
    values = []
    for graph in graphs:
        seen = message_graph(graph.train, recipe, seed)
        evaluation = evaluate(
            model,
            seen,
            graph.valid,
            task=task,  # type: ignore[arg-type]
            protocol=PROTOCOLS["paper"],
            limit=recipe.validation_limit or None,
            also_known=graph.train,
        )
        if len(evaluation.ranks):
            values.append(summarise(evaluation.ranks.by(evaluation.protocol.ties))[metric])
    return float(np.mean(values)) if values else None


def _selection(recipe: Recipe) -> tuple[str, str, int]:
    task, _, metric = recipe.select.partition("/")
    sign = -1 if metric.startswith("-") else 1
    metric = metric.removeprefix("-")
    if task not in ("node", "relation") or metric not in METRICS:
        raise SettingError(
            "select", f"expected node/METRIC or relation/METRIC of {', '.join(METRICS)}, found {recipe.select!r}"
        )
    return task, metric, sign


def _exhausted(state: _State, recipe: Recipe) -> bool:
    return recipe.patience > 0 and state.stale >= recipe.patience


def _tensors(model: LinkPredictor, optimizer: Adam) -> dict[str, Tensor]:
    """Save weights and optimiser state in one file, so that they are never from different steps."""
    kept = {"model": model.state_dict(), "optimizer": optimizer.tensors()}
    return {f"{part}.{key}": value for part, values in kept.items() for key, value in values.items()}


def _resume(path: Path, model: LinkPredictor, optimizer: Adam, trained: dict[str, Any]) -> _State:
    tensors, note = load_tensors(path)
    before, now = note.get("trained", {}), json.loads(json.dumps(trained))
    # The defaults of settings added later reproduce the earlier behaviour.
    before["config"] = asdict(type(model.config)()) | before.get("config", {})
    before["recipe"] = asdict(Recipe()) | before.get("recipe", {})
    if before != now:
        raise CheckpointError(f"{path}: was trained with other settings ({_changes(before, now)}); resume with those.")
    restore(model, _part(tensors, "model."), path)
    optimizer.load(_part(tensors, "optimizer."))
    return _State(**note["state"])


def _changes(before: dict[str, Any], now: dict[str, Any]) -> str:
    """The settings that differ, nested ones included."""
    changes = []
    for key in sorted(before.keys() | now.keys()):
        was, is_now = before.get(key), now.get(key)
        if isinstance(was, dict) and isinstance(is_now, dict) and was != is_now:
            changes.append(_changes(was, is_now))
        elif was != is_now:
            changes.append(f"{key} {_brief(was)}, not {_brief(is_now)}")
    return "; ".join(changes)


def _brief(value: Any) -> str:
    return textwrap.shorten(str(value).replace(",", ", "), SHOWN, placeholder=" ...")


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


@contextmanager
def _stop_requested() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C (or SIGTERM) into a request to stop after the current step; the second one interrupts."""
    asked = False

    def ask(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # signals can only be handled in the main thread
        before = {}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
