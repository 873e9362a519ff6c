from pathlib import Path

import pytest

from anykg.experiments import zero_shot
from anykg.experiments.zero_shot import run
from anykg.models.random import RandomScorer

LIMITS = {"node": 5, "relation": 4}


def test_cells_are_kept_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    table = run({"dice": RandomScorer()}, ["atlas"], results=tmp_path, limits=LIMITS, tell=told.append)  # type: ignore[arg-type]
    text = table.read_text()
    assert [line.rsplit(" ", 1)[0] for line in told] == [
        f"atlas {task} {protocol} dice: MRR" for task, protocol in zero_shot.KINDS
    ]
    assert text.count("| **mean** |") == 4
    monkeypatch.setattr(zero_shot, "evaluate", None)  # nothing is asked again
    again = run({"dice": RandomScorer(), "same": RandomScorer()}, ["atlas"], results=tmp_path, limits=LIMITS)  # type: ignore[arg-type]
    assert "dice is +0.0% relative to same" in again.read_text()
