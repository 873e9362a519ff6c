"""The batches of one epoch, drawn from (seed, epoch) alone, so that a resumed run draws the same ones.

Each batch has the message-passing graph, the targets, and the candidates that each target is ranked against. Batches
of several graphs are mixed as set by the recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from anykg.graph.graph import HEAD, TAIL, KnowledgeGraph
from anykg.graph.neighbourhood import neighbourhood
from anykg.graph.split import hold_out
from anykg.models.recipe import Recipe
from anykg.seeds import generator
from anykg.training.negatives import asked_column, corrupt
from anykg.training.spanning import resplit


class Batch(NamedTuple):
    """One optimiser step."""

    graph: KnowledgeGraph
    """The message-passing graph."""
    rows: np.ndarray  # [B, 1 + K, 3] each target and its negatives; K = 0 if it is ranked against everything
    known: KnowledgeGraph
    """All facts; other known answers do not count as wrong."""
    asks: Literal["rows", "tails", "relations"] = "rows"
    """Score the rows; all tails of each target's (head, relation); or all relations of its (head, tail)."""
    labels: np.ndarray | None = None  # bool [B]
    """Which rows [B, 1, 3] are targets, if targets and negatives are mixed."""

    @property
    def targets(self) -> np.ndarray:
        """The facts [G, 3] to be learned."""
        return self.rows[:, 0] if self.labels is None else self.rows[self.labels, 0]

    def part(self, rows: slice) -> Batch:
        """The batch with only some of its rows."""
        return self._replace(rows=self.rows[rows], labels=None if self.labels is None else self.labels[rows])

    def for_relations(self) -> Batch:
        """Predict the relations of the same targets instead."""
        targets = self.rows[:, :1]
        inverse = targets[..., 1:2] >= self.known.num_relations
        return self._replace(rows=np.where(inverse, self.known.inverted(targets), targets), asks="relations")


Draw = Callable[[], Batch]


def message_graph(graph: KnowledgeGraph, recipe: Recipe, seed: int) -> KnowledgeGraph:
    """The part of a training graph that the model sees in validation."""
    return _split_once(graph, recipe, seed)[0] if recipe.targets == "held-out" else graph


def draw_epoch(graphs: Sequence[KnowledgeGraph], recipe: Recipe, seed: int, epoch: int) -> list[Draw]:
    """The batches of an epoch in order, each drawn when called."""
    parts = [_part(graph, recipe, seed, epoch, index) for index, graph in enumerate(graphs)]
    by_graph = [_draws(part, recipe, seed, epoch, index) for index, part in enumerate(parts)]
    rng = generator(seed, "order", epoch)
    if recipe.mixture == "size":
        draws = [draw for part in by_graph for draw in part]
        order = rng.permutation(len(draws)) if len(graphs) > 1 else np.arange(len(draws))
        result = [draws[i] for i in order[: recipe.steps_per_epoch or None]]
    else:
        result = _mixed(graphs, by_graph, recipe, rng)
    if recipe.relation_every:
        first = recipe.relation_every - 1
        for step in range(first, len(result), recipe.relation_every):
            result[step] = partial(_for_relations, result[step])
    return result


def facts_between(graph: KnowledgeGraph, targets: np.ndarray) -> np.ndarray:
    """The targets [B, 3] and all facts that connect the same two entities in either direction: [F, 3]."""
    facts = [targets]
    for head, tail in ((0, 2), (2, 0)):
        between = graph.relations_between(targets[:, head], targets[:, tail])
        ends = targets[between.rows]
        facts.append(np.stack([ends[:, head], between.values, ends[:, tail]], axis=1))
    return np.concatenate(facts).astype(np.int64)


def _mixed(
    graphs: Sequence[KnowledgeGraph], by_graph: list[list[Draw]], recipe: Recipe, rng: np.random.Generator
) -> list[Draw]:
    """Draw a graph for every step, with probabilities that are not proportional to its number of targets."""
    sizes = np.array([len(graph) for graph in graphs], float)
    shares = np.sqrt(sizes) if recipe.mixture == "sqrt" else np.ones(len(graphs))
    chosen = rng.choice(len(graphs), recipe.steps_per_epoch or sum(map(len, by_graph)), p=shares / shares.sum())
    turns = np.zeros(len(graphs), int)
    result = []
    for index in chosen:
        part = by_graph[index]
        result.append(part[turns[index] % len(part)])  # a small graph may be used more than once
        turns[index] += 1
    return result


def _part(graph: KnowledgeGraph, recipe: Recipe, seed: int, epoch: int, index: int) -> KnowledgeGraph:
    """The graph of an epoch: all of it, or the neighbourhood of a random fact."""
    if not 0 < recipe.part_facts < len(graph):
        return graph
    random = generator(seed, "part", epoch, index)
    fact = graph.triplets[random.integers(len(graph))]
    if random.random() < recipe.whole_share:
        return graph
    return neighbourhood(graph, fact[[HEAD, TAIL]], (), recipe.part_facts).graph


def _draws(graph: KnowledgeGraph, recipe: Recipe, seed: int, epoch: int, index: int) -> list[Draw]:
    messages, targets = graph, graph.triplets
    if recipe.targets == "held-out":
        messages, targets = _split_once(graph, recipe, seed)
    elif recipe.targets == "resplit":
        messages, targets = resplit(graph, recipe.target_share, seed, epoch)
    targets = targets.astype(np.int64)
    if recipe.inverses:
        targets = np.concatenate([targets, graph.inverted(targets)])
    order = generator(seed, "targets", epoch, index).permutation(len(targets))
    size = recipe.batch_size or len(targets)
    if recipe.batch_nodes:
        size = min(size, max(recipe.batch_nodes // graph.num_entities, 1))
    parts = [order[start : start + size] for start in range(0, len(order), size)]
    draw = partial(_queries if _ranks_all(graph, recipe, size) else _with_negatives, graph, messages, recipe)
    if recipe.loss == "softmax" or recipe.sides == "halves":  # the sides depend on the batch, so each draws its own
        names = [("negatives", index, epoch, number) for number in range(len(parts))]
        return [partial(draw, targets[part], seed, name) for part, name in zip(parts, names, strict=True)]
    whole = draw(targets, seed, ("negatives", index, 0 if recipe.fixed_negatives else epoch))
    if recipe.batches == "relation":
        return _one_relation_each(whole, size, generator(seed, "rows", epoch, index))
    return [partial(Batch, messages, whole.rows[part], graph) for part in parts]


def _one_relation_each(whole: Batch, size: int, rng: np.random.Generator) -> list[Draw]:
    """Batches of rows of one relation, with as many rows as `size` targets and their negatives."""
    rows = whole.rows.reshape(-1, 3)
    labels = np.zeros(whole.rows.shape[:2], bool)
    labels[:, 0] = True
    shuffled = rng.permutation(len(rows))
    order = shuffled[np.argsort(rows[shuffled, 1], kind="stable")]
    ends = np.flatnonzero(np.diff(rows[order, 1], append=-1)) + 1
    limit = size * whole.rows.shape[1]
    parts = [part[i : i + limit] for part in np.split(order, ends[:-1]) for i in range(0, len(part), limit)]
    batches = [whole._replace(rows=rows[part, None], labels=labels.reshape(-1)[part]) for part in parts]
    return [partial(_given, batches[i]) for i in rng.permutation(len(batches))]


def _given(batch: Batch) -> Batch:
    return batch


def _ranks_all(graph: KnowledgeGraph, recipe: Recipe, size: int) -> bool:
    """Whether a batch ranks each target against all entities."""
    return recipe.loss == "softmax" and size * graph.num_entities <= recipe.softmax_bound


def _with_negatives(
    graph: KnowledgeGraph,
    messages: KnowledgeGraph,
    recipe: Recipe,
    targets: np.ndarray,
    seed: int,
    names: tuple[str | int, ...],
) -> Batch:
    """Targets with negatives."""
    negatives = corrupt(
        graph,
        targets,
        entities=recipe.negative_entities,
        relations=recipe.negative_relations,
        sides=recipe.sides,
        inverses=recipe.inverses,
        strict=recipe.strict,
        random=generator(seed, *names),
    )
    return Batch(messages, np.concatenate([targets[:, None], negatives], axis=1), graph)


def _queries(
    graph: KnowledgeGraph,
    messages: KnowledgeGraph,
    recipe: Recipe,
    targets: np.ndarray,
    seed: int,
    names: tuple[str | int, ...],
) -> Batch:
    """Targets inverted if necessary, so that the entity to predict is the tail."""
    column = asked_column(len(targets), recipe.sides, generator(seed, *names))
    turned = np.where((column == HEAD)[:, None], graph.inverted(targets), targets)
    return Batch(messages, turned[:, None], graph, "tails")


def _for_relations(draw: Draw) -> Batch:
    return draw().for_relations()


def _split_once(graph: KnowledgeGraph, recipe: Recipe, seed: int) -> tuple[KnowledgeGraph, np.ndarray]:
    rest, held = graph.derive(hold_out, recipe.target_share, seed, "targets")
    return rest, held.triplets
