"""Fit the components of a mix side by side, on a cluster.

Every component gets all the time that they share on one machine; with fewer workers than components, they take turns.
A worker hides the same facts, because it knows the seed, and returns the files of its component.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anykg.answers.fitting.components import FITTED, add, begin, fit_component
from anykg.answers.fitting.parts import FOLDER, Parts
from anykg.answers.fitting.run import SHARE, Clock, Run
from anykg.answers.hidden import hide_together
from anykg.answers.work import Arrays, Subject, results
from anykg.cluster import Cluster

TOLD = "told"


class Common(NamedTuple):
    """What all workers need to know, beside the graph and the foundation model."""

    seed: int
    made_for: Mapping[str, Any]


def fit_components(run: Run, cluster: Cluster) -> None:
    """As `components.fit_components`, on a cluster."""
    waiting = begin(run)
    seconds = run.clock.take(*FITTED) / math.ceil(len(FITTED) / cluster.slots)
    tasks = [(name, seconds) for name in waiting]
    if not tasks:
        return
    run.tell(f"{', '.join(waiting)}: {seconds:.0f} s each, on {cluster.slots} workers")
    found = results(
        fit_on_worker,
        Subject(run.graph, run.foundation),
        tasks,
        common=Common(run.seed, run.parts.made_for),
        cluster=cluster,
    )
    try:
        for name, files in zip(waiting, found, strict=True):
            for text in files.pop(TOLD):
                run.tell(str(text))
            _receive(run, name, files, seconds)
            run.report()
    except KeyboardInterrupt:
        run.interrupt()


def fit_on_worker(subject: Subject, common: Common, name: str, seconds: float) -> Arrays:
    """Fit a component, in a worker: the content of its files by path, and the sentences that were told."""
    rest, hidden = hide_together(subject.graph, SHARE, common.seed)
    told: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        parts = Parts(Path(temporary), common.made_for, resume=False)
        run = Run(subject.graph, rest, hidden, subject.model, Clock(seconds), common.seed, parts, told.append)
        fit_component(run, name, seconds)
        folder = Path(temporary) / FOLDER
        files = {
            str(path.relative_to(folder)): np.frombuffer(path.read_bytes(), np.uint8)
            for path in folder.rglob("*")
            if path.is_file()
        }
    return files | {TOLD: np.array(told, dtype=np.str_)}


def _receive(run: Run, name: str, files: Arrays, seconds: float) -> None:
    """Add the component that a worker's files hold, if it made one."""
    with tempfile.TemporaryDirectory() as temporary:
        for path, content in files.items():
            file = Path(temporary) / FOLDER / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.tobytes())
        parts = Parts(Path(temporary), run.parts.made_for, resume=True)
        model = parts.load(name)
        if model is not None:
            fits = parts.load_fits() if name == "complex" else None
            add(run, name, model, fits, seconds)
            run.parts.save(name, model)
            if fits is not None:
                run.parts.save_fits(fits)
