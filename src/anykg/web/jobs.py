"""Run long tasks as jobs. Each job has its own process, reports progress, can be stopped, and outlives the page.

One job runs at a time; others wait. A job has a folder with `job.json` (order and outcome), `result.json` and
`log.txt`. Finished jobs are available after a restart. `worker.py` is the child process.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from anykg.atomic import write_json
from anykg.errors import InputError
from anykg.web.pool import Busy

Kind = Literal["check", "complete", "audit", "fit"]
State = Literal["waiting", "running", "done", "failed", "stopped"]
ENDED = ("done", "failed", "stopped")
MOST_WAITING = 8
KEPT = 60
"""Maximum number of finished jobs that are kept on disk."""
STOP_SECONDS = 8.0
"""Grace period for a job to save its work, before it is killed."""
JOB_FILE, RESULT_FILE, LOG_FILE = "job.json", "result.json", "log.txt"


@dataclass(frozen=True)
class Order:
    """The order of a job."""

    kind: Kind
    graph: str
    """The graph's id on this server."""
    name: str
    """The display name of the graph."""
    snapshot: str
    """The folder with the graph."""
    digest: str
    """The graph's digest."""
    model: str
    settings: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of the function."""


@dataclass(frozen=True)
class Job:
    """An order and its state."""

    id: str
    order: Order
    state: State = "waiting"
    done: int = 0
    total: int = 0
    note: str = ""
    """The current activity."""
    error: str = ""
    """The error message, if it failed."""
    created: float = 0.0
    started: float | None = None
    ended: float | None = None

    def public(self) -> dict[str, Any]:
        """The job as JSON for clients."""
        return {
            "id": self.id,
            "kind": self.order.kind,
            "graph": self.order.graph,
            "model": self.order.model,
            "settings": {  # negatives may be thousands
                name: len(value) if name == "negatives" else value for name, value in self.order.settings.items()
            },
            "state": self.state,
            "done": self.done,
            "total": self.total,
            "note": self.note,
            "error": self.error,
            "created": self.created,
            "started": self.started,
            "ended": self.ended,
        }


class Jobs:
    """All jobs of a server, and the thread that runs them."""

    def __init__(self, folder: Path, on_done: Callable[[Job], None] | None = None) -> None:
        """`on_done` processes a result before the job counts as done."""
        self.folder = folder
        self._on_done = on_done
        self._jobs: dict[str, Job] = {job.id: job for job in _finished(folder)}
        self._changed = threading.Condition()
        self._child: subprocess.Popen[str] | None = None
        self._running: str | None = None
        self._stopping: set[str] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="jobs", daemon=True)
        self._thread.start()

    # -- asking -------------------------------------------------------------------------------------------------

    def list(self, digest: str | None = None) -> list[Job]:
        """Jobs, newest first; only those about one graph if its digest is given."""
        with self._changed:
            jobs = [job for job in self._jobs.values() if digest is None or job.order.digest == digest]
        return sorted(jobs, key=lambda job: -job.created)

    def get(self, name: str) -> Job | None:
        """The job of that id."""
        with self._changed:
            return self._jobs.get(name)

    def result(self, name: str) -> dict[str, Any] | None:
        """The result of a finished job."""
        job = self.get(name)
        if job is None or job.state != "done":
            return None
        try:
            result: dict[str, Any] = json.loads((self.folder / job.id / RESULT_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return result

    def latest(self, kind: Kind, digest: str) -> Job | None:
        """The newest finished job of a kind about a graph."""
        return next((job for job in self.list(digest) if job.order.kind == kind and job.state == "done"), None)

    # -- ordering -----------------------------------------------------------------------------------------------

    def start(self, order: Order) -> Job:
        """Queue an order; if the same order is already waiting or running, return that job."""
        with self._changed:
            waiting = [job for job in self._jobs.values() if job.state not in ENDED]
            for job in waiting:
                if job.order == order and job.id not in self._stopping:
                    return job
            if len(waiting) >= MOST_WAITING or self._closed:
                raise Busy
            job = Job(uuid4().hex[:12], order, created=time.time())
            self._jobs[job.id] = job
            self._changed.notify_all()
        self._prune()
        return job

    def stop(self, name: str) -> Job | None:
        """Stop a waiting or running job; a finished job is left unchanged."""
        with self._changed:
            job = self._jobs.get(name)
            if job is None or job.state in ENDED:
                return job
            self._stopping.add(name)
            if job.state == "waiting":
                job = self._set(name, state="stopped", ended=time.time())
            child = self._child if self._running == name else None
            self._changed.notify_all()
        if child is not None:
            threading.Thread(target=_interrupt, args=(child,), daemon=True).start()
        return self.get(name)

    def close(self) -> None:
        """Stop all jobs and do not start any more."""
        with self._changed:
            self._closed = True
            child = self._child
            self._changed.notify_all()
        if child is not None:
            _interrupt(child)
        self._thread.join(STOP_SECONDS + 2)

    # -- running ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                job = self._next()
                while job is None:
                    if self._closed:
                        return
                    self._changed.wait()
                    job = self._next()
                self._set(job.id, state="running", started=time.time())
                self._running = job.id
            try:
                self._run_one(job)
            except Exception as error:  # a failing job must not affect the others
                self._end(job.id, "failed", f"The job could not be run: {error}")
            with self._changed:
                self._running = self._child = None

    def _next(self) -> Job | None:
        if self._closed:
            return None
        waiting = [job for job in self._jobs.values() if job.state == "waiting"]
        return min(waiting, key=lambda job: job.created, default=None)

    def _run_one(self, job: Job) -> None:
        folder = self.folder / job.id
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / JOB_FILE, asdict(job))
        with (folder / LOG_FILE).open("w", encoding="utf-8") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "anykg.web.worker", str(folder)],
                stdin=subprocess.PIPE,  # closes when this process ends, upon which the child ends
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # Ctrl-C in the terminal is for the server, which then stops the job
            )
            with self._changed:
                self._child = child
                stopping = job.id in self._stopping
            if stopping:
                _interrupt(child)
            error = ""
            for message in _messages(child):
                if "error" in message:
                    error = str(message["error"])
                else:
                    update = {key: message[key] for key in ("done", "total", "note") if key in message}
                    with self._changed:
                        self._set(job.id, **update)
            code = child.wait()
        if job.id in self._stopping or self._closed:
            self._end(job.id, "stopped", error)
        elif code == 0 and (folder / RESULT_FILE).exists():
            if self._on_done is not None:  # before clients see that it is done
                self._on_done(job)
            self._end(job.id, "done", "")
        else:
            self._end(job.id, "failed", error or f"The job ended unexpectedly (exit code {code}); see its log.")

    def _end(self, name: str, state: State, error: str) -> None:
        with self._changed:
            job = replace(self._jobs[name], state=state, error=error, ended=time.time())
        write_json(self.folder / name / JOB_FILE, asdict(job))  # before clients are notified
        with self._changed:
            self._jobs[name] = job

    def _set(self, name: str, **changes: Any) -> Job:
        job = self._jobs[name] = replace(self._jobs[name], **changes)
        return job

    def _prune(self) -> None:
        """Remove the oldest finished jobs."""
        with self._changed:
            ended = sorted((job for job in self._jobs.values() if job.state in ENDED), key=lambda job: -job.created)
            for job in ended[KEPT:]:
                del self._jobs[job.id]
        for job in ended[KEPT:]:
            shutil.rmtree(self.folder / job.id, ignore_errors=True)


def _messages(child: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Read the child's reports, line by line."""
    assert child.stdout is not None
    for line in child.stdout:
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, dict):
            yield message


def _interrupt(child: subprocess.Popen[str]) -> None:
    """Ask a child to end, and kill it if it does not."""
    try:
        child.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
    except OSError:
        pass


def _finished(folder: Path) -> Iterator[Job]:
    """Jobs of earlier servers that have ended."""
    for path in sorted(folder.glob(f"*/{JOB_FILE}")):
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            job = Job(**(values | {"order": Order(**values["order"])}))
        except (OSError, ValueError, TypeError, KeyError):
            continue
        if job.state in ENDED:
            yield job


def read_order(folder: Path) -> Order:
    """The order in a job's folder."""
    try:
        return Order(**json.loads((folder / JOB_FILE).read_text(encoding="utf-8"))["order"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / JOB_FILE}: expected a job ({error}).") from error
