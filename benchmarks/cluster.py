"""Does a second worker halve the time, and does a lost one change the result?

`python -m benchmarks.cluster [GRAPH [QUESTIONS]]` runs `complete` on local Ray clusters of one and two workers with one
thread each, and again on two of which one is killed in mid-run. It prints a table with the seconds of each, how many
times as fast as one worker that is, and a hash of the file that was written: all must be the same. Workers have
answered a few questions before the time starts; starting Ray and them takes 5 to 10 s more, once for a command.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import numpy as np

from anykg.answers.complete import complete
from anykg.answers.completing.proposals import questions_of
from anykg.cluster import connected
from anykg.graph.graph import RELATION, KnowledgeGraph
from anykg.io.catalog import as_graph
from benchmarks.fresh import in_fresh_process

ROWS = (("one worker", 1, False), ("two workers", 2, False), ("two workers, one killed", 2, True))


def run(name: str, questions: int, workers: int, kill: bool) -> tuple[float, int, str]:
    """Seconds, workers killed and hash of the output of one row."""
    import ray

    graph = as_graph(name)
    relations = relations_with(graph, questions)
    ray.init(address="local", num_cpus=workers, log_to_driver=False, include_dashboard=False)
    killed: list[int] = []
    with connected("auto") as cluster, tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            complete(
                graph, heads=list(graph.entities)[: 64 * workers], relations=relations[:1], cluster=cluster, count=9
            )
        if kill:
            threading.Thread(target=kill_one, args=(killed,), daemon=True).start()
        started = time.perf_counter()
        found = complete(graph, relations=relations, cluster=cluster)
        seconds = time.perf_counter() - started
        out = Path(folder) / "new.tsv"
        found.to_polars().write_csv(out, separator="\t")
        content = blake2b(out.read_bytes(), digest_size=8).hexdigest()
    ray.shutdown()
    return seconds, len(killed), content


def relations_with(graph: KnowledgeGraph, questions: int) -> list[str]:
    """The first relations that give rise to so many questions."""
    asked = questions_of(graph, None, None)[:, RELATION]
    return [graph.relations[int(relation)] for relation in np.unique(asked[:questions])]


def kill_one(killed: list[int]) -> None:
    """Kill a worker of this process that computes a part, after two seconds."""
    import psutil

    time.sleep(2)
    while not killed:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it has just ended
                if not killed and "ray::work_on" in " ".join(process.cmdline()):
                    process.kill()
                    killed.append(process.pid)
        time.sleep(0.02)


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "FB15k-237"
    questions = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[variable] = "1"  # of the processes below and their workers
    print("| complete on | seconds | times as fast | killed | output |\n|---|---|---|---|---|")
    first, outputs = 0.0, set()
    for title, workers, kill in ROWS:
        seconds, killed, content = in_fresh_process(run, name, questions, workers, kill)
        first = first or seconds
        outputs.add(content)
        print(f"| {title} | {seconds:.1f} | {first / seconds:.2f} | {killed} | {content} |", flush=True)
    if len(outputs) > 1:
        sys.exit("The outputs differ.")


if __name__ == "__main__":
    main()
