"""Make a model for one graph: fit several models to it and learn how to combine them.

1. Hide a tenth of the facts, all at once.
2. Fit the components to the rest.
3. Predict hidden facts with all of them and learn the mixing weights (`answers.fitting.mixing`).
4. Refit the components that depend on facts to all facts: ComplEx from new initial vectors (on large graphs it
   continues from its vectors), and rules. The adapted foundation model is unchanged, because it reads the graph's facts
   when it answers.

The time is divided in advance; time that a stage does not need goes to later stages, and small graphs finish early.
Ctrl-C ends the current stage; the components finished by then are mixed.
"""

from __future__ import annotations

from pathlib import Path

import torch

from anykg.answers.calibrating.missing import refuse_share
from anykg.answers.fitting import spread
from anykg.answers.fitting.assemble import ZERO_SHOT, assemble, ranks_unfitted, remark_on_gain, table_of
from anykg.answers.fitting.components import fit_components, refit
from anykg.answers.fitting.mixing import choose, fit_weights
from anykg.answers.fitting.negatives import Negatives, find_negatives, read_negatives
from anykg.answers.fitting.parts import Parts
from anykg.answers.fitting.run import SHARE, Clock, Run, Tell
from anykg.answers.fitting.weights import Learnt, ask_entities, ask_relations, learn
from anykg.answers.hiding.recovery import hide_together
from anykg.answers.inputs import ModelLike, graph_of, model_of
from anykg.cluster import Cluster, connected
from anykg.errors import DataError, SettingError
from anykg.graph.graph import KnowledgeGraph
from anykg.io.catalog import GraphLike
from anykg.models.folders import FOUNDATION, MODEL_FILE, WITH_RULES, has_rule_weights, shipped
from anykg.models.mixture import Mixture
from anykg.models.store import digest_of, load_model, save_description, save_weights
from anykg.progress import Progress, ignore

FEWEST = 10
"""Minimum number of hidden facts to learn weights from."""


def fit(
    graph: GraphLike,
    *,
    minutes: float = 2.0,
    out: Path | str | None = None,
    model: ModelLike = FOUNDATION,
    seed: int = 0,
    resume: bool = False,
    negatives: Negatives = (),
    missing: float | None = None,
    cluster: Cluster | str | None = None,
    tell: Tell = lambda text: None,
    progress: Progress = ignore,
) -> Mixture:
    """Fit a model to a graph, for `predict`, `complete` and the others.

    Args:
        graph: A graph, file, dataset name, DataFrame, NetworkX graph or list of triples.
        minutes: Approximate time; small graphs finish earlier.
        out: Folder to save the model to.
        model: The foundation model: one of the components, as it is and adapted to the graph.
        seed: Seed for the hidden facts and all initial values.
        resume: Reuse the components that an interrupted fit has finished in `out`.
        negatives: Triples known to be wrong: (head, relation, tail) by name, a file of them, or the decisions file of
            the web page. They compete with hidden facts when the mixing weights are learnt, and are never proposed.
        missing: Share of all true facts that probabilities assume to be missing from the graph; by default estimated
            from its most reliable rule, or a tenth.
        cluster: Address of a Ray cluster on which the components are fitted in parallel (`anykg.cluster`).
        tell: Called with a sentence that announces the next step.
        progress: Called with (seconds spent, total seconds).
    """
    if minutes <= 0:
        raise SettingError("minutes", f"expected more than 0, found {minutes}")
    refuse_share(missing)
    clock = Clock(60 * minutes)
    folder = None if out is None else Path(out)
    if folder is not None and (folder / MODEL_FILE).exists() and not resume:
        raise SettingError(
            "out",
            f"{folder} already holds a model; choose another folder, or continue an interrupted fit with resume=True",
        )
    whole, _ = graph_of(graph)
    wrong = find_negatives(whole, read_negatives(negatives))
    foundation, called = model_of(model)
    if isinstance(foundation, Mixture):
        raise SettingError(
            "model",
            f"expected a model that was trained on other graphs, found the mix {called}; "
            "fit adds rules and weights itself",
        )
    rest, hidden = hide_together(whole, SHARE, seed)
    if len(hidden) < FEWEST:
        raise DataError(
            f"Only {len(hidden)} of the {len(whole)} facts can be hidden without leaving an entity or a relation "
            f"without facts, too few to learn from; use the model {called} as it is."
        )
    made_for = {"graph": whole.digest, "seed": seed, "foundation": digest_of(foundation)}
    parts = Parts(folder, made_for)
    if folder is not None and (folder / MODEL_FILE).exists() and not parts.there:
        finished = load_model(folder)
        if not isinstance(finished, Mixture) or finished.config.graph != whole.digest:
            raise SettingError("out", f"{folder} holds a model for another graph; choose another folder")
        tell(f"{folder}: the fit is finished; there is nothing to resume.")
        return finished
    if not resume:
        parts.clear()
    tell(plan(whole, hidden, called, minutes))
    rejected = whole.with_triplets(wrong) if len(wrong) else None
    run = Run(whole, rest, hidden, foundation, clock, seed, parts, tell, progress, rejected, missing=missing)
    run.unfitted = called + WITH_RULES if called in shipped() and has_rule_weights(called) else ""
    with connected(cluster) as where:
        if where is None:
            fit_components(run)
        else:
            spread.fit_components(run, where)
    mixture = _mix(run)
    if folder is not None:
        save_weights(folder, mixture, {"graph": mixture.config.graph})
        save_description(folder, "mixture", mixture, {"foundation": called})
        parts.leave() if clock.interrupted else parts.clear()
    return mixture


def plan(graph: KnowledgeGraph, hidden: KnowledgeGraph, model: str, minutes: float) -> str:
    """Announce the plan in a sentence or two."""
    minute = "minute" if minutes == 1 else "minutes"
    return (
        f"Fitting to {len(graph):,} facts in about {minutes:g} {minute}: hide {len(hidden):,} of them; mine rules, fit "
        f"ComplEx and adapt {model} to the rest; learn mixing weights from the hidden facts; refit to all facts."
    )


@torch.no_grad()
def _mix(run: Run) -> Mixture:
    """Predict hidden facts with the components, learn the weights, and refit to all facts."""
    seconds = run.clock.take("ask")
    run.tell(f"predicting hidden facts: {seconds:.0f} s")
    models = run.models
    encoded = {name: model.eval().encode(run.rest) for name, model in models.items()}
    asked, entities = ask_entities(run, encoded, 0.8 * seconds)
    names, relations = ask_relations(run, encoded, 0.2 * seconds)
    del encoded
    run.clock.take("mix")
    groups = 2 * run.graph.num_relations
    learnt = learn(asked, entities, groups)
    fallback = [name for name in learnt.names if name != "complex"] or learnt.names
    others = fit_weights(entities.only([asked.index(name) for name in fallback]), groups, None).general
    of_relations = Learnt(names, relations, choose(relations, run.graph.num_entities, corrections=False))
    unfitted = ranks_unfitted(run, asked, entities) if ZERO_SHOT in asked else None
    table = table_of(asked, learnt, of_relations, unfitted)
    remark = None if unfitted is None else remark_on_gain(*unfitted, learnt.mix.ranks)
    if remark:
        run.tell(remark)
    if not run.clock.interrupted:
        refit(run)
    return assemble(run, learnt, of_relations, dict(zip(fallback, others, strict=True)), table)
