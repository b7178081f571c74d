"""Runs the work of a request in a session, and streams its result.

Law: a client that leaves, or does not read, has its statement cancelled and its session closed. An
error is told as JSON with a status as long as nothing was sent; after that in the result, where its
form has a place for it, else by cutting the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ivm.serve.access import User
from ivm.serve.http.callers import peer_of
from ivm.serve.http.errors import HttpError, told
from ivm.serve.http.formats import JSON, LINES, Form
from ivm.serve.pool import SessionPool
from ivm.serve.served_session import ServedSession
from ivm.session.session import Session
from ivm.storage.errors import IvmError

T = TypeVar("T")

SLOW = 30.0
"""Seconds that a client may take to send the next piece."""
_RATE = 1000  # bytes a second, at least, of a body that takes longer than that
_PIECE = 1 << 20  # bytes that are made at a time; an error in the first ones has a status


class Runner:
    """Gives requests their sessions.

    Args:
        pool: of the server.
    """

    def __init__(self, pool: SessionPool) -> None:
        self._pool = pool

    @property
    def patience(self) -> float | None:
        """Seconds that a client may take to read the next piece; None for any time."""
        return self._pool.settings.send_seconds or None

    @contextlib.asynccontextmanager
    async def session(self, request: Request, user: User) -> AsyncIterator[ServedSession]:
        """A session for the time of a request."""
        number = self._pool.reserve()
        try:
            yield await self._pool.threads.call(
                lambda: self._pool.open(number, user, peer_of(request))
            )
        finally:
            self._pool.release(number)

    async def run(
        self, request: Request, session: ServedSession, work: Callable[[Session], T]
    ) -> T:
        """Calls a function with the session in a thread; it is cancelled if the client leaves."""
        running = asyncio.ensure_future(self._pool.threads.call(lambda: session.run(work)))
        leaving = asyncio.ensure_future(left(request))
        try:
            await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                session.cancel("the client has left")
            return await running
        finally:
            leaving.cancel()
            if not running.done():  # this request was cancelled, as the server stops
                session.cancel("the server is being stopped")


async def left(request: Request) -> None:
    """Waits until the client has left; its request was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Streamed(Response):
    """A result whose chunks are made while they are sent.

    Args:
        runner: makes the chunks.
        request: that is answered.
        session: whose result it is.
        chunks: of the result; each is asked for in a thread.
        form: of the result.
        most: bytes of it; 0: no limit.
        done: called at the end, whatever happens.
    """

    def __init__(
        self,
        runner: Runner,
        request: Request,
        session: ServedSession,
        chunks: Iterator[bytes],
        form: Form,
        most: int,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(None, 200, headers, form.media_type)
        del self.headers["content-length"]
        self._runner, self._request, self._session = runner, request, session
        self._chunks, self._form, self._most = chunks, form, most
        self._size = 0

    async def begin(self) -> None:
        """Makes the first chunks, so that an error among them has a status."""
        self._ended = False
        self._head = await self._next()

    async def _next(self) -> bytes:
        """The next chunks as one."""
        found = await self._runner.run(self._request, self._session, lambda _: self._made())
        self._size += len(found)
        if self._most and self._size > self._most:
            raise HttpError(
                413,
                "result",
                f"the result has more than {self._most:,} bytes, the most that one may have here",
                "ask for fewer rows or columns, or raise result_megabytes in [server] of ivm.toml",
            )
        return found

    def _made(self) -> bytes:
        """Makes chunks, until there are enough to be sent; in a thread."""
        parts: list[bytes] = []
        size = 0
        while size < _PIECE:
            chunk = next(self._chunks, None)
            if chunk is None:
                self._ended = True
                break
            parts.append(chunk)
            size += len(chunk)
        return b"".join(parts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        if self._head:
            await self._sent(send, self._head)
        try:
            while not self._ended:
                await self._sent(send, await self._next())
        except IvmError as error:
            await self._sent(send, self._told(error))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _sent(self, send: Send, chunk: bytes) -> None:
        """Sends a piece, of which the client may read nothing for so long alone."""
        message = {"type": "http.response.body", "body": chunk, "more_body": True}
        await asyncio.wait_for(send(message), self._runner.patience)

    def _told(self, error: IvmError) -> bytes:
        """What stands in the result of an error after its beginning."""
        if self._form.media_type not in (JSON, LINES):
            raise error  # the server cuts the connection
        _, found = told(error)
        text = json.dumps(found, ensure_ascii=False)
        if self._form.media_type == LINES:
            return f'{{"_error":{text}}}\n'.encode()
        return f'], "error": {text}}}\n'.encode()


async def body_of(request: Request, most: int) -> bytes:
    """The body of a request.

    Raises:
        HttpError: it is too large, comes too slowly, or is compressed.
    """
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise HttpError(415, "request", f"the body is {coding!r}, which is not read: send it plain")
    too_large = HttpError(
        413,
        "request",
        f"the request has more than {most:,} bytes: send less at a time, or raise "
        "request_megabytes in [server] of ivm.toml",
    )
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > most:
        raise too_large
    parts: list[bytes] = []
    size, end = 0, time.monotonic() + SLOW
    stream = request.stream()
    while True:
        try:
            left = min(end + size / _RATE - time.monotonic(), SLOW)
            part = await asyncio.wait_for(anext(stream, None), left)
        except ClientDisconnect:
            raise HttpError(400, "request", "the client has left within its request") from None
        except TimeoutError:
            raise HttpError(
                408, "request", f"the request came too slowly: {size:,} bytes. Send it again"
            ) from None
        if part is None:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > most:
            raise too_large
