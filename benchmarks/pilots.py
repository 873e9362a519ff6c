"""Short trainings of foundation models, compared on graphs that none of them is trained on.

    python -m benchmarks.pilots FOLDER [--steps 500] [--seeds 2] [--only NAME,..]

Each pilot changes one thing in the recipe of `anykg-base`: the architecture, the loss, the share of hidden facts or the
training graphs. Trainings are kept in FOLDER; the same command resumes and prints the table again. MRR in percent on
the validation graphs, full protocol, 300 test triplets each, mean over seeds; processor seconds of the training.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from anykg.answers.train import train
from anykg.atomic import write_text
from anykg.evaluation.evaluate import evaluate
from anykg.evaluation.metrics import summarise
from anykg.evaluation.protocol import PROTOCOLS, Target
from anykg.io.catalog import data_dirs, load_task
from anykg.models.store import load_model

VALIDATION = ("plant-ontology", "f1db", "wikidata12k", "pokeapi")
"""Graphs of the pre-training collection that are never trained on."""
FACTS = 300
EPOCH = 250
TOPICS = tuple(f"wikitopics:{topic}" for topic in ("infra", "sci", "sport", "tax"))
LOC = (*TOPICS, "wikitopics:loc")
CATALOG = (
    *("FB15k-237", "WN18RR", "CoDEx-M", "NELL-995", "umls", "kinship", "nations"),
    *(*LOC, "wikitopics:org", "wikitopics:people"),
)
SETTINGS: dict[str, Any] = {
    "batch_size": 16,
    "batch_nodes": 100_000,
    "mixture": "sqrt",
    "steps_per_epoch": EPOCH,
    "checkpoint": "last",
    "validation_limit": 3,
    "lr": 1e-3,
    "schedule": "linear",
}
KINDS: tuple[Target, ...] = ("node", "relation")


@dataclass(frozen=True)
class Pilot:
    """One row of the table: what is trained, on which graphs."""

    model: str = "trix"
    graphs: tuple[str, ...] | None = None  # None: the catalog's and all files of the collection
    settings: dict[str, Any] = field(default_factory=dict)


PILOTS = {
    "recipe": Pilot(),
    "ultra": Pilot("ultra", settings={"loss": "softmax"}),
    "hybrid": Pilot(settings={"first": "network"}),
    "self-adversarial": Pilot(settings={"loss": "self-adversarial"}),
    "hide 40%": Pilot(settings={"hide": 0.4}),
    "parts of 20k facts": Pilot(settings={"part_facts": 20_000}),
    "14 graphs": Pilot(graphs=CATALOG),
    "4 topics": Pilot(graphs=TOPICS),
    "4 topics + Loc": Pilot(graphs=LOC),
}


def collection() -> dict[str, Path]:
    """The files of the pre-training collection by name."""
    found = sorted(path for folder in data_dirs() for path in folder.glob("pretraining/*.tsv.gz"))
    return {path.name.removesuffix(".tsv.gz"): path for path in found}


def measure(name: str, seed: int, steps: int, folder: Path) -> dict[str, Any]:
    """Train a pilot unless it has been, and ask about the validation graphs."""
    pilot, files = PILOTS[name], collection()
    out = folder / f"{name.replace(' ', '-')}-{steps}-{seed}"
    kept = out / "pilot.json"
    if kept.is_file():
        figures: dict[str, Any] = json.loads(kept.read_text())
        return figures
    graphs = pilot.graphs or (*CATALOG, *(str(path) for file, path in files.items() if file not in VALIDATION))
    settings = SETTINGS | {"epochs": steps // EPOCH, "warmup": steps // 10} | pilot.settings
    started = time.process_time()
    train(pilot.model, list(graphs), out=out, seed=seed, resume=True, **settings)
    figures = {"seconds": time.process_time() - started, "graphs": len(graphs)}
    model = load_model(out)
    for graph in VALIDATION:
        task = load_task(files[graph])
        for kind in KINDS if pilot.model == "trix" else KINDS[:1]:  # others have no network for relations
            full = PROTOCOLS["full"]
            asked = evaluate(
                model, task.observed, task.test, task=kind, protocol=full, limit=FACTS, also_known=task.known
            )
            figures[f"{graph} {kind}"] = summarise(asked.ranks.by(asked.protocol.ties))["mrr"]
    write_text(kept, json.dumps(figures))
    return figures


def row(name: str, runs: list[dict[str, Any]]) -> str:
    """Figures of a pilot, mean over its seeds; the mean over graphs with the spread of the seeds."""
    cells = [name, str(runs[0]["graphs"])]
    for kind in KINDS:
        if f"{VALIDATION[0]} {kind}" not in runs[0]:
            cells += [""] * (len(VALIDATION) + 1)
            continue
        by_seed = [[100 * run[f"{graph} {kind}"] for graph in VALIDATION] for run in runs]
        means = np.mean(by_seed, axis=1)
        cells += [*(f"{value:.1f}" for value in np.mean(by_seed, axis=0)), f"{means.mean():.1f} ({np.ptp(means):.1f})"]
    return "| " + " | ".join([*cells, f"{np.mean([run['seconds'] for run in runs]):.0f}"]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=2 * EPOCH)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", default=",".join(PILOTS))
    asked = parser.parse_args()
    names = asked.only.split(",")
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for seed in range(asked.seeds):  # all pilots with one seed before the next
        for name in names:
            runs[name].append(measure(name, seed, asked.steps, asked.folder))
            print(f"{name}, seed {seed}: {runs[name][-1]}", flush=True)
    heads = [f"{graph}, {kind}" for kind in KINDS for graph in (*VALIDATION, "mean (spread of seeds)")]
    print(f"| pilot | graphs | {' | '.join(heads)} | seconds |\n|{'---|' * (len(heads) + 3)}")
    for name in names:
        print(row(name, runs[name]))


if __name__ == "__main__":
    main()
