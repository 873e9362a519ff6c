"""Make one model of the components and their weights, with its table and its calibration."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch

from anykg.answers.calibrating.missing import missing_share
from anykg.answers.fitting.asked_before import calibrated
from anykg.answers.fitting.mixing import Scored, ranks_of
from anykg.answers.fitting.parts import registered_name
from anykg.answers.fitting.run import SHARE, Run
from anykg.answers.fitting.weights import Learnt
from anykg.evaluation.protocol import Target
from anykg.evaluation.ranking import relations_with_loops
from anykg.graph.graph import KnowledgeGraph
from anykg.graph.versions import sketch_of
from anykg.models.complex.complex import name_keys
from anykg.models.mixture import KEPT, Component, Mixture, MixtureConfig
from anykg.models.store import load_model

TASKS: tuple[Target, ...] = ("node", "relation")
ZERO_SHOT = "zero-shot"
"""Name of the component that is the foundation model, not adapted."""


def ranks_unfitted(run: Run, names: list[str], asked: Scored) -> tuple[str, np.ndarray]:
    """The name and the ranks [Q] of the model without fitting: the foundation model, with rules if it supports them.

    The weights of the rules are those shipped with it.
    """
    if not run.unfitted or "rules" not in names:
        return ZERO_SHOT, asked.ranks[:, names.index(ZERO_SHOT)]
    mixture = load_model(run.unfitted)
    assert isinstance(mixture, Mixture)
    part = asked.only([names.index(ZERO_SHOT), names.index("rules")])
    return run.unfitted, ranks_of(part, part.values @ mixture.typical)


def table_of(
    names: list[str], learnt: Learnt, of_relations: Learnt, unfitted: tuple[str, np.ndarray] | None = None
) -> tuple[dict[str, Any], ...]:
    """A row for each component, one for the model without fitting, and one for the mix."""
    rows = []
    for index, name in enumerate(names):
        rows.append({"component": name} | _figures(learnt.asked.ranks[:, index]))
        if name in learnt.names:
            rows[-1]["weight"] = float(learnt.mix.weights.general[learnt.names.index(name)])
        if name in of_relations.names:
            ranks = of_relations.asked.ranks[:, of_relations.names.index(name)]
            rows[-1] |= {f"relation_{key}": value for key, value in _figures(ranks).items()}
    if unfitted is not None and unfitted[0] not in names:
        rows.append({"component": unfitted[0]} | _figures(unfitted[1]))
    mixed = _figures(learnt.mix.ranks)
    mixed |= {f"relation_{key}": value for key, value in _figures(of_relations.mix.ranks).items()}
    return (*rows, {"component": "mixed"} | mixed)


def remark_on_gain(name: str, unfitted: np.ndarray, fitted: np.ndarray) -> str | None:
    """The gain of the mix over the model without fitting; clear if more than two standard errors. None for one rank.

    Args:
        name: The model without fitting.
        unfitted: Its ranks [Q].
        fitted: Those of the mix.
    """
    if len(fitted) < 2:
        return None
    gains = 1 / fitted - 1 / unfitted
    error = float(gains.std(ddof=1)) / len(gains) ** 0.5
    gained = f"MRR {gains.mean():+.3f} ± {error:.3f}"
    if gains.mean() > 2 * error:
        return f"On the hidden facts the mix is better than {name} without fitting: {gained}."
    return (
        f"On the hidden facts the mix is not clearly better than {name} without fitting: {gained}. More minutes or "
        "more facts may help."
    )


def _figures(ranks: np.ndarray) -> dict[str, float]:
    return {
        "mrr": float((1 / ranks).mean()),
        "hits@1": float((ranks <= 1).mean()),
        "hits@10": float((ranks <= 10).mean()),
    }


def assemble(
    run: Run, learnt: Learnt, of_relations: Learnt, fallback: dict[str, float], table: tuple[dict[str, Any], ...]
) -> Mixture:
    """The mixture of all components that have a weight."""
    names = [name for name in run.models if name in learnt.names or name in of_relations.names]
    models = [run.models[name] for name in names]
    sketch = run.graph.derive(sketch_of)
    config = MixtureConfig(
        tuple(
            Component(name, registered_name(model), asdict(model.config))
            for name, model in zip(names, models, strict=True)
        ),
        num_relations=run.graph.num_relations,
        graph=run.graph.digest,
        facts=sketch.facts,
        sketch=len(sketch.keys),
        hidden_share=SHARE,
        seed=run.seed,
        questions=len(learnt.asked),
        relation_questions=len(of_relations.asked),
        negatives=0 if run.rejected is None else len(run.rejected),
        table=table,
    )
    mixture = Mixture(config)
    mixture.components = torch.nn.ModuleList(models)
    mixture.relation_keys = name_keys(run.graph.relations)
    mixture.graph_sketch = torch.from_numpy(sketch.keys.view(np.int64).copy())
    weights = learnt.mix.weights
    column = {name: index for index, name in enumerate(learnt.names)}
    places = [column.get(name, -1) for name in names]
    general = np.append(weights.general, 0.0)[places]
    corrections = np.pad(weights.corrections, ((0, 0), (0, 1)))[:, places]
    mixture.typical = torch.from_numpy(general).float()
    mixture.weights = torch.from_numpy(general + corrections).float()
    mixture.fallback = torch.tensor([fallback.get(name, 0.0) for name in names]).float()
    asked_about = dict(zip(of_relations.names, of_relations.mix.weights.general, strict=True))
    mixture.relation_weights = torch.tensor([asked_about.get(name, 0.0) for name in names]).float()
    if run.rejected is not None:
        heads, relations, tails = torch.from_numpy(run.rejected.triplets.astype(np.int64)).T
        entities = name_keys(run.graph.entities)
        mixture.negatives = torch.stack([entities[heads], mixture.relation_keys[relations], entities[tails]], 1)
    _keep_hidden(mixture, "hidden", learnt, run.rest)
    _keep_hidden(mixture, "hidden_relation", of_relations, None)
    lacks = run.graph.derive(missing_share) if run.missing is None else run.missing
    found: dict[str, Any] = {task: calibrated(mixture, run.graph, task, lacks).to_dict() for task in TASKS}
    mixture.config = replace(mixture.config, calibration=found)
    return mixture.eval()


def _keep_hidden(mixture: Mixture, kind: str, learnt: Learnt, rest: KnowledgeGraph | None) -> None:
    """Record the questions about hidden facts, the ranks of their answers and the best answers.

    An entity answers a question about itself only if the relation has such facts in `rest`, as in every list.
    """
    asked, mix = learnt.asked, learnt.mix
    offsets = asked.offsets if asked.rejected is None else asked.offsets.masked_fill(asked.rejected, -torch.inf)
    if rest is not None:
        loops = rest.derive(relations_with_loops)[asked.questions[:, 1] % rest.num_relations]
        itself = asked.candidates == torch.from_numpy(asked.questions[:, :1])
        offsets = offsets.masked_fill(itself & torch.from_numpy(~loops)[:, None], -torch.inf)
    usable = mix.scores.masked_fill(~torch.isfinite(offsets), -torch.inf)
    best = usable.topk(min(KEPT, usable.shape[1]), dim=1)
    totals = torch.logsumexp(mix.scores + offsets, 1, keepdim=True)
    ids = torch.where(torch.isfinite(best.values), asked.candidates.gather(1, best.indices), -1)
    scores = (best.values - totals).clamp(min=-100)
    missing = (0, KEPT - ids.shape[1])
    kept = {
        "questions": torch.from_numpy(asked.questions),
        "ranks": torch.from_numpy(mix.ranks).float(),
        "best": torch.nn.functional.pad(ids, missing, value=-1),
        "best_scores": torch.nn.functional.pad(scores, missing, value=-100.0),
    }
    for name, value in kept.items():
        setattr(mixture, f"{kind}_{name}", value)
