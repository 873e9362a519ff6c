"""Make a model for one graph: fit several models to it and learn how to mix them.

1. Hide a tenth of the facts, all at once.
2. Fit the components to the rest.
3. Ask all of them for hidden facts and learn the weights of the mix (`answers.mixing`).
4. Fit again to all facts what is bound to facts: ComplEx from new starts (on large graphs it continues from its
   vectors), and rules. The adapted foundation model stays as it is: it reads the graph's facts when it answers.

The time is shared out in advance; what a stage does not need goes to the stages after it, and a small graph is done
early. Ctrl-C ends the stage at hand; what is finished by then is mixed.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from anykg.answers.calibration_cache import digest_of
from anykg.answers.fitted import calibrated
from anykg.answers.hidden import hide_together
from anykg.answers.inputs import ModelLike, graph_of, model_of
from anykg.answers.missing import missing_share
from anykg.answers.mixing import (
    Mix,
    Scored,
    Weights,
    ask,
    both_ways,
    choose,
    cross_fitted,
    fit_weights,
    likelihoods,
    mixed,
    ranks_of,
)
from anykg.answers.negatives import Negatives, find_negatives, read_negatives
from anykg.answers.parts import Parts, registered_name
from anykg.errors import ConfigError, DataError, SettingError
from anykg.evaluation.protocol import Target
from anykg.evaluation.ranking import relations_with_loops
from anykg.evaluation.reading import LARGE
from anykg.graph.graph import KnowledgeGraph
from anykg.io.catalog import GraphLike
from anykg.models.base import LinkPredictor
from anykg.models.complex.complex import ComplEx, name_keys
from anykg.models.complex.restarts import Restarts, fit_again, fit_restarts
from anykg.models.floors import PageRank, Popularity
from anykg.models.mixture import KEPT, Component, Mixture, MixtureConfig
from anykg.models.rulebook import fit_rulebook
from anykg.models.schema import SchemaModel
from anykg.models.store import DEFAULT_MODEL, MODEL_FILE, save_description, save_weights
from anykg.progress import Progress, ignore
from anykg.seeds import generator
from anykg.training.adapt import adapt

SHARE = 0.1
"""Of the facts, hidden."""
FEWEST = 10
"""Hidden facts without which there is nothing to learn weights from."""
MOST_QUESTIONS, FEWEST_QUESTIONS = 2400, 100
"""Questions about hidden facts: as many as there is time for, within these bounds."""
TOO_SLOW = 1.5
"""Times the seconds for the fewest questions above which the foundation model is not asked."""
FEWEST_STEPS = 20
"""Steps below which it is not worth adapting the foundation model."""
MOST_RELATION_QUESTIONS, FEWEST_RELATION_QUESTIONS = 300, 80
JUDGED = 300
"""Hidden facts by which settings of ComplEx are compared."""
MOST_STEPS = 3000
"""Of adapting the foundation model."""
FASTER = 4.0
"""Times the learning rate that the foundation model was trained with: there is time for few steps, and the rate falls
to 0. On EN-FR, 133 steps bring the MRR of hidden facts from 42.0 to 44.4, and to 42.8 at its own rate."""
STAGES = {"rules": 0.10, "complex": 0.24, "adapted": 0.32, "ask": 0.12, "mix": 0.04, "again": 0.18}
"""How the time is shared out."""
NEGLIGIBLE = 5e-4
"""Loss of log-likelihood per question below which the mix does without a component."""

TASKS: tuple[Target, ...] = ("node", "relation")

Tell = Callable[[str], None]


class Clock:
    """The time that is left, shared out among the stages still to come."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.started = seconds, time.monotonic()
        self.waiting = dict(STAGES)
        self.interrupted = False

    def left(self) -> float:
        """Seconds until the time is up."""
        return self.seconds - (time.monotonic() - self.started)

    def take(self, stage: str) -> float:
        """Seconds for a stage, which no longer waits."""
        share = STAGES[stage] / sum(self.waiting.values())
        self.waiting.pop(stage)
        return max(share * self.left(), 0.2)


@dataclass(eq=False)
class _Run:
    """A fit under way."""

    graph: KnowledgeGraph
    rest: KnowledgeGraph
    hidden: KnowledgeGraph
    foundation: LinkPredictor
    clock: Clock
    seed: int
    parts: Parts
    tell: Tell
    progress: Progress
    rejected: KnowledgeGraph | None = None
    """Triples that are known to be wrong."""
    missing: float | None = None
    """Share of all true facts that the graph is taken to lack; None estimates it."""
    models: dict[str, LinkPredictor] = field(default_factory=dict)
    fits: Restarts | None = None
    took: dict[str, float] = field(default_factory=dict)
    """Seconds that each stage took."""

    def report(self, *_: int) -> None:
        """Move the progress bar to the time spent."""
        total = int(self.clock.seconds)
        self.progress(min(int(self.clock.seconds - self.clock.left()), total), total)


def fit(
    graph: GraphLike,
    *,
    minutes: float = 2.0,
    out: Path | str | None = None,
    model: ModelLike = DEFAULT_MODEL,
    seed: int = 0,
    resume: bool = False,
    negatives: Negatives = (),
    missing: float | None = None,
    tell: Tell = lambda text: None,
    progress: Progress = ignore,
) -> Mixture:
    """Fit a model to a graph, for `predict`, `complete` and the others.

    Args:
        graph: A graph, file, dataset name, DataFrame, NetworkX graph or list of triples.
        minutes: Time to take, about; a small graph is done earlier.
        out: Folder to save the model to.
        model: The foundation model: one of the components, as it is and adapted to the graph.
        seed: Draws the hidden facts and all random starts.
        resume: Keep the components that an interrupted fit has finished in `out`.
        negatives: Triples known to be wrong: (head, relation, tail) by name, a file of them, or the decisions file of
            the web page. They compete with hidden facts when the mix is learnt, and are never proposed.
        missing: Share of all true facts that probabilities take to be missing from the graph; by default what its most
            reliable rule suggests, or a tenth.
        tell: Called with a sentence on what is done next.
        progress: Called with (seconds spent, seconds in all).
    """
    if minutes <= 0:
        raise SettingError("minutes", f"expected more than 0, found {minutes}")
    if missing is not None and not 0 <= missing < 1:
        raise SettingError("missing", f"expected at least 0 and less than 1, found {missing:g}")
    clock = Clock(60 * minutes)
    folder = None if out is None else Path(out)
    if folder is not None and (folder / MODEL_FILE).exists() and not resume:
        raise ConfigError(f"{folder}: already holds a model; choose another folder, or resume an interrupted fit.")
    whole, _ = graph_of(graph)
    wrong = find_negatives(whole, read_negatives(negatives))
    foundation, called = model_of(model)
    rest, hidden = hide_together(whole, SHARE, seed)
    if len(hidden) < FEWEST:
        raise DataError(
            f"Only {len(hidden)} of the {len(whole)} facts can be hidden without leaving an entity or a relation "
            f"without facts, too few to learn from; use the model {called} as it is."
        )
    tell(plan(whole, hidden, called, minutes))
    made_for = {"graph": whole.digest, "seed": seed, "foundation": digest_of(foundation)}
    parts = Parts(folder, made_for, resume=resume)
    rejected = whole.with_triplets(wrong) if len(wrong) else None
    run = _Run(whole, rest, hidden, foundation, clock, seed, parts, tell, progress, rejected, missing)
    _fit_components(run)
    mixture = _mix(run)
    if folder is not None:
        save_weights(folder, mixture, {"graph": mixture.config.graph})
        save_description(folder, "mixture", mixture, {"foundation": called})
        if not clock.interrupted:
            parts.clear()
    return mixture


def plan(graph: KnowledgeGraph, hidden: KnowledgeGraph, model: str, minutes: float) -> str:
    """What is about to be done, in a sentence or two."""
    return (
        f"Fitting to {len(graph):,} facts in about {minutes:g} minutes: hide {len(hidden):,} of them; "
        f"mine rules, fit ComplEx and adapt {model} to the rest; learn from the hidden facts how to mix them; fit "
        "again to all."
    )


def _fit_components(run: _Run) -> None:
    """Fit every component to the rest of the facts; after Ctrl-C, only those that cost nothing."""
    run.models = {
        "zero-shot": run.foundation,
        "schema": SchemaModel(),
        "popularity": Popularity(),
        "pagerank": PageRank(),
    }
    for name, stage in (("rules", _rules), ("complex", _complex), ("adapted", _adapted)):
        seconds = run.clock.take(name)
        if run.clock.interrupted:
            continue
        kept = run.parts.load(name)
        if kept is not None:
            run.tell(f"{name}: finished before")
            run.models[name], run.took[name] = kept, 0.0
            run.fits = run.parts.load_fits() if name == "complex" else run.fits
            continue
        run.tell(f"{name}: {seconds:.0f} s")
        started = time.monotonic()
        try:
            made = stage(run, seconds)
            run.took[name] = time.monotonic() - started
        except KeyboardInterrupt:
            run.clock.interrupted = True
            run.tell("Interrupted: mixing what is finished.")
        else:
            if made is not None:
                run.models[name] = made
                run.parts.save(name, made)


def _rules(run: _Run, seconds: float) -> LinkPredictor:
    return fit_rulebook(run.rest, seconds, seed=run.seed, progress=run.report)


def _complex(run: _Run, seconds: float) -> LinkPredictor:
    facts = run.hidden.triplets[generator(run.seed, "fit", "judge").permutation(len(run.hidden))[:JUDGED]]
    questions = both_ways(facts, run.graph.num_relations)

    def judge(model: ComplEx) -> float:
        found = ask([model], [model.encode(run.rest)], run.rest, run.graph, questions)
        return float((1 / found.ranks).mean())

    run.fits = fit_restarts(run.rest, seconds=seconds, judge=judge, seed=run.seed, progress=run.report)
    run.parts.save_fits(run.fits)
    config = run.fits.config
    run.tell(
        f"complex: {len(run.fits.vectors)} starts of {run.fits.epochs} passes, rank {config.rank}, "
        f"N3 {config.regularisation:g}, relation loss {config.relation_loss:g}"
    )
    return run.fits.model(run.rest)


def _adapted(run: _Run, seconds: float) -> LinkPredictor | None:
    model = run.foundation
    if type(model).training_tail_scores is LinkPredictor.training_tail_scores or not list(model.parameters()):
        return None  # it cannot be trained with a softmax over all entities
    if len(run.rest) > LARGE:
        run.tell(f"adapted: left out, because training on more than {LARGE:,} facts takes too much memory")
        return None
    model = copy.deepcopy(model)
    recipe = replace(model.recipe, loss="softmax", schedule="linear", batch_size=16, lr=FASTER * model.recipe.lr)
    started = time.monotonic()
    adapt(copy.deepcopy(model), run.rest, recipe, steps=1, seed=run.seed)  # compiles and builds what is built once
    warm = time.monotonic()
    adapt(copy.deepcopy(model), run.rest, recipe, steps=1, seed=run.seed)
    seconds -= time.monotonic() - started
    if (time.monotonic() - warm) * FEWEST_STEPS > seconds:
        run.tell("adapted: left out, because there is not enough time for it; allow more minutes to include it")
        return None
    left = max(seconds, 0.1)
    steps = adapt(model, run.rest, recipe, steps=MOST_STEPS, seconds=left, seed=run.seed, progress=run.report)
    run.tell(f"adapted: {steps} steps")
    return model.eval()


@dataclass(frozen=True, eq=False)
class _Learnt:
    """Weights for one kind of question, and the questions they were learnt from."""

    names: list[str]
    """Components with a weight."""
    asked: Scored
    """All components that were asked."""
    mix: Mix


@torch.no_grad()
def _mix(run: _Run) -> Mixture:
    """Ask the components for hidden facts, learn the weights, and fit again to all facts."""
    seconds = run.clock.take("ask")
    run.tell(f"asking for hidden facts: {seconds:.0f} s")
    models = run.models
    encoded = {name: model.eval().encode(run.rest) for name, model in models.items()}
    asked, entities = _ask_entities(run, encoded, 0.8 * seconds)
    names, relations = _ask_relations(run, encoded, 0.2 * seconds)
    del encoded
    run.clock.take("mix")
    groups = 2 * run.graph.num_relations
    learnt = _learn(asked, entities, groups)
    fallback = [name for name in learnt.names if name != "complex"] or learnt.names
    others = fit_weights(entities.only([asked.index(name) for name in fallback]), groups, None).general
    of_relations = _Learnt(names, relations, choose(relations, run.graph.num_entities, corrections=False))
    table = _table(asked, learnt, of_relations)
    if not run.clock.interrupted:
        _fit_again(run)
    return _assemble(run, learnt, of_relations, dict(zip(fallback, others, strict=True)), table)


def _ask_entities(run: _Run, encoded: dict[str, Any], seconds: float) -> tuple[list[str], Scored]:
    """Ask for both ends of as many hidden facts as there is time for, without components that are too slow."""
    order = generator(run.seed, "fit", "questions").permutation(len(run.hidden))
    facts = _contested_first(run, run.hidden.triplets[order])

    def put(rows: np.ndarray, names: list[str]) -> Scored:
        models, parts = [run.models[name] for name in names], [encoded[name] for name in names]
        questions = both_ways(rows, run.graph.num_relations)
        return ask(
            models, parts, run.rest, run.graph, questions, rejected=run.rejected, seed=run.seed, progress=run.report
        )

    costs = {}
    for name in run.models:
        put(facts[:1], [name])  # compiles and builds what is built once
        started = time.monotonic()
        put(facts[:4], [name])
        costs[name] = (time.monotonic() - started) / min(4, len(facts))
    if {"zero-shot", "adapted"} <= costs.keys() and sum(costs.values()) * FEWEST_QUESTIONS / 2 > seconds:
        costs.pop("zero-shot")
    for name in ("zero-shot", "adapted"):
        if name in costs and sum(costs.values()) * FEWEST_QUESTIONS / 2 > TOO_SLOW * seconds:
            run.tell(
                f"{name}: left out, because a question takes {costs.pop(name) / 2:.1f} s; allow more minutes for it"
            )
    count = int(np.clip(seconds / sum(costs.values()), FEWEST_QUESTIONS // 2, MOST_QUESTIONS // 2))
    return list(costs), put(facts[:count], list(costs))


def _ask_relations(run: _Run, encoded: dict[str, Any], seconds: float) -> tuple[list[str], Scored]:
    """Ask for the relation of as many hidden facts as there is time for, without components that are too slow."""
    order = generator(run.seed, "fit", "relation questions").permutation(len(run.hidden))
    heads, relations, tails = run.hidden.triplets[order[:MOST_RELATION_QUESTIONS]].astype(np.int64).T
    names, total = [], 0.0
    for name, model in run.models.items():
        if name == "zero-shot" and "adapted" in run.models:
            continue
        cost = _relation_cost(model, encoded[name], heads[:1], tails[:1])
        if (total + cost) * FEWEST_RELATION_QUESTIONS <= seconds or cost < 1e-3:
            names.append(name)
            total += cost
    count = int(np.clip(seconds / total, FEWEST_RELATION_QUESTIONS, MOST_RELATION_QUESTIONS))
    questions = np.stack([heads, tails, relations], 1)[:count]
    models, parts = [run.models[name] for name in names], [encoded[name] for name in names]
    found = ask(
        models, parts, run.rest, run.graph, questions, kind="relations", rejected=run.rejected, progress=run.report
    )
    return names, found


def _relation_cost(model: LinkPredictor, encoded: Any, heads: np.ndarray, tails: np.ndarray) -> float:
    """Seconds for a question (h, ?, t), extrapolated from few candidates: some models pass over the graph for each."""
    times = []
    for count in (1, 1, 3):  # the first compiles and builds what is built once
        some = torch.arange(min(count, encoded.num_relations)).expand(len(heads), -1)
        started = time.monotonic()
        model.score_relations(encoded, torch.from_numpy(heads), torch.from_numpy(tails), some)
        times.append(time.monotonic() - started)
    slope = 0.0 if model.relations_apart else max(times[2] - times[1], 0.0) / 2
    return times[1] + slope * int(encoded.num_relations)


def _contested_first(run: _Run, facts: np.ndarray) -> np.ndarray:
    """Facts [F, 3] reordered: first those about which a question has rejected answers."""
    if run.rejected is None:
        return facts
    heads, relations, tails = facts.astype(np.int64).T
    forth = np.diff(run.rejected.answers(heads, relations).offsets)
    back = np.diff(run.rejected.answers(tails, relations + run.graph.num_relations).offsets)
    return facts[np.argsort(forth + back == 0, kind="stable")]


def _learn(names: list[str], asked: Scored, groups: int) -> _Learnt:
    """Weights of the mix: without the foundation model as it is if the adapted one replaces it, and not below the best.

    The best component answers alone if it finds the hidden facts better than the mix does, or if a mix that was fitted
    to other hidden facts is behind by more than its standard error. Less may be chance: on a graph that lacks many
    facts, first places are lost to true answers that are not hidden.
    """
    mix = choose(asked, groups)
    used = list(range(len(names)))
    if "zero-shot" in names and "adapted" in names:
        fewer = [index for index in used if names[index] != "zero-shot"]
        part = asked.only(fewer)
        scores = cross_fitted(part, groups, mix.strength)
        if likelihoods(part, scores).mean() > likelihoods(asked, mix.scores).mean() - NEGLIGIBLE:
            used, weights = fewer, fit_weights(part, groups, mix.strength)
            mix = Mix(weights, mix.strength, scores, ranks_of(part, scores))
    alone = 1 / asked.ranks
    best = int(alone.mean(0).argmax())
    behind = alone[:, best] - 1 / mix.ranks
    part = asked.only(used)
    final = (1 / ranks_of(part, mixed(part, mix.weights))).mean()
    if final < alone[:, best].mean() or behind.mean() > behind.std() / np.sqrt(len(behind)):
        used = [best]
        part = asked.only(used)
        temperature = np.maximum(fit_weights(part, groups, None).general, 1e-3)
        weights = Weights(temperature, np.zeros((groups, 1)))
        mix = Mix(weights, None, part.values[..., 0] * float(temperature[0]), part.ranks[:, 0])
    return _Learnt([names[index] for index in used], asked, mix)


def _fit_again(run: _Run) -> None:
    """Fit to all facts what is bound to facts; rules only if there is at least half the time they took before."""
    seconds = run.clock.take("again")
    run.tell(f"fitting again to all facts: {seconds:.0f} s")
    try:
        if run.fits is not None and "complex" in run.models:
            share = 0.65 if "rules" in run.models else 1.0
            run.fits = fit_again(run.graph, run.fits, seconds=share * seconds, seed=run.seed, progress=run.report)
            run.models["complex"] = run.fits.model(run.graph)
        left = run.clock.left()
        if "rules" in run.models and left > 0.5 * run.took["rules"]:
            run.models["rules"] = fit_rulebook(run.graph, left, seed=run.seed, progress=run.report)
    except KeyboardInterrupt:
        run.clock.interrupted = True
        run.tell("Interrupted: some components have not seen the hidden facts.")


def _table(names: list[str], learnt: _Learnt, of_relations: _Learnt) -> tuple[dict[str, Any], ...]:
    """A row for each component and one for the mix."""
    rows = []
    for index, name in enumerate(names):
        rows.append({"component": name} | _figures(learnt.asked.ranks[:, index]))
        if name in learnt.names:
            rows[-1]["weight"] = float(learnt.mix.weights.general[learnt.names.index(name)])
        if name in of_relations.names:
            ranks = of_relations.asked.ranks[:, of_relations.names.index(name)]
            rows[-1] |= {f"relation_{key}": value for key, value in _figures(ranks).items()}
    mixed = _figures(learnt.mix.ranks)
    mixed |= {f"relation_{key}": value for key, value in _figures(of_relations.mix.ranks).items()}
    return (*rows, {"component": "mixed"} | mixed)


def _figures(ranks: np.ndarray) -> dict[str, float]:
    return {
        "mrr": float((1 / ranks).mean()),
        "hits@1": float((ranks <= 1).mean()),
        "hits@10": float((ranks <= 10).mean()),
    }


def _assemble(
    run: _Run, learnt: _Learnt, of_relations: _Learnt, fallback: dict[str, float], table: tuple[dict[str, Any], ...]
) -> Mixture:
    """The mixture of all components that have a weight."""
    names = [name for name in run.models if name in learnt.names or name in of_relations.names]
    models = [run.models[name] for name in names]
    config = MixtureConfig(
        tuple(
            Component(name, registered_name(model), asdict(model.config))
            for name, model in zip(names, models, strict=True)
        ),
        num_relations=run.graph.num_relations,
        graph=run.graph.digest,
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


def _keep_hidden(mixture: Mixture, kind: str, learnt: _Learnt, rest: KnowledgeGraph | None) -> None:
    """Keep the questions about hidden facts, the ranks of their answers and the best answers.

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
