"""The prior probability that a question has an answer that the graph does not know.

It is estimated from the graph alone, in several steps:

- The share of all facts that the graph lacks (`missing_share`). Facts missing at random lower the confidence of every
  rule, even of one that always holds, so the most reliable rule gives an upper bound.
- Given this share, the counts of known answers determine how likely one more is (`chance_of_missing`): countries have
  one capital, so a second one is not missing.
- Without any known answer, it depends on the share of the entities of its kind that have one (`chance_of_first`): a
  film has no capital, few beers have won a medal, nearly everyone has a place of birth.
- The answer may not be an entity of the graph. How often that happens is the Good-Turing estimate, from the number of
  facts that end in an entity that occurs nowhere else (`share_unseen`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from anykg.errors import SettingError
from anykg.graph.graph import HEAD, RELATION, TAIL, KnowledgeGraph
from anykg.graph.keys import distinct, find
from anykg.graph.schema import entity_kinds, functional_shares, type_relation
from anykg.seeds import generator

MISSING = 0.1
"""Share of all facts that is assumed to be missing if the graph gives no estimate."""
MOST_MISSING = 0.3
"""If the most reliable rule of a graph suggests that more is missing, the graph has no reliable rule."""
PATHS, FEWEST_CASES = 200_000, 50
"""Number of paths of one and of two facts that are drawn to measure rules, and of cases that a rule needs."""
SURE = 2.0
"""A rule counts with the lower bound of its confidence, this many standard errors below it."""
WITH_KINDS = 1_000_000
"""Upper bound on the facts of a graph for which the kinds of entities are computed for a question."""
PRIOR = 5.0
"""Prior strength in facts: the share of unseen answers of a relation is shrunk towards that of all relations."""


def chance_of_missing(graph: KnowledgeGraph, share: float) -> tuple[np.ndarray, np.ndarray]:
    """[2E'], sorted keys and values: for (entity, relation or inverse), the chance that it lacks a fact of it."""
    triplets = graph.with_inverses().astype(np.int64)
    keys, counts = np.unique(triplets[:, HEAD] * 2 * graph.num_relations + triplets[:, RELATION], return_counts=True)
    return keys, chance_of_one_more(keys % max(2 * graph.num_relations, 1), counts, share)


def chance_of_one_more(kinds: np.ndarray, counts: np.ndarray, share: float) -> np.ndarray:
    """The chance [K] that a question of a kind [K] with known answers [K] lacks one, if a share of all is missing.

    The number of complete questions with c answers is taken from the graph; those with k > c answers lack k - c of them
    with the binomial probability for a share of all facts missing. Half a question with c + 1 answers is added.
    """
    from scipy.special import expit, gammaln, logsumexp  # not needed for questions without probabilities

    most = int(counts.max(initial=0)) + 1
    pairs, members = np.unique(kinds * most + counts, return_counts=True)
    ends, sizes = np.divmod(pairs, most)
    chances = np.empty(len(pairs))
    for low, high in pairwise(np.append(np.flatnonzero(np.diff(ends, prepend=-1)), len(ends))):
        known, entities = sizes[low:high].astype(float), members[low:high].astype(float)
        more = known[None, :] - known[:, None]  # [known, true]
        ways = gammaln(known + 1)[None, :] - gammaln(known + 1)[:, None] - gammaln(np.maximum(more, 0) + 1)
        lacking = np.where(more > 0, np.log(entities)[None, :] + ways + more * np.log(share), -np.inf)
        half = np.log(0.5 * (known + 1) * share)
        odds = np.logaddexp(logsumexp(lacking, axis=1), half) - np.log(entities)
        chances[low:high] = expit(odds)
    return np.asarray(chances[np.searchsorted(pairs, kinds * most + counts)])


def refuse_share(missing: float | None) -> None:
    """Raise if a share of missing facts that a user gave is not between 0 and 1."""
    if missing is not None and not 0 < missing < 1:
        raise SettingError("missing", f"expected more than 0 and less than 1, found {missing:g}")


def not_visible(hidden: float, missing: float) -> float:
    """Share of all true facts that is not visible if a graph lacks a share of them and some of its facts are hidden."""
    return 1 - (1 - hidden) * (1 - missing)


def expected_missing(known: np.ndarray, share: float) -> np.ndarray:
    """The expected number of missing answers [Q] of questions with known answers [Q], if there are any.

    A share of all facts is missing.

    >>> expected_missing(np.array([0, 9, 900]), 0.1).round(2).tolist()
    [1.0, 1.58, 100.0]
    """
    rate = np.maximum(np.asarray(known, float) * share / (1 - share), 1e-9)
    return np.asarray(rate / -np.expm1(-rate))


def chance_hidden(known: np.ndarray, hidden: float, missing: float) -> np.ndarray:
    """The chance [Q] that a true answer is one of the hidden facts, if the question has a hidden answer.

    The missing answers of a question are assumed to be Poisson distributed; a question without known answers lacks
    exactly one.

    >>> chance_hidden(np.array([0, 9, 900]), 0.1, 0.1).round(2).tolist()
    [1.0, 0.66, 0.47]
    """
    share = not_visible(hidden, missing)
    if not missing:
        return np.ones(len(known))
    part = hidden * (1 - missing) / share
    rate = np.maximum(np.asarray(known, float) * share / (1 - share), 1e-9)
    return np.asarray(part * np.expm1(-rate) / np.expm1(-part * rate))


def missing_share(graph: KnowledgeGraph) -> float:
    """Share of all true facts that the graph lacks, by its most reliable rule; `MISSING` if none is reliable.

    Rules are paths of one or two facts that imply another fact between their ends: a symmetric relation, an inverse, a
    part of a part. Their confidence is measured on a sample of paths, and its lower bound is used.
    """
    if not len(graph):
        return MISSING
    cases, holds = _rules(graph)
    usable = cases >= FEWEST_CASES
    least = 1 - float(at_least(holds[usable], cases[usable]).max(initial=0.0))
    return least if least <= MOST_MISSING else MISSING


def at_least(holds: np.ndarray, cases: np.ndarray) -> np.ndarray:
    """Wilson lower bounds [K] on rates, from the numbers of cases [K] and of successes."""
    share = holds / cases
    spread = SURE * np.sqrt(share * (1 - share) / cases + (SURE / cases / 2) ** 2)
    return np.asarray((share + SURE**2 / cases / 2 - spread) / (1 + SURE**2 / cases))


def _rules(graph: KnowledgeGraph) -> tuple[np.ndarray, np.ndarray]:
    """For every rule [K] that ever holds: the number of entity pairs linked by its body, and of those it holds for."""
    rng = generator(0, "missing", "paths")
    facts, r = graph.with_inverses().astype(np.int64), graph.num_relations
    facts = facts[np.argsort(facts[:, HEAD], kind="stable")]
    begins = np.searchsorted(facts[:, HEAD], np.arange(graph.num_entities + 1))
    drawn = facts[rng.integers(len(facts), size=PATHS)] if len(facts) > PATHS else facts
    single = np.stack([drawn[:, RELATION], np.full(len(drawn), 2 * r), drawn[:, HEAD], drawn[:, TAIL]], 1)
    start = facts[rng.integers(len(facts), size=PATHS)]
    middle = start[:, TAIL]
    chosen = begins[middle] + (rng.random(PATHS) * (begins[middle + 1] - begins[middle])).astype(np.int64)
    second = facts[chosen]
    double = np.stack([start[:, RELATION], second[:, RELATION], start[:, HEAD], second[:, TAIL]], 1)
    paths = np.concatenate([single, double])
    paths = np.unique(paths[paths[:, 2] != paths[:, 3]], axis=0)
    _, body, cases = np.unique(paths[:, 0] * (2 * r + 1) + paths[:, 1], return_inverse=True, return_counts=True)
    between = graph.relations_between(paths[:, 2], paths[:, 3])
    rows, implied = between.rows, between.values.astype(np.int64)
    itself = (paths[rows, 1] == 2 * r) & (paths[rows, 0] == implied)
    rule, holds = np.unique(body.reshape(-1)[rows[~itself]] * r + implied[~itself], return_counts=True)
    return cases[rule // r].astype(float), holds.astype(float)


def chance_at(
    table: tuple[np.ndarray, np.ndarray], entities: np.ndarray, relations: np.ndarray, graph: KnowledgeGraph
) -> np.ndarray:
    """Values [B] of `chance_of_missing` for (entity, relation or inverse); NaN where the entity has no fact of it."""
    keys, values = table
    at = find(keys, entities * 2 * graph.num_relations + relations)
    return np.where(at >= 0, values[at], np.nan)


def share_unseen(graph: KnowledgeGraph) -> np.ndarray:
    """[2R + 1]: the chance that the answer to a question is not an entity of the graph.

    For tails of each relation, heads of each relation, and, last, relations that are not in the graph.
    """
    facts, r = graph.triplets.astype(np.int64), graph.num_relations
    entities = np.bincount(facts[:, [HEAD, TAIL]].ravel(), minlength=graph.num_entities)
    relations = np.bincount(facts[:, RELATION], minlength=r)
    shares = np.zeros(2 * r + 1)
    for start, column in ((0, TAIL), (r, HEAD)):
        once = entities[facts[:, column]] == 1
        overall = once.mean() if len(facts) else 0.0
        lost = np.bincount(facts[once, RELATION], minlength=r)
        shares[start : start + r] = (lost + PRIOR * overall) / (relations + PRIOR)
    shares[-1] = (relations == 1).sum() / max(len(facts), 1)
    return shares


def chance_of_answer(graph: KnowledgeGraph, asked: np.ndarray, share: float = MISSING) -> np.ndarray:
    """The chance [Q] that a question [Q, 3], with -1 in the open column, has an unknown answer in the graph.

    The prior of a question without known answers follows from the entities of the same kind (`chance_of_first`), and
    the answer may not be an entity of the graph.
    """
    r = graph.num_relations
    columns = np.argmin(asked, axis=1)
    heads, relations, tails = asked.T
    groups = np.where(columns == RELATION, 2 * r, np.where(columns == HEAD, relations + r, relations))
    result = 1 - graph.derive(share_unseen)[groups]
    entity = np.where(columns == HEAD, tails, heads)
    of_entities = np.flatnonzero(columns != RELATION)
    known = chance_at(graph.derive(chance_of_missing, share), entity[of_entities], groups[of_entities], graph)
    result[of_entities] = np.where(np.isnan(known), result[of_entities], known)
    open_ended = of_entities[np.isnan(known)]
    if len(open_ended):
        result[open_ended] *= chance_of_first(graph, entity[open_ended], groups[open_ended], share, without_kind=1.0)
    of_relations = np.flatnonzero(columns == RELATION)
    if len(of_relations):
        pairs, chances = graph.derive(_chance_of_relation, share)
        at = find(pairs, heads[of_relations] * graph.num_entities + tails[of_relations])
        result[of_relations] = np.where(at >= 0, chances[at], result[of_relations])
    return result


def chance_for_kind(graph: KnowledgeGraph, entities: np.ndarray, relations: np.ndarray) -> np.ndarray:
    """The chance [B] that an entity has any fact of a relation (inverses from R on), from the others of its kind.

    1 if one of them has; otherwise Laplace's 1 / (n + 2) for a kind of n entities, and 1 without a kind.
    """
    have, members = _of_kind(graph, entities, relations)
    return np.where((have == 0) & (members > 0), 1 / (members + 2), 1.0)


def chance_of_first(
    graph: KnowledgeGraph,
    entities: np.ndarray,
    relations: np.ndarray,
    share: float,
    *,
    without_kind: float | None = None,
) -> np.ndarray:
    """The chance [B] that an entity without a known fact of a relation (inverses from R on) lacks one.

    It follows from the part of its kind that has such facts, and the share of all facts that is missing. Without a
    kind, and on very large graphs, the chance is `without_kind`, by default that share.
    """
    otherwise = share if without_kind is None else without_kind
    if len(graph) > WITH_KINDS:
        return np.full(len(entities), otherwise)
    have, members = _of_kind(graph, entities, relations)
    part = (have + 0.5) / (members + 1)
    chances = np.minimum(part * share / ((1 - part) * (1 - share)), 1.0)
    return np.where(members > 0, chances, otherwise)


def _of_kind(graph: KnowledgeGraph, entities: np.ndarray, relations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers [B] of entities of the same kind with a fact of the relation, and of all of that kind; or 0.

    For the relation that states types, kinds are those of the graph without it: entities that lack a type are of the
    kind of others that take part in the same relations.
    """
    have, members = _counted(graph.derive(_having), entities, relations)
    states_types = graph.derive(type_relation)
    rows = np.flatnonzero(relations == (-1 if states_types is None else states_types))
    if len(rows):
        have[rows], members[rows] = _counted(graph.derive(_having_types), entities[rows], relations[rows])
    return have, members


class _Having(NamedTuple):
    """The number of entities of each kind with facts of each relation."""

    kinds: np.ndarray  # int64 [N], -1 without one
    members: np.ndarray  # int64 [K]
    width: int
    """Relations and their inverses."""
    keys: np.ndarray  # int64, sorted: kind * width + relation
    counts: np.ndarray  # int64, of each key


def _having(graph: KnowledgeGraph) -> _Having:
    return _counting(graph, graph.derive(entity_kinds).of_entity.astype(np.int64))


def _having_types(graph: KnowledgeGraph) -> _Having:
    untyped = graph.subset(graph.triplets[:, RELATION] != graph.derive(type_relation))
    return _counting(graph, entity_kinds(untyped).of_entity.astype(np.int64))


def _counting(graph: KnowledgeGraph, kinds: np.ndarray) -> _Having:
    width = 2 * graph.num_relations
    triplets = graph.with_inverses().astype(np.int64)
    entities, relations = np.divmod(distinct(triplets[:, HEAD] * width + triplets[:, RELATION]), max(width, 1))
    of_kind = kinds[entities] >= 0
    keys, counts = np.unique(kinds[entities][of_kind] * width + relations[of_kind], return_counts=True)
    return _Having(kinds, np.bincount(kinds[kinds >= 0], minlength=1), width, keys, counts)


def _counted(having: _Having, entities: np.ndarray, relations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each entity and relation [B], the numbers of entities of its kind with such a fact, and of its kind."""
    mine = having.kinds[entities]
    at = find(having.keys, mine * having.width + relations)
    found = (at >= 0) & (mine >= 0)
    have = np.zeros(len(entities), np.int64)
    have[found] = having.counts[at[found]]
    return have, np.where(mine >= 0, having.members[np.maximum(mine, 0)], 0)


def room_for(graph: KnowledgeGraph, facts: np.ndarray, share: float = MISSING) -> np.ndarray:
    """The chance [F] that facts [F, 3] are compatible with the known facts of their ends.

    1, unless an end already has a known fact of a relation that allows it only one: then the chance that it lacks
    another.
    """
    functional = graph.derive(functional_shares) > 0
    room = np.ones(len(facts))
    for entities, kinds in _ends(graph, facts):
        chance = chance_at(graph.derive(chance_of_missing, share), entities, kinds, graph)
        room = np.minimum(room, np.where(functional[kinds] & ~np.isnan(chance), chance, 1.0))
    return room


def chance_for_kinds(graph: KnowledgeGraph, facts: np.ndarray) -> np.ndarray:
    """The chance [F] that entities of these kinds stand at the ends of facts [F, 3] at all: hops marry nobody."""
    if len(graph) > WITH_KINDS:
        return np.ones(len(facts))
    head, tail = (chance_for_kind(graph, entities, kinds) for entities, kinds in _ends(graph, facts))
    return np.asarray(np.minimum(head, tail))


def _ends(graph: KnowledgeGraph, facts: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The heads of facts [F, 3] with their relations, and the tails with the inverses."""
    heads, relations, tails = facts.T
    return [(heads, relations), (tails, relations + graph.num_relations)]


def _chance_of_relation(graph: KnowledgeGraph, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Sorted keys of the pairs (head, tail) linked by a fact, and the chance that they lack another relation."""
    facts = graph.triplets.astype(np.int64)
    pairs, counts = np.unique(facts[:, HEAD] * graph.num_entities + facts[:, TAIL], return_counts=True)
    return pairs, chance_of_one_more(np.zeros(len(pairs), np.int64), counts, share)
