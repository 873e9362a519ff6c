"""Strangers, tricks and floods: refused or served, and the server stays alive within its memory."""

import asyncio
import http.client
import os
import socket
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

import pytest

psutil = pytest.importorskip("psutil")
pytest.importorskip("fastapi", reason="the server needs the extra [serve]")

from webserver import TOKEN, Running

SEARCHES = int(os.environ.get("ANYKG_SEARCHES", "600"))
"""Searches at once; the full test is ANYKG_SEARCHES=10000."""
PATH = "/api/v1/graphs/people/search?q=person"


def ask(server: Running, method: str, path: str, headers: dict[str, str] | None = None, body: Any = None) -> Any:
    where = urlsplit(server.root)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=30)
    try:
        connection.request(method, path, body, headers or {}, encode_chunked="Transfer-Encoding" in (headers or {}))
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


WITH_TOKEN = {"Authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": "Bearer \u00e9"},
        {"Cookie": "anykg=1; ;;=; anykg-1=x"},
    ],
)
@pytest.mark.parametrize("path", [PATH, "/", "/static/js/app.js", "/api/v1/openapi.json", "/nothing"])
def test_nothing_is_served_without_the_token(server: Running, headers: dict[str, str], path: str) -> None:
    status, _, body = ask(server, "GET", path, headers)
    assert status == 401
    assert b"token" in body
    assert b"Person" not in body


def test_the_first_visit_turns_the_token_into_a_cookie(server: Running) -> None:
    status, headers, _ = ask(server, "GET", f"/?token={TOKEN}&view=ask&head=a%26b")
    assert (status, headers["location"]) == (303, "/?view=ask&head=a%26b")
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert ask(server, "GET", PATH, {"Cookie": cookie.split(";")[0]})[0] == 200
    assert ask(server, "GET", "/?token=wrong")[0] == 401
    assert ask(server, "GET", f"//evil.example/?token={TOKEN}")[1]["location"].startswith("/evil")
    assert ask(server, "GET", f"{PATH}&token={TOKEN}")[0] == 401, "programs send it in a header, not in addresses"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "127.0.0.2", "[::2]"]
)
def test_a_foreign_host_is_refused(server: Running, host: str) -> None:
    assert ask(server, "GET", PATH, WITH_TOKEN | {"Host": host})[0] == 400


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "LOCALHOST", "[::1]:80"])
def test_our_own_names_are_served(server: Running, host: str) -> None:
    assert ask(server, "GET", PATH, WITH_TOKEN | {"Host": host})[0] == 200


def test_a_page_of_another_origin_cannot_change_anything(server: Running) -> None:
    headers = WITH_TOKEN | {"Content-Type": "application/json"}
    for origin, status in (("http://evil.example", 403), ("null", 403), (server.root, 422)):
        found = ask(server, "POST", "/api/v1/graphs/people/decisions", headers | {"Origin": origin}, "{}")[0]
        assert found == status


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/decisions.py",
        "/static//etc/passwd",
        "/static/....//app.py",
        "/static/js/%00",
        "/api/v1/graphs/..%2f..%2fetc/entity?name=x",
        "/api/v1/jobs/..%2f..%2f/result",
        "/api/v1/graphs/people/entity?name=%00",
    ],
)
def test_paths_lead_nowhere_else(server: Running, path: str) -> None:
    status, _, body = ask(server, "GET", path, WITH_TOKEN)
    assert status in (404, 405, 422), body[:200]
    assert b"root:" not in body
    assert b"import" not in body


def test_answers_may_not_be_framed_or_load_foreign_things(server: Running) -> None:
    headers = ask(server, "GET", "/", WITH_TOKEN)[1]
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def memory(server: Running) -> float:
    return psutil.Process(server.process.pid).memory_info().rss / 2**20


def test_a_hundred_megabytes_are_refused_without_being_held(server: Running) -> None:
    before = memory(server)
    size = 100 << 20

    def parts() -> Any:
        head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="x.tsv"\r\n\r\n'
        yield head
        for _ in range((size - len(head)) >> 20):
            yield b"a\tb\tc\t " * (1 << 17)

    headers = WITH_TOKEN | {"Content-Type": "multipart/form-data; boundary=x"}
    for announced in ({"Content-Length": str(size)}, {"Transfer-Encoding": "chunked"}):
        if "Content-Length" in announced:
            body: Any = b"".join(parts()).ljust(size, b"x")
        else:
            body = parts()
        status, _, answer = ask(server, "POST", "/api/v1/uploads", headers | announced, body)
        assert status == 413, answer
    assert memory(server) - before < 150


def test_clients_that_leave_free_their_slot(server: Running) -> None:
    where = urlsplit(server.root)
    body = b'{"head": "Kosovo", "relation": "borders", "tail": "Albania"}'
    request = (
        f"POST /api/v1/graphs/atlas/explain HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    for _ in range(40):  # 40 explanations would take a minute; whoever is gone before its turn is skipped
        with socket.create_connection((where.hostname, where.port)) as connection:
            connection.sendall(request)
    for cut in (
        b"GET / HTTP/1.1\r\nHost:",
        b"POST /api/v1/uploads HTTP/1.1\r\nContent-Length: 999999\r\n\r\nabc",
        b"\x00\xff" * 999,
    ):
        with socket.create_connection((where.hostname, where.port)) as connection:
            connection.sendall(cut)
    assert ask(server, "GET", PATH, WITH_TOKEN)[0] == 200
    headers = WITH_TOKEN | {"Content-Type": "application/json"}
    question = b'{"head": "Person 1", "relation": "knows"}'
    assert ask(server, "POST", "/api/v1/graphs/people/predict", headers, question)[0] == 200


async def one_search(server: Running, number: int) -> str:
    where = urlsplit(server.root)
    request = f"GET {PATH}%20{number % 30} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    try:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        writer.write(f"{request}Connection: close\r\n\r\n".encode())
        status = (await asyncio.wait_for(reader.read(), 120)).split(b" ")[1].decode()
        writer.close()
    except (OSError, IndexError, TimeoutError) as error:
        return type(error).__name__
    return status


def test_a_flood_of_searches_is_served_or_refused(server: Running) -> None:
    """All connections are opened at once; nearly all are served in turn, in bounded memory."""
    before = memory(server)

    async def flood() -> list[str]:
        return await asyncio.gather(*(one_search(server, number) for number in range(SEARCHES)))

    seen = Counter(asyncio.run(flood()))
    more = memory(server) - before
    print(dict(seen), f"{more:.0f} MB more")
    assert seen["200"] >= 0.9 * SEARCHES, seen
    assert not set(seen) - {"200", "503", "ConnectionResetError", "IndexError"}, seen
    assert more < 100 + 0.03 * SEARCHES
    assert ask(server, "GET", PATH, WITH_TOKEN)[0] == 200


def test_listening_for_others_needs_a_token_and_says_what_it_means() -> None:
    from anykg.errors import ConfigError
    from anykg.web.run import serve

    for token in (None, "short"):
        with pytest.raises(ConfigError, match=r"not encrypted.*token"):
            serve(["atlas"], host="0.0.0.0", token=token)
