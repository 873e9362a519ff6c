"""Estimate how plausible the known facts of a graph are, each judged by the others.

The facts are hidden in folds, those between the same two entities in different ones, so that a fact is judged with its
inverse and duplicates known. On the rest of the graph ComplEx is fitted, rules are mined and the schema is computed;
each gives features of how well it predicts a hidden fact, from either end, compared with other entities of the same
kind. Small networks turn the features into the odds that a fact is right: they are trained to distinguish hidden facts
from the same facts with one end redrawn among entities of the same kind, so no labels are needed. A fold is judged by
networks that were trained on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from anykg.answers.auditing.judge import Standardised, train_judge
from anykg.answers.work import Arrays, Store, Subject, results
from anykg.cluster import Cluster
from anykg.evaluation.ranking import relations_with_loops
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
"""Attempts to draw another entity before a fact is left unchanged."""
FULL_SOFTMAX, SAMPLE = 8_000, 1_000
"""Up to the first number of entities, ComplEx's softmax is over all of them; beyond, over a sample of the second size,
which makes an epoch three times as fast."""
WALKS = 100
"""Upper bound on the facts of an entity that are followed to find how two entities are connected."""
GROUPS, JUDGES = 5, 3
"""Number of groups of folds that are judged together, and of networks per group, whose log-odds are averaged."""
TRUE_TO_FALSE = 3
"""Maximum number of true facts per corrupted fact in the training data."""
STEPS = 3
"""Steps of a fold: fit ComplEx, mine rules, compute features."""


class Effort(NamedTuple):
    """The amount of work per fold."""

    complex_seconds: float | None
    rules_seconds: float | None
    """None for a fixed number of epochs and rounds; the result then depends only on the seed."""
    negatives: int
    """Facts of the fold that are also corrupted, twice each, as training data."""
    epochs: int = 1000
    """Maximum number of epochs of ComplEx."""

    @property
    def milliseconds(self) -> int:
        """The time per fold; 0 if it is not limited."""
        return round(1000 * ((self.complex_seconds or 0) + (self.rules_seconds or 0)))


@dataclass(frozen=True, eq=False)
class Plausibility:
    """The facts of a graph [E] and how well the remaining facts predict them."""

    log_odds: np.ndarray  # float32 [E] that a fact is right
    ranks: np.ndarray  # float32 [E, 2] of the tail and of the head among all entities, by ComplEx
    expected: np.ndarray  # int64 [E, 2] the best other tail and head, NO_BETTER where the fact's own is first


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
    again: bool = False,
    cluster: Cluster | None = None,
    progress: Progress = ignore,
) -> Plausibility:
    """Judge every fact of a graph by the others, hiding the facts in `folds` parts.

    Finished folds are cached until all are done, then the result. It serves later calls with as much effort or less,
    whoever makes them (the command line, Python, or a job of the web page), unless `again`.
    """
    steps = folds * STEPS + 1
    subject, common = Subject(graph), _Folds(folds, effort, seed)
    kept = _kept(graph, common)
    stored = None if again else _found_before(kept, effort)
    if stored is not None:
        progress(steps, steps)
        return Plausibility(**stored)
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
        name: np.concatenate([getattr(fold, name) for fold in folds_done]) for name in ("rows", "ranks", "expected")
    }
    back = np.argsort(whole["rows"])
    found = {"log_odds": log_odds} | {name: whole[name][back] for name in ("ranks", "expected")}
    kept.save(effort.milliseconds, found)
    store.clear()
    progress(steps, steps)
    return Plausibility(**found)


def is_kept(graph: KnowledgeGraph, *, folds: int, effort: Effort, seed: int = 0) -> bool:
    """Whether the plausibility of all facts is cached, found with at least this effort."""
    return _found_before(_kept(graph, _Folds(folds, effort, seed)), effort) is not None


def _kept(graph: KnowledgeGraph, common: _Folds) -> Store:
    """The cached results by time limit per fold in milliseconds; 0 for a fixed number of passes."""
    folds, effort, seed = common
    passes = effort.epochs if effort.complex_seconds is None else None
    return Store("audited", graph.digest, folds, effort.negatives, passes, seed)


def _found_before(kept: Store, effort: Effort) -> Arrays | None:
    """The cached result of the largest effort, if it is at least as large."""
    most = max(kept.indices(), default=-1)
    return kept.load(most) if most >= effort.milliseconds else None


def fold_part(subject: Subject, common: _Folds, number: int) -> Arrays:
    """Hide a fold, fit to the rest, and compute the features of the fold."""
    graph, (folds, effort, seed) = subject.graph, common
    rows = np.sort(hiding_order(graph, seed)[number::folds])
    models = _fitted(graph, rows, effort, seed, subject.progress)
    kinds = graph.derive(entity_kinds)
    return _figures_of_fold(graph, kinds, models, rows, effort, generator(seed, "corrupt", number))._asdict()


def hiding_order(graph: KnowledgeGraph, seed: int) -> np.ndarray:
    """The facts [E] in random order, with those between the same two entities next to each other.

    If every tenth is hidden, no fact is hidden together with its inverse or duplicate, which supports it.
    """
    ends = np.sort(graph.triplets[:, [HEAD, TAIL]], axis=1)
    _, pairs = np.unique(ends, axis=0, return_inverse=True)
    rng = generator(seed, "audit")
    drawn = rng.permutation(len(graph))[pairs.reshape(-1)]
    return np.lexsort((rng.permutation(len(graph)), drawn))


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
    config = ComplExConfig(epochs=effort.epochs)
    if graph.num_entities > FULL_SOFTMAX:
        config = replace(config, sample=SAMPLE, batch_size=SAMPLE)
    vectors = fit_complex(rest, config=config, seconds=effort.complex_seconds, seed=seed)
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
    some = facts[rng.permutation(len(facts))[: effort.negatives]]
    false, new = corrupted(graph, np.repeat(some, 2, axis=0), kinds, rng)
    false = false[new]
    (tail_ranks, tails), (head_ranks, heads) = (
        _expected(graph, *models.scorers[0], turned) for turned in (facts, graph.inverted(facts))
    )
    return _Fold(
        rows,
        _figures(graph, kinds, models, facts),
        np.stack([tail_ranks, head_ranks], axis=1),
        np.stack([tails, heads], axis=1),
        # In a graph with errors, what they replaced is not known beside them.
        _figures(graph.without(some), kinds, models, false),
        false[:, RELATION],
        facts[:, RELATION],
    )


def _figures(graph: KnowledgeGraph, kinds: Kinds, models: _Models, facts: np.ndarray) -> np.ndarray:
    """Features [F, K] of facts [F, 3]."""
    heads, relations, tails = facts.T
    columns: list[np.ndarray] = []
    for model, encoded in models.scorers:
        for turned in (facts, graph.inverted(facts)):
            columns += [*_among_their_kind(graph, kinds, model, encoded, turned)]
    columns.append(_relation_score(*models.scorers[0], facts))
    schema, r = models.encoded_schema, graph.num_relations
    fits = np.empty((3, len(facts)), np.float32)
    for relation in np.unique(relations):
        mine = relations == relation
        fits[0, mine] = schema.fits(heads[mine], int(relation))
        fits[1, mine] = schema.fits(tails[mine], int(relation) + r)
    fits[2] = models.schema.direction(schema, facts)
    columns += [*fits]
    sizes = np.bincount(kinds.of_entity + 1)
    counts = (
        schema.known(heads, relations),
        schema.known(tails, relations + r),
        schema.facts[relations],
        models.degrees[heads],
        models.degrees[tails],
        sizes[kinds.of_entity[heads] + 1],
        sizes[kinds.of_entity[tails] + 1],
    )
    columns += [np.log1p(count) for count in counts]
    joined = connections(models.adjacent, facts[:, [HEAD, TAIL]], WALKS, generator(0, "connections"))
    columns += [*np.log1p(joined.T)]
    return np.stack(columns, axis=1).astype(np.float32)


class _Chunk(NamedTuple):
    """A facts and the scores of the Q queries that they answer."""

    rows: np.ndarray  # [A], which facts
    query: Tensor  # [A], the query of each
    tails: Tensor  # [A]
    heads: np.ndarray  # [Q], of the queries
    relations: np.ndarray  # [Q]
    own: Tensor  # [A], their scores
    open: Tensor  # [Q, N], the scores of the answers that are not known, -inf for the others


@torch.no_grad()
def _scored(graph: KnowledgeGraph, model: LinkPredictor, encoded: Any, facts: np.ndarray) -> Iterator[_Chunk]:
    """The tails of facts [F, 3] predicted from their heads."""
    for rows, heads, relations, query in _chunks(facts, graph.num_entities):
        scores = model.score_tails(encoded, torch.from_numpy(heads), torch.from_numpy(relations)).float()
        which, tails = torch.from_numpy(query), torch.from_numpy(facts[rows, TAIL])
        own = scores[which, tails]
        known = graph.answers(heads, relations)
        scores[torch.from_numpy(known.rows), torch.from_numpy(known.values.astype(np.int64))] = -torch.inf
        yield _Chunk(rows, which, tails, heads, relations, own, scores)


def _among_their_kind(
    graph: KnowledgeGraph, kinds: Kinds, model: LinkPredictor, encoded: Any, facts: np.ndarray
) -> np.ndarray:
    """[3, F]: scores of facts, log-probabilities among the unknown tails of their kind, logs of how many are better."""
    result = np.empty((3, len(facts)), np.float32)
    for chunk in _scored(graph, model, encoded, facts):
        result[0, chunk.rows] = chunk.own.numpy()
        of_tail = kinds.of_entity[facts[chunk.rows, TAIL]]
        for kind in np.unique(of_tail):
            members = torch.from_numpy(np.flatnonzero(kinds.of_entity == kind))
            for mine in _blocks(np.flatnonzero(of_tail == kind), len(members)):
                own = chunk.own[mine, None]
                others = chunk.open[chunk.query[mine, None], members]  # [A, C]
                others[members == chunk.tails[mine, None]] = -torch.inf  # a fact does not count against itself
                total = torch.logaddexp(others.logsumexp(1, keepdim=True), own)
                rows = chunk.rows[mine.numpy()]
                result[1, rows] = (own - total).squeeze(1).numpy()
                result[2, rows] = _better(others, own)
    result[2] = np.log1p(result[2])
    return result


def _expected(
    graph: KnowledgeGraph, model: LinkPredictor, encoded: Any, facts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The ranks of the tails of known facts [F] among all entities, and the best unknown ones, NO_BETTER if none is.

    Only tails that the relation has elsewhere are expected: other entities may score higher, but are not a reason.
    Neither is the head itself, unless the relation links some entity to itself.
    """
    ranks, best = np.empty(len(facts), np.float32), np.empty(len(facts), np.int64)
    tails, loops = graph.derive(_tails_of_relations), graph.derive(relations_with_loops)
    for chunk in _scored(graph, model, encoded, facts):
        highest, leading = chunk.own.new_empty(len(chunk.relations)), torch.empty(len(chunk.relations)).long()
        for relation in np.unique(chunk.relations):
            queries, members = torch.from_numpy(np.flatnonzero(chunk.relations == relation)), tails(int(relation))
            scores = chunk.open[queries[:, None], members]
            if not loops[relation % graph.num_relations]:
                scores[members == torch.from_numpy(chunk.heads)[queries, None]] = -torch.inf
            highest[queries], first = scores.max(1)
            leading[queries] = members[first]
        better = highest[chunk.query] > chunk.own
        best[chunk.rows] = torch.where(better, leading[chunk.query], NO_BETTER).numpy()
        for mine in _blocks(np.arange(len(chunk.rows)), graph.num_entities):
            ranks[chunk.rows[mine.numpy()]] = 1 + _better(chunk.open[chunk.query[mine]], chunk.own[mine, None])
    return ranks, best


def _tails_of_relations(graph: KnowledgeGraph) -> Callable[[int], Tensor]:
    """The distinct tails of each relation, inverses included."""
    _, relations, tails = graph.with_inverses().astype(np.int64).T
    pairs = np.unique(relations * max(graph.num_entities, 1) + tails)
    kinds, members = np.divmod(pairs, max(graph.num_entities, 1))
    ends = np.searchsorted(kinds, np.arange(2 * graph.num_relations + 1))
    return lambda relation: torch.from_numpy(members[ends[relation] : ends[relation + 1]])


def _blocks(rows: np.ndarray, width: int) -> list[Tensor]:
    """Batches of rows, as large as possible for comparisons with `width` others each."""
    step = max(1, SCORES_AT_ONCE // width)
    return [torch.from_numpy(rows[first : first + step]) for first in range(0, len(rows), step)]


def _better(others: Tensor, own: Tensor) -> np.ndarray:
    """The number of others [A, C] that score higher than own [A, 1]; ties count half."""
    higher: np.ndarray = ((others > own).sum(1) + 0.5 * (others == own).sum(1)).numpy()
    return higher


def _chunks(facts: np.ndarray, width: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Batches of facts grouped by query: their rows, the heads and relations of the queries, and the query of each."""
    pairs, query = np.unique(facts[:, [RELATION, HEAD]], axis=0, return_inverse=True)
    query = query.reshape(-1)
    order = np.argsort(query, kind="stable")
    ends = np.searchsorted(query[order], np.arange(len(pairs) + 1))
    limit = max(1, SCORES_AT_ONCE // width)
    first = 0
    while first < len(pairs):
        last = int(np.searchsorted(ends, ends[first] + limit, side="right")) - 1
        last = min(max(last, first + 1), first + limit, len(pairs))
        rows = order[ends[first] : ends[last]]
        yield rows, pairs[first:last, 1].copy(), pairs[first:last, 0].copy(), query[rows] - first
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


def _judged(graph: KnowledgeGraph, folds: list[_Fold], seed: int) -> np.ndarray:
    """Log-odds [E], with every fold judged by networks that were trained on other folds."""
    log_odds = np.zeros(len(graph), np.float32)
    groups = min(GROUPS, len(folds))
    for group in range(groups):
        learnt = [fold for number, fold in enumerate(folds) if number % groups != group]
        rng = generator(seed, "judge", group)
        picked = [rng.permutation(len(fold.rows))[: TRUE_TO_FALSE * len(fold.false_relations)] for fold in learnt]
        true = [fold.figures[some] for fold, some in zip(learnt, picked, strict=True)]
        relations = [fold.relations[some] for fold, some in zip(learnt, picked, strict=True)]
        figures = np.concatenate([*true, *(fold.false_figures for fold in learnt)])
        relations += [fold.false_relations for fold in learnt]
        labels = (np.arange(len(figures)) < sum(map(len, true))).astype(np.float32)
        standard = Standardised(figures)
        inputs, kinds = standard(figures), np.concatenate(relations)
        for start in range(JUDGES):
            random = torch_generator(seed, "judge", group, start)
            model = train_judge(inputs, kinds, labels, graph.num_relations, random)
            for fold in folds[group::groups]:
                with torch.no_grad():
                    found = model(standard(fold.figures), torch.from_numpy(fold.relations))
                log_odds[fold.rows] += found.numpy() / JUDGES
    return log_odds
