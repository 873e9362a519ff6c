"""Load on `anykg serve`: the first answer after the start, predict and search with 1, 8 and 32 clients, and memory.

    python -m benchmarks.serve                    # EN-FR's inference graph, then a graph of 1,000,000 facts
    python -m benchmarks.serve --seconds 5 --only load
    python -m benchmarks.serve --only million

Figures are of this machine; nothing else should be running.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

TOKEN = "benchmark-token-0123456789"
CLIENTS = (1, 8, 32)


class Server(NamedTuple):
    port: int
    pid: int
    started: float

    def ask(self, method: str, path: str, body: Any = None, connection: Any = None) -> tuple[int, Any]:
        own = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        own.request(method, f"/api/v1{path}", None if body is None else json.dumps(body), headers)
        answer = own.getresponse()
        return answer.status, json.loads(answer.read() or b"null")

    @property
    def megabytes(self) -> float:
        return psutil.Process(self.pid).memory_info().rss / 2**20

    @property
    def peak_megabytes(self) -> float:
        """The largest resident size so far; where the system does not tell, the present one."""
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        except OSError:
            return self.megabytes
        return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), self.megabytes)


@contextmanager
def serving(graph: str) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "-m", "anykg", "serve", graph, "--no-browser", "--no-check", "--port", "0"]
        environment = os.environ | {"PYTHONUNBUFFERED": "1", "XDG_CACHE_HOME": data}
        started = time.monotonic()
        process = subprocess.Popen(
            [*command, "--token", TOKEN, "--data", data], stdout=subprocess.PIPE, text=True, env=environment
        )
        assert process.stdout is not None
        try:
            port = next(int(found[1]) for line in process.stdout if (found := re.search(r":(\d+)/\?token", line)))
            yield Server(port, process.pid, started)
        finally:
            process.terminate()
            process.wait(30)


def load(server: Server, requests: list[tuple[str, str, Any]], clients: int, seconds: float) -> dict[str, Any]:
    """Ask as fast as the answers come, from several clients at once."""
    took: list[float] = []
    refused, guard, end = [0], threading.Lock(), time.monotonic() + seconds

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        mine, failed, turn = [], 0, number
        while time.monotonic() < end:
            began = time.perf_counter()
            status, _ = server.ask(*requests[turn % len(requests)], connection)
            mine.append(time.perf_counter() - began)
            failed += status != 200
            turn += clients
        with guard:
            took.extend(mine)
            refused[0] += failed

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    median, late = 1000 * np.quantile(took, [0.5, 0.99])
    return {"requests": len(took), "median_ms": median, "p99_ms": late, "not_200": refused[0]}


def questions(server: Server, graph: str) -> dict[str, list[tuple[str, str, Any]]]:
    """Different questions and searches, from names of the graph itself."""
    root = f"/graphs/{graph}"
    names = [row["name"] for row in server.ask("GET", f"{root}/search?limit=200")[1]["matches"]]
    relations = [row["name"] for row in server.ask("GET", f"{root}/search?kind=relation&limit=50")[1]["matches"]]
    pairs = [(name, relations[i % len(relations)]) for i, name in enumerate(names)]
    predict = [("POST", f"{root}/predict", {"head": head, "relation": relation}) for head, relation in pairs]
    texts = [name[i % 5 : i % 5 + 4] for i, name in enumerate(names)]
    search = [("GET", f"{root}/search?{_query(text)}", None) for text in texts]
    return {"predict": predict, "search": search}


def _query(text: str) -> str:
    from urllib.parse import urlencode

    return urlencode({"q": text})


def first_answer(server: Server, graph: str) -> float:
    """Seconds from the start of the process to the first prediction."""
    example = server.ask("GET", f"/graphs/{graph}")[1]["examples"][0]
    question = {name: part["name"] for name, part in example.items() if part}
    status, _ = server.ask("POST", f"/graphs/{graph}/predict", question)
    assert status == 200
    return time.monotonic() - server.started


def million_facts(folder: Path) -> Path:
    """A random graph of 1,000,000 facts, 200,000 entities with names, 100 relations."""
    random = np.random.default_rng(0)
    heads, tails = (random.zipf(1.3, 1_100_000) * random.integers(1, 400, 1_100_000) % 200_000 for _ in range(2))
    relations = random.integers(0, 100, 1_100_000)
    facts = np.unique(np.stack([heads, relations, tails], 1), axis=0)
    facts = facts[random.permutation(len(facts))[:1_000_000]]
    path = folder / "million.tsv"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"Entity number {h}\trelation {r}\tEntity number {t}\n" for h, r, t in facts.tolist())
    return path


def measure(graph: str, seconds: float, clients: tuple[int, ...]) -> None:
    """Serve a graph and print how it does."""
    with serving(graph) as server:
        summary = server.ask("GET", "/graphs")[1]["graphs"][0]
        name = summary["id"]
        print(
            f"{summary['facts']:,} facts: first answer {first_answer(server, name):.1f} s after the start, "
            f"{server.megabytes:,.0f} MB"
        )
        for kind, requests in questions(server, name).items():
            for count in clients:
                found = load(server, requests, count, seconds)
                print(
                    f"{kind}, {count} clients: median {found['median_ms']:.0f} ms, p99 {found['p99_ms']:.0f} ms, "
                    f"{found['requests'] / seconds:.0f} a second, {found['not_200']} refused",
                    flush=True,
                )
        print(f"peak {server.peak_megabytes:,.0f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph", nargs="?", default="EN-FR")
    parser.add_argument("--seconds", type=float, default=60, help="for each case")
    parser.add_argument("--only", choices=("load", "million"))
    arguments = parser.parse_args()
    if arguments.only != "million":
        print(f"== {arguments.graph}")
        measure(arguments.graph, arguments.seconds, CLIENTS)
    if arguments.only != "load":
        print("== 1,000,000 facts")
        with tempfile.TemporaryDirectory() as folder:
            measure(str(million_facts(Path(folder))), arguments.seconds, (1, 8))


if __name__ == "__main__":
    main()
