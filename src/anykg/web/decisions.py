"""Store reviewers' decisions in an append-only file of JSON lines.

A decision is acknowledged once its line is written to disk. Several tabs and servers may write to one file: a lock file
next to it serialises them, and each reads the lines of the others before it writes. A line truncated by a crash was
never acknowledged; it stays in the file, is terminated by a line break, and is skipped. Ids are chosen by the client,
so that a decision sent twice is stored once. Nothing is ever rewritten: undoing a decision appends another line.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from anykg.errors import InputError

Verdict = Literal["accept", "reject", "skip", "undo"]
Triple = tuple[str, str, str]
LOCK_SECONDS = 10.0


class Conflict(InputError):
    """Another decision about this fact was made in the meantime."""

    def __init__(self, current: Decision | None) -> None:
        if current is None:
            text = "The decision about this fact was undone in the meantime; look again before deciding."
        else:
            text = (
                f"This fact was decided in the meantime: {current.verdict} by {current.reviewer or 'someone'} at "
                f"{current.time}; look again before deciding."
            )
        super().__init__(text)
        self.current = current


@dataclass(frozen=True)
class Decision:
    """One line of the file."""

    id: str
    """Chosen by the client; a second decision with the same id is not written."""
    head: str
    relation: str
    tail: str
    verdict: Verdict
    """`undo` takes back the latest decision about this triple."""
    source: str = ""
    """The source of the fact: complete, audit or predict."""
    probability: float | None = None
    model: str = ""
    """Digest of the model."""
    graph: str = ""
    """Digest of the graph."""
    reviewer: str = ""
    note: str = ""
    time: str = ""
    """UTC, ISO 8601."""

    @property
    def triple(self) -> Triple:
        """(head, relation, tail) by name."""
        return self.head, self.relation, self.tail


class Decisions:
    """The decisions in one file, as of the last refresh."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._guard = threading.RLock()
        self._read_bytes = 0
        self._by_id: dict[str, Decision] = {}
        self._current: dict[Triple, list[Decision]] = {}
        self.damaged = 0
        """Number of lines that are not decisions, such as one truncated by a crash."""
        self.refresh()

    # -- reading ------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read the lines added to the file since the last refresh."""
        with self._guard:
            try:
                with self.path.open("rb") as file:
                    file.seek(0, os.SEEK_END)
                    if file.tell() < self._read_bytes:  # replaced by a shorter file
                        self._forget()
                    file.seek(self._read_bytes)
                    data = file.read()
            except FileNotFoundError:
                self._forget()
                return
            except OSError as error:
                raise InputError(f"{self.path}: decisions cannot be read ({error.strerror}).") from error
            end = data.rfind(b"\n") + 1
            for line in data[:end].split(b"\n"):
                if line.strip():
                    self._take(line)
            self._read_bytes += end

    def current(self) -> dict[Triple, Decision]:
        """The current decision about every triple that has one."""
        with self._guard:
            return {triple: stack[-1] for triple, stack in self._current.items() if stack}

    def of(self, triple: Triple) -> Decision | None:
        """The current decision about a triple."""
        with self._guard:
            stack = self._current.get(triple)
            return stack[-1] if stack else None

    def triples(self, verdict: Verdict) -> set[Triple]:
        """The triples whose current decision is `verdict`."""
        return {triple for triple, decision in self.current().items() if decision.verdict == verdict}

    def history(self) -> list[Decision]:
        """Every line, oldest first."""
        with self._guard:
            return list(self._by_id.values())

    def __len__(self) -> int:
        return len(self.current())

    # -- writing ------------------------------------------------------------------------------------------------

    def add(self, decision: Decision, *, replaces: str | Literal["any"] | None = "any") -> Decision:
        """Append a decision and return it once it is on disk; an existing one with the same id is returned unchanged.

        `replaces` is the id of the current decision as seen by the client (None for none). If it has changed since,
        `Conflict` is raised and nothing is written.
        """
        if decision.verdict not in get_args(Verdict):
            raise InputError(f"verdict: expected {', '.join(get_args(Verdict))}, found {decision.verdict!r}.")
        with self._guard, self._locked():
            self.refresh()
            before = self._by_id.get(decision.id)
            if before is not None:
                if (before.triple, before.verdict) != (decision.triple, decision.verdict):
                    raise InputError(f"The id {decision.id!r} belongs to another decision; choose a new one.")
                return before
            now = self.of(decision.triple)
            if replaces != "any" and (now.id if now else None) != replaces:
                raise Conflict(now)
            if decision.verdict == "undo" and now is None:
                raise InputError("There is no decision about this fact to undo.")
            decision = replace(decision, time=decision.time or datetime.now(UTC).isoformat(timespec="milliseconds"))
            self._append(json.dumps(asdict(decision), ensure_ascii=False).encode())
            self.refresh()
            return self._by_id[decision.id]

    def _append(self, line: bytes) -> None:
        try:
            new = not self.path.exists()
            with self.path.open("ab+") as file:
                size = file.seek(0, os.SEEK_END)
                if size:
                    file.seek(size - 1)
                    if file.read(1) != b"\n":  # truncated by a crash: it was never acknowledged
                        line = b"\n" + line
                file.write(line + b"\n")
                file.flush()
                os.fsync(file.fileno())
            if new:
                _sync_folder(self.path.parent)
        except OSError as error:
            raise InputError(
                f"{self.path}: the decision could not be written ({error.strerror}) and is not saved."
            ) from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            from filelock import FileLock, Timeout
        except ImportError as error:
            raise InputError("Decisions need filelock; install it with `pip install 'anykg[serve]'`.") from error
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path.with_name(self.path.name + ".lock"), timeout=LOCK_SECONDS)
            lock.acquire()
        except Timeout as error:
            raise InputError(
                f"{self.path}: another program has held the file for {LOCK_SECONDS:g} s; try again."
            ) from error
        except OSError as error:
            raise InputError(f"{self.path}: decisions cannot be written ({error.strerror}).") from error
        try:
            yield
        finally:
            lock.release()

    def _take(self, line: bytes) -> None:
        decision = _parse(line)
        if decision is None:
            self.damaged += 1
            return
        if decision.id in self._by_id:
            return
        self._by_id[decision.id] = decision
        stack = self._current.setdefault(decision.triple, [])
        if decision.verdict != "undo":
            stack.append(decision)
        elif stack:
            stack.pop()

    def _forget(self) -> None:
        self._read_bytes, self.damaged = 0, 0
        self._by_id.clear()
        self._current.clear()


def _parse(line: bytes) -> Decision | None:
    """The decision on a line; None if it is not one. Fields of later versions are ignored."""
    try:
        values: dict[str, Any] = json.loads(line)
        known = {name: values[name] for name in Decision.__dataclass_fields__ if name in values}
        decision = Decision(**known)
    except (ValueError, TypeError):
        return None
    texts = (decision.id, decision.head, decision.relation, decision.tail)
    if not all(isinstance(text, str) for text in texts) or decision.verdict not in get_args(Verdict):
        return None
    return decision


def _sync_folder(folder: Path) -> None:
    """Sync the directory entry of a new file, if the system supports it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
