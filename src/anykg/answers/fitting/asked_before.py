"""The answers about hidden facts that were recorded while `fit` made a model.

Its components have been fitted to those facts since, so predicting them again would be biased: `check` reports these
recorded answers instead.
"""

from __future__ import annotations

import numpy as np

from anykg.answers.calibrating.calibration import Calibration, fit
from anykg.answers.hiding.recovery import Recovery, given_away, hide_together
from anykg.evaluation.protocol import Target
from anykg.evaluation.strata import half_links
from anykg.graph.graph import HEAD, RELATION, TAIL, KnowledgeGraph
from anykg.graph.schema import redundant_relations
from anykg.graph.versions import Sketch, difference, sketch_of
from anykg.models.base import LinkPredictor
from anykg.models.complex.complex import ComplEx, name_keys, rows_of
from anykg.models.mixture import KEPT, Mixture


def fitted_to(model: LinkPredictor, graph: KnowledgeGraph) -> bool:
    """Whether a model was made by `fit` for this very graph."""
    return isinstance(model, Mixture) and model.config.graph == graph.digest


def differing_facts(model: LinkPredictor, graph: KnowledgeGraph) -> int:
    """The number of facts in which a graph differs from the one that `fit` made a model for; 0 for other models."""
    if not isinstance(model, Mixture) or not model.config.sketch or fitted_to(model, graph):
        return 0
    return graph.derive(_differing, model)


def _differing(graph: KnowledgeGraph, model: Mixture) -> int:
    fitted = Sketch(model.config.facts, model.graph_sketch.cpu().numpy().view(np.uint64))
    return difference(graph.derive(sketch_of), fitted)


def has_seen(model: LinkPredictor, graph: KnowledgeGraph) -> bool:
    """Whether a model was fitted by name to what may be facts of this graph, so that hiding them proves nothing."""
    if isinstance(model, Mixture):
        return bool(model.config.graph) or any(has_seen(part, graph) for part in model.models)
    if isinstance(model, ComplEx):
        return model.fitted and bool((rows_of(model.entity_keys, name_keys(graph.entities)) >= 0).any())
    from anykg.models.rulebook import Rulebook  # imports numba, which questions about small graphs do not need

    return isinstance(model, Rulebook) and model.fitted


def calibrated(model: Mixture, graph: KnowledgeGraph, task: Target, missing: float) -> Calibration:
    """The calibration from the recorded answers of a fitted model, for a given share of missing facts."""
    found = asked_before(model, graph, task)
    evidence = found.evidence(graph.num_relations)
    return fit(evidence, found.best_right, list(graph.relations), hidden=model.config.hidden_share, missing=missing)


def asked_before(model: Mixture, graph: KnowledgeGraph, task: Target) -> Recovery:
    """The recorded questions about hidden facts, with answers of a mix that was fitted to other hidden facts."""
    rest, hidden = hide_together(graph, model.config.hidden_share, model.config.seed)
    kind = "hidden" if task == "node" else "hidden_relation"
    questions, ranks, best, scores = (
        getattr(model, f"{kind}_{name}").cpu().numpy() for name in ("questions", "ranks", "best", "best_scores")
    )
    first, second, answers = questions.T
    r = graph.num_relations
    if task == "relation":
        facts, columns = np.stack([first, answers, second], 1), np.full(len(questions), RELATION)
    else:
        inverse = second >= r
        turned = np.where(inverse[:, None], questions[:, ::-1], questions)
        facts = np.stack([turned[:, 0], second % r, turned[:, 2]], 1)
        columns = np.where(inverse, HEAD, TAIL)
    look_up = "answers" if task == "node" else "relations_between"
    answered, known = (np.diff(getattr(part, look_up)(first, second).offsets) for part in (rest, graph))
    width = graph.num_entities if task == "node" else r
    once = np.unique(questions[:, :2], axis=0, return_index=True)[1]
    rows, ranked = np.nonzero(best[once] >= 0)
    rows = once[rows]
    filled = facts[rows]
    filled[np.arange(len(rows)), columns[rows]] = best[rows, ranked]
    following = np.pad(np.where(best >= 0, scores, -np.inf), ((0, 0), (0, 1)), constant_values=-np.inf)
    return Recovery(
        facts=facts,
        columns=columns,
        ranks=ranks.astype(np.float64),
        scores=-np.log(np.maximum(ranks, 1.0)).astype(np.float32),
        answers=best[:, 0],
        candidates=width - known + 1,
        strata=half_links(rest, facts),
        given_away=given_away(rest, facts, graph.derive(redundant_relations)),
        best_questions=rows,
        best_facts=filled,
        best_columns=columns[rows],
        best_scores=scores[rows, ranked],
        best_leading=scores[rows, 0],
        best_following=following[rows, np.minimum(ranked + 1, KEPT)],
        best_totals=np.zeros(len(rows), np.float32),
        best_answered=answered[rows],
        best_right=hidden.contains(filled),
    )
