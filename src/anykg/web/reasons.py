"""Explain a fact for the page: `anykg.explain`, with names and labels for everything that is drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anykg
from anykg.answers.explaining.contrast import Contrast
from anykg.answers.explaining.explanation import Explanation
from anykg.answers.explaining.show import sentence
from anykg.graph.graph import KnowledgeGraph
from anykg.models.base import LinkPredictor
from anykg.web.asking import COLUMNS, has_probabilities, predict_all
from anykg.web.decisions import Triple
from anykg.web.explore import named

LISTED = 20
"""Number of best answers in which the probability of a fact is looked up."""
BETTER = 5
"""Maximum number of known answers that are listed as better ones."""


def explain(
    graph: KnowledgeGraph, model: LinkPredictor, fact: Triple, check: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """The result of `explain` as `to_dict()` returns it, and as the page shows it, with labels and in words.

    `check` raises if no client is waiting for the answer any more.
    """
    result = anykg.explain(graph, *fact, model=model)
    check()
    explanation = result.explanation
    stated = {} if explanation.known else _probabilities(graph, model, fact, check)
    words = _Words(graph, *(int(part) for part in explanation.triplet))
    page = {
        **words.triple(explanation.triplet),
        "known": explanation.known,
        "score": explanation.score,
        "probability": stated.get(fact[2]),
        "rank": explanation.rank,
        "candidates": explanation.candidates,
        "sentences": words.sentences(explanation),
        "facts": [
            words.triple(one.fact) | {"effect": one.effect, "lead": one.score - one.other}
            for one in (explanation.contrast.facts if explanation.contrast else ())
        ],
        "paths": [
            {
                "facts": [words.triple(row) for row in path.facts],
                "nodes": [named(graph.entities, int(node)) for node in path.nodes],
                "effect": path.effect,
                "shape": words.shape(path.facts, path.nodes),
            }
            for path in explanation.paths
        ],
        "rules": [
            {
                "text": words.rule(match.facts),
                "facts": [words.triple(row) for row in match.facts],
                "support": match.support,
                "body": match.body,
            }
            for match in explanation.matches
        ],
        "contrast": None if explanation.contrast is None else _contrast(graph, explanation.contrast, stated),
        **_removal(explanation),
    }
    return result.to_dict() | {"page": page}


def _probabilities(
    graph: KnowledgeGraph, model: LinkPredictor, fact: Triple, check: Callable[[], None]
) -> dict[str, float | None]:
    """The probabilities of the best answers to the question behind a fact that is not known, by name."""
    if not has_probabilities(graph, model, "tail"):
        return {}
    question = (fact[0], fact[1], None)
    [answers] = predict_all(
        graph, model, [question], k=LISTED, known=False, calibrated=True, progress=lambda done, total: check()
    )
    return {row["tail"]: row["probability"] for row in answers["rows"]}


def _contrast(graph: KnowledgeGraph, found: Contrast, stated: dict[str, float | None]) -> dict[str, Any]:
    other = named(graph.entities, found.other)
    return other | {
        "score": found.other_score,
        "probability": stated.get(other["name"]),
        "lead": found.lead,
        "tested": found.tested,
        "nearby": found.nearby,
        "better": [named(graph.entities, entity) | {"score": score} for entity, score in found.known[:BETTER]],
    }


def _removal(found: Explanation) -> dict[str, Any]:
    """The score without the reasons, and whether the change is larger than by chance."""
    removed, draws = found.removal, found.random
    if not len(removed.facts):
        return {"without": None, "reliable": True}
    mean = sum(one.score for one in draws) / len(draws) if draws else None
    without = {
        "count": len(removed.facts),
        "score": removed.score,
        "rank": removed.rank,
        "random_score": mean,
        "random_rank": sum(one.rank for one in draws) / len(draws) if draws else None,
    }
    return {"without": without, "reliable": mean is None or removed.score < mean}


class _Words:
    """Facts around one triplet, described with the graph's names."""

    def __init__(self, graph: KnowledgeGraph, head: int, relation: int, tail: int) -> None:
        self.graph, self.head, self.relation, self.tail = graph, head, relation, tail

    def triple(self, row: Any) -> dict[str, Any]:
        """A fact with names and labels."""
        first, kind, last = (int(part) for part in row)
        ends = (named(self.graph.entities, first), named(self.graph.relations, kind), named(self.graph.entities, last))
        return dict(zip(COLUMNS, ends, strict=True))

    def rule(self, facts: Any) -> str:
        """The facts with letters for entities: X borders Z, Z in group Y: X in group Y."""
        letters = {self.head: "X", self.tail: "Y"}
        free = iter("ZWVUTSRQ")
        atoms = []
        for row in [*facts, (self.head, self.relation, self.tail)]:
            first, kind, last = (int(part) for part in row)
            for entity in (first, last):
                if entity not in letters:
                    letters[entity] = next(free, "N")
            atoms.append(f"{letters[first]} {self.graph.relations.label(kind)} {letters[last]}")
        return f"{', '.join(atoms[:-1])} ⇒ {atoms[-1]}"

    def shape(self, facts: Any, nodes: Any) -> str:
        """The relations of a path, with their directions."""
        steps = []
        for row, node in zip(facts, nodes[1:], strict=True):
            label = self.graph.relations.label(int(row[1]))
            steps.append(f"{label} →" if int(row[2]) == int(node) else f"← {label}")
        return " · ".join(steps)

    def sentences(self, found: Explanation) -> list[str]:
        """The rule that holds most often, with names; and a better known answer, if there is one."""
        sentences = []
        counted = [match for match in found.matches if match.body]
        if counted:
            best = max(counted, key=lambda match: match.share)
            sentences.append(f"{sentence(self.graph, best, self.head)}.")
        if found.contrast is not None and found.contrast.known:
            entity, score = found.contrast.known[0]
            sentences.append(
                f"A better answer is already known: {self.graph.entities.label(entity)} "
                f"(score {score:.2f}, this one {found.score:.2f})."
            )
        return sentences
