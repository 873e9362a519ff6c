"""One optimiser step: the facts masked from the model, the loss of the batch, and the update."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from anykg.errors import ConfigError
from anykg.models.base import LinkPredictor
from anykg.models.recipe import Recipe
from anykg.seeds import generator
from anykg.training.adam import Adam
from anykg.training.epoch import Batch, facts_between
from anykg.training.losses import labelled, loss_of, softmax
from anykg.training.workers import ALONE, Workers


def refuse_unsupported(name: str, model: LinkPredictor, recipe: Recipe) -> None:
    """Raise for a recipe with a setting that the model would ignore."""
    for setting in ("hide_pairs", "hide"):
        if getattr(recipe, setting) and not model.hides_facts:
            raise ConfigError(
                f"{setting} must be 0 for {name}, which hides a target's own fact and no others; found "
                f"{getattr(recipe, setting)}."
            )
    if recipe.negative_relations and not model.reads_relations:
        raise ConfigError(
            f"negative_relations must be 0 for {name}, which scores every relation alike; found "
            f"{recipe.negative_relations}."
        )
    if recipe.loss == "softmax" and type(model).training_tail_scores is LinkPredictor.training_tail_scores:
        raise ConfigError(
            f"loss = softmax is not available for {name}, which does not score all entities in one pass; "
            f"its own loss is {model.recipe.loss}."
        )
    if recipe.loss == "softmax" and recipe.negative_relations:
        raise ConfigError("negative_relations must be 0 with loss = softmax; relation_every trains relation answers.")
    if recipe.relation_every and not model.relations_apart:
        raise ConfigError(f"relation_every must be 0 for {name}, which has no network of its own for relations.")


def optimizer_for(model: LinkPredictor, recipe: Recipe) -> Adam:
    """The optimiser given by the recipe."""
    return Adam(model.parameters(), weight_decay=recipe.weight_decay, decoupled=recipe.optimizer == "adamw")


def learning_rate(recipe: Recipe, step: int, done: float) -> float:
    """The learning rate of a step, counted from 0, after a fraction `done` of the training."""
    rate = recipe.lr * (1 - done) if recipe.schedule == "linear" else recipe.lr
    return rate * min(1.0, (step + 1) / recipe.warmup) if recipe.warmup else rate


def take_step(
    model: LinkPredictor,
    optimizer: Adam,
    rate: float,
    batch: Batch,
    recipe: Recipe,
    seed: int,
    workers: Workers = ALONE,
    stopped: bool = False,
) -> tuple[float, bool]:
    """Update the weights; return the loss of the whole batch and whether any worker was asked to stop."""
    device = next(model.parameters()).device
    shares = workers.shares(len(batch.rows), recipe.pieces)
    hidden = hidden_facts(batch, recipe, seed, whole=len(shares) == workers.size == 1)
    value = torch.zeros((), device=device)
    for share in shares:
        part = batch_loss(model, batch.part(share), recipe, seed, hidden)
        loss = part * ((share.stop - share.start) / len(batch.rows))  # losses are means over rows
        loss.backward()
        value += loss.detach()
    asked = torch.tensor(float(stopped), device=device)
    if workers.size > 1:
        for parameter in model.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        workers.add_up([*(p.grad for p in model.parameters() if p.grad is not None), value, asked])
    if recipe.gradient_norm:
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.gradient_norm)
    optimizer.step(rate)
    if not np.isfinite(value.item()):
        raise ConfigError(f"The loss became {value.item()}; lower the learning rate (now {recipe.lr}).")
    return value.item(), bool(asked.item())


def hidden_facts(batch: Batch, recipe: Recipe, seed: int, *, whole: bool) -> np.ndarray | None:
    """Facts [G, 3] to remove from the graph; None if they are just the targets of an unsplit batch."""
    targets = batch.targets
    hidden = [targets]
    if recipe.hide_pairs and generator(seed, "hide pairs").random() < recipe.hide_pairs:
        hidden = [facts_between(batch.graph, targets)]
    if recipe.hide:
        rng = generator(seed, "hide")
        share = rng.random() * recipe.hide
        hidden.append(batch.graph.triplets[rng.random(len(batch.graph)) < share].astype(np.int64))
    if whole and len(hidden) == 1 and hidden[0] is targets:
        return None
    return np.concatenate(hidden)


def batch_loss(model: LinkPredictor, batch: Batch, recipe: Recipe, seed: int, hidden: np.ndarray | None) -> Tensor:
    """The mean loss of a batch's rows; `hidden` are facts to remove, by default its targets."""
    device = next(model.parameters()).device
    rows = torch.from_numpy(batch.rows).to(device)
    if batch.asks == "rows":
        targets = None if hidden is None else torch.from_numpy(hidden).to(device)
        labels = None if batch.labels is None else torch.from_numpy(batch.labels).to(device)
        loss = model.compiled_loss(batch.graph, rows, recipe, targets, labels)
        if loss is not None:
            return loss
        scores = model.training_scores(batch.graph, rows, seed, targets)
        return loss_of(scores, recipe) if labels is None else labelled(scores[:, 0], labels, recipe.positive_weight)
    heads, relations, tails = batch.rows[:, 0].T
    target, removed = rows[:, 0], rows[:, 0] if hidden is None else torch.from_numpy(hidden).to(device)
    if batch.asks == "tails":
        scores, answers = model.training_tail_scores(batch.graph, target[:, :2], removed), target[:, 2]
        known = batch.known.answers(heads, relations)
    else:
        scores, answers = model.training_relation_scores(batch.graph, target[:, [0, 2]], removed), target[:, 1]
        known = batch.known.relations_between(heads, tails)
    columns = torch.from_numpy(known.values.astype(np.int64)).to(device)
    return softmax(scores, answers, (torch.from_numpy(known.rows).to(device), columns))


@contextmanager
def repeatable() -> Iterator[None]:
    """Make torch accumulate gradients of equal indices in a fixed order, with a warning if that is not possible."""
    mode, memory = torch.get_deterministic_debug_mode(), cast(Any, torch.utils.deterministic)
    fill, memory.fill_uninitialized_memory = memory.fill_uninitialized_memory, False  # it is slow, and not needed here
    torch.set_deterministic_debug_mode("warn")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        memory.fill_uninitialized_memory = fill
