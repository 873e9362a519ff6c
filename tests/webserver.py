"""What the tests of `anykg serve` share: a small graph, and a server in a process of its own."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

TOKEN = "test-token-0123456789"
PEOPLE = [f"Person {i}" for i in range(24)]
CITIES = ["Berlin", "Zürich", "São Paulo", "New York / NY", "a#b?c&d=e"]


def small_facts() -> list[tuple[str, str, str]]:
    """People, firms, cities: who lives where follows from who works where."""
    facts = []
    for i, person in enumerate(PEOPLE):
        firm = f"Firm {i % 5}"
        facts += [(person, "works for", firm), (person, "knows", PEOPLE[(i + 5) % 24])]
        if i % 6:
            facts.append((person, "lives in", CITIES[i % 5]))
    return facts + [(f"Firm {i}", "based in", CITIES[i]) for i in range(5)]


class Running(NamedTuple):
    """A server in a process of its own."""

    address: str
    """With the token."""
    process: subprocess.Popen[str]
    data: Path

    @property
    def root(self) -> str:
        return self.address.split("/?")[0]


def start_server(data: Path, *arguments: str) -> Running:
    """Start `anykg serve` and wait until it has printed its address."""
    command = [sys.executable, "-m", "anykg", "serve", *arguments, "--no-browser", "--port", "0", "--token", TOKEN]
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*command, "--data", str(data)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if found := re.search(r"http://\S+", line):
            threading.Thread(target=process.stdout.read, daemon=True).start()  # a full pipe would stop the server
            return Running(found[0], process, data)
    raise AssertionError("the server did not start:\n" + "".join(seen))
