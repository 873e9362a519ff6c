"""The list of runs on a Ray cluster of two workers, one of which is killed in mid-run."""

import json
import re
import threading
import time
from pathlib import Path

import psutil
import pytest

from anykg.benchmarks import runs
from anykg.benchmarks.cluster import run_on
from anykg.benchmarks.experiment import Experiment, ModelRow
from anykg.benchmarks.report import collect
from anykg.errors import ConfigError

ray = pytest.importorskip("ray")

ROW = ModelRow("gin", recipe={"epochs": 12, "validation_limit": 20}, limits={"node": 40, "relation": 40})
EXPERIMENT = Experiment("pediatypes", "PediaTypes", ("atlas",), 3, "paper", (ROW,))


def kill_one(runs_folder: Path, killed: list[int]) -> None:
    """Kill the worker of some cell that has begun to train."""
    while not list(runs_folder.rglob("log.jsonl")):
        time.sleep(0.01)
    for process in psutil.process_iter(["cmdline"]):
        if "ray::run_if_missing" in " ".join(process.info["cmdline"] or []):
            process.kill()
            killed.append(process.pid)
            return


def results_of(folder: Path) -> str:
    collect(EXPERIMENT, folder / "runs", folder / "results")
    text = (folder / "results" / "pediatypes" / "gin.json").read_text(encoding="utf-8")
    assert len(json.loads(text)["cells"]) == 3
    return re.sub(r'"seconds": [0-9.]+', "", text)


@pytest.mark.slow
def test_a_lost_worker_changes_nothing(tmp_path: Path) -> None:
    killed: list[int] = []
    killer = threading.Thread(target=kill_one, args=(tmp_path / "cluster", killed), daemon=True)
    killer.start()
    messages: list[str] = []
    missing = run_on("local", EXPERIMENT, tmp_path / "cluster" / "runs", tell=lambda cell, text: messages.append(text))
    killer.join(timeout=5)
    assert killed
    assert missing == 0
    assert len(messages) == 3
    runs.run_all(EXPERIMENT, tmp_path / "alone" / "runs", tell=lambda cell, text: None)
    assert results_of(tmp_path / "cluster") == results_of(tmp_path / "alone")


def test_a_cluster_that_is_not_there_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**options: object) -> None:
        raise ConnectionError("no running instance")  # what Ray says, unless another test has a cluster running

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(ConfigError, match=r"cannot reach a Ray cluster at 'auto' \(no running instance\)"):
        run_on("auto", EXPERIMENT, tmp_path, tell=lambda cell, text: None)
