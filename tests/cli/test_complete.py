"""`anykg complete` as a person types it, interrupted too."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anykg.cli.complete import duration
from anykg.cli.main import app
from anykg.cli.wording import as_typed
from anykg.errors import InputError, Interrupted

FACTS = "".join(
    f"p{i}\tknows\tp{(i * 7 + 1) % 90}\np{i}\tlikes\tt{i % 5}\np{i}\tin\tc{i % 8}\n" for i in range(90)
)  # fmt: skip


def test_restricted(tmp_path: Path) -> None:
    out = tmp_path / "new.tsv"
    arguments = ["complete", "atlas", "--heads", "Kosovo", "--relations", "in UN regional group", "--top", "2"]
    result = CliRunner().invoke(app, [*arguments, "--scores", "--out", str(out)], catch_exceptions=False)
    assert "1 question, about" in result.stderr
    lines = out.read_text().splitlines()
    assert lines[0].split("\t") == ["head", "relation", "tail", "score", "rank"]
    assert lines[1].split("\t")[2] == "Eastern European Group"
    assert [path.name for path in tmp_path.iterdir()] == ["new.tsv"]
    with pytest.raises(InputError, match="'Kosovo'"):
        CliRunner().invoke(app, ["complete", "atlas", "--heads", "Kossovo"], catch_exceptions=False)


def test_interrupted_by_hand(tmp_path: Path) -> None:
    facts, program, out = tmp_path / "facts.tsv", tmp_path / "program.py", tmp_path / "stopped.tsv"
    facts.write_text(FACTS, encoding="utf-8")
    # The program itself, each slice slower if asked, so that there is time to interrupt it; in the background of a
    # shell, where tests may run, interrupts are ignored unless one asks for them. All runs are processes of their own:
    # the last digits of a score depend on how many threads torch has, which other tests in this one may have changed.
    program.write_text(
        "import os, signal, sys, time, anykg.answers.complete as c\nfrom anykg.cli.main import run\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "c.SLICE, delay, best = 4, float(os.environ.get('DELAY', 0)), c.propose\n"
        "c.propose = lambda *a: (print('slice', file=sys.stderr, flush=True), time.sleep(delay), best(*a))[2]\nrun()\n"
    )
    command = [sys.executable, str(program), "complete", str(facts), "--scores", "--top", "40", "--out"]
    stopped = subprocess.Popen(
        [*command, str(out)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"DELAY": "0.4"},
    )
    assert stopped.stderr is not None
    for _ in range(3):  # two slices are done when the third begins
        while "slice" not in (line := stopped.stderr.readline()):
            assert line, "it ended before it could be interrupted"
    stopped.send_signal(signal.SIGINT)
    _, complaint = stopped.communicate()
    assert stopped.returncode == 130
    assert "run it again to resume" in complaint
    assert not out.exists()
    again = subprocess.run([*command, str(out)], capture_output=True, text=True, check=True)
    assert "Resuming after" in again.stderr
    subprocess.run([*command, str(tmp_path / "whole.tsv")], capture_output=True, check=True)
    assert out.read_text() == (tmp_path / "whole.tsv").read_text()


@pytest.mark.parametrize("calibrated", [True, False])
def test_an_interrupt_says_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calibrated: bool) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    facts = tmp_path / "facts.tsv"
    facts.write_text(FACTS, encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("anykg.answers.complete.calibration_of", stop)
    monkeypatch.setattr("anykg.answers.complete.propose", stop)
    kept = ["--out", str(tmp_path / "new.tsv")] if calibrated else ["--scores"]
    arguments = ["complete", str(facts), "--model", "popularity", "--top", "5", *kept]
    stopped = CliRunner().invoke(app, arguments).exception
    assert isinstance(stopped, Interrupted)
    told = as_typed(str(stopped))
    assert told.endswith("run it again to start over." if calibrated else "give --out to be able to resume.")


def test_durations() -> None:
    assert [duration(s) for s in (0.2, 40, 600, 4000)] == ["1 s", "40 s", "10 min", "1 h 7 min"]
