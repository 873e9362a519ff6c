"""Are stated probabilities true? First answers about facts that were not used for calibrating.

`python -m benchmarks.calibration [MODEL [GRAPH ..]]` hides a tenth of each graph, calibrates a model on the rest by a
check, asks for up to 1,000 of the hidden facts, and prints for relations and directions with 50 of them or more the
mean and largest |stated - true| of first answers: with one curve for all scores, and by relation and direction, if the
hidden tenth is taken to be missing. `chance` is the mean that probabilities which hold would have on these questions,
and `suggested` the missing share that the graph itself suggests. Then
whether lists hold a missing answer at all: the stated and true share of the questions that `complete` asks, and the
area under the curve that tells those with a hidden answer from the others.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.stats import rankdata

from anykg.answers.calibrating.missing import MISSING, missing_share
from anykg.answers.check import check
from anykg.answers.completing.proposals import questions_of
from anykg.answers.hiding.recovery import hide_together
from anykg.answers.predict import probabilities
from anykg.benchmarks.answers.probabilities import by_relation, calibration_errors, one_curve
from anykg.evaluation.ranking import best_answers
from anykg.graph.graph import HEAD, RELATION, KnowledgeGraph
from anykg.io.catalog import data_dirs, load_graph
from anykg.models.base import LinkPredictor
from anykg.models.store import load_model
from anykg.seeds import generator

FACTS, QUESTIONS = 1000, 500
GRAPHS = (
    *("umls", "kinship"),
    *(f"pretraining/{name}.tsv.gz" for name in ("plant-ontology", "srd5e", "codex-s")),
)


def measure(name: str, model_name: str) -> dict[str, float | None]:
    """Figures of one graph."""
    files = [folder / name for folder in data_dirs() if (folder / name).is_file()]
    whole = load_graph(files[0] if files else name)
    rest, hidden = hide_together(whole, MISSING, seed=1)
    model = load_model(model_name)
    stated = check(rest, model=model, floors=False, missing=1 - len(rest) / len(whole)).calibration
    facts = hidden.triplets[generator(0, "calibration").permutation(len(hidden))[:FACTS]].astype(np.int64)
    ways = {"before": one_curve(stated), "after": by_relation(stated, rest)}
    before, after = calibration_errors(model, ways, rest, whole, facts).values()
    figures = {"groups": after["groups"]}
    figures |= {"one curve": before["error"], "worst": before["worst"]}
    figures |= {"by relation": after["error"], "worst by relation": after["worst"]}
    figures |= {"chance": after["chance"], "suggested": missing_share(rest)}
    return figures | _presence(model, rest, hidden)


def _presence(model: LinkPredictor, rest: KnowledgeGraph, hidden: KnowledgeGraph) -> dict[str, float | None]:
    """How well the chance that none is right tells questions with a hidden answer from others."""
    asked = questions_of(rest, None, None)
    asked = asked[generator(0, "presence").permutation(len(asked))[:QUESTIONS]]
    none = probabilities(model, rest, asked, best_answers(model, rest, asked, k=2)).none
    columns = np.argmin(asked, axis=1)
    start = np.where(columns == HEAD, asked[:, 2], asked[:, 0])
    kind = asked[:, RELATION] + np.where(columns == HEAD, rest.num_relations, 0)
    lacks = np.diff(hidden.answers(start, kind).offsets) > 0
    ranks = rankdata(-none)
    pairs = lacks.sum() * (~lacks).sum()
    area = (ranks[lacks].sum() - lacks.sum() * (lacks.sum() + 1) / 2) / pairs if pairs else None
    return {"stated": float(1 - none.mean()), "true": float(lacks.mean()), "area under the curve": area}


def main(model: str = "anykg-small", *names: str) -> None:
    """Print a line for each graph."""
    for name in names or GRAPHS:
        figures = measure(name, model)
        shown = (f"{key} {'-' if value is None else format(value, '.3g')}" for key, value in figures.items())
        print(f"{name}: {', '.join(shown)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
