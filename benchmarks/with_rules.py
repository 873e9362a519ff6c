"""What rules of the graph add to a model that was trained on other graphs, with the same weights for every graph.

    python -m benchmarks.with_rules anykg-base plant-ontology.tsv.gz f1db.tsv.gz wikidata12k.tsv.gz pokeapi.tsv.gz

A tenth of each graph is hidden, rules are mined on the rest, and hidden facts are asked for: both ends, and relations.
The weights in a row were learnt on the other graphs; those in the last row on all of them: they are the `rule_weights`
in the description of the model, for `NAME+rules`. MRR in percent, and the processor seconds that mining took.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import torch

from anykg.answers.fitting.mixing import Kind, Scored, Weights, ask, both_ways, fit_weights, mixed, pooled, ranks_of
from anykg.answers.hiding.recovery import hide_together
from anykg.io.catalog import load_graph
from anykg.models.rulebook import Rulebook
from anykg.models.store import load_model
from anykg.seeds import generator

FACTS = 300
UNEXPLAINED = 0.003
"""Chance of an answer that neither explains."""
KINDS: tuple[Kind, ...] = ("entities", "relations")


def measure(model: str, name: str) -> tuple[dict[Kind, Scored], float]:
    """Hidden facts of a graph, asked for by the model and by rules, and the seconds for the rules."""
    whole, models = load_graph(name), [load_model(model), Rulebook().eval()]
    rest, hidden = hide_together(whole, 0.1, seed=0)
    facts = hidden.triplets[generator(0, "with rules").permutation(len(hidden))[:FACTS]].astype(np.int64)
    encoded = [models[0].encode(rest)]
    started = time.process_time()
    encoded.append(models[1].encode(rest))
    seconds = time.process_time() - started
    questions = {"entities": both_ways(facts, whole.num_relations), "relations": facts[:, [0, 2, 1]]}
    found: dict[Kind, Scored] = {}
    for kind in KINDS:
        with torch.no_grad():
            found[kind] = ask(models, encoded, rest, whole, questions[kind], kind=kind)
        found[kind].questions[:, 1] = 0  # one group: the weights are those of every relation
    return found, seconds


def weights_for(parts: list[Scored]) -> Weights:
    """Weights of the model and of the rules, learnt from several graphs."""
    return fit_weights(pooled(parts), 1, None, unexplained=UNEXPLAINED)


def main() -> None:
    model, *names = sys.argv[1:]
    made = {name: measure(model, name) for name in names}
    print(f"| graph | questions about | model | rules | both | weights | seconds of mining |\n|{'---|' * 7}")
    for kind in KINDS:
        asked = {name: found[kind] for name, (found, _) in made.items()}
        for name, mine in asked.items():
            weights = weights_for([other for key, other in asked.items() if key != name])
            ranks = np.column_stack([mine.ranks, ranks_of(mine, mixed(mine, weights))])
            figures = " | ".join(f"{100 * value:.1f}" for value in (1 / ranks).mean(0))
            shown = ", ".join(f"{value:.2f}" for value in weights.general)
            print(f"| {Path(name).name} | {kind} | {figures} | {shown} | {made[name][1]:.1f} |", flush=True)
        shown = ", ".join(f"{value:.3f}" for value in weights_for(list(asked.values())).general)
        print(f"| all | {kind} | | | | {shown} | |", flush=True)


if __name__ == "__main__":
    main()
