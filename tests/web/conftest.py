"""A running server, in this process or in one of its own, and a small graph that everything is quick on."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from webserver import TOKEN, Running, small_facts, start_server


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
