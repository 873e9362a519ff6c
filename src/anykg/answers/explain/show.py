"""An explanation as text and as JSON, by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from anykg.answers.explain.explanation import Explanation
from anykg.answers.explain.matches import Match
from anykg.answers.explain.paths import Path
from anykg.graph.graph import KnowledgeGraph


def as_json(explanation: Explanation) -> dict[str, Any]:
    """Everything, with names."""
    graph, removal = explanation.graph, explanation.removal
    return {
        "triplet": list(_names(graph, explanation.triplet)),
        "known": explanation.known,
        "score": explanation.score,
        "rank": explanation.rank,
        "paths": [
            {"facts": _facts(graph, path.facts), "worth": path.worth, "effect": path.effect}
            for path in explanation.paths
        ],
        "clauses": [
            {
                "clause": str(match.clause),
                "facts": _facts(graph, match.facts),
                "support": match.support,
                "body": match.body,
                "weight": match.weight,
            }
            for match in explanation.matches
        ],
        "removed": {"facts": _facts(graph, removal.facts), "score": removal.score, "rank": removal.rank},
        "random": [
            {"facts": _facts(graph, other.facts), "score": other.score, "rank": other.rank}
            for other in explanation.random
        ],
    }


def as_text(explanation: Explanation) -> str:
    """What a person reads."""
    graph = explanation.graph
    known = "; the graph has this fact, which was taken out" if explanation.known else ""
    lines = [
        f"({', '.join(_names(graph, explanation.triplet))})",
        f"score {explanation.score:.2f}, place {explanation.rank:g} of {explanation.candidates:,}{known}",
    ]
    if explanation.paths:
        lines += ["", "The score depends on these paths (by how much it falls as they are removed in turn):"]
        lines += [f"  {-path.effect:+.2f}  {_walk(graph, path)}" for path in explanation.paths]
    lines += [
        "",
        "Clauses that imply it, and the facts they do so by:" if explanation.matches else "No clause implies it.",
    ]
    for match in explanation.matches:
        lines += [f"  {match.clause}{_how_often(match)}"]
        lines += [f"      ({', '.join(fact)})" for fact in _facts(graph, match.facts)]
    lines += ["", *_test(explanation)]
    return "\n".join(lines)


def _test(explanation: Explanation) -> list[str]:
    removal, others = explanation.removal, explanation.random
    count = len(removal.facts)
    if not count:
        return ["There is nothing to remove: no fact was given as a reason."]
    kind = "paths" if explanation.paths else "clauses"
    lines = [
        f"Without the {count} facts of the {kind}: score {removal.score:.2f} "
        f"({removal.score - explanation.score:+.2f}), place {removal.rank:g}."
    ]
    if others:
        mean = float(np.mean([other.score for other in others]))
        places = float(np.mean([other.rank for other in others]))
        lines.append(
            f"Without {len(others[0].facts)} random facts nearby, mean of {len(others)} draws: score {mean:.2f} "
            f"({mean - explanation.score:+.2f}), place {places:g}."
        )
        if removal.score >= mean:
            lines.append("Removing the reasons does no more than chance: do not rely on this explanation.")
    return lines


def _how_often(match: Match) -> str:
    parts = []
    if match.weight is not None:
        parts.append(f"{match.weight:+.2f} to the score")
    if match.support is not None and match.body is not None:
        parts.append(f"holds for {match.support:,} of {match.body:,} such pairs here")
    return f"  [{'; '.join(parts)}]" if parts else ""


def _walk(graph: KnowledgeGraph, path: Path) -> str:
    """A -r-> B <-s- C."""
    text = graph.entities.label(path.nodes[0])
    for fact, node in zip(path.facts, path.nodes[1:], strict=True):
        relation = graph.relations.label(int(fact[1]))
        arrow = f"-{relation}->" if fact[2] == node else f"<-{relation}-"
        text += f" {arrow} {graph.entities.label(node)}"
    return text


def _facts(graph: KnowledgeGraph, facts: np.ndarray) -> list[list[str]]:
    return [list(_names(graph, fact)) for fact in facts]


def _names(graph: KnowledgeGraph, triplet: np.ndarray) -> tuple[str, str, str]:
    head, relation, tail = (int(part) for part in triplet)
    return graph.entities.label(head), graph.relations.label(relation), graph.entities.label(tail)
