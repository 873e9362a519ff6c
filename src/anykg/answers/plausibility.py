"""Estimate how plausible the known facts of a graph are, each judged by the others.

The facts are hidden in folds. On the rest of the graph ComplEx is fitted, rules are mined and the schema is computed;
each gives features of how well it predicts a hidden fact, from either end. A small network turns the features into the
odds that a fact is right: it is trained to distinguish hidden facts from the same facts with one end redrawn among
entities of the same kind, so no labels are needed. It never judges a fold it was trained on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from anykg.answers.work import Arrays, Store, Subject, results
from anykg.cluster import Cluster
from anykg.evaluation.scoring import encode
from anykg.graph.graph import HEAD, RELATION, TAIL, KnowledgeGraph
from anykg.graph.schema import Kinds, entity_kinds
from anykg.models.base import LinkPredictor
from anykg.models.complex.complex import ComplExConfig
from anykg.models.complex.fit import fit_complex
from anykg.models.rulebook import fit_rulebook
from anykg.models.schema import SchemaModel
from anykg.progress import Progress, after, ignore
from anykg.rules.kernels.joins import Adjacency, adjacency, connections
from anykg.seeds import generator, torch_generator

SCORES_AT_ONCE = 1 << 22
NO_BETTER = -1
TRIES = 50
"""Draws of another entity before a fact is left unchanged."""
WALKS = 100
"""Upper bound on the facts of an entity that are followed to find how two entities are connected."""
EPOCHS = 12
WIDTH = 32
RELATION_WIDTH = 8
STEPS = 3
"""Steps of a fold: fit ComplEx, mine rules, compute features."""


class Effort(NamedTuple):
    """The amount of work per fold."""

    complex_seconds: float | None
    rules_seconds: float | None
    """None for a fixed number of passes and rounds: the result then depends on the seed alone."""
    negatives: int
    """Facts of the fold that are also corrupted, twice each, as training data."""
    epochs: int = 1000
    """Passes of ComplEx, at most."""


@dataclass(frozen=True, eq=False)
class Plausibility:
    """The facts of a graph [E] and how well the rest predicts them."""

    log_odds: np.ndarray  # float32 [E] that a fact is right
    ranks: np.ndarray  # float32 [E, 2] of the tail and of the head among all entities, by ComplEx
    expected: np.ndarray  # int64 [E, 2] the best other tail and head, NO_BETTER where the fact's own is first
    fits: np.ndarray  # float32 [E, 3] log-likelihoods of the schema: head, tail, direction


@dataclass(frozen=True, eq=False)
class _Models:
    """The models fitted to the rest of a fold."""

    graph: KnowledgeGraph
    scorers: list[tuple[LinkPredictor, Any]]
    schema: SchemaModel
    encoded_schema: Any
    degrees: np.ndarray
    adjacent: Adjacency


class _Fold(NamedTuple):
    """The features of one fold."""

    rows: np.ndarray
    figures: np.ndarray
    ranks: np.ndarray
    expected: np.ndarray
    fits: np.ndarray
    false_figures: np.ndarray
    false_relations: np.ndarray
    relations: np.ndarray


class _Folds(NamedTuple):
    """Data shared by all folds."""

    folds: int
    effort: Effort
    seed: int


def plausibility(
    graph: KnowledgeGraph,
    *,
    folds: int,
    effort: Effort,
    seed: int = 0,
    cluster: Cluster | None = None,
    progress: Progress = ignore,
) -> Plausibility:
    """Judge every fact of a graph by the others, hiding the facts in `folds` parts.

    Finished folds are cached until all are done.
    """
    steps = folds * STEPS + 1
    subject, common = Subject(graph), _Folds(folds, effort, seed)
    store = Store("audit", graph.digest, common)
    parts = [(number,) for number in range(folds)]
    answers = results(fold_part, subject, parts, common=common, cluster=cluster, store=store)
    folds_done = []
    for number in range(folds):
        subject.progress = after(progress, STEPS * number, steps)
        progress(STEPS * number, steps)
        folds_done.append(_Fold(**next(answers)))
    progress(steps - 1, steps)
    log_odds = _judged(graph, folds_done, seed)
    whole = {
        name: np.concatenate([getattr(fold, name) for fold in folds_done])
        for name in ("rows", "ranks", "expected", "fits")
    }
    back = np.argsort(whole["rows"])
    progress(steps, steps)
    return Plausibility(log_odds, *(whole[name][back] for name in ("ranks", "expected", "fits")))


def fold_part(subject: Subject, common: _Folds, number: int) -> Arrays:
    """Hide a fold, fit to the rest, and compute the features of the fold."""
    graph, (folds, effort, seed) = subject.graph, common
    rows = np.sort(generator(seed, "audit").permutation(len(graph))[number::folds])
    models = _fitted(graph, rows, effort, seed, subject.progress)
    kinds = graph.derive(entity_kinds)
    return _figures_of_fold(graph, kinds, models, rows, effort, generator(seed, "corrupt", number))._asdict()


def corrupted(
    graph: KnowledgeGraph, facts: np.ndarray, kinds: Kinds, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Facts [F, 3] with one end redrawn among entities of the same kind, and which of them are new [F]."""
    order = np.argsort(kinds.of_entity, kind="stable")
    sorted_kinds = kinds.of_entity[order]
    result, column = facts.astype(np.int64).copy(), 2 * rng.integers(2, size=len(facts))
    left = np.arange(len(facts))
    for _ in range(TRIES):
        kind = kinds.of_entity[facts[left, column[left]]]
        low, high = (np.searchsorted(sorted_kinds, kind, side=side) for side in ("left", "right"))
        drawn = order[low + (rng.random(len(left)) * (high - low)).astype(np.int64)]
        tried = facts[left].astype(np.int64)
        tried[np.arange(len(left)), column[left]] = drawn
        new = ~graph.contains(tried) & (tried[:, HEAD] != tried[:, TAIL])
        result[left[new]] = tried[new]
        left = left[~new]
        if not len(left):
            break
    done = np.ones(len(facts), bool)
    done[left] = False
    return result, done


def _fitted(graph: KnowledgeGraph, rows: np.ndarray, effort: Effort, seed: int, progress: Progress) -> _Models:
    rest = graph.without(graph.triplets[rows])
    vectors = fit_complex(rest, config=ComplExConfig(epochs=effort.epochs), seconds=effort.complex_seconds, seed=seed)
    progress(1, STEPS)
    book = fit_rulebook(rest, effort.rules_seconds, seed)
    progress(2, STEPS)
    schema = SchemaModel().eval()
    degrees = np.bincount(rest.triplets[:, [HEAD, TAIL]].ravel(), minlength=graph.num_entities)
    scorers: list[tuple[LinkPredictor, Any]] = [(model, encode(model, rest)) for model in (vectors, book)]
    return _Models(rest, scorers, schema, encode(schema, rest), degrees, adjacency(rest))


def _figures_of_fold(
    graph: KnowledgeGraph, kinds: Kinds, models: _Models, rows: np.ndarray, effort: Effort, rng: np.random.Generator
) -> _Fold:
    facts = graph.triplets[rows].astype(np.int64)
    figures, ranks, expected, fits = _figures(graph, models, facts)
    some = facts[rng.permutation(len(facts))[: effort.negatives]]
    false, new = corrupted(graph, np.repeat(some, 2, axis=0), kinds, rng)
    false = false[new]
    return _Fold(
        rows, figures, ranks, expected, fits, _figures(graph, models, false)[0], false[:, RELATION], facts[:, RELATION]
    )


def _figures(
    graph: KnowledgeGraph, models: _Models, facts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features [F, K] of facts [F, 3]; also ranks [F, 2], the best other answers [F, 2] and schema fits [F, 3]."""
    heads, relations, tails = facts.T
    columns: list[np.ndarray] = []
    ranks, expected = np.empty((len(facts), 2), np.float32), np.empty((len(facts), 2), np.int64)
    for number, (model, encoded) in enumerate(models.scorers):
        for side, turned in enumerate((facts, graph.inverted(facts))):
            found = _from_one_end(graph, model, encoded, turned)
            columns += [found.score, found.relative, np.log1p(found.better)]
            if number == 0:
                ranks[:, side], expected[:, side] = 1 + found.better, found.best
    columns.append(_relation_score(*models.scorers[0], facts))
    schema, r = models.encoded_schema, graph.num_relations
    fits = np.empty((len(facts), 3), np.float32)
    for relation in np.unique(relations):
        mine = relations == relation
        fits[mine, 0] = schema.fits(heads[mine], int(relation))
        fits[mine, 1] = schema.fits(tails[mine], int(relation) + r)
    fits[:, 2] = models.schema.direction(schema, facts)
    columns += [*fits.T]
    counts = (
        schema.known(heads, relations),
        schema.known(tails, relations + r),
        schema.facts[relations],
        models.degrees[heads],
        models.degrees[tails],
    )
    columns += [np.log1p(count) for count in counts]
    joined = connections(models.adjacent, facts[:, [HEAD, TAIL]], WALKS, generator(0, "connections"))
    columns += [*np.log1p(joined.T)]
    return np.stack(columns, axis=1).astype(np.float32), ranks, expected, fits


class _OneEnd(NamedTuple):
    """Predictions of the tails of facts [F]."""

    score: np.ndarray
    relative: np.ndarray
    """Log-probability among the answers that are not known."""
    better: np.ndarray
    """Unknown answers that score higher; ties count half."""
    best: np.ndarray
    """The best of them, NO_BETTER if there is none."""


@torch.no_grad()
def _from_one_end(graph: KnowledgeGraph, model: LinkPredictor, encoded: Any, facts: np.ndarray) -> _OneEnd:
    parts = np.empty((3, len(facts)), np.float32)
    best = np.empty(len(facts), np.int64)
    for rows, heads, relations, query in _chunks(facts, graph.num_entities):
        scores = model.score_tails(encoded, torch.from_numpy(heads), torch.from_numpy(relations)).float()
        known = graph.answers(heads, relations)
        open_scores = scores.clone()
        open_scores[torch.from_numpy(known.rows), torch.from_numpy(known.values.astype(np.int64))] = -torch.inf
        which, tails = torch.from_numpy(query), torch.from_numpy(facts[rows, 2])
        own = scores[which, tails]
        highest, leading = open_scores.max(1)
        total = torch.logsumexp(open_scores, 1)[which]
        parts[0, rows] = own.numpy()
        parts[1, rows] = (own - torch.logaddexp(total, own)).numpy()
        parts[2, rows] = _better(open_scores, which, own)
        best[rows] = torch.where(highest[which] > own, leading[which], NO_BETTER).numpy()
    return _OneEnd(parts[0], parts[1], parts[2], best)


def _better(scores: Tensor, which: Tensor, own: Tensor) -> np.ndarray:
    """How many of the scores [B, N] of its query are above each fact's own [A]."""
    order = torch.sort(scores, 1).values  # queries with many facts are searched, not compared
    above = torch.searchsorted(order[which], own[:, None], right=True).squeeze(1)
    below = torch.searchsorted(order[which], own[:, None]).squeeze(1)
    return (scores.shape[1] - above + (above - below) / 2).numpy()


def _chunks(facts: np.ndarray, width: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Facts by query, some at a time: their rows, the heads and relations of the queries, and the query of each."""
    pairs, query = np.unique(facts[:, :2], axis=0, return_inverse=True)
    query = query.reshape(-1)
    order = np.argsort(query, kind="stable")
    ends = np.searchsorted(query[order], np.arange(len(pairs) + 1))
    limit = max(1, SCORES_AT_ONCE // width)
    first = 0
    while first < len(pairs):
        last = int(np.searchsorted(ends, ends[first] + limit, side="right")) - 1
        last = min(max(last, first + 1), first + limit, len(pairs))
        rows = order[ends[first] : ends[last]]
        yield rows, pairs[first:last, 0].copy(), pairs[first:last, 1].copy(), query[rows] - first
        first = last


@torch.no_grad()
def _relation_score(model: LinkPredictor, encoded: Any, facts: np.ndarray) -> np.ndarray:
    """The log-probability of each fact's relation among all, given both ends."""
    result = np.empty(len(facts), np.float32)
    step = max(1, SCORES_AT_ONCE // max(encoded.num_relations, 1))
    for first in range(0, len(facts), step):
        rows = torch.from_numpy(facts[first : first + step])
        scores = model.score_relations(encoded, rows[:, 0], rows[:, 2]).float()
        own = scores.gather(1, rows[:, 1:2]).squeeze(1)
        result[first : first + step] = (own - scores.logsumexp(1)).numpy()
    return result


class _Judge(nn.Module):
    """Log-odds from features [B, K] and relations [B]."""

    def __init__(self, figures: int, relations: int, random: torch.Generator) -> None:
        super().__init__()
        self.relation = nn.Embedding(relations, RELATION_WIDTH)
        self.layers = nn.Sequential(
            nn.Linear(figures + RELATION_WIDTH, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, 1),
        )
        with torch.no_grad():
            for parameter in self.parameters():
                bound = 0.1 if parameter.ndim < 2 else parameter.shape[1] ** -0.5
                parameter.uniform_(-bound, bound, generator=random)

    def forward(self, figures: Tensor, relations: Tensor) -> Tensor:
        """[B]."""
        result: Tensor = self.layers(torch.cat([figures, self.relation(relations)], 1)).squeeze(1)
        return result


def _judged(graph: KnowledgeGraph, folds: list[_Fold], seed: int) -> np.ndarray:
    """Log-odds [E]: every fold by a network trained on the others (on itself, if it is the only one)."""
    log_odds = np.empty(len(graph), np.float32)
    for half in (0, 1) if len(folds) > 1 else (0,):
        judged = folds[half::2] if len(folds) > 1 else folds
        learnt = folds[1 - half :: 2] if len(folds) > 1 else folds
        rng = generator(seed, "judge", half)
        chosen = []
        for fold in learnt:  # as many true facts as false ones
            picked = rng.permutation(len(fold.rows))[: len(fold.false_relations)]
            chosen.append((fold.figures[picked], fold.relations[picked]))
        true, true_relations = (np.concatenate(parts) for parts in zip(*chosen, strict=True))
        false = np.concatenate([fold.false_figures for fold in learnt])
        figures, relations = np.concatenate([true, false]), [true_relations, *(f.false_relations for f in learnt)]
        labels = np.repeat([1.0, 0.0], [len(true), len(false)]).astype(np.float32)
        judge = _Standardised(figures)
        model = _train(judge(figures), np.concatenate(relations), labels, graph.num_relations, seed + half)
        for fold in judged:
            with torch.no_grad():
                log_odds[fold.rows] = model(judge(fold.figures), torch.from_numpy(fold.relations)).numpy()
    return log_odds


class _Standardised:
    """Standardise features, with outliers clipped."""

    def __init__(self, figures: np.ndarray) -> None:
        self.mean, self.deviation = figures.mean(0), figures.std(0) + 1e-6

    def __call__(self, figures: np.ndarray) -> Tensor:
        return torch.from_numpy(np.clip((figures - self.mean) / self.deviation, -6, 6).astype(np.float32))


def _train(figures: Tensor, relations: np.ndarray, labels: np.ndarray, num_relations: int, seed: int) -> _Judge:
    random = torch_generator(seed, "judge")
    model = _Judge(figures.shape[1], num_relations, random)
    kinds, targets = torch.from_numpy(relations), torch.from_numpy(labels)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.02)
    for _ in range(EPOCHS):
        order = torch.randperm(len(targets), generator=random)
        for first in range(0, len(order), 256):
            rows = order[first : first + 256]
            loss = nn.functional.binary_cross_entropy_with_logits(model(figures[rows], kinds[rows]), targets[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return model.eval()
