"""The arithmetic of ComplEx: complex vectors stored as real ones, a training step, and the batches it takes.

A complex vector of rank K is a row [2K], real parts first. Score of (h, r, t): Re<h, r, conj(t)> = <h * r, t>, so that
a query is the row q = h * r and the scores of all tails are one matrix product. Each fact also gives a query from its
tail, under the inverse relation r + R. Facts that share a query (h, r) share its row of scores: their softmax is
computed once.

The gradient is written out instead of using autograd: apart from the scores [B, N] of one block of queries, nothing is
as large as batch times entities, and rows are updated in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from anykg.graph.graph import KnowledgeGraph

EPSILON = 1e-10
SCORES_AT_ONCE = 1 << 22
"""Scores held at a time."""


@dataclass(frozen=True, eq=False)
class Queries:
    """The distinct queries (h, r) of a graph, both directions, and the answers of each."""

    heads: np.ndarray  # int32 [Q]
    relations: np.ndarray  # int32 [Q], inverses from R on
    offsets: np.ndarray  # int64 [Q + 1]
    answers: np.ndarray  # int32 [2E], those of query i at offsets[i]:offsets[i + 1]

    @staticmethod
    def of(graph: KnowledgeGraph) -> Queries:
        """The queries that the facts of a graph answer."""
        heads, relations, tails = graph.with_inverses().T
        keys = heads.astype(np.int64) * (2 * max(graph.num_relations, 1)) + relations
        order = np.argsort(keys, kind="stable")
        first = np.flatnonzero(np.diff(keys[order], prepend=-1))
        return Queries(heads[order[first]], relations[order[first]], np.append(first, len(keys)), tails[order])

    def batches(self, size: int, rng: np.random.Generator) -> Iterator[Batch]:
        """All queries once, shuffled, in batches of about `size` facts."""
        order = rng.permutation(len(self.heads))
        counts = np.diff(self.offsets)
        ends = np.cumsum(counts[order])
        total = int(ends[-1]) if len(ends) else 0
        cuts = np.unique(np.append(np.searchsorted(ends, np.arange(0, total, size)), len(order)))
        for start, end in pairwise(cuts):
            rows = order[start:end]
            many = counts[rows]
            columns = np.arange(many.sum()) + np.repeat(self.offsets[rows] - (np.cumsum(many) - many), many)
            yield Batch(
                torch.from_numpy(self.heads[rows]).long(),
                torch.from_numpy(self.relations[rows]).long(),
                torch.from_numpy(np.repeat(np.arange(len(rows)), many)),
                torch.from_numpy(self.answers[columns]).long(),
            )


@dataclass(frozen=True, eq=False)
class Batch:
    """B queries and the A facts that answer them."""

    heads: Tensor  # [B]
    relations: Tensor  # [B]
    rows: Tensor  # [A], the query of each fact
    tails: Tensor  # [A]


@dataclass(eq=False)
class Vectors:
    """Complex vectors of entities [N, 2K] and relations [2R, 2K], and the squared gradients Adagrad has summed."""

    entities: Tensor
    relations: Tensor
    entity_squares: Tensor
    relation_squares: Tensor

    @staticmethod
    def draw(num_entities: int, num_relations: int, rank: int, scale: float, rng: torch.Generator) -> Vectors:
        """Normal vectors of standard deviation `scale`, every row drawn alike."""
        entities = scale * torch.randn(num_entities, 2 * rank, generator=rng)
        relations = scale * torch.randn(2 * num_relations, 2 * rank, generator=rng)
        return Vectors(entities, relations, torch.zeros_like(entities), torch.zeros_like(relations))

    def queries(self, heads: Tensor, relations: Tensor) -> Tensor:
        """Rows q [B, 2K] whose inner products with entity vectors are the scores of (head, relation, ?)."""
        return product(self.entities[heads], self.relations[relations])


def product(a: Tensor, b: Tensor) -> Tensor:
    """The products a * b of complex rows [..., 2K]."""
    (x, y), (u, v) = a.chunk(2, -1), b.chunk(2, -1)
    return torch.cat([x * u - y * v, x * v + y * u], -1)


def product_conjugate(a: Tensor, b: Tensor) -> Tensor:
    """The products a * conj(b) of complex rows [..., 2K]."""
    (x, y), (u, v) = a.chunk(2, -1), b.chunk(2, -1)
    return torch.cat([x * u + y * v, y * u - x * v], -1)


def _n3_gradient(rows: Tensor) -> Tensor:
    """The gradient 3 |x| x of the sum of cubed moduli."""
    x, y = rows.chunk(2, -1)
    moduli = (x * x + y * y).sqrt_().mul_(3)
    return torch.cat([moduli * x, moduli * y], -1)


@dataclass(frozen=True)
class StepSettings:
    """Settings of a step."""

    lr: float
    regularisation: float
    """Weight of N3: the cubed moduli of the head, relation and tail of every fact."""
    relation_loss: float
    """Weight of the softmax over relations of (h, ?, t) relative to the one over entities."""
    sample: int
    """Number of entities sampled for the softmax; 0 uses all of them."""
    dtype: torch.dtype
    """Of the matrix products; sums, vectors and updates are float32."""


def train_step(vectors: Vectors, batch: Batch, settings: StepSettings, rng: torch.Generator) -> None:
    """One Adagrad step on the softmax cross-entropy of a batch plus N3, in place."""
    facts = len(batch.tails)
    counts = torch.bincount(batch.rows, minlength=len(batch.heads)).float()
    weights = (counts / facts)[:, None]  # [B, 1]
    heads, relations = vectors.entities[batch.heads], vectors.relations[batch.relations]
    queries = product(heads, relations)  # [B, 2K]
    some = _candidates(batch, len(vectors.entities), settings.sample, rng)
    ids = None if some is None else some.ids
    entities = vectors.entities if ids is None else vectors.entities[ids]
    tails = batch.tails if some is None else some.positions(batch.tails)
    d_queries, d_entities = _softmax_gradient(queries, weights, entities, some, settings.dtype)
    d_queries.index_add_(0, batch.rows, entities[tails], alpha=-1 / facts)
    d_entities.index_add_(0, tails, queries[batch.rows], alpha=-1 / facts)
    penalty = settings.regularisation / facts
    answered = torch.bincount(tails, minlength=len(entities))
    used = answered.nonzero().squeeze(1)
    d_entities.index_add_(0, used, penalty * answered[used, None] * _n3_gradient(entities[used]))
    d_heads = product_conjugate(d_queries, relations) + penalty * counts[:, None] * _n3_gradient(heads)
    d_relations = product_conjugate(d_queries, heads) + penalty * counts[:, None] * _n3_gradient(relations)
    start = batch.heads if some is None else some.positions(batch.heads)
    d_entities.index_add_(0, start, d_heads)
    d_all_relations = torch.zeros_like(vectors.relations).index_add_(0, batch.relations, d_relations)
    if settings.relation_loss:
        _add_relation_gradient(vectors, batch, settings.relation_loss, start, tails, d_entities, d_all_relations)
    if ids is None:
        _adagrad(vectors.entities, vectors.entity_squares, d_entities, settings.lr)
    else:
        squares = vectors.entity_squares[ids]
        _adagrad(entities, squares, d_entities, settings.lr)
        vectors.entities[ids], vectors.entity_squares[ids] = entities, squares
    _adagrad(vectors.relations, vectors.relation_squares, d_all_relations, settings.lr)


@dataclass(frozen=True, eq=False)
class _Candidates:
    """The entities of a sampled softmax: the distinct ones of the batch, then sampled ones for all others."""

    own: Tensor  # [O], those of the batch, ascending
    drawn: Tensor  # [C - O]
    num_entities: int

    @property
    def ids(self) -> Tensor:
        """All of them [C]."""
        return torch.cat([self.own, self.drawn])

    @property
    def offsets(self) -> Tensor:
        """The correction of their scores [C]: the log of the number of entities that each represents."""
        others = (self.num_entities - len(self.own)) / max(len(self.drawn), 1)
        return torch.cat([torch.zeros(len(self.own)), torch.full((len(self.drawn),), float(np.log(others)))])

    def positions(self, entities: Tensor) -> Tensor:
        """Positions of the entities of the batch in `ids`."""
        return torch.searchsorted(self.own, entities)


def _candidates(batch: Batch, num_entities: int, sample: int, rng: torch.Generator) -> _Candidates | None:
    if not sample or sample >= num_entities:
        return None
    own = torch.unique(torch.cat([batch.tails, batch.heads]))
    drawn = torch.unique(torch.randint(num_entities, (sample,), generator=rng))
    return _Candidates(own, drawn[~torch.isin(drawn, own)], num_entities)


def _softmax_gradient(
    queries: Tensor, weights: Tensor, entities: Tensor, some: _Candidates | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Gradients of sum_i weights_i log sum_j exp <q_i, e_j> with respect to queries and entities."""
    queries_low, weighted, entities_low = (x.to(dtype) for x in (queries, weights * queries, entities))
    offsets = None if some is None else some.offsets.to(dtype)
    d_queries, d_entities = torch.empty_like(queries), torch.zeros_like(entities)
    block = max(SCORES_AT_ONCE // len(entities), 64)
    for i in range(0, len(queries), block):
        scores = queries_low[i : i + block] @ entities_low.T  # [b, N]
        if offsets is not None:
            scores += offsets
        chances = torch.softmax(scores, 1)
        d_queries[i : i + block] = chances @ entities_low
        d_entities += chances.T @ weighted[i : i + block]
    return d_queries.mul_(weights), d_entities


def _add_relation_gradient(
    vectors: Vectors, batch: Batch, weight: float, start: Tensor, tails: Tensor, d_entities: Tensor, d_relations: Tensor
) -> None:
    """Add the gradients of the softmax over relations for every fact, from its head."""
    num_relations = len(vectors.relations) // 2
    told = batch.relations[batch.rows] < num_relations
    rows = batch.rows[told]
    heads, ends = vectors.entities[batch.heads[rows]], vectors.entities[batch.tails[told]]
    direct = vectors.relations[:num_relations]
    pairs = product_conjugate(ends, heads)  # <pair, r> is the score of r
    chances = torch.softmax(pairs @ direct.T, 1)
    chances[torch.arange(len(rows)), batch.relations[rows]] -= 1
    chances *= weight / max(len(rows), 1)
    d_pairs = chances @ direct
    d_relations[:num_relations].addmm_(chances.T, pairs)
    d_entities.index_add_(0, tails[told], product(d_pairs, heads))
    d_entities.index_add_(0, start[rows], product_conjugate(ends, d_pairs))


def _adagrad(rows: Tensor, squares: Tensor, gradient: Tensor, lr: float) -> None:
    squares.addcmul_(gradient, gradient)
    rows.addcdiv_(gradient, squares.sqrt().add_(EPSILON), value=-lr)


def matmul_dtype() -> torch.dtype:
    """bfloat16 where the processor multiplies it natively, which is twice as fast there; float32 elsewhere."""
    native = getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    return torch.bfloat16 if native() else torch.float32
