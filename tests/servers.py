"""What tests with real servers share: ports, waiting, stopping, and a relay that breaks connections."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import time
import urllib.request

import pytest

PASSWORD = "secret-word-7"


def free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            pytest.skip(f"the server ended with {process.returncode} instead of starting")
        with socket.socket() as opened:
            opened.settimeout(1)
            if opened.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.skip("the server did not start in time")


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def put(server: str, content: str) -> None:
    """Replace the default graph of an Oxigraph server by some Turtle."""
    request = urllib.request.Request(
        f"http://{server}/store?default", content.encode(), {"Content-Type": "text/turtle"}, method="PUT"
    )
    urllib.request.urlopen(request, timeout=30).close()


class Relay(threading.Thread):
    """Passes bytes on to a server, and breaks the connection after some of them."""

    def __init__(self, server: str, limit: int) -> None:
        super().__init__(daemon=True)
        host, _, port = server.partition(":")
        self.target, self.limit = (host, int(port)), limit
        self.opened = socket.create_server(("127.0.0.1", 0))
        self.port = self.opened.getsockname()[1]
        self.start()

    def run(self) -> None:
        while True:
            try:
                client, _ = self.opened.accept()
            except OSError:
                return
            server = socket.create_connection(self.target)
            threading.Thread(target=self.pump, args=(client, server, 1 << 40), daemon=True).start()
            self.pump(server, client, self.limit)

    def pump(self, source: socket.socket, sink: socket.socket, limit: int) -> None:
        sent = 0
        try:
            while sent < limit and (data := source.recv(1 << 14)):
                sink.sendall(data)
                sent += len(data)
        except OSError:
            pass
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # which also wakes the thread that reads from it
            end.close()
