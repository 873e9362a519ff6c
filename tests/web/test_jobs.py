"""Jobs: what a result is used for is done before the job counts as done."""

import time
from pathlib import Path

import pytest

from anykg.web import jobs as module
from anykg.web.jobs import RESULT_FILE, Job, Jobs, Order


def order() -> Order:
    return Order("fit", "g", "g", "nowhere", "digest", "model", {})


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, seen: list[str], fail: bool = False) -> Job:
    """One job whose process runs `script` with its folder as argument."""
    real = module.subprocess.Popen
    command = [module.sys.executable, "-c", script, str(folder)]
    monkeypatch.setattr(
        module.subprocess, "Popen", lambda given, **options: real([*command[:-1], given[-1]], **options)
    )

    def use(job: Job) -> None:
        found = made.get(job.id)
        assert found is not None
        seen.append(found.state)
        if fail:
            raise RuntimeError("the model cannot be loaded")

    made = Jobs(folder, use)
    job = made.start(order())
    end = time.monotonic() + 30
    while (found := made.get(job.id)) and found.state not in module.ENDED and time.monotonic() < end:
        time.sleep(0.02)
    made.close()
    final = made.get(job.id)
    assert final is not None
    return final


WRITES = f"import sys, pathlib; pathlib.Path(sys.argv[1], {RESULT_FILE!r}).write_text('{{}}')"


def test_a_result_is_used_before_the_job_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    assert run(tmp_path, monkeypatch, WRITES, seen).state == "done"
    assert seen == ["running"]


def test_a_result_that_cannot_be_used_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = run(tmp_path, monkeypatch, WRITES, [], fail=True)
    assert (job.state, "cannot be loaded" in job.error) == ("failed", True)


def test_a_process_that_dies_is_a_failure_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = run(tmp_path, monkeypatch, "import os; os.abort()", [])
    assert (job.state, "ended unexpectedly" in job.error) == ("failed", True)
