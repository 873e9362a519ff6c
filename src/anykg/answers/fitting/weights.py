"""Predict hidden facts with the components, and learn their weights from the results."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from anykg.answers.fitting.components import FITTED
from anykg.answers.fitting.mixing import (
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
from anykg.answers.fitting.run import Run
from anykg.models.base import LinkPredictor
from anykg.seeds import generator

MOST_QUESTIONS, FEWEST_QUESTIONS = 2400, 100
"""Bounds on the number of questions about hidden facts; within them, as many as there is time for."""
TOO_SLOW = 1.5
"""A component is dropped if the minimum number of questions would take more than this many times the available seconds:
first the foundation model, then the slowest of those that need no fitting."""
MOST_RELATION_QUESTIONS, FEWEST_RELATION_QUESTIONS, SOME_RELATION_QUESTIONS = 300, 80, 10
BRIEF = 0.05
"""Measurements below this many seconds are repeated three times."""
NEGLIGIBLE = 5e-4
"""A component is dropped from the mix if that costs less log-likelihood per question than this."""


@dataclass(frozen=True, eq=False)
class Learnt:
    """Weights for one kind of question, and the questions they were learnt from."""

    names: list[str]
    """Components with a weight."""
    asked: Scored
    """All components that were evaluated."""
    mix: Mix


def ask_entities(run: Run, encoded: dict[str, Any], seconds: float) -> tuple[list[str], Scored]:
    """Predict both ends of as many hidden facts as there is time for, without components that are too slow."""
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
    others = [name for name in costs if name not in ("zero-shot", "adapted")]
    others.sort(key=lambda name: (name in FITTED, -costs[name]))
    for name in ("zero-shot", "adapted", *others[:-1]):
        if name in costs and sum(costs.values()) * FEWEST_QUESTIONS / 2 > TOO_SLOW * seconds:
            needed = sum(costs.values()) * FEWEST_QUESTIONS / 2
            costs.pop(name)
            run.tell(
                f"{name}: left out, because {FEWEST_QUESTIONS} questions to all components would take {needed:.1f} s "
                f"and there are {seconds:.1f} s for them; allow more minutes to include it"
            )
    if not {"zero-shot", "adapted"} & costs.keys():
        run.tell("The foundation model is not in the mix and may answer better on its own; compare the two with check.")
    count = int(np.clip(seconds / sum(costs.values()), FEWEST_QUESTIONS // 2, MOST_QUESTIONS // 2))
    return list(costs), put(facts[:count], list(costs))


def ask_relations(run: Run, encoded: dict[str, Any], seconds: float) -> tuple[list[str], Scored]:
    """Predict the relation of as many hidden facts as there is time for, without components that are too slow."""
    order = generator(run.seed, "fit", "relation questions").permutation(len(run.hidden))
    heads, relations, tails = run.hidden.triplets[order[:MOST_RELATION_QUESTIONS]].astype(np.int64).T
    asked = [name for name in run.models if name != "zero-shot" or "adapted" not in run.models]
    costs = {name: _relation_cost(run.models[name], encoded[name], heads[:1], tails[:1]) for name in asked}
    names, total = [], 0.0
    for name, cost in costs.items():
        if (total + cost) * FEWEST_RELATION_QUESTIONS <= seconds or cost < 1e-3:
            names.append(name)
            total += cost
    fewest = FEWEST_RELATION_QUESTIONS
    if not names:  # the graph is very large: what the fastest answers in this time must do
        fastest = min((name for name in asked if run.models[name].reads_relations), key=costs.__getitem__)
        names, total, fewest = [fastest], costs[fastest], SOME_RELATION_QUESTIONS
    count = int(np.clip(seconds / total, fewest, MOST_RELATION_QUESTIONS))
    questions = np.stack([heads, tails, relations], 1)[:count]
    models, parts = [run.models[name] for name in names], [encoded[name] for name in names]
    found = ask(
        models, parts, run.rest, run.graph, questions, kind="relations", rejected=run.rejected, progress=run.report
    )
    return names, found


def _relation_cost(model: LinkPredictor, encoded: Any, heads: np.ndarray, tails: np.ndarray) -> float:
    """Seconds for a question (h, ?, t), extrapolated from few candidates: some models pass over the graph for each."""

    def seconds(count: int) -> float:
        some = torch.arange(min(count, encoded.num_relations)).expand(len(heads), -1)
        times: list[float] = []
        while not times or (len(times) < 3 and times[0] < BRIEF):  # the best of three, unless that takes long
            started = time.monotonic()
            model.score_relations(encoded, torch.from_numpy(heads), torch.from_numpy(tails), some)
            times.append(time.monotonic() - started)
        return min(times)

    seconds(1)  # compiles and builds what is built once
    one, three = seconds(1), seconds(3)
    slope = 0.0 if model.relations_apart else max(three - one, 0.0) / 2
    return one + slope * int(encoded.num_relations)


def _contested_first(run: Run, facts: np.ndarray) -> np.ndarray:
    """Facts [F, 3] reordered: first those about which a question has rejected answers."""
    if run.rejected is None:
        return facts
    heads, relations, tails = facts.astype(np.int64).T
    forth = np.diff(run.rejected.answers(heads, relations).offsets)
    back = np.diff(run.rejected.answers(tails, relations + run.graph.num_relations).offsets)
    return facts[np.argsort(forth + back == 0, kind="stable")]


def learn(names: list[str], asked: Scored, groups: int) -> Learnt:
    """Weights of the mix: without the foundation model as it is if the adapted one replaces it, and not below the best.

    The best component is used alone if it predicts the hidden facts better than the mix does, or if a cross-fitted mix
    is worse by more than its standard error. A smaller difference may be noise: on a graph that lacks many facts, first
    places are lost to true answers that are not hidden.
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
    return Learnt([names[index] for index in used], asked, mix)
