"""An explanation as text and as JSON, by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from anykg.answers.explaining.contrast import Contrast
from anykg.answers.explaining.explanation import Explanation
from anykg.answers.explaining.matches import Match
from anykg.answers.explaining.paths import Path
from anykg.graph.graph import KnowledgeGraph


def as_json(explanation: Explanation) -> dict[str, Any]:
    """The whole explanation as JSON, by name."""
    graph, removal = explanation.graph, explanation.removal
    return {
        "triplet": list(_names(graph, explanation.triplet)),
        "known": explanation.known,
        "score": explanation.score,
        "rank": explanation.rank,
        "contrast": None if explanation.contrast is None else _contrast_json(graph, explanation.contrast),
        "paths": [
            {"facts": _facts(graph, path.facts), "worth": path.worth, "effect": path.effect}
            for path in explanation.paths
        ],
        "clauses": [
            {
                "clause": str(match.clause),
                "sentence": sentence(graph, match, int(explanation.triplet[0])),
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
    """The explanation as text."""
    graph = explanation.graph
    known = "; the graph has this fact, which was removed first" if explanation.known else ""
    lines = [
        f"({', '.join(_names(graph, explanation.triplet))})",
        f"score {explanation.score:.2f}, rank {explanation.rank:g} of {explanation.candidates:,}{known}",
    ]
    if explanation.contrast is not None:
        lines += _contrast_lines(graph, explanation)
    if explanation.paths:
        lines += ["", "The score depends on these paths (by how much it falls as they are removed in turn):"]
        lines += [f"  {-path.effect:+.2f}  {_walk(graph, path)}" for path in explanation.paths]
    matches = [match for match in explanation.matches if match.support != 0]  # what never held speaks for nothing
    lines += ["", "Evidence for it in this graph:" if matches else "No clause that holds in this graph implies it."]
    head = int(explanation.triplet[0])
    lines += [f"  {sentence(graph, match, head)}" for match in matches]
    lines += ["", *_test(explanation)]
    return "\n".join(lines)


def _test(explanation: Explanation) -> list[str]:
    removal, others = explanation.removal, explanation.random
    count = len(removal.facts)
    if not count:
        return ["There is nothing to remove: no facts were given as reasons."]
    kind = "paths" if explanation.paths else "clauses"
    lines = [
        f"Without the {count} facts of the {kind}: score {removal.score:.2f} "
        f"({removal.score - explanation.score:+.2f}), rank {removal.rank:g}."
    ]
    if others:
        mean = float(np.mean([other.score for other in others]))
        rank = float(np.mean([other.rank for other in others]))
        lines.append(
            f"Without {len(others[0].facts)} random facts nearby, mean of {len(others)} draws: score {mean:.2f} "
            f"({mean - explanation.score:+.2f}), rank {rank:g}."
        )
        if removal.score >= mean:
            lines.append(
                "Removing the reasons has no more effect than removing random facts: do not rely on this explanation."
            )
    return lines


def sentence(graph: KnowledgeGraph, match: Match, head: int) -> str:
    """A clause in the names of the graph: the facts along the path from the head, and how often the fact then holds."""
    parts = []
    facts = _along(match.facts, head)
    while facts:
        fact = facts.pop(0)
        subject, relation, thing = _names(graph, fact)
        if facts and (facts[0][1:] == fact[1:]).all():  # both have the same fact
            subject += f", like {_names(graph, facts.pop(0))[0]},"
        parts.append(f"{subject} {relation} {thing}")
    text = ", and ".join(parts)
    if match.support is not None and match.body:
        text += f"; the fact holds for {match.support:,} of {match.body:,} such pairs"
    return text if match.weight is None else f"{text} ({match.weight:+.2f} to the score)"


def _along(facts: np.ndarray, start: int) -> list[np.ndarray]:
    """Facts in the order of a walk from an entity, as far as they connect."""
    left, ordered, at = list(facts), [], start
    while left:
        joined = [index for index, fact in enumerate(left) if at in (int(fact[0]), int(fact[2]))]
        fact = left.pop(joined[0] if joined else 0)
        at = int(fact[2]) if int(fact[0]) == at else int(fact[0])
        ordered.append(fact)
    return ordered


def _contrast_lines(graph: KnowledgeGraph, explanation: Explanation) -> list[str]:
    contrast = explanation.contrast
    assert contrast is not None
    head, relation, tail = _names(graph, explanation.triplet)
    other = graph.entities.label(contrast.other)
    lines = []
    if contrast.known:
        best = graph.entities.label(contrast.known[0][0])
        lines.append(f"A better answer is already known: {head} {relation} {best} (score {contrast.known[0][1]:.2f}).")
    if contrast.lead >= 0:
        lines += ["", f"Why {tail} and not {other} (score {contrast.other_score:.2f}, behind by {contrast.lead:.2f})?"]
    else:
        lines += ["", f"The model prefers {other} (score {contrast.other_score:.2f}, ahead by {-contrast.lead:.2f})."]
    for single in contrast.facts:
        lead = single.score - single.other
        if contrast.lead >= 0:
            change = f"the lead is {lead:+.2f} instead of {contrast.lead:+.2f}"
        else:
            change = f"{other} is ahead by {-lead:.2f} instead of {-contrast.lead:.2f}"
        lines.append(f"  Without ({', '.join(_names(graph, single.fact))}) {change}.")
    if not contrast.facts:
        lines.append(f"  None of {contrast.tested:,} single facts near them make a difference if removed.")
    elif contrast.tested < contrast.nearby:
        lines.append(f"  ({contrast.tested:,} of {contrast.nearby:,} facts near them were tested.)")
    return lines


def _contrast_json(graph: KnowledgeGraph, found: Contrast) -> dict[str, Any]:
    return {
        "other": graph.entities.label(found.other),
        "score": found.other_score,
        "lead": found.lead,
        "tested": found.tested,
        "nearby": found.nearby,
        "facts": [
            {"fact": list(_names(graph, single.fact)), "lead": single.score - single.other, "effect": single.effect}
            for single in found.facts
        ],
        "known": [{"answer": graph.entities.label(entity), "score": score} for entity, score in found.known],
    }


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
