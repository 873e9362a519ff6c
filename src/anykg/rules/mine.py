"""Measure every shape of clause on a graph, and find its best groundings in this graph's relations.

For each clause, the implied triplets are counted, and how many of them are facts (support). Head coverage is support
over the facts of its kind (links or attributes), confidence is support over implied triplets, and PCA confidence is the
same among implied triplets whose (head, relation) has a fact (the partial completeness assumption: an unknown triplet
counts as false only if another tail is known). A fact is never implied by itself, so every fact counts as if held out.

Significance compares the support among facts from a sample of heads with that in shuffled graphs, in which each entity
keeps its number of facts of each relation, at either end. All counts are exact.

Counts are sums over heads, so mining can be interrupted after any chunk of heads and resumed: see `Checkpoint`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numba
import numpy as np
import psutil

from anykg.errors import DataError, SettingError
from anykg.graph.graph import KnowledgeGraph
from anykg.progress import Progress
from anykg.rules.checkpoint import Checkpoint
from anykg.rules.clause import Clause
from anykg.rules.ground import rule_table
from anykg.rules.kernels import tables, three_steps
from anykg.rules.kernels.curveball import curveball
from anykg.rules.kernels.matching import fact_index
from anykg.rules.kernels.paths import CHOICES, IMPLIED, LONGEST, PARTIAL, PATTERNS, SUPPORT, count_paths, num_shapes
from anykg.rules.kernels.rows import bytes_of_rows, run_index
from anykg.rules.match import implied, is_implied
from anykg.rules.shapes import HALF_LINKS, LONGEST_REPEAT, Shape, shapes
from anykg.seeds import generator

CHUNK = 64
"""Number of heads counted per chunk, between updates of the progress and the checkpoint."""


@dataclass(frozen=True)
class Null:
    """The support of a clause in shuffled graphs with the same degrees."""

    support: int
    """Support in the graph itself, from the same heads."""
    mean: float
    deviation: float
    """Standard deviation over the shuffled graphs."""
    graphs: int
    at_least: int
    """Number of shuffled graphs with at least as much support."""

    @property
    def z(self) -> float:
        """Standard deviations above the mean; a deviation below 1 fact counts as 1."""
        return (self.support - self.mean) / max(self.deviation, 1.0)

    @property
    def p(self) -> float:
        """The probability of at least as much support by chance; at least 1 / (graphs + 1)."""
        return (self.at_least + 1) / (self.graphs + 1)


@dataclass(frozen=True)
class Measured:
    """A clause and its counts on a graph."""

    clause: Clause
    family: str
    implied: int
    support: int
    partial: int
    """Implied triplets whose (head, relation) has a fact."""
    facts: int
    """Facts of the kind of its head: links, or attributes."""
    null: Null | None = None

    @property
    def head_coverage(self) -> float:
        """The share of these facts that are implied."""
        return _ratio(self.support, self.facts)

    @property
    def confidence(self) -> float:
        """The share of the implied triplets that are facts."""
        return _ratio(self.support, self.implied)

    @property
    def pca_confidence(self) -> float:
        """The same among implied triplets whose (head, relation) has a fact."""
        return _ratio(self.support, self.partial)


def mine(
    graph: KnowledgeGraph,
    *,
    length: int = LONGEST,
    nulls: int = 10,
    null_heads: int = 300,
    seed: int = 0,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
) -> list[Measured]:
    """Every shape with paths of up to `length` steps, by descending PCA confidence.

    Significance is measured against `nulls` shuffled graphs, from a sample of `null_heads` heads; 0 skips it. Counts
    are stored in the file `checkpoint` while mining, which resumes from there after an interruption; it is removed at
    the end.
    """
    if not 1 <= length <= LONGEST:
        raise SettingError("length", f"expected 1 to {LONGEST}, found {length}")
    refuse_too_large(graph, length)
    all_shapes = shapes(length)
    heads = np.unique(graph.triplets[:, 0]).astype(np.int64)
    sample = np.sort(generator(seed, "null heads").permutation(heads)[:null_heads]) if nulls else heads[:0]
    total = (length + min(length, LONGEST_REPEAT)) * (graph.num_entities + (nulls + 1) * len(sample))
    work = Checkpoint(checkpoint, [graph.digest, seed, null_heads], progress, total)
    counts = _counts(graph, all_shapes, np.arange(graph.num_entities), work, "all")
    loops = int((graph.triplets[:, 0] == graph.triplets[:, 2]).sum())
    measured = [
        Measured(
            clause=shape.clause,
            family=shape.family,
            implied=int(row[IMPLIED]),
            support=int(row[SUPPORT]),
            partial=int(row[PARTIAL]),
            facts=loops if shape.clause.attribute else len(graph) - loops,
        )
        for shape, row in zip(all_shapes, counts, strict=True)
    ]
    if nulls and len(graph):
        own = _counts(graph, all_shapes, sample, work, "sample", whole=False)[:, SUPPORT]
        drawn = np.stack(
            [
                _counts(shuffled(graph, seed, i), all_shapes, sample, work, f"null {i}", whole=False)[:, SUPPORT]
                for i in range(nulls)
            ]
        )  # [nulls, shapes]
        deviation = drawn.std(0, ddof=1) if nulls > 1 else np.zeros(len(all_shapes))
        measured = [
            replace(m, null=Null(int(s), float(column.mean()), float(d), nulls, int((column >= s).sum())))
            for m, s, d, column in zip(measured, own, deviation, drawn.T, strict=True)
        ]
    work.remove()
    return sorted(measured, key=lambda m: (-m.pca_confidence, -m.support, str(m.clause)))


def measure(clauses: Sequence[Clause], graph: KnowledgeGraph) -> list[Measured]:
    """Measure any clauses, in their order; all implied triplets are listed, so a clause must not imply too many."""
    loops = int((graph.triplets[:, 0] == graph.triplets[:, 2]).sum())
    return [
        Measured(clause, "given", *_written_out(clause, graph), facts=loops if clause.attribute else len(graph) - loops)
        for clause in clauses
    ]


def shuffled(graph: KnowledgeGraph, seed: int, number: int = 0) -> KnowledgeGraph:
    """Shuffle the tails of each relation: every entity keeps its number of facts of each relation at either end."""
    order = np.lexsort((graph.triplets[:, 2], graph.triplets[:, 0], graph.triplets[:, 1]))
    triplets = graph.triplets[order].astype(np.int64)
    heads, relations = triplets[:, 0], triplets[:, 1]
    new_list = np.flatnonzero(np.append(True, (np.diff(relations) != 0) | (np.diff(heads) != 0)))
    offsets = np.append(new_list, len(triplets))
    groups = np.append(np.flatnonzero(np.append(True, np.diff(relations[new_list]) != 0)), len(new_list))
    random = generator(seed, "null", number)
    tails = curveball(triplets[:, 2].copy(), offsets, groups, graph.num_entities, random)
    return graph.with_triplets(np.stack([heads, relations, tails], 1))


def refuse_too_large(graph: KnowledgeGraph, length: int) -> None:
    """Raise if counting every shape would need more memory than is free: it keeps tables of pairs of relations."""
    n, r, threads = graph.num_entities, graph.num_relations, numba.config.NUMBA_NUM_THREADS
    facts, slots = len(graph), len(three_steps.SLOTS) if length == LONGEST else len(tables.REPEATS)
    # Marks of one or two steps (bits, words touched) or rows; common relations and ends by pattern; working memory
    a_thread = max(2 * bytes_of_rows(2 * CHOICES, (n, r)), bytes_of_rows(slots, (n, r)) + 16 * PATTERNS * n + 64 * n)
    rules = 3 * 8 * (2 * r) ** min(length, LONGEST_REPEAT)
    tables_of_facts = (4 * 12 + 2 * 24 + 8) * facts
    needed, free = threads * a_thread + rules + tables_of_facts, psutil.virtual_memory().available
    if needed > free:
        raise DataError(
            f"Counting every shape of clause with {n:,} entities and {r:,} relations needs about "
            f"{needed / 2**30:,.0f} GiB, but {free / 2**30:,.0f} GiB are free; use seconds=60 to sample rules in its "
            "relations for that long instead, or merge rare relations first."
        )


def _counts(
    graph: KnowledgeGraph,
    wanted: Sequence[Shape],
    starts: np.ndarray,
    work: Checkpoint,
    name: str,
    *,
    whole: bool = True,
) -> np.ndarray:
    """Implied, support and partial [shapes, 3] of the triplets whose head is one of `starts`.

    Without `whole` only the support of shapes without a path is counted. `name` is what the checkpoint calls it.
    """
    sizes = (graph.num_entities, graph.num_relations)
    number = _by_degree(graph)
    triplets = graph.triplets.astype(np.int64)
    triplets[:, [0, 2]] = number[triplets[:, [0, 2]]]
    index, first = fact_index(triplets, *sizes), number[starts]
    runs, own = run_index(index, sizes), index.facts[0]
    rows: dict[tuple[str, int], np.ndarray] = {}
    for length in range(1, 1 + max(shape.length for shape in wanted)):
        if length == LONGEST:
            kernel = partial(three_steps.count_three_steps, runs, sizes, own)
        else:
            kernel = partial(count_paths, index, sizes, length)
        rows["path", length] = _in_chunks(kernel, length, first, work, f"{name} path {length}")
        if length <= LONGEST_REPEAT:
            known = rule_table(graph, length)
            table = tables.RuleTable(known.offsets, known.heads)
            examples = tables.examples(index, sizes, length, table)
            kernel = partial(tables.count_repeats, runs, sizes, length, own, table, examples)
            rows["repeat", length] = _in_chunks(kernel, length, first, work, f"{name} repeat {length}")
    counts = np.zeros((len(wanted), 3), np.int64)
    for row, shape in enumerate(wanted):
        if shape.length:
            counts[row] = rows[shape.family, shape.length][shape.number]
        elif not whole:
            mine = graph.triplets[np.isin(graph.triplets[:, 0], starts)]
            counts[row, SUPPORT] = is_implied(shape.clause, graph, mine).sum()
        elif shape.family == "half-link":
            counts[row] = _half_link(graph, HALF_LINKS.index(shape.clause))
        else:
            counts[row] = _written_out(shape.clause, graph)
    return counts


def _by_degree(graph: KnowledgeGraph) -> np.ndarray:
    """Renumbering [N] of entities by descending degree, so that those visited most are close together in memory."""
    degree = np.bincount(graph.triplets[:, [0, 2]].ravel(), minlength=graph.num_entities)
    number = np.empty(graph.num_entities, np.int64)
    number[np.argsort(-degree, kind="stable")] = np.arange(graph.num_entities)
    return number


def _in_chunks(
    kernel: Callable[[np.ndarray], np.ndarray], length: int, starts: np.ndarray, work: Checkpoint, name: str
) -> np.ndarray:
    """The sum of a kernel's counts over chunks of the starts, one chunk per core; integers, so in any order."""
    done, counts = work.part(name, num_shapes(length))
    parts = [starts[first : first + CHUNK] for first in range(done, len(starts), CHUNK)]
    pool = ThreadPoolExecutor(numba.config.NUMBA_NUM_THREADS)
    try:
        for part, more in zip(parts, pool.map(kernel, parts), strict=True):
            done, counts = done + len(part), counts + more
            work.keep(name, done, counts)
    except BaseException:  # above all KeyboardInterrupt
        work.write()
        raise
    finally:  # waits for the chunks that are being counted, not for the others
        pool.shutdown(cancel_futures=True)
    return counts


def _written_out(clause: Clause, graph: KnowledgeGraph) -> tuple[int, int, int]:
    triplets = implied(clause, graph)
    keys = graph.triplets[:, 0].astype(np.int64) * graph.num_relations + graph.triplets[:, 1]
    partial = np.isin(triplets[:, 0] * graph.num_relations + triplets[:, 1], keys)
    return len(triplets), int(graph.contains(triplets).sum()), int(partial.sum())


def _half_link(graph: KnowledgeGraph, end: int) -> np.ndarray:
    """Counts [3] of: C1 is known of E1 (end 0) or of E2 (end 1) with another entity.

    Such a list of one known entity implies C1 with all but the two, a longer list with all but its owner.
    """
    n, r = graph.num_entities, graph.num_relations
    links = graph.triplets[graph.triplets[:, 0] != graph.triplets[:, 2]].astype(np.int64)
    owners, known = np.unique(links[:, [0, 2][end]] * r + links[:, 1], return_counts=True)
    single = known == 1
    counts = np.zeros(3, np.int64)
    counts[IMPLIED] = len(owners) * (n - 1) - single.sum()
    counts[SUPPORT] = known[~single].sum()
    counts[PARTIAL] = counts[IMPLIED]
    if end == 1:
        with_fact = np.unique(graph.triplets[:, 0].astype(np.int64) * r + graph.triplets[:, 1])
        heads = np.bincount(with_fact % r, minlength=r)  # entities that have a fact of each relation
        counts[PARTIAL] = heads[owners % r].sum() - np.isin(owners, with_fact).sum() - single.sum()
    return counts


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
