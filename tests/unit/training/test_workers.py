"""Batches in pieces and shared by processes: the same losses, and a lost process ends the run in good order."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from anykg.graph.split import hold_out
from anykg.models.nbf.ultra import Ultra, UltraConfig
from anykg.training import loop
from anykg.training.loop import Report, TrainingGraph, train
from anykg.training.workers import Workers
from graphs import random_graph

RECIPE = replace(Ultra.recipe, epochs=1, batch_size=8, negative_entities=4)


def losses(tmp_path: Path, pieces: int) -> list[float]:
    rest, held = hold_out(random_graph(40, 3, 120, 0), 0.2, 0, "valid")
    torch.manual_seed(0)
    found: list[float] = []

    def keep(report: Report) -> None:
        found.append(report.loss)

    model = Ultra(UltraConfig(width=16, relation_layers=2, entity_layers=2))
    out = tmp_path / str(pieces)
    train("ultra", model, [TrainingGraph("g", rest, held)], replace(RECIPE, pieces=pieces), out=out, on_step=keep)
    return found


def test_a_batch_in_pieces_is_the_same_batch(tmp_path: Path) -> None:
    assert losses(tmp_path, 3) == pytest.approx(losses(tmp_path, 1), rel=1e-4)


@pytest.mark.parametrize(("count", "size", "pieces"), [(10, 3, 2), (2, 4, 1), (7, 1, 3), (0, 2, 2)])
def test_every_row_is_computed_once(count: int, size: int, pieces: int) -> None:
    parts = [share for rank in range(size) for share in Workers(rank, size).shares(count, pieces)]
    assert [row for part in parts for row in range(count)[part]] == list(range(count))


def command(folder: Path, out: str, *more: str) -> list[str]:
    (folder / "facts.tsv").write_text(
        "".join("\t".join(row) + "\n" for row in random_graph(60, 3, 300, 1).to_polars().rows()), encoding="utf-8"
    )
    sizes = ["--width", "16", "--entity-layers", "2", "--relation-layers", "2", "--negative-entities", "4"]
    task = ["-m", "anykg", "train", "ultra", str(folder / "facts.tsv"), *sizes, "--batch-size", "8"]
    return [*task, "--out", str(folder / out), *more]


def together(arguments: list[str]) -> list[str]:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0"]
    return [*torchrun, "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", *arguments]


def log(folder: Path) -> list[dict[str, float]]:
    path = folder / loop.LOG_FILE
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one(tmp_path: Path) -> None:
    for arguments in (
        [sys.executable, *command(tmp_path, "one", "--epochs", "2")],
        together(command(tmp_path, "two", "--epochs", "2")),
    ):
        run = subprocess.run(arguments, check=False, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
    one, two = ([line["loss"] for line in log(tmp_path / name)] for name in ("one", "two"))
    assert two == pytest.approx(one, rel=1e-4)
    assert len(one) == 2


@pytest.mark.slow
def test_a_killed_worker_leaves_a_checkpoint(tmp_path: Path) -> None:
    run = subprocess.Popen(
        together(command(tmp_path, "out", "--epochs", "10000")),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + 120
    while len(log(tmp_path / "out")) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    output, _ = run.communicate(timeout=60)
    assert run.returncode != 0
    assert "--resume" in output
    before = len(log(tmp_path / "out"))
    again = command(tmp_path, "out", "--epochs", "10000", "--resume")
    resumed = subprocess.Popen([sys.executable, *again], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(log(tmp_path / "out")) <= before and resumed.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    resumed.kill()
    resumed.wait()
    assert len(log(tmp_path / "out")) > before
