"""A running server, in this process or in one of its own, and a small graph that everything is quick on."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

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


@pytest.fixture(scope="session")
def graph_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small graph as a file."""
    path = tmp_path_factory.mktemp("graph") / "people.tsv"
    path.write_text("".join("\t".join(fact) + "\n" for fact in small_facts()), encoding="utf-8")
    return path


class Client(NamedTuple):
    """A client with the token, and what it talks to."""

    http: Any
    state: Any

    def get(self, path: str, **options: Any) -> Any:
        return self.http.get(f"/api/v1{path}", **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        return self.http.post(f"/api/v1{path}", **({"json": body} if body is not None else {}), **options)


@pytest.fixture(scope="session")
def private_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of our own, for this process and those it starts: no check of another run is found."""
    folder = tmp_path_factory.mktemp("home")
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(folder)
    yield folder
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


@pytest.fixture
def client(tmp_path: Path, graph_file: Path, private_home: Path) -> Iterator[Client]:
    """A server in this process, with folders of its own."""
    pytest.importorskip("fastapi", reason="the server needs the extra [serve]")
    testing = pytest.importorskip("starlette.testclient")
    from anykg.web.app import create_app
    from anykg.web.served import Collection
    from anykg.web.state import State

    collection = Collection(tmp_path / "data", decisions=tmp_path / "decisions.jsonl")
    collection.add(str(graph_file))
    state = State(collection, cache=tmp_path / "cache", upload_limit=1 << 20)
    app = create_app(state, token=TOKEN, port=1)
    with testing.TestClient(app, base_url="http://127.0.0.1:1", headers={"authorization": f"Bearer {TOKEN}"}) as http:
        yield Client(http, state)


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
            return Running(found[0], process, data)
    raise AssertionError("the server did not start:\n" + "".join(seen))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, private_home: Path, graph_file: Path) -> Iterator[Running]:
    """`anykg serve` on the small graph and on `atlas`, for tests that need a real connection."""
    pytest.importorskip("fastapi", reason="the server needs the extra [serve]")
    pytest.importorskip("uvicorn", reason="the server needs the extra [serve]")
    data = tmp_path_factory.mktemp("data")
    decisions = str(data / "decisions.jsonl")
    running = start_server(data, str(graph_file), "atlas", "--no-check", "--decisions", decisions)
    yield running
    running.process.terminate()
    running.process.wait(20)
