from pathlib import Path

import pytest

from anykg.benchmarks import zero_shot
from anykg.benchmarks.zero_shot import run, write_table
from anykg.models.random import RandomScorer

LIMITS = {"node": 5, "relation": 4}


def test_cells_are_kept_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    run({"dice": RandomScorer()}, ["atlas"], results=tmp_path, limits=LIMITS, tell=told.append)  # type: ignore[arg-type]
    text = write_table(tmp_path, LIMITS).read_text()  # type: ignore[arg-type]
    assert [line.rsplit(" ", 1)[0] for line in told] == [
        f"atlas {task} {protocol} dice: MRR" for task, protocol in zero_shot.KINDS
    ]
    assert text.count("| **mean** |") == 4
    run({"same": RandomScorer()}, ["atlas"], results=tmp_path, limits=LIMITS)  # type: ignore[arg-type]
    # What another call found stays, and one model's graphs are not another's.
    assert "dice is +0.0% relative to same" in write_table(tmp_path, LIMITS).read_text()  # type: ignore[arg-type]
    monkeypatch.setattr(zero_shot, "evaluate", None)  # nothing is asked again
    run({"dice": RandomScorer()}, ["atlas"], results=tmp_path, limits=LIMITS)  # type: ignore[arg-type]
    monkeypatch.setattr(zero_shot, "digest_of", lambda model: "other")
    with pytest.raises(TypeError):  # but with other weights it is
        run({"dice": RandomScorer()}, ["atlas"], results=tmp_path, limits=LIMITS)  # type: ignore[arg-type]
