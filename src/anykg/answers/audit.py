"""Find known facts that the rest of the graph contradicts.

Every fact is hidden once and judged by the others (`answers.auditing.plausibility`). Facts below a plausibility
threshold are listed, least plausible first, each with a reason: a property of the relation that the fact violates
(`graph.schema`), an entity of an unusual kind, or the answer that was expected instead, with the rule of the graph that
supports it most.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from anykg.answers.auditing.plausibility import NO_BETTER, Effort, Plausibility, plausibility
from anykg.answers.explaining.matches import Match, matches
from anykg.answers.explaining.show import sentence
from anykg.answers.inputs import Name, graph_of, look_up
from anykg.answers.results import SHOWN_ROWS, Result, table_of_frame
from anykg.cluster import Cluster, connected
from anykg.errors import DataError, SettingError
from anykg.graph.graph import HEAD, RELATION, TAIL, KnowledgeGraph
from anykg.graph.schema import (
    FEWEST,
    IRREFLEXIVE,
    Kinds,
    entity_kinds,
    functional_shares,
    one_way_relations,
    redundant_relations,
    relation_counts,
)
from anykg.io.catalog import GraphLike
from anykg.progress import Progress, ignore

if TYPE_CHECKING:
    from rich.console import RenderableType

FOLDS = 10
FITTING, MINING = 0.5, 0.12
"""Shares of the time for ComplEx and for rules; the rest is for scoring."""
NEGATIVES = 30_000
"""Number of facts that are corrupted, twice each, to learn plausibility from."""
RARE_KIND = 0.05
"""A kind is unusual at an end if it has less than this share of the entities there."""
FAR_DOWN = 10
"""Rank beyond which an answer is unexpected, if there is another reason as well."""
DOUBTFUL = 0.5
"""Plausibility below which a fact is listed by default."""
LISTED, FEW, MOST = 0.02, 10, 100
"""Share of the facts that is listed by default, within these bounds."""
RULES = 10
"""Number of rules that are considered for a reason."""
SMALL = 50_000
"""Graphs of up to this many facts use rules of three steps, which are found quickly there; larger ones use two."""
FEWEST_PAIRS, LEAST_SHARE, TIMES = 4, 0.1, 2.0
"""Minimum number of pairs and share of agreeing pairs for a rule to be a reason, and the minimum ratio of that share to
that of any rule for the fact itself."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Audit(Result):
    """The least plausible facts, least plausible first."""

    frame: pl.DataFrame
    log_odds: np.ndarray
    """The plausibility of all facts of the graph, in its order."""
    seconds: float
    below: float = DOUBTFUL
    """Facts of at least this plausibility are not listed."""
    doubtful: int = 0
    """Number of facts below this plausibility."""
    considered: int = 0
    """Number of facts that could be listed: all that can be judged, or those of the given relations."""
    alone: int = 0
    """Number of facts that are the only fact of an entity; without them nothing is known about it, so they are not
    listed."""

    def to_polars(self) -> pl.DataFrame:
        """Return head, relation, tail, plausibility, tail_rank, head_rank, expected_tail, expected_head, reason."""
        return self.frame

    def summary(self) -> dict[str, Any]:
        """Return the number of facts judged, and the number below the plausibility threshold."""
        judged = {"judged": self.considered, "not_judged": self.alone, "max_plausibility": self.below}
        return judged | {"doubtful": self.doubtful, "seconds": self.seconds}

    @property
    def sentence(self) -> str:
        """The number of doubtful facts, and how many of them are listed."""
        are = "is" if self.doubtful == 1 else "are"
        text = f"{self.doubtful:,} of {self.considered:,} facts {are} less plausible than {self.below:g}"
        if len(self.frame) < self.doubtful:
            listed = (
                "the least plausible is" if len(self.frame) == 1 else f"the {len(self.frame):,} least plausible are"
            )
            text = f"{text}; {listed} listed"
        if not self.alone:
            return f"{text}."
        if self.alone == 1:
            return f"{text}. 1 more is the only fact of an entity, so it cannot be judged."
        return f"{text}. {self.alone:,} more are the only fact of an entity, so they cannot be judged."

    def renderables(self) -> list[RenderableType]:
        """Return a table of the facts and the reasons, and the number of doubtful facts."""
        from rich.text import Text

        shown = self.frame.select("plausibility", "head", "relation", "tail", "reason").head(SHOWN_ROWS)
        left = len(self.frame) - len(shown)
        more = [f"... and {left:,} more"] if left else []
        return [*([table_of_frame(shown)] if len(shown) else []), *more, Text(self.sentence)]


def audit(
    graph: GraphLike,
    *,
    count: int | None = None,
    max_plausibility: float = DOUBTFUL,
    relations: Iterable[Name] | None = None,
    folds: int = FOLDS,
    minutes: float | None = None,
    epochs: int | None = None,
    seed: int = 0,
    again: bool = False,
    cluster: Cluster | str | None = None,
    progress: Progress = ignore,
) -> Audit:
    """List the known facts that the rest of the graph finds implausible, least plausible first.

    Args:
        graph: A graph, file, dataset name, DataFrame, NetworkX graph or list of triples.
        count: Maximum number of facts; by default a fiftieth of all facts, at least 10 and at most 100.
        max_plausibility: Only list facts with a lower plausibility: the probability that a fact is right rather than
            the same fact with one end redrawn among entities of the same kind, if both are equally frequent. 1 lists
            any.
        relations: Only list facts of these relations; all facts are judged.
        folds: Number of folds that are held out in turn.
        minutes: Approximate time; by default 1 minute, and 1 more for every 15,000 facts, up to 20. The stored
            result of an audit with at least this much time is used instead.
        epochs: Epochs of ComplEx on each fold, instead of a time limit: the result then depends only on `seed`.
        seed: Seed for drawing the folds, and the corrupted facts from which plausibility is learned.
        again: Repeat the audit even if a result is stored.
        cluster: Address of a Ray cluster that processes the folds: "auto", HOST:PORT, or "local" for all cores of this
            machine. The effort for each fold is the same as on one machine, so an audit takes less time.
        progress: Called with (done, total) steps.
    """
    import time

    if count is not None and count < 1:
        raise SettingError("count", f"expected at least 1, found {count}")
    if not 0 < max_plausibility <= 1:
        raise SettingError("max_plausibility", f"expected more than 0 and at most 1, found {max_plausibility}")
    if folds < 2:
        raise SettingError("folds", f"expected at least 2, found {folds}")
    loaded, info = graph_of(graph)
    started = time.perf_counter()
    effort = effort_of(loaded, folds, minutes, epochs)
    with connected(cluster) as workers:
        judged = plausibility(
            loaded, folds=folds, effort=effort, seed=seed, again=again, cluster=workers, progress=progress
        )
    order, alone = np.argsort(judged.log_odds, kind="stable"), _only_facts(loaded)
    if relations is not None:
        order = order[np.isin(loaded.triplets[order, RELATION], look_up(loaded.relations, relations))]
    not_judged = int(alone[order].sum())
    order = order[~alone[order]]
    doubtful = order[(_plausible(judged.log_odds[order]) < max_plausibility) | (max_plausibility == 1)]
    count = min(max(int(LISTED * len(order)), FEW), MOST) if count is None else count
    frame = _table(loaded, judged, doubtful[:count])
    return Audit(
        command="audit",
        graph=info,
        frame=frame,
        log_odds=judged.log_odds,
        seconds=time.perf_counter() - started,
        below=max_plausibility,
        doubtful=len(doubtful),
        considered=len(order),
        alone=not_judged,
    )


def effort_of(graph: KnowledgeGraph, folds: int, minutes: float | None, epochs: int | None) -> Effort:
    """The work for each part; raises if the graph is too small for it, or if there is no time for it."""
    if minutes is not None and minutes <= 0:
        raise SettingError("minutes", f"expected more than 0, found {minutes:g}")
    if epochs is not None and epochs < 1:
        raise SettingError("epochs", f"expected at least 1, found {epochs}")
    if len(graph) < 2 * folds:
        raise DataError(f"Expected at least {2 * folds} facts to audit, found {len(graph)}.")
    if epochs is not None:
        return Effort(None, None, NEGATIVES // folds, epochs)
    seconds = 60 * (default_minutes(graph) if minutes is None else minutes)
    return Effort(FITTING * seconds / folds, MINING * seconds / folds, NEGATIVES // folds)


def _plausible(log_odds: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-log_odds.astype(np.float64)))


def _only_facts(graph: KnowledgeGraph) -> np.ndarray:
    """Bool [E]: facts without which one of their ends has none."""
    ends = graph.triplets[:, [HEAD, TAIL]]
    counts = np.bincount(ends[ends[:, 0] != ends[:, 1]].ravel(), minlength=graph.num_entities)
    return np.asarray((counts[ends] == 1).any(1) & (ends[:, 0] != ends[:, 1]))


def default_minutes(graph: KnowledgeGraph) -> float:
    """The default time of an audit: 1 minute, and 1 more for every 15,000 facts, up to 20."""
    return min(1 + len(graph) / 15_000, 20.0)


def _table(graph: KnowledgeGraph, found: Plausibility, rows: np.ndarray) -> pl.DataFrame:
    facts = graph.triplets[rows].astype(np.int64)
    names = [graph.entities.names.gather(facts[:, column]) for column in (HEAD, TAIL)]
    expected = [
        [None if entity == NO_BETTER else graph.entities[int(entity)] for entity in found.expected[rows, side]]
        for side in (0, 1)
    ]
    reasons = _Reasons(graph)
    return pl.DataFrame(
        {
            "head": names[0],
            "relation": graph.relations.names.gather(facts[:, RELATION]),
            "tail": names[1],
            "plausibility": _plausible(found.log_odds[rows]),
            "tail_rank": found.ranks[rows, 0],
            "head_rank": found.ranks[rows, 1],
            "expected_tail": pl.Series(expected[0], dtype=pl.String),
            "expected_head": pl.Series(expected[1], dtype=pl.String),
            "reason": [
                reasons.of(fact, found.ranks[row], found.expected[row]) for row, fact in zip(rows, facts, strict=True)
            ],
        }
    )


class _Reasons:
    """Describes what is wrong with a fact."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph = graph
        self.counts = graph.derive(relation_counts)
        self.kinds: Kinds = graph.derive(entity_kinds)
        self.one_way = graph.derive(one_way_relations)
        self.functional = graph.derive(functional_shares) > 0
        self.alike = graph.derive(redundant_relations)
        self.longest = 3 if len(graph) <= SMALL else 2
        self.shares: dict[tuple[int, int], np.ndarray] = {}

    def of(self, fact: np.ndarray, ranks: np.ndarray, expected: np.ndarray) -> str:
        """One or more sentences without a full stop, joined by semicolons."""
        reasons = [*self._violations(fact), *self._unusual_kinds(fact)]
        unexpected = 1 if not reasons else FAR_DOWN  # without another reason, any better answer is one
        sides = [
            side
            for side in (0, 1)
            if ranks[side] > unexpected and expected[side] != NO_BETTER and not self._taken(int(fact[RELATION]), side)
        ]
        if sides:
            reasons.append(self._instead(fact, ranks, expected, sides[0]))
        return "; ".join([*(reasons or [self._without_reason(fact)]), *self._said_elsewhere(fact)])

    def _said_elsewhere(self, fact: np.ndarray) -> list[str]:
        """The known fact that an inverse or duplicate relation states as well: if one is wrong, so is the other."""
        head, relation, tail = (int(part) for part in fact)
        for other in self.alike[self.alike[:, 0] == relation, 1].tolist():
            inverse = other >= self.graph.num_relations
            start, end = (tail, head) if inverse else (head, tail)
            same = np.array([start, other % self.graph.num_relations, end])
            if not (same == fact).all() and self.graph.contains(same):
                label, name = self.graph.entities.label, self.graph.relations.label(int(same[1]))
                return [f"({label(start)}, {name}, {label(end)}) is known and states the same"]
        return []

    def _without_reason(self, fact: np.ndarray) -> str:
        """The reason for a fact that nothing contradicts: the rule that implies it, if there is one."""
        rest = self.graph.without(fact[None])  # otherwise the fact would count among the pairs that agree
        for rule in matches(None, rest, fact, RULES, self.longest):
            if (rule.body or 0) >= FEWEST_PAIRS and rule.share >= LEAST_SHARE:
                because = self._because(rule, int(fact[HEAD]))
                return f"no specific contradiction was found, and a rule supports it: {because}"
        return "little else in the graph supports it"

    def _because(self, rule: Match, start: int) -> str:
        """A rule in the names of the graph, and how often it holds."""
        text = sentence(self.graph, replace(rule, support=None), start)
        return f"{text} ({rule.support:,} of {rule.body:,} such pairs agree)"

    def _taken(self, relation: int, side: int) -> bool:
        """Whether an entity at this end has only one fact of the relation, so that no other one is expected."""
        return bool(self.functional[relation + (0 if side else self.graph.num_relations)])

    def _instead(self, fact: np.ndarray, ranks: np.ndarray, expected: np.ndarray, side: int) -> str:
        """The answer that was expected instead of one end, with the rule that supports it most."""
        label, column = self.graph.entities.label, (TAIL, HEAD)[side]
        other = fact.copy()
        other[column] = expected[side]
        rule = self._rule(fact, other)
        text = f"{label(int(expected[side]))} was expected as {('tail', 'head')[side]}"
        if rule is None:
            return f"{text}, {label(int(fact[column]))} has rank {ranks[side]:,.0f} of {self.graph.num_entities:,}"
        start = int(fact[HEAD]) if side == 0 else int(expected[side])
        return f"{text}: {self._because(rule, start)}"

    def _rule(self, fact: np.ndarray, other: np.ndarray) -> Match | None:
        """The most confident rule among those that imply the other fact, if it beats those for the fact itself."""
        own = next((rule.share for rule in matches(None, self.graph, fact, 1, self.longest)), 0.0)
        for rule in matches(None, self.graph, other, RULES, self.longest):
            proves_itself = (rule.facts == fact).all(1).any()
            enough = (rule.body or 0) >= FEWEST_PAIRS and rule.share >= max(LEAST_SHARE, TIMES * own)
            if enough and not proves_itself:
                return rule
        return None

    def _violations(self, fact: np.ndarray) -> list[str]:
        head, relation, tail = (int(part) for part in fact)
        counts, name = self.counts, f"'{self.graph.relations.label(relation)}'"
        facts, links = int(counts.facts[relation]), int(counts.facts[relation] - counts.loops[relation])
        if facts < FEWEST:
            return []
        reasons = []
        if head == tail and counts.loops[relation] <= max(1.0, (1 - IRREFLEXIVE) * facts):
            reasons.append(f"{name} joins an entity to itself in {counts.loops[relation]:,} of {facts:,} facts")
        backwards = head != tail and bool(self.graph.contains(np.array([tail, relation, head])))
        if backwards and (self.one_way[relation] or counts.mutual[relation] <= max(2.0, 0.05 * links)):
            reasons.append(
                f"the inverse is known too, and in {links - counts.mutual[relation]:,} of {links:,} facts {name} "
                "goes one way"
            )
        for start, end, kind, single, all_of in (
            (head, tail, relation, counts.single_heads, counts.heads),
            (tail, head, relation + self.graph.num_relations, counts.single_tails, counts.tails),
        ):
            others = self.graph.answers(np.array([start]), np.array([kind])).values
            if len(others) > 1 and self.functional[kind]:
                other = next(int(entity) for entity in others if entity != end)
                which, what = ("heads", "tail") if kind == relation else ("tails", "head")
                reasons.append(
                    f"{single[relation]:,} of {all_of[relation]:,} {which} of {name} have one {what}, but "
                    f"{self.graph.entities.label(start)} also has {self.graph.entities.label(other)}"
                )
        return reasons

    def _unusual_kinds(self, fact: np.ndarray) -> list[str]:
        reasons = []
        for column, what in ((HEAD, "heads"), (TAIL, "tails")):
            shares = self._kinds_at(int(fact[RELATION]), column)
            kind = int(self.kinds.of_entity[fact[column]])
            if kind >= 0 and shares.sum() >= FEWEST and shares[kind] <= max(1.0, RARE_KIND * shares.sum()):
                usual = int(shares.argmax())
                reasons.append(
                    f"{self.graph.entities.label(int(fact[column]))} has kind '{self.kinds.names[kind]}', and "
                    f"{shares[usual] / shares.sum():.0%} of the {what} have kind '{self.kinds.names[usual]}'"
                )
        return reasons

    def _kinds_at(self, relation: int, column: int) -> np.ndarray:
        """The number of entities of each kind at an end."""
        key = (relation, column)
        if key not in self.shares:
            at = np.unique(self.graph.triplets[self.graph.triplets[:, RELATION] == relation, column])
            kinds = self.kinds.of_entity[at]
            self.shares[key] = np.bincount(kinds[kinds >= 0], minlength=len(self.kinds.names))
        return self.shares[key]
