"""Access control of the server: one token, known Host headers, no foreign origins.

The printed URL contains the token; the first visit stores it in a cookie and removes it from the URL. Programs send
`Authorization: Bearer TOKEN`. The Host header must be the address that the server listens on, so that a foreign page
cannot reach it under another name (DNS rebinding). Requests that change something must not come from another origin.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
HEADERS = (
    (b"content-security-policy", b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
     b"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)  # fmt: skip


class Access:
    """ASGI middleware that refuses unauthorised requests first."""

    def __init__(self, app: Any, *, token: str, port: int, hosts: Iterable[str] = LOOPBACK) -> None:
        """`hosts` are the names under which the server may be addressed; "*" allows any."""
        self.app, self.token = app, token
        self.cookie = f"anykg-{port}"
        self.hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer 400 to a foreign Host, 403 to a foreign origin, 401 without the token; otherwise pass it on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "").lower()
        if not self._is_ours(host):
            await _refuse(send, 400, f"The Host header {host[:100]!r} is not an address of this server.")
            return
        origin = headers.get("origin")
        if scope["method"] not in SAFE_METHODS and origin is not None and urlsplit(origin).netloc.lower() != host:
            await _refuse(send, 403, "Pages of another origin must not change anything on this server.")
            return
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        in_address = next((value for name, value in query if name == "token"), None)
        if in_address is not None and scope["method"] == "GET" and not scope["path"].startswith("/api/"):
            if self._matches(in_address):
                await self._welcome(scope, send, [pair for pair in query if pair[0] != "token"])
            else:
                await _refuse(send, 401, _NO_TOKEN)
            return
        if not (self._matches(_bearer(headers)) or self._matches(_cookie(headers, self.cookie))):
            await _refuse(send, 401, _NO_TOKEN)
            return

        async def send_with_headers(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = message | {"headers": [*message.get("headers", []), *HEADERS]}
            await send(message)

        await self.app(scope, receive, send_with_headers)

    def _is_ours(self, host: str) -> bool:
        name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
        return bool(host) and ("*" in self.hosts or name in self.hosts)

    def _matches(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())

    async def _welcome(self, scope: dict[str, Any], send: Any, query: list[tuple[str, str]]) -> None:
        """Set the token as a cookie and redirect to the same URL without it."""
        path = "/" + scope["path"].lstrip("/")  # never redirect to another host
        address = path + (f"?{urlencode(query)}" if query else "")
        cookie = f"{self.cookie}={self.token}; HttpOnly; SameSite=Lax; Path=/; Max-Age=31536000"
        headers = [(b"location", address.encode("latin-1", "replace")), (b"set-cookie", cookie.encode()), *HEADERS]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


_NO_TOKEN = (
    "This server requires its token: open the URL printed by `anykg serve`, or send the token as a Bearer token."
)


def _bearer(headers: dict[str, str]) -> str:
    kind, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() if kind.lower() == "bearer" else ""


def _cookie(headers: dict[str, str], name: str) -> str:
    cookies: SimpleCookie = SimpleCookie()
    try:
        cookies.load(headers.get("cookie", ""))
    except CookieError:
        return ""
    return cookies[name].value if name in cookies else ""


async def _refuse(send: Any, status: int, sentence: str) -> None:
    body = json.dumps({"error": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
