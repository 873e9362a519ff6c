"""Start the server: read graphs and model, open a socket, print the URL, open the browser."""

from __future__ import annotations

import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from anykg.errors import ConfigError, InputError
from anykg.web.access import LOOPBACK

FIRST_PORT, TRIED_PORTS = 8640, 20
CHECKED_FACTS = 100_000
"""Graphs up to this size are checked at startup, so that answers have probabilities."""


def is_loopback(host: str) -> bool:
    """Whether only this computer can reach a host."""
    return host in ("localhost", "::1") or host.startswith("127.")


def serve(
    graphs: Sequence[str],
    *,
    model: str | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None = None,
    decisions: Path | None = None,
    data: Path | None = None,
    upload_limit: int | None = None,
    check: bool = True,
    browser: bool = True,
    say: Callable[[str], None] = print,
    reading: dict[str, Any] | None = None,
) -> None:
    """Serve graphs until interrupted.

    Args:
        graphs: Files or dataset names; `atlas` if there are none.
        model: A shipped model's name, a folder, or a hub id.
        host: The address to listen on. Any address other than loopback requires a `token` of at least 16 characters.
        port: 0 for any free one; None for the first free one from 8640.
        token: The secret that clients must send; random by default.
        decisions: The file for decisions about the first graph; by default next to it.
        data: A folder for decisions about datasets, fitted models and uploads; by default the user's data folder.
        upload_limit: The maximum size of an uploaded file, in bytes.
        check: Check small graphs at startup.
        browser: Open the page.
        say: Prints a line.
        reading: How to read the files.
    """
    if not is_loopback(host) and (token is None or len(token) < 16):
        raise ConfigError(
            f"host: listening on {host} allows other computers to read the graph, decide about facts and start "
            "jobs, over "
            "a connection that is not encrypted. If that is what you want, give a token of 16 characters or more."
        )
    try:
        import uvicorn

        from anykg.web.app import create_app
    except ImportError as error:
        raise ConfigError(f"`anykg serve` needs {error.name}; install it with `pip install 'anykg[serve]'`.") from error
    from platformdirs import user_cache_path, user_data_path

    from anykg.web.served import Collection
    from anykg.web.state import UPLOAD_LIMIT, State

    listening = _socket(host, port)
    number = listening.getsockname()[1]
    folder = data or Path(user_data_path("anykg"))
    cache = (data / "cache") if data else Path(user_cache_path("anykg")) / "serve"
    collection = Collection(folder, model=model, decisions=decisions)
    try:
        for name in dict.fromkeys(graphs or ["atlas"]):
            served = collection.add(name, **(reading or {}))
            say(
                f"{served.name}: {served.graph.num_triplets:,} facts, {served.graph.num_entities:,} entities, "
                f"{served.graph.num_relations:,} relations; answered by {served.model_name}; "
                f"decisions in {served.decisions.path}"
            )
    except BaseException:
        listening.close()
        raise
    state = State(collection, cache=cache, upload_limit=upload_limit or UPLOAD_LIMIT)
    token = token or secrets.token_urlsafe(18)
    hosts = LOOPBACK if is_loopback(host) else (*LOOPBACK, host.lower(), socket.gethostname().lower(), *_own(host))
    app = create_app(state, token=token, port=number, hosts=hosts)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=2,
        lifespan="on",
        ws="none",
    )
    shown = host if is_loopback(host) or host not in ("0.0.0.0", "::") else socket.gethostname()
    address = f"http://{f'[{shown}]' if ':' in shown else shown}:{number}/?token={token}"
    if not is_loopback(host):
        say(f"Listening on {host}: anyone who has the token can use this server. The connection is not encrypted.")
    say(f"Open {address}")
    say("Stop with Ctrl-C.")
    server = _Server(config, lambda: _started(state, check, address if browser else None))
    server.run(sockets=[listening])


def _started(state: Any, check: bool, address: str | None) -> None:
    """After the server has started: open the page, load the kernels, check small graphs without a calibration."""
    if address is not None:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    threading.Thread(target=state.warm_up, args=(CHECKED_FACTS if check else 0,), daemon=True).start()


def _Server(config: Any, started: Callable[[], None]) -> Any:  # noqa: N802 - a class that needs uvicorn
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started()

    return Server(config)


def _socket(host: str, port: int | None) -> socket.socket:
    """A socket that is bound: to `port`, or to the first free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    problem: OSError | None = None
    for number in [port] if port is not None else [*range(FIRST_PORT, FIRST_PORT + TRIED_PORTS), 0]:
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio sets TCP_NODELAY only then
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, number))
            bound.listen(512)
            bound.set_inheritable(False)
        except (OSError, OverflowError) as error:
            bound.close()
            problem = error if isinstance(error, OSError) else OSError(str(error))
        else:
            return bound
    reason = (problem.strerror or str(problem)) if problem else "no port is free"
    raise InputError(
        f"{host}:{port if port is not None else FIRST_PORT}: cannot listen there ({reason}); choose another."
    )


def _own(host: str) -> list[str]:
    """Addresses of this computer, if it listens on all of them."""
    if host not in ("0.0.0.0", "::"):
        return []
    try:
        addresses = {str(row[4][0]) for row in socket.getaddrinfo(socket.gethostname(), None)}
    except OSError:
        return []
    return [f"[{one}]" if ":" in one else one for one in addresses]
