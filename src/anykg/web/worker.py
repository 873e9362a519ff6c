"""The process of one job: read the graph, call the public function, write the result.

It reports on standard output, one JSON object per line: {"done": 3, "total": 10}, {"note": "..."} or {"error": "..."}.
SIGINT stops it, and so does the end of its standard input, when the server has exited.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

REPORT_SECONDS = 0.1


class Reporter:
    """Writes progress, at most ten times a second."""

    def __init__(self, out: IO[str]) -> None:
        self._out, self._last = out, 0.0

    def progress(self, done: int, total: int) -> None:
        """Report that `done` of `total` is done."""
        now = time.monotonic()
        if done >= total or now - self._last >= REPORT_SECONDS:
            self._last = now
            self.say(done=done, total=total)

    def say(self, **message: Any) -> None:
        """Report a JSON object."""
        print(json.dumps(message), file=self._out, flush=True)


def main(folder: Path) -> int:
    """Run the job in `folder` and return the exit code."""
    protocol = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints goes to the log
    threading.Thread(target=_end_with_server, daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(5)  # requests have priority over jobs
    report = Reporter(protocol)
    from anykg.errors import InputError, Interrupted

    try:
        _run(folder, report)
    except InputError as error:
        report.say(error=str(error))
        return 2
    except (KeyboardInterrupt, Interrupted) as stop:
        report.say(error=str(stop) or "Stopped.")
        return 130
    except MemoryError:
        report.say(error="There was not enough memory for this job.")
        return 1
    return 0


def _run(folder: Path, report: Reporter) -> None:
    from anykg.atomic import write_json
    from anykg.web.jobs import RESULT_FILE, read_order
    from anykg.web.long_work import LONG_WORK
    from anykg.web.snapshots import load_snapshot

    order = read_order(folder)
    report.say(note="reading the graph")
    graph = load_snapshot(Path(order.snapshot), order.name, order.digest)
    report.say(note="")
    result = LONG_WORK[order.kind](graph, order.model, order.settings, folder, report.progress)
    write_json(folder / RESULT_FILE, result)


def _end_with_server() -> None:
    """Interrupt this process once the server has exited, and end it if that does not help."""
    with suppress(OSError, ValueError):
        while os.read(0, 1 << 16):  # not sys.stdin, whose lock would be held at exit
            pass
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(10)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
