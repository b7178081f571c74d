"""`GET /views/{view}/changes`: changefeeds as server-sent events, as an Arrow stream, by WebSocket.

Law: see `feeds`. A client that has the rows of an epoch says so by `Last-Event-ID` (or `after`) and
gets the epochs after it; if not all of them are kept, it gets a snapshot, which takes the place of
what it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from ivm.cdc.sinks.encode import refuse_names
from ivm.serve.access import AccessError, User
from ivm.serve.http import feeds
from ivm.serve.http.callers import demand_origin, peer_of
from ivm.serve.http.endpoint import Served, known_user
from ivm.serve.http.errors import HttpError, told
from ivm.serve.http.feeds import Subscriber, ViewFeed, bytes_of, too_slow
from ivm.serve.http.formats import ARROW
from ivm.serve.http.runs import left
from ivm.serve.http.views import feed_of, view_of
from ivm.serve.statement_log import one_line
from ivm.storage.errors import InputError, IvmError, UnavailableError

_log = logging.getLogger("ivm.serve")
_TELL = 2.0  # seconds for the last word to a client that is too slow
_EVENTS = "text/event-stream"
_RETRY = b"retry: 1000\n\n"
_END = b'event: end\ndata: {"type": "end"}\n\n'


class Follower:
    """One client of a feed, whatever its form.

    Args:
        served: what handlers share.
        call: the client's.
        user: who it is.
        form: "sse", "json" or "arrow".
    """

    def __init__(self, served: Served, call: HTTPConnection, user: User, form: str) -> None:
        self._served, self._call, self._user = served, call, user
        self._form = form
        self._view = view_of(served, call.path_params["view"], user).name
        self._looked = time.monotonic()

    async def begin(self) -> list[bytes]:
        """Opens the feed; returns what comes before the epochs.

        Raises:
            UnavailableError: there are as many subscribers as the settings allow.
            UnsupportedError: a column of the view has a name that messages use.
        """
        most = self._served.settings.subscribers
        if self._served.hub.size >= most:
            raise UnavailableError(
                f"the server has {most} subscribers, and takes no more: raise subscribers in "
                "[server] of ivm.toml"
            )
        given = _known(self._call)
        from_now = given is None and self._call.query_params.get("snapshot") in ("0", "false")
        while True:
            self.feed: ViewFeed = await feed_of(self._served, self._view)
            refuse_names("jsonl", self._view, self.feed.schema)
            # Now is when the feed is open: of what came before it may have kept nothing.
            known = self._served.database.epoch if from_now else given
            with contextlib.suppress(UnavailableError):  # so much has come meanwhile
                if (parts := await self._begun(known)) is not None:
                    return parts

    async def _begun(self, known: int | None) -> list[bytes] | None:
        """Subscribes; returns what comes before the epochs, None if the feed is over.

        Raises:
            UnavailableError: more has come meanwhile than is kept.
        """
        feed, form, threads = self.feed, self._form, self._served.pool.threads
        cut = _cancels_this()
        if known is not None and feed.after(known) is not None:
            self._subscriber = Subscriber(feed, form, known, cut)
            return []
        found = await feed.snapshot(threads)
        if found is None:
            return None
        parts = [await bytes_of(item, form, threads) for item in found]
        self._subscriber = Subscriber(feed, form, found[0].epoch, cut)
        return parts

    @property
    def epoch(self) -> int:
        """The last epoch that the client has, or gets with the snapshot."""
        return self._subscriber.epoch

    async def next(self) -> list[bytes] | None:
        """The next epochs that have come; [] if none comes for a while, None at the end.

        Raises:
            IvmError: the user may no longer read the view, or the view has failed.
        """
        feed, subscriber = self.feed, self._subscriber
        while True:
            await self._look_at_user()
            if feed.has_more(subscriber):
                # None, if all that came by now was part of the snapshot.
                if chunks := await subscriber.chunks(self._served.pool.threads):
                    return chunks
                continue
            if feed.error is not None:
                raise feed.error
            if feed.ended:
                return None
            await feed.wait()  # with no other `await` since the look at what has come
            if not (feed.has_more(subscriber) or feed.ended):
                return []

    async def _look_at_user(self) -> None:
        """Ends the feed of a user who may no longer read it, or whose token has expired."""
        now = time.monotonic()
        if now - self._looked < feeds.BEAT:
            return
        self._looked = now
        user = await known_user(self._call, self._served)
        user.grant.demand_relation(self._view)

    def was_cut(self, error: BaseException) -> IvmError | None:
        """The error of a client that was too slow; None if it was cancelled otherwise."""
        return too_slow(self._view) if self._subscriber.was_cut else None

    def leave(self) -> None:
        """The client has left."""
        subscriber = getattr(self, "_subscriber", None)
        if subscriber is not None:
            subscriber.leave()


def _cancels_this() -> Callable[[], None]:
    """A function that cancels the task that runs now."""
    task = asyncio.current_task()
    assert task is not None

    def cancel() -> None:
        task.cancel()

    return cancel


def _known(call: HTTPConnection) -> int | None:
    text = call.headers.get("last-event-id") or call.query_params.get("after")
    if text is None or text == "":
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise InputError(f"an epoch is a whole number, not {text!r}")
    return int(text)


async def changes(served: Served, request: Request, user: User) -> Response:
    """The changes of a view as they come: server-sent events, or an Arrow stream."""
    is_arrow = ARROW in request.headers.get("accept", "")
    follower = Follower(served, request, user, "arrow" if is_arrow else "sse")
    return _Feed(follower, request, is_arrow)


class _Feed(Response):
    """The epochs of a feed, until the client leaves."""

    def __init__(self, follower: Follower, request: Request, is_arrow: bool) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(None, 200, headers, ARROW if is_arrow else _EVENTS)
        del self.headers["content-length"]
        self._follower, self._request, self._is_arrow = follower, request, is_arrow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            parts = await self._follower.begin()
            sending = asyncio.ensure_future(self._send(parts, send))
            leaving = asyncio.ensure_future(left(self._request))
            try:
                await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError as error:
                sending.cancel()
                cut = self._follower.was_cut(error)
                if cut is None:
                    raise
                await self._tell(cut, send)
                return
            finally:
                leaving.cancel()
            if sending.done():
                sending.result()
            else:
                sending.cancel()
        finally:
            self._follower.leave()

    async def _send(self, parts: list[bytes], send: Send) -> None:
        self.headers["Ivm-Epoch"] = str(self._follower.epoch)
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        begin = self._follower.feed.encoder.arrow_schema() if self._is_arrow else _RETRY
        await _body(send, begin + b"".join(parts))
        try:
            while (chunks := await self._follower.next()) is not None:
                await _body(send, b"".join(chunks) or self._beat())
        except IvmError as error:
            await self._tell(error, send)
            return
        await _body(send, self._end(), more=False)

    def _end(self) -> bytes:
        """The last word; nothing if the client is to come back."""
        feed = self._follower.feed
        if feed.stopped:
            return b""
        return feed.encoder.arrow_end() if self._is_arrow else _END

    def _beat(self) -> bytes:
        return b"" if self._is_arrow else b":\n\n"

    async def _tell(self, error: IvmError, send: Send) -> None:
        """The last word; an Arrow stream has no place for it, and is cut."""
        _log.warning("%s: the changefeed was ended: %s", peer_of(self._request), one_line(error))
        if self._is_arrow:
            raise error
        text = json.dumps(told(error)[1], ensure_ascii=False)
        with contextlib.suppress(TimeoutError):
            message = f"event: error\ndata: {text}\n\n".encode()
            await asyncio.wait_for(_body(send, message, more=False), _TELL)


async def _body(send: Send, chunk: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": chunk, "more_body": more})


class Socket:
    """`/views/{view}/changes` by WebSocket: a JSON text a message, as an ASGI application.

    Args:
        served: what handlers share.
    """

    def __init__(self, served: Served) -> None:
        self._served = served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one client."""
        socket = WebSocket(scope, receive, send)
        served = self._served
        follower: Follower | None = None
        try:
            demand_origin(socket, served.settings)
            user = await known_user(socket, served)
            follower = Follower(served, socket, user, "json")
            parts = await follower.begin()
        except IvmError as error:
            status, found = told(error)
            _log.warning("%s: refused: %s", peer_of(socket), one_line(error))
            response = Response(
                json.dumps(found, ensure_ascii=False),
                _login(error, status),
                None,
                "application/json",
            )
            await socket.send_denial_response(response)
            if follower is not None:
                follower.leave()
            return
        try:
            await socket.accept()
            await self._follow(socket, follower, parts)
        finally:
            follower.leave()

    async def _follow(self, socket: WebSocket, follower: Follower, parts: list[bytes]) -> None:
        sending = asyncio.ensure_future(_send(socket, follower, parts))
        leaving = asyncio.ensure_future(_closed(socket))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError as error:
            sending.cancel()
            cut = follower.was_cut(error)
            if cut is None:
                raise
            await _tell(socket, cut)
            return
        finally:
            leaving.cancel()
        if not sending.done():
            sending.cancel()
        else:
            with contextlib.suppress(WebSocketDisconnect):
                sending.result()


async def _send(socket: WebSocket, follower: Follower, parts: list[bytes]) -> None:
    for part in parts:
        await socket.send_text(part.decode())
    try:
        while (chunks := await follower.next()) is not None:
            for chunk in chunks:
                await socket.send_text(chunk.decode())
    except IvmError as error:
        await _tell(socket, error)
        return
    if follower.feed.stopped:
        await socket.close(1012, "the server is being stopped: come back later")
    else:
        await socket.close(1000, "the view was dropped or replaced")


async def _tell(socket: WebSocket, error: IvmError) -> None:
    _log.warning("%s: the changefeed was ended: %s", peer_of(socket), one_line(error))
    text = json.dumps({"type": "error", **told(error)[1]}, ensure_ascii=False)
    with contextlib.suppress(TimeoutError, WebSocketDisconnect):
        await asyncio.wait_for(socket.send_text(text), _TELL)
        await asyncio.wait_for(socket.close(1013), _TELL)


async def _closed(socket: WebSocket) -> None:
    with contextlib.suppress(WebSocketDisconnect):
        while True:
            await socket.receive_text()


def _login(error: IvmError, status: int) -> int:
    """Who is not known is told to log in."""
    return 401 if isinstance(error, AccessError) and not isinstance(error, HttpError) else status
