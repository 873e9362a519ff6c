"""Real servers, started for the tests and stopped after them; skipped with a sentence where they are not installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers import PASSWORD, free_port, stop, wait_for

SERVER = Path(__file__).with_name("bolt_server.py")


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a PostgreSQL server, without database, user and password."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [Path(shutil.which("initdb") or "/nowhere")]
    if not found[-1].is_file():
        pytest.skip("PostgreSQL is not installed")
    folder = tmp_path_factory.mktemp("postgresql")
    user = "postgres" if os.getuid() == 0 else None  # which refuses to run as root
    if user is not None:
        for path in (folder, *folder.parents):
            if path != Path("/"):
                path.chmod(path.stat().st_mode | 0o011)
        shutil.chown(folder, user)
    word = folder / "word"
    word.write_text(PASSWORD)
    word.chmod(0o644)
    data = folder / "data"
    options = ["-D", data, "-U", "tester", "--pwfile", word, "-A", "scram-sha-256", "-E", "UTF8", "--no-sync"]
    subprocess.run([found[-1], *options], check=True, capture_output=True, user=user, cwd=folder)
    port = free_port()
    settings = ["-c", f"port={port}", "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-F"]
    log = (folder / "log").open("wb")
    process = subprocess.Popen(
        [found[-1].with_name("postgres"), "-D", data, *settings], stdout=log, stderr=log, user=user, cwd=folder
    )
    wait_for(port, process)
    yield f"127.0.0.1:{port}"
    stop(process)
    log.close()


@pytest.fixture(scope="session")
def oxigraph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an Oxigraph server, whose endpoints are /query and /update."""
    command = Path(sys.executable).with_name("oxigraph")
    if not command.is_file():
        pytest.skip("the oxigraph server is not installed")
    port = free_port()
    options = ["--location", tmp_path_factory.mktemp("oxigraph"), "--bind", f"127.0.0.1:{port}"]
    process = subprocess.Popen([command, "serve", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(port, process)
    yield f"127.0.0.1:{port}"
    stop(process)


@pytest.fixture(scope="session")
def bolt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that speaks Bolt (ArcadeDB), with its user and password; the database is `kg`."""
    pytest.importorskip("neo4j", reason="the neo4j driver is not installed")
    if importlib.util.find_spec("arcadedb_embedded") is None:
        pytest.skip("arcadedb-embedded is not installed")
    folder = tmp_path_factory.mktemp("bolt")
    port = free_port()
    log = (folder / "log").open("wb")
    command = [sys.executable, SERVER, folder / "root", str(port), str(free_port()), PASSWORD]
    process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.PIPE, cwd=folder)
    end = time.monotonic() + 90
    while b"ready" not in (folder / "log").read_bytes():
        if process.poll() is not None or time.monotonic() > end:
            stop(process)
            pytest.skip("the Bolt server did not start")
        time.sleep(0.3)
    yield f"root:{PASSWORD}@127.0.0.1:{port}"
    stop(process)
    log.close()
