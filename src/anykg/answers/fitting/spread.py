"""Fit the components of a mix in parallel, on a cluster.

Every component gets all the time that they share on one machine; with fewer workers than components, they run in turn.
A worker hides the same facts, because it knows the seed, and returns the files of its component.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anykg.answers.fitting.components import FITTED, add, begin, fit_component
from anykg.answers.fitting.parts import FOLDER, Parts
from anykg.answers.fitting.run import SHARE, STAGES, Clock, Run
from anykg.answers.hiding.recovery import hide_together
from anykg.answers.work import Arrays, Subject, finished
from anykg.cluster import Cluster

MESSAGES, SECONDS = "messages", "seconds"


class Common(NamedTuple):
    """Data that all workers need besides the graph and the foundation model."""

    seed: int
    made_for: Mapping[str, Any]


def fit_components(run: Run, cluster: Cluster) -> None:
    """Like `components.fit_components`, on a cluster."""
    waiting = begin(run)
    seconds = run.clock.take(*FITTED)
    if not waiting:
        return
    seconds /= math.ceil(len(waiting) / cluster.slots)
    run.tell(f"{', '.join(waiting)}: {seconds:.0f} s each, on {cluster.slots} workers")
    fitted = finished(
        fit_on_worker,
        Subject(run.graph, run.foundation),
        [(name, seconds) for name in waiting],
        common=Common(run.seed, run.parts.made_for),
        cluster=cluster,
    )
    try:
        for index, files in fitted:
            for text in files.pop(MESSAGES):
                run.tell(str(text))
            _receive(run, waiting[index], files)
            run.report()
    except KeyboardInterrupt:
        run.interrupt()
    first = [name for name in run.models if name not in FITTED]
    run.models = {
        name: run.models[name] for name in (*first, *FITTED) if name in run.models
    }  # in this order, whichever came first


def fit_on_worker(subject: Subject, common: Common, name: str, seconds: float) -> Arrays:
    """Fit a component in a worker; returns the content of its files by path, its messages, and the seconds it took."""
    rest, hidden = hide_together(subject.graph, SHARE, common.seed)
    messages: list[str] = []
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        parts = Parts(Path(temporary), common.made_for)
        run = Run(subject.graph, rest, hidden, subject.model, Clock(seconds), common.seed, parts, messages.append)
        fit_component(run, name, seconds)
        folder = Path(temporary) / FOLDER
        files = {
            str(path.relative_to(folder)): np.frombuffer(path.read_bytes(), np.uint8)
            for path in folder.rglob("*")
            if path.is_file()
        }
    seconds = np.float64(time.monotonic() - started)
    return files | {MESSAGES: np.array(messages, dtype=np.str_), SECONDS: np.asarray(seconds)}


def _receive(run: Run, name: str, files: Arrays) -> None:
    """Add the component in a worker's files, if there is one.

    Refitting to all facts happens in this process, so the recorded time is at most what the component would have had
    here.
    """
    took = min(float(files.pop(SECONDS)), STAGES[name] * run.clock.seconds)
    with tempfile.TemporaryDirectory() as temporary:
        for path, content in files.items():
            file = Path(temporary) / FOLDER / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.tobytes())
        parts = Parts(Path(temporary), run.parts.made_for)
        model = parts.load(name)
        if model is not None:
            fits = parts.load_fits() if name == "complex" else None
            add(run, name, model, fits, took)
            run.parts.save(name, model)
            if fits is not None:
                run.parts.save_fits(fits)
