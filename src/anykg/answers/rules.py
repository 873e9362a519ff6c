"""The rules that hold in a graph: clauses over any relations, and their best instances in this graph's relations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from anykg.answers.inputs import graph_of
from anykg.answers.results import Result
from anykg.answers.table import Answers
from anykg.errors import Interrupted, SettingError
from anykg.graph.graph import KnowledgeGraph
from anykg.io import cache
from anykg.io.catalog import GraphLike
from anykg.printable import printable
from anykg.progress import Progress, ignore
from anykg.rules.apply import Applied, apply
from anykg.rules.clause import ClauseError, parse, quoted, read
from anykg.rules.ground import best_groundings
from anykg.rules.mine import Measured, mine
from anykg.rules.sampled import sampled_groundings
from anykg.rules.store import NamedRule, RuleSet, load_rules, rule_set, save_rules

if TYPE_CHECKING:
    from rich.console import RenderableType

MIN_CONFIDENCE = 0.1
"""Confidence below which mined rules are not applied by default."""
_NUMBERED = re.compile("[EC][1-9][0-9]*")
"""Variables of a clause that cannot be mistaken for names."""
GROUNDINGS = 1000
"""Number of instances kept."""
SHOWN = 20
RATIOS = ("head_coverage", "confidence", "pca_confidence")

Order = Literal["confidence", "pca", "support", "z"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class MinedRules(Result):
    """Clauses and named rules with their support and confidence."""

    rules: RuleSet

    @classmethod
    def load(cls, path: Path | str) -> MinedRules:
        """Read rules that `save` wrote."""
        return cls(command="rules", rules=load_rules(path))

    def save(self, path: Path | str) -> None:
        """Write the rules to a JSON file that `load` and `anykg rules apply` read."""
        save_rules(self.rules, path)

    def to_polars(self) -> pl.DataFrame:
        """Return a row for each clause (kind "clause") and each named rule (kind "rule"), most confident first."""
        rows = [
            {"kind": "clause", "rule": str(found.clause), "family": found.family}
            | _figures(found)
            | {
                "error": 0.0,
                "z": None if found.null is None else found.null.z,
                "p": None if found.null is None else found.null.p,
            }
            for found in self.rules.clauses
        ]
        rows += [
            {"kind": "rule", "rule": found.rule, "family": None}
            | _figures(found)
            | {"error": found.error, "z": None, "p": None}
            for found in self.rules.groundings
        ]
        schema = {"kind": pl.String, "rule": pl.String, "family": pl.String, "support": pl.Int64}
        schema |= dict.fromkeys((*RATIOS, "error", "z", "p"), pl.Float64)
        return pl.DataFrame(rows, schema=schema).sort("confidence", descending=True, maintain_order=True)

    def summary(self) -> dict[str, Any]:
        """Return the settings of the mining and the numbers of clauses and named rules."""
        counts = {"clauses": len(self.rules.clauses), "groundings": len(self.rules.groundings)}
        return {"graph": self.rules.graph, "digest": self.rules.digest} | counts

    def renderables(
        self, count: int = SHOWN, by: Order = "confidence", family: str | None = None
    ) -> list[RenderableType]:
        """Return a table of the best named rules and one of the best clauses."""
        clauses = [found for found in self.rules.clauses if family in (None, found.family)]
        clauses.sort(key=lambda found: -_value(found, by))
        name = printable(self.rules.graph)
        parts: list[RenderableType] = []
        if self.rules.groundings and family in (None, "path"):
            named = sorted(self.rules.groundings, key=lambda found: -_value(found, by))
            parts.append(_table(f"rules in relations of {name}", named[:count]))
        if clauses or not self.rules.groundings:
            parts.append(_table(f"clauses on {name}, any entities and relations", clauses[:count]))
        return parts


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ImpliedFacts(Answers):
    """Facts that rules imply, best first: confidence, the most confident rule, and the facts that match its body."""

    total: int
    """Number of unknown facts that the rules imply; `k` limits how many are listed."""

    def summary(self) -> dict[str, Any]:
        """Return the numbers of listed and of implied facts."""
        return super().summary() | {"implied": self.total}

    @property
    def sentence(self) -> str:
        """How many of the implied facts are listed; empty if all are."""
        return f"The best {len(self):,} of {self.total:,} implied facts" if len(self) < self.total else ""

    def renderables(self) -> list[RenderableType]:
        """Return the facts, each with its reasons, and how many there are."""
        from rich.text import Text

        lines = [
            f"{row['confidence']:.3f}  ({row['head']}, {row['relation']}, {row['tail']})\n"
            f"       because {printable(row['because'])}\n       by {row['rule']}"
            for row in self
        ]
        if not lines:
            return ["No unknown facts are implied."]
        more = [f"{self.sentence}; `k` sets the number."] if self.sentence else []
        return [Text(printable("\n".join(lines), lines=True)), *more]


def rules(
    graph: GraphLike,
    *,
    length: int = 3,
    nulls: int = 10,
    min_support: int = 10,
    seconds: float | None = None,
    seed: int = 0,
    progress: Progress = ignore,
    resume: bool = False,
) -> MinedRules:
    """Mine the rules that hold in a graph.

    Args:
        graph: A graph, file, dataset name, DataFrame, NetworkX graph or list of triples.
        length: Longest path in a clause, 1 to 3.
        nulls: Number of shuffled graphs that significance is measured against; 0 for none.
        min_support: Minimum number of facts that a named rule must imply.
        seconds: Sample rules over the graph's relations for about this many seconds instead of counting every clause:
            for graphs with millions of facts. Their counts are estimates, with standard errors of the confidences;
            `nulls` and `resume` do not apply.
        seed: Seed for the shuffled graphs and samples.
        progress: Called with (done, total) units of work.
        resume: Keep intermediate counts in the user's cache, and continue from them after an interruption.
    """
    loaded, info = graph_of(graph)
    if seconds is not None:
        if seconds <= 0:
            raise SettingError("seconds", f"expected more than 0, found {seconds:g}")
        sampled = sampled_groundings(
            loaded, length, seconds=seconds, min_support=min_support, count=GROUNDINGS, seed=seed, progress=progress
        )
        return MinedRules(command="rules", graph=info, rules=rule_set(info.name, loaded, (), sampled))
    checkpoint = cache.folder().parent / "rules" / f"{loaded.digest}.json" if resume and cache.limit() else None
    try:
        clauses = mine(loaded, length=length, nulls=nulls, seed=seed, progress=progress, checkpoint=checkpoint)
    except KeyboardInterrupt as stop:
        if checkpoint is None:
            raise
        raise Interrupted("Stopped; what is counted is kept. Run it again to resume.") from stop
    named = best_groundings(loaded, length, min_support=min_support, count=GROUNDINGS)
    return MinedRules(command="rules", graph=info, rules=rule_set(info.name, loaded, clauses, named))


def apply_rules(
    rules: MinedRules | Path | str,
    graph: GraphLike,
    *,
    min_confidence: float | None = None,
    k: int | None = 20,
    progress: Progress = ignore,
) -> ImpliedFacts:
    """Predict with rules alone: return the facts they imply, with the best rule, its confidence and the reasons.

    Only facts that are not in the graph are returned.

    Mined rules with named relations are applied if the graph has relations of these names, otherwise the clauses.

    Args:
        rules: Mined rules, a file of them, or a clause such as "(E1, C2, E3) & (E3, C1, E2) => (E1, C1, E2)"; names of
            relations in quotes, as in "(x, 'borders', y) => (y, 'borders', x)".
        graph: A graph, file, dataset name, DataFrame, NetworkX graph or list of triples.
        min_confidence: Leave out rules that were less confident on the graph they were mined from; a clause that is
            given as text is measured on this graph. By default 0.1 for mined rules, and 0 for a clause.
        k: Number of facts; None for all.
        progress: Called with (done, total) clauses, then facts.
    """
    loaded, info = graph_of(graph)
    warnings: tuple[str, ...] = ()
    if isinstance(rules, str) and "=>" in rules:
        rule, warnings = _written(rules, loaded)
        chosen, least = [rule], 0.0
    else:
        chosen = _to_apply((rules if isinstance(rules, MinedRules) else MinedRules.load(rules)).rules, loaded)
        least = MIN_CONFIDENCE
    least = least if min_confidence is None else min_confidence
    found = apply(chosen, loaded, k=k, min_confidence=least, progress=progress)
    return ImpliedFacts(command="rules apply", graph=info, frame=found.best, total=found.total, warnings=warnings)


def _written(text: str, graph: KnowledgeGraph) -> tuple[Applied, tuple[str, ...]]:
    """Parse a clause written by a user, with warnings about variables that look like names."""
    written = read(text)
    meant = [name for name in written.relation_variables if not _NUMBERED.fullmatch(name) and name in graph.relations]
    if meant:
        are, they = (
            ("is a relation", "it is a variable") if len(meant) == 1 else ("are relations", "they are variables")
        )
        raise ClauseError(
            f"{text!r}: {' and '.join(map(repr, meant))} {are} of this graph, but without quotes {they} for any "
            f"relation. Write (.., {quoted(meant[0])}, ..) for the relation, or choose another name for a variable."
        )
    relations = tuple(None if name is None else graph.relations.index(name) for name in written.relations)
    named = [relation for relation in relations if relation is not None]
    if len(set(named)) < len(named):
        raise ClauseError(f"{text!r}: expected different names for different relations, found two for the same.")
    warnings = tuple(
        f"{name} is a variable in the clause and does not refer to the entity of that name."
        for name in written.entity_variables
        if not _NUMBERED.fullmatch(name) and name in graph.entities
    )
    return Applied(text, written.clause, None, relations), warnings


def _to_apply(found: RuleSet, graph: KnowledgeGraph) -> list[Applied]:
    """The named rules whose relations the graph has; the clauses, if there are none."""
    named = []
    for rule in found.groundings:
        ids = [graph.relations.find(name) for name in rule.relations]
        if all(index is not None for index in ids):
            named.append(Applied(rule.rule, parse(rule.clause), rule.confidence, tuple(ids)))
    return named or [Applied(str(one.clause), one.clause, one.confidence) for one in found.clauses]


def described(text: str) -> dict[str, str]:
    """A clause in words: its canonical form, its variables, its head."""
    written = read(text)
    clause = written.clause
    named = [f"C{number} is {quoted(name)}" for number, name in enumerate(written.relations, 1) if name is not None]
    head = "an attribute of E1" if clause.attribute else "a link from E1 to E2"
    return {
        "clause": str(clause),
        **({"relations": ", ".join(named)} if named else {}),
        "canonical": str(clause.canonical()),
        "variables": f"{clause.num_entities} entities, {clause.num_relations} relations, all distinct",
        "head": head + ("; a tautology, the head is in the body" if clause.is_tautology else ""),
    }


def _figures(rule: Measured | NamedRule) -> dict[str, Any]:
    return {"support": rule.support} | {name: getattr(rule, name) for name in RATIOS}


def _value(rule: Measured | NamedRule, by: Order) -> float:
    null = getattr(rule, "null", None)
    if by == "z":
        return float(null.z) if null is not None else rule.pca_confidence
    return float({"support": rule.support, "confidence": rule.confidence, "pca": rule.pca_confidence}[by])


def _table(title: str, rules: Sequence[Measured | NamedRule]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    clauses = [rule for rule in rules if isinstance(rule, Measured)]
    table = Table(title=title, box=None, pad_edge=False, title_justify="left")
    sampled = any(isinstance(rule, NamedRule) and rule.error for rule in rules)
    more = ["z"] if clauses else ["± conf."] if sampled else []
    for name in ("support", "coverage", "conf.", "pca conf.", *more):
        table.add_column(name, justify="right")
    if clauses:
        table.add_column("family")
    table.add_column("clause" if clauses else "rule", overflow="fold")
    for rule in rules:
        cells = [f"{rule.support:,}", *(f"{getattr(rule, name):.3f}" for name in RATIOS)]
        if isinstance(rule, Measured):
            cells += ["" if rule.null is None else f"{rule.null.z:.1f}", rule.family, str(rule.clause)]
        else:
            cells += [*([f"{rule.error:.3f}"] if sampled else []), printable(rule.rule)]
        table.add_row(*map(Text, cells))
    return table
