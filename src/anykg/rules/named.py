"""Rules with named relations, mined on one graph.

Two kinds. *Path rules* r(x, y) <- a(x, z), b(z, y), with one to three facts in the body, each in either direction, over
distinct entities. *Constant rules* r(x, C) <- a(x, D) and r(x, C) <- a(x, z), which name entities. The confidence of a
rule is support / (body + prior): the share of the pairs (or entities) satisfying the body that also satisfy the head.

Bodies of path rules are found by sampling facts of every relation and the paths between their ends, and then counted:
exactly if they start at few entities, otherwise on a sample of the starts. Mining is an anytime algorithm: it continues
with longer paths and more samples until the time is up. On a small graph with few relations, everything is enumerated
and counted exactly, so that relabelling the graph relabels its rules.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache

import numba
import numpy as np

from anykg.errors import ConfigError
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.vocabulary import Vocabulary
from anykg.progress import Progress
from anykg.rules.kernels.bodies import count_bodies
from anykg.rules.kernels.items import item_index, item_rules
from anykg.rules.kernels.joins import NONE, Adjacency, adjacency, closing_paths
from anykg.seeds import generator

LONGEST = 3
VERSION = 2
"""Version of the mining; cached rules of another version are mined again."""
SMALL = 50_000
"""Graphs of up to this many facts keep rules with a support of 1."""
LARGE, MANY = 1_000_000, 4_000
"""Above this number of facts, only that many facts of a relation are compared with its bodies of one fact."""


@dataclass(frozen=True)
class Mining:
    """The rules to look for, and limits on the work."""

    length: int = 3
    """Longest path in a body, 1 to 3 facts."""
    constants: bool = True
    """Also mine rules that name entities."""
    min_support: int = 0
    """Minimum number of facts that a rule predicts; 0 means 1 on graphs of up to 50,000 facts and 2 on larger ones."""
    min_confidence: float = 0.005
    """Minimum confidence of a rule."""
    prior: float = 5.0
    """Added to the body's count: a prior against rules with few matches."""
    facts_per_relation: int = 400
    """Number of facts of a relation for which connecting paths are searched per round."""
    width: int = 40
    """Number of facts of an entity that are tried at a step of a path of three, per round."""
    bodies_per_relation: int = 400
    """Number of the most frequent bodies of a length that are counted for each relation per round."""
    bodies: int = 10_000
    """The same for all relations together, of which each has an equal share."""
    starts: int = 1000
    """Number of entities from which a path is counted; a sample is used if there are more."""
    work: int = 1_000_000
    """Approximate number of facts read to count one body."""
    constants_per_head: int = 40
    """Number of best rules kept for each head r(x, C)."""
    entities_per_head: int = 500
    """Number of entities considered for one head r(x, C); a sample is used if there are more."""
    rounds: int = 1
    """Number of rounds of sampling without a time limit."""

    def __post_init__(self) -> None:
        if not 1 <= self.length <= LONGEST:
            raise ConfigError(f"length must be 1 to {LONGEST}, found {self.length}.")
        for name in ("facts_per_relation", "width", "bodies_per_relation", "bodies", "starts", "rounds"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, found {getattr(self, name)}.")
        for name in ("prior", "min_support"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must be 0 or more, found {getattr(self, name)}.")


@dataclass(frozen=True, eq=False)
class NamedRules:
    """Mined rules as arrays of ids; relations run over 2R, where r + R is the inverse of r."""

    paths: np.ndarray  # int32 [P, 4]: head relation, then up to three steps, NONE after the last
    path_counts: np.ndarray  # int64 [P, 3]: support, body, pairs of the body whose first entity has the head relation
    constants: np.ndarray  # int32 [Q, 4]: head relation and tail, body relation and tail (NONE: any)
    constant_counts: np.ndarray  # int64 [Q, 2]: support, body

    def __len__(self) -> int:
        return len(self.paths) + len(self.constants)


def empty_rules() -> NamedRules:
    """No rules."""
    return NamedRules(
        np.empty((0, 4), np.int32), np.empty((0, 3), np.int64), np.empty((0, 4), np.int32), np.empty((0, 2), np.int64)
    )


def mine_named(
    graph: KnowledgeGraph,
    settings: Mining = Mining(),  # noqa: B008 - frozen
    *,
    seconds: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> NamedRules:
    """Mine the rules of a graph for about `seconds`; without a limit, for `settings.rounds` rounds of sampling.

    Compiling and sorting the facts do not count towards the time.
    """
    if not len(graph):
        return empty_rules()
    if seconds is not None:
        _compile()
    settings = replace(settings, min_support=settings.min_support or (1 if len(graph) <= SMALL else 2))
    adjacent = adjacency(graph)
    deadline = np.inf if seconds is None else time.monotonic() + seconds
    rules = empty_rules()
    if settings.constants:
        share = np.inf if seconds is None else time.monotonic() + 0.4 * seconds
        rules = _with_constants(rules, graph, adjacent, settings, share)
    miner = _PathMiner(graph, adjacent, settings, seed, deadline)
    longest = settings.length if (2 * graph.num_relations) ** (settings.length + 1) < 2**63 else 2
    turns = [(1, 0)] + [(length, number) for number in range(1000) for length in range(2, longest + 1)]
    if seconds is None:
        turns = [turn for turn in turns if turn[1] < settings.rounds]
    for done, (length, number) in enumerate(turns):
        if progress:
            progress(
                *((done, len(turns)) if seconds is None else (int(seconds - deadline + time.monotonic()), int(seconds)))
            )
        if time.monotonic() > deadline or miner.exhausted(longest):
            break
        miner.round(length, number)
    return replace(rules, paths=miner.paths()[0], path_counts=miner.paths()[1])


@cache
def _compile() -> None:
    """Compile or load the kernels, so that it does not count towards the time limit."""
    names = Vocabulary("entity", "abc"), Vocabulary("relation", "r")
    mine_named(KnowledgeGraph(np.array([[0, 0, 1], [1, 0, 2], [0, 0, 2]]), *names))


class _PathMiner:
    """Finds and counts bodies, round by round."""

    def __init__(
        self, graph: KnowledgeGraph, adjacent: Adjacency, settings: Mining, seed: int, deadline: float
    ) -> None:
        self.graph, self.adjacent, self.settings, self.seed, self.deadline = graph, adjacent, settings, seed, deadline
        self.found: list[np.ndarray] = []  # rows: relation, steps, support, body
        self.seen: dict[int, np.ndarray] = {}  # keys of the bodies counted, by length
        self.full: set[int] = set()
        order = generator(seed, "facts").permutation(len(graph))
        facts = graph.triplets[order].astype(np.int64)
        by_relation = np.argsort(facts[:, 1], kind="stable")
        self.facts = facts[by_relation]
        counts = np.bincount(facts[:, 1], minlength=graph.num_relations)
        self.number = np.arange(len(facts)) - np.repeat(np.cumsum(counts) - counts, counts)  # within the relation
        self.most = int(counts.max())

    def exhausted(self, longest: int) -> bool:
        """Whether another round cannot find anything new."""
        return all(length in self.full for length in range(1, longest + 1))

    def round(self, length: int, number: int) -> None:
        """Find paths of `length` between the ends of the next facts of every relation, and count the most frequent."""
        if length in self.full:
            return
        one = MANY if len(self.graph) > LARGE else self.most
        size = self.settings.facts_per_relation if length > 1 else one
        number = number % max(1, -(-self.most // size))
        chosen = (self.number >= number * size) & (self.number < (number + 1) * size)
        keys = self._closing(self.facts[chosen], length, number)
        bodies = self._frequent(keys, length, number)
        if len(bodies):
            self._count(bodies, length)

    def _closing(self, facts: np.ndarray, length: int, number: int) -> np.ndarray:
        parts = np.array_split(facts, max(1, len(facts) // self._at_once(500, length)))
        width = self.settings.width

        def run(index: int) -> np.ndarray:
            if time.monotonic() > self.deadline:
                return np.empty(0, np.int64)
            rng = generator(self.seed, "paths", length, number, index)
            keys: np.ndarray = closing_paths(self.adjacent, parts[index], self.graph.num_relations, length, width, rng)
            return keys

        with _pool() as pool:
            return np.concatenate(list(pool.map(run, range(len(parts)))) or [np.empty(0, np.int64)])

    def _at_once(self, few: int, length: int) -> int:
        """The batch size for a kernel: larger on graphs with many entities, for which it has to clear arrays.

        Longer paths take more time, and the time limit is checked between batches.
        """
        share: int = 50_000 * 4 ** (length - 1)
        return max(few, few * self.graph.num_entities // share)

    def _frequent(self, keys: np.ndarray, length: int, number: int) -> np.ndarray:
        """The bodies [B, 3] that connect the ends of the most facts of some relation and were not counted before."""
        kinds = 2 * self.graph.num_relations
        unique, counts = np.unique(keys, return_counts=True)
        small = self.most <= self.settings.facts_per_relation
        good = counts >= min(self.settings.min_support, 2) if small else counts >= 2
        bodies, codes = _canonical(unique[good] % kinds**length, length, self.graph.num_relations)
        known = self.seen.get(length, np.empty(0, np.int64))
        new = ~np.isin(codes, known)
        best = np.ones(int(new.sum()), bool)
        if length > 1:
            best = self._best(unique[good][new] // kinds**length, counts[good][new])
        chosen, where = np.unique(codes[new][best], return_index=True)
        self.seen[length] = np.union1d(known, chosen)
        if length == 1 or (small and best.all() and length == 2) or (small and not len(chosen)):
            self.full.add(length)
        found = bodies[new][best][where]
        # Either end is asked for, and counted from the other one.
        return np.unique(np.concatenate([found, turned(found, self.graph.num_relations)]), axis=0)

    def _best(self, relations: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Mask [B] of the bodies to count, given the relation whose facts they connect, and how many of them.

        Bodies of a relation with the same count are all selected or all left out, so that ids do not matter.
        """
        order = np.lexsort((-counts, relations))
        ends = np.flatnonzero(np.append((np.diff(relations[order]) != 0) | (np.diff(counts[order]) != 0), True))
        first = np.searchsorted(relations[order], relations[order])
        last = np.repeat(ends, np.diff(ends, prepend=-1)) - first  # position of the last such body in its relation
        limit = most_for_each(np.bincount(relations), self.settings.bodies, self.settings.bodies_per_relation)
        best = np.zeros(len(order), bool)
        best[order] = last < limit
        return best

    def _count(self, bodies: np.ndarray, length: int) -> None:
        parts = np.array_split(bodies, max(1, len(bodies) // self._at_once(64, length)))
        settings = self.settings

        def run(part: np.ndarray) -> np.ndarray:
            if time.monotonic() > self.deadline:
                return np.empty((0, 7), np.int64)
            pairs, held, _ = count_bodies(self.adjacent, part, settings.starts, settings.work)
            good = (held[:, 2] >= settings.min_support) & (
                held[:, 2] >= settings.min_confidence * (held[:, 3] + settings.prior)
            )
            held = held[good]
            return np.column_stack([held[:, 1], part[held[:, 0]], held[:, 2], pairs[held[:, 0]], held[:, 3]])

        with _pool() as pool:
            self.found += list(pool.map(run, parts))

    def paths(self) -> tuple[np.ndarray, np.ndarray]:
        """Rules [P, 4] and their counts [P, 3]."""
        rows = np.concatenate([np.empty((0, 7), np.int64), *self.found])
        trivial = (rows[:, 1] == rows[:, 0]) & (rows[:, 2] == NONE)
        rows = rows[~trivial]
        return rows[:, :4].astype(np.int32), rows[:, 4:]


def most_for_each(sizes: np.ndarray, total: int, most: int) -> int:
    """The largest limit per size, at most `most` and at least 1, such that the limited sizes sum to at most `total`.

    >>> most_for_each(np.array([5, 5, 1]), total=7, most=400)
    3
    """
    number = np.arange(1, min(most, int(sizes.max(initial=1))) + 1)
    taken = np.minimum(sizes[:, None], number).sum(0)
    fitting = int(np.searchsorted(taken, total, side="right"))
    return int(number[max(fitting - 1, 0)])


def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(numba.config.NUMBA_NUM_THREADS)


def _canonical(keys: np.ndarray, length: int, num_relations: int) -> tuple[np.ndarray, np.ndarray]:
    """Bodies [B, 3] of keys of steps, each in the direction with the smaller key, and that key."""
    kinds = 2 * num_relations
    bodies = np.full((len(keys), 3), NONE, np.int64)
    for step in range(length):
        bodies[:, step] = keys // kinds ** (length - 1 - step) % kinds
    backwards = turned(bodies, num_relations)
    codes, other = (_keys(part, length, kinds) for part in (bodies, backwards))
    swap = other < codes
    bodies[swap] = backwards[swap]
    return bodies, np.minimum(codes, other)


def _keys(bodies: np.ndarray, length: int, kinds: int) -> np.ndarray:
    keys = np.zeros(len(bodies), np.int64)
    for step in range(length):
        keys = keys * kinds + bodies[:, step]
    return keys


def turned(bodies: np.ndarray, num_relations: int) -> np.ndarray:
    """The same paths in the opposite direction."""
    result = np.full_like(bodies, NONE)
    lengths = (bodies != NONE).sum(1)
    flipped = np.where(bodies < num_relations, bodies + num_relations, bodies - num_relations)
    for length in range(1, LONGEST + 1):
        mine = lengths == length
        result[np.ix_(mine, range(length))] = flipped[mine, :length][:, ::-1]
    return result


def _with_constants(
    rules: NamedRules, graph: KnowledgeGraph, adjacent: Adjacency, settings: Mining, deadline: float
) -> NamedRules:
    items = item_index(graph, adjacent)
    counts = np.diff(items.item_offsets)
    heads = np.flatnonzero((items.tail != NONE) & (counts >= settings.min_support))
    heads = heads[np.argsort(-counts[heads], kind="stable")]
    parts: Iterator[np.ndarray] = iter(np.array_split(heads, max(1, len(heads) // 256)))
    least = (settings.min_support, settings.entities_per_head, settings.prior, settings.min_confidence)

    def run(part: np.ndarray) -> tuple[np.ndarray, ...] | None:
        if time.monotonic() > deadline:
            return None
        found: tuple[np.ndarray, ...] = item_rules(items, part, least, settings.constants_per_head)
        return found

    with _pool() as pool:
        found = [part for part in pool.map(run, parts) if part is not None]
    if not found:
        return rules
    head, body, support = (np.concatenate(column) for column in zip(*found, strict=True))
    rows = np.stack([items.relation[head], items.tail[head], items.relation[body], items.tail[body]], axis=1)
    return replace(
        rules,
        constants=rows.astype(np.int32),
        constant_counts=np.stack([np.rint(support).astype(np.int64), counts[body]], axis=1),
    )
