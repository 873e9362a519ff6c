"""ASGI middleware that bounds the number of concurrent requests and the size of their bodies."""

from __future__ import annotations

import asyncio
import json
from typing import Any

JSON_LIMIT = 2 << 20
OVERHEAD = 1 << 16
"""Maximum number of bytes in a multipart form besides its file."""
DRAINED = 512 << 20
"""Bytes of an oversized body that are read and discarded, so that the client reads the response."""


class Gate:
    """Admits a bounded number of requests; others wait in a queue, and are refused if there are too many.

    A waiting request has not been read yet, so it only costs its connection. Event streams stay open for long, so they
    are counted separately and never wait.
    """

    def __init__(self, app: Any, *, inside: int, outside: int, streams: int, seconds: float) -> None:
        self.app, self.outside, self.streams, self.seconds = app, outside, streams, seconds
        self._room = asyncio.Semaphore(inside)
        self._waiting = self._streaming = 0

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Pass a request on once there is room for it; answer 503 if that takes too long."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif scope["path"].endswith("/events"):
            await self._stream(scope, receive, send)
        elif await self._enter():
            try:
                await self.app(scope, receive, send)
            finally:
                self._room.release()
        else:
            await _busy(send)

    async def _stream(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if self._streaming >= self.streams:
            await _busy(send)
            return
        self._streaming += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self._streaming -= 1

    async def _enter(self) -> bool:
        if self._waiting >= self.outside:
            return False
        self._waiting += 1
        try:
            await asyncio.wait_for(self._room.acquire(), self.seconds)
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1
        return True


class BodyLimit:
    """Answers 413 to a body that is larger than its path allows."""

    def __init__(self, app: Any, *, upload: int, upload_path: str) -> None:
        self.app, self.upload, self.upload_path = app, upload, upload_path

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Refuse by the declared length, or as soon as more has arrived."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit = self.upload + OVERHEAD if scope["path"].rstrip("/") == self.upload_path else JSON_LIMIT
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not announced.isdigit() or int(announced) > limit:
            await _drain(receive)
            await _refuse(send, limit)
            return
        seen, over, started = 0, False, False

        async def counted() -> dict[str, Any]:
            nonlocal seen, over
            message: dict[str, Any] = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                over = True
                return {"type": "http.disconnect"}
            return message

        async def watched(message: dict[str, Any]) -> None:
            nonlocal started
            if over and not started:
                return  # the application's error about the truncated body; ours follows
            started = True
            await send(message)

        try:
            await self.app(scope, counted, watched)
        except Exception:
            if not over:
                raise
        if over and not started:
            await _drain(receive)
            await _refuse(send, limit)


async def _drain(receive: Any) -> None:
    dropped, more = 0, True
    while more and dropped < DRAINED:
        message = await receive()
        dropped += len(message.get("body", b""))
        more = message["type"] == "http.request" and message.get("more_body", False)


async def _busy(send: Any) -> None:
    await _answer(send, 503, "Too many requests are in progress; try again in a moment.", (b"retry-after", b"1"))


async def _refuse(send: Any, limit: int) -> None:
    sentence = f"The request is too large: at most {limit >> 20} MB. For a large graph give its path to `anykg serve`."
    await _answer(send, 413, sentence)


async def _answer(send: Any, status: int, sentence: str, *more: tuple[bytes, bytes]) -> None:
    """Refuse, and close the connection without reading the rest."""
    body = json.dumps({"error": sentence}).encode()
    length = (b"content-length", str(len(body)).encode())
    headers = [(b"content-type", b"application/json"), length, (b"connection", b"close"), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
