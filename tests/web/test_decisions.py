"""Decisions: nothing acknowledged is lost, nothing is kept twice, two writers see each other."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("filelock", reason="decisions need the extra [serve]")

from anykg.errors import InputError
from anykg.web.decisions import Conflict, Decision, Decisions

KILLS = int(os.environ.get("ANYKG_KILLS", "3"))
"""How often the writer is killed; the full test is ANYKG_KILLS=50."""

WRITER = """
import sys
from anykg.web.decisions import Decision, Decisions
log, start = Decisions(sys.argv[1]), int(sys.argv[2])
for number in range(start, start + 100_000):
    note = "x" * (number % 3000)
    log.add(Decision(str(number), f"head {number % 50}", "r", "tail \\n\\u2028 é", "accept", note=note))
    print(number, flush=True)  # acknowledged
"""


def decision(name: str, verdict: str = "accept", head: str = "a") -> Decision:
    return Decision(name, head, "likes", "b", verdict)  # type: ignore[arg-type]


def test_what_is_decided_is_read_back(tmp_path: Path) -> None:
    log = Decisions(tmp_path / "new folder" / "d.jsonl")
    log.add(Decision("1", "Zoë\n", "r\t", "t", "accept", "complete", 0.25, "m", "g", "me", "a note"))
    again = Decisions(log.path)
    (kept,) = again.history()
    assert kept.triple == ("Zoë\n", "r\t", "t")
    assert (kept.probability, kept.model, kept.graph, kept.reviewer, kept.note) == (0.25, "m", "g", "me", "a note")
    assert kept.time.endswith("+00:00")


def test_an_id_is_kept_once(tmp_path: Path) -> None:
    log = Decisions(tmp_path / "d.jsonl")
    assert log.add(decision("1")) == log.add(decision("1"))
    assert len(log.path.read_text().splitlines()) == 1
    with pytest.raises(InputError, match="another decision"):
        log.add(decision("1", "reject"))


def test_undo_brings_back_what_was_before(tmp_path: Path) -> None:
    log = Decisions(tmp_path / "d.jsonl")
    log.add(decision("1", "reject"))
    log.add(decision("2", "accept"))
    log.add(decision("3", "undo"))
    assert log.triples("reject") == {("a", "likes", "b")}
    log.add(decision("4", "undo"))
    assert not len(log)
    with pytest.raises(InputError, match="no decision about this fact"):
        log.add(decision("5", "undo"))
    assert [line.id for line in Decisions(log.path).history()] == ["1", "2", "3", "4"]


def test_a_tab_that_has_not_seen_the_other_is_told(tmp_path: Path) -> None:
    one, other = Decisions(tmp_path / "d.jsonl"), Decisions(tmp_path / "d.jsonl")
    one.add(decision("1", "accept"), replaces=None)
    with pytest.raises(Conflict, match="accept by someone"):
        other.add(decision("2", "reject"), replaces=None)
    other.add(decision("3", "reject"), replaces="1")
    one.refresh()
    assert one.triples("reject") == {("a", "likes", "b")}
    one.add(decision("4", "undo"), replaces="3")
    one.add(decision("5", "undo"), replaces="1")
    with pytest.raises(Conflict, match="undone"):
        other.add(decision("6", "accept"), replaces="3")


def test_a_line_cut_short_is_skipped_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    Decisions(path).add(decision("1"))
    with path.open("ab") as file:
        file.write(b'{"id": "2", "head": "ha')
    log = Decisions(path)
    log.add(decision("3", head="c"))
    assert [line.id for line in Decisions(path).history()] == ["1", "3"]
    assert Decisions(path).damaged == 1
    assert b'"ha\n' in path.read_bytes()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=5))
def test_any_bytes_between_the_lines_do_no_harm(tmp_path_factory: pytest.TempPathFactory, junk: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("junk") / "d.jsonl"
    path.write_bytes(b"".join(json.dumps({"id": str(i)}).encode() + part + b"\n" for i, part in enumerate(junk)))
    log = Decisions(path)
    log.add(decision("new"))
    assert [line.id for line in Decisions(path).history()] == ["new"]


def test_many_threads_and_two_logs_lose_nothing(tmp_path: Path) -> None:
    logs = [Decisions(tmp_path / "d.jsonl") for _ in range(2)]

    def write(part: int) -> None:
        for number in range(10):
            logs[part % 2].add(decision(f"{part}-{number}", head=f"{part}-{number}"))

    threads = [threading.Thread(target=write, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Decisions(tmp_path / "d.jsonl").history()) == 40


def test_a_file_that_cannot_be_written_is_the_users_to_mend(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be read"):
        Decisions(tmp_path / "file" / "d.jsonl").add(decision("1"))


def test_kill_during_a_stream_of_decisions(tmp_path: Path) -> None:
    """Every acknowledged id is in the file once, however often the writer is killed and sends its last one again."""
    path, acknowledged, start = tmp_path / "d.jsonl", [], 0
    for round_ in range(KILLS):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(start)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        seen = []
        for line in writer.stdout:
            seen.append(int(line))
            if len(seen) == 20 + 7 * (round_ % 5):
                writer.send_signal(signal.SIGKILL)
                break
        seen += [int(line) for line in writer.stdout]  # acknowledged before the kill, read after it
        writer.wait()
        acknowledged += seen
        start = seen[-1] + 1  # this one may be in the file already, without having been acknowledged
    lines = [line for line in path.read_bytes().split(b"\n") if line]
    kept = [line.id for line in Decisions(path).history()]
    whole = len(lines) - Decisions(path).damaged
    assert len(kept) == whole, "an id is in the file twice"
    assert set(map(str, acknowledged)) <= set(kept)
