"""Threads that answer requests: bounded queue, time limit, and no work for clients that have disconnected.

A `Pool` runs calls one by one on its threads. Calls with the same batch key that wait at the same time are answered
together. A running call checks whether a client is still waiting for it and raises `Cancelled` if not; a call that has
not started yet is dropped.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from concurrent.futures import Future
from typing import Any

GONE_SECONDS = 0.25
"""Seconds between checks whether the client is still connected."""


class Busy(Exception):
    """The queue is full."""


class TooLong(Exception):
    """The time limit has passed."""


class Cancelled(Exception):
    """No client is waiting for the answer any more."""


class Call:
    """A question waiting for its answer."""

    def __init__(self, item: Any) -> None:
        self.item = item
        self.answer: Future[Any] = Future()
        self._abandoned = threading.Event()

    def abandon(self) -> None:
        """Mark the call as abandoned by its client."""
        self._abandoned.set()

    @property
    def is_abandoned(self) -> bool:
        """Whether all clients are gone."""
        return self._abandoned.is_set()


class Batch:
    """Calls of one key that are answered together."""

    def __init__(self, work: Callable[[Batch], Sequence[Any]], key: Hashable, calls: list[Call]) -> None:
        self.work, self.key, self.calls = work, key, calls

    @property
    def items(self) -> list[Any]:
        """The items, in order."""
        return [call.item for call in self.calls]

    def check(self, *_: object) -> None:
        """Raise `Cancelled` if no client is waiting any more; usable as a progress callback."""
        if all(call.is_abandoned for call in self.calls):
            raise Cancelled


class Pool:
    """Worker threads with one bounded queue."""

    def __init__(self, name: str, *, threads: int = 1, waiting: int = 64, together: int = 32) -> None:
        self.waiting, self.together = waiting, together
        self._queue: deque[tuple[Callable[[Batch], Sequence[Any]], Hashable, Call]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._serve, name=f"{name}-{index}", daemon=True) for index in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    async def run(
        self,
        work: Callable[[Batch], Sequence[Any]],
        item: Any,
        *,
        key: Hashable = None,
        seconds: float,
        gone: Callable[[], Awaitable[bool]] | None = None,
    ) -> Any:
        """The answer to `item`: work(batch) returns one for each item of the batch, an exception for one that failed.

        Calls with an equal `key` other than None may be answered together. `gone` says whether the client has left.
        """
        call = Call(item)
        with self._changed:
            if len(self._queue) >= self.waiting or self._closed:
                raise Busy
            self._queue.append((work, key, call))
            self._changed.notify()
        answer = asyncio.wrap_future(call.answer)
        end = time.monotonic() + seconds
        try:
            while True:
                left = end - time.monotonic()
                if left <= 0:
                    raise TooLong
                done, _ = await asyncio.wait([answer], timeout=min(GONE_SECONDS, left))
                if done:
                    return answer.result()
                if gone is not None and await gone():
                    raise Cancelled
        finally:
            call.abandon()
            answer.cancel()

    def put(self, work: Callable[[Batch], Sequence[Any]], item: Any = None) -> Future[Any]:
        """Queue work that no request is waiting for."""
        call = Call(item)
        with self._changed:
            if self._closed:
                raise Busy
            self._queue.append((work, None, call))
            self._changed.notify()
        return call.answer

    def close(self) -> None:
        """Stop accepting calls."""
        with self._changed:
            self._closed = True
            self._queue.clear()
            self._changed.notify_all()

    def _serve(self) -> None:
        while True:
            batch = self._next()
            if batch is None:
                return
            try:
                answers = batch.work(batch)
            except BaseException as error:  # re-raised in the caller
                answers = [error] * len(batch.calls)
            for call, answer in zip(batch.calls, answers, strict=True):
                _settle(call, answer)

    def _next(self) -> Batch | None:
        """The oldest call with a waiting client, with others of the same key."""
        while True:
            with self._changed:
                while not self._queue and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return None
                work, key, first = self._queue.popleft()
                calls = [first]
                if key is not None:
                    alike = [entry for entry in self._queue if entry[1] == key][: self.together - 1]
                    for entry in alike:
                        self._queue.remove(entry)
                    calls += [entry[2] for entry in alike]
            calls = [call for call in calls if not call.is_abandoned]
            if calls:
                return Batch(work, key, calls)


def _settle(call: Call, answer: Any) -> None:
    if not call.answer.set_running_or_notify_cancel():
        return
    if isinstance(answer, BaseException):
        call.answer.set_exception(answer)
    else:
        call.answer.set_result(answer)
