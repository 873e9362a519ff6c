"""Mined rules in a file: JSON with the clauses as text, their counts, and the best groundings by name.

The clauses are for any graph; the groundings are for graphs with the same names of relations.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anykg.atomic import write_json
from anykg.errors import DataError
from anykg.graph.graph import KnowledgeGraph
from anykg.rules.clause import parse
from anykg.rules.ground import Grounded
from anykg.rules.mine import Measured, Null


@dataclass(frozen=True)
class NamedRule:
    """A grounding as stored: text with names, and its counts."""

    rule: str
    clause: str
    relations: tuple[str, ...]
    """Names of C1, C2, .."""
    body: int
    support: int
    partial: int
    facts: int
    error: float = 0.0
    """Standard error of the confidence, if the counts are estimates."""

    @property
    def confidence(self) -> float:
        """The share of the body's pairs that have the head's relation."""
        return self.support / self.body

    @property
    def pca_confidence(self) -> float:
        """The same among pairs whose E1 has a fact of the head's relation."""
        return self.support / self.partial

    @property
    def head_coverage(self) -> float:
        """The share of the head relation's facts that are implied."""
        return self.support / self.facts


@dataclass(frozen=True)
class RuleSet:
    """Mined rules and the graph they were mined from."""

    graph: str
    digest: str
    clauses: tuple[Measured, ...]
    groundings: tuple[NamedRule, ...] = ()


def rule_set(
    name: str, graph: KnowledgeGraph, clauses: Sequence[Measured], groundings: Sequence[Grounded] = ()
) -> RuleSet:
    """The results of `mine` and `best_groundings`, by name."""
    named = tuple(
        NamedRule(
            g.text(graph),
            str(g.clause),
            tuple(graph.relations[relation] for relation in g.relations),
            g.body,
            g.support,
            g.partial,
            g.facts,
            g.error,
        )
        for g in groundings
    )
    return RuleSet(name, graph.digest, tuple(clauses), named)


def as_json(rules: RuleSet) -> dict[str, Any]:
    """A JSON object with the counts and the measures derived from them."""
    return {
        "graph": rules.graph,
        "digest": rules.digest,
        "clauses": [_clause_row(measured) for measured in rules.clauses],
        "groundings": [asdict(rule) | _ratios(rule) for rule in rules.groundings],
    }


def save_rules(rules: RuleSet, path: Path | str) -> None:
    """Write the rules to a file, atomically."""
    write_json(path, as_json(rules))


def load_rules(path: Path | str) -> RuleSet:
    """Read a file that `save_rules` wrote."""
    path = Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        clauses = tuple(
            Measured(
                clause=parse(row["clause"]),
                family=row["family"],
                **{name: int(row[name]) for name in ("implied", "support", "partial", "facts")},
                null=None if row["null"] is None else Null(**{name: row["null"][name] for name in _NULL}),
            )
            for row in content["clauses"]
        )
        groundings = tuple(
            NamedRule(
                row["rule"],
                row["clause"],
                tuple(row["relations"]),
                **{name: int(row[name]) for name in _COUNTS},
                error=float(row.get("error", 0.0)),
            )
            for row in content["groundings"]
        )
        return RuleSet(content["graph"], content["digest"], clauses, groundings)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); make it with `anykg rules mine --out`.") from error
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}:{error.lineno}: expected rules as written by `anykg rules mine --out`, found what is not JSON or "
            "is cut short; mine them again."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path}: expected rules as written by `anykg rules mine --out`, found something else; give such a file, "
            "or mine them again."
        ) from error


_NULL = ("support", "mean", "deviation", "graphs", "at_least")
_COUNTS = ("body", "support", "partial", "facts")


def _clause_row(measured: Measured) -> dict[str, Any]:
    counts = {name: getattr(measured, name) for name in ("implied", "support", "partial", "facts")}
    null = measured.null and asdict(measured.null) | {"z": measured.null.z, "p": measured.null.p}
    return {"clause": str(measured.clause), "family": measured.family} | counts | _ratios(measured) | {"null": null}


def _ratios(rule: Measured | NamedRule) -> dict[str, float]:
    return {name: round(getattr(rule, name), 6) for name in ("head_coverage", "confidence", "pca_confidence")}
