"""Fit the components of a mix to a graph: rules, ComplEx and the foundation model."""

from __future__ import annotations

import copy
import time
from dataclasses import replace

from anykg.answers.fitting.mixing import ask, both_ways
from anykg.answers.fitting.run import Run
from anykg.evaluation.reading import LARGE
from anykg.models.base import LinkPredictor
from anykg.models.complex.complex import ComplEx
from anykg.models.complex.restarts import Restarts, fit_again, fit_restarts, settings_for
from anykg.models.floors import Degree, PageRank, Popularity
from anykg.models.rulebook import fit_rulebook
from anykg.models.schema import SchemaModel
from anykg.seeds import generator
from anykg.training.adapt import adapt

FITTED = ("rules", "complex", "adapted")
"""Components that take time."""
FEWEST_STEPS = 20
"""Minimum number of steps for which adapting the foundation model is worthwhile."""
JUDGED = 300
"""Number of hidden facts on which settings of ComplEx are compared."""
MOST_STEPS = 3000
"""Batch size for adapting the foundation model."""
FASTER = 4.0
"""Factor on the learning rate that the foundation model was trained with: there is only time for few steps, and the
rate decays to 0."""


def fit_components(run: Run) -> None:
    """Fit every component to the rest of the facts; after Ctrl-C, only those that need no fitting."""
    waiting = begin(run)
    for name in FITTED:
        seconds = run.clock.take(name)
        if name in waiting and not run.clock.interrupted:
            run.tell(f"{name}: {seconds:.0f} s")
            fit_component(run, name, seconds)


def begin(run: Run) -> list[str]:
    """Add the components that need no fitting and those an earlier run has finished; the names of the others."""
    run.models = {
        "zero-shot": run.foundation,
        "schema": SchemaModel(),
        "popularity": Popularity(),
        "degree": Degree(),
        "pagerank": PageRank(),
    }
    waiting = []
    for name in FITTED:
        kept = run.parts.load(name)
        if kept is None:
            waiting.append(name)
        else:
            run.tell(f"{name}: finished before")
            add(run, name, kept, run.parts.load_fits() if name == "complex" else None, 0.0)
    return waiting


def add(run: Run, name: str, model: LinkPredictor, fits: Restarts | None, seconds: float) -> None:
    """Add a fitted component, with the state that ComplEx needs to continue, and the seconds it took."""
    run.models[name], run.took[name] = model, seconds
    run.fits = run.fits if fits is None else fits


def fit_component(run: Run, name: str, seconds: float) -> None:
    """Fit a component within some seconds, and keep it."""
    stage = {"rules": _rules, "complex": _complex, "adapted": _adapted}[name]
    started = time.monotonic()
    try:
        made = stage(run, seconds)
    except KeyboardInterrupt:
        run.interrupt()
        return
    if made is not None:
        add(run, name, made, run.fits, time.monotonic() - started)
        run.parts.save(name, made)


def _rules(run: Run, seconds: float) -> LinkPredictor:
    return fit_rulebook(run.rest, seconds, seed=run.seed, progress=run.report)


def _complex(run: Run, seconds: float) -> LinkPredictor | None:
    started = time.monotonic()
    settings = settings_for(run.rest, seconds, run.seed)
    if settings.pace > seconds:
        run.tell(
            f"complex: left out, because one epoch takes about {settings.pace:.0f} s and there are "
            f"{seconds:.0f} s for it; allow more minutes to include it"
        )
        return None
    seconds -= time.monotonic() - started
    facts = run.hidden.triplets[generator(run.seed, "fit", "judge").permutation(len(run.hidden))[:JUDGED]]
    questions = both_ways(facts, run.graph.num_relations)

    def judge(model: ComplEx) -> float:
        found = ask([model], [model.encode(run.rest)], run.rest, run.graph, questions)
        return float((1 / found.ranks).mean())

    run.fits = fit_restarts(
        run.rest, settings.config, seconds=max(seconds, 0.1), judge=judge, seed=run.seed, progress=run.report
    )
    run.parts.save_fits(run.fits)
    config = run.fits.config
    run.tell(
        f"complex: starts {len(run.fits.vectors)}, epochs {run.fits.epochs}, rank {config.rank}, "
        f"N3 {config.regularisation:g}, relation loss {config.relation_loss:g}"
    )
    return run.fits.model(run.rest)


def _adapted(run: Run, seconds: float) -> LinkPredictor | None:
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


def refit(run: Run) -> None:
    """Refit fact-dependent components to all facts; rules only if there is at least half the time they took before."""
    seconds = run.clock.take("again")
    run.tell(f"refitting to all facts: {seconds:.0f} s")
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
