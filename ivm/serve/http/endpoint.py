"""What all requests go through: origin, login, limits, errors as JSON, and the log."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from ivm.database import Database
from ivm.serve.access import AccessError, User
from ivm.serve.http.callers import demand_origin, peer_of, user_of
from ivm.serve.http.errors import HttpError, answer
from ivm.serve.http.feeds import Hub
from ivm.serve.http.measures import Measures
from ivm.serve.http.runs import Runner
from ivm.serve.http.sessions import HeldSessions
from ivm.serve.pool import SessionPool
from ivm.serve.settings import ServerSettings
from ivm.serve.statement_log import one_line
from ivm.serve.users import Users

_log = logging.getLogger("ivm.serve")
_ALLOWED = "GET, POST, DELETE, OPTIONS"
_HEADERS = "Authorization, Content-Type, Idempotency-Key, Ivm-Session, If-None-Match, Last-Event-ID"
MEGABYTE = 1 << 20


@dataclass
class Served:
    """What handlers share.

    Attributes:
        database: served.
        pool: the sessions of all clients.
        users: who may do what.
        runner: runs work in sessions.
        held: sessions that clients hold from request to request.
        hub: the changefeeds.
        measures: of the requests.
    """

    database: Database
    pool: SessionPool
    users: Users
    runner: Runner
    held: HeldSessions
    hub: Hub
    measures: Measures

    @property
    def settings(self) -> ServerSettings:
        """Those in force."""
        return self.pool.settings


async def known_user(call: HTTPConnection, served: Served) -> User:
    """The user of a request.

    Raises:
        HttpError: there is none.
        AccessError: the password or the token is wrong.
    """
    return await user_of(call, served.users, served.settings, served.pool.threads)


Handler = Callable[[Served, Request, User], Awaitable[Response]]


class Endpoint:
    """One kind of request, as an ASGI application.

    Args:
        served: what handlers share.
        handler: answers it.
        name: for the measures.
        free: whether it needs no user.
    """

    def __init__(self, served: Served, handler: Handler, name: str, *, free: bool = False) -> None:
        self._served = served
        self._handler = handler
        self._name = name
        self._free = free

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request; errors are told as JSON unless something was sent before."""
        request = Request(scope, receive)
        sender = _Sender(send)
        with self._served.measures.request(self._name, sender):
            try:
                allowed = demand_origin(request, self._served.settings)
                sender.add(_cors(allowed))
                if request.method == "OPTIONS":
                    await Response(status_code=204)(scope, receive, sender)
                    return
                user = await self._user(request)
                response = await self._handler(self._served, request, user)
                await response(scope, receive, sender)
            except Exception as error:
                if sender.status is not None:
                    _log.warning("%s: cut: %s", peer_of(request), one_line(error))
                    raise
                await answer(_of_login(error, request))(scope, receive, sender)

    async def _user(self, request: Request) -> User:
        if self._free:
            return User("", "read")
        try:
            return await known_user(request, self._served)
        except AccessError as error:
            _log.warning("%s: login refused: %s", peer_of(request), one_line(error))
            raise HttpError(401, "access", str(error)) from error


def _of_login(error: Exception, request: Request) -> Exception:
    if isinstance(error, HttpError) and error.status in (401, 403):
        _log.warning("%s: refused: %s", peer_of(request), one_line(error))
    return error


class _Sender:
    """Passes messages on, with more headers, and remembers the status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._more: list[tuple[bytes, bytes]] = []
        self.status: int | None = None

    def add(self, headers: Mapping[str, str]) -> None:
        """Adds headers to the response."""
        self._more += [(n.lower().encode(), value.encode()) for n, value in headers.items()]

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message["headers"], *self._more]}
        await self._send(message)


def _cors(origin: str | None) -> dict[str, str]:
    if origin is None:
        return {}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Methods": _ALLOWED,
        "Access-Control-Allow-Headers": _HEADERS,
        "Access-Control-Expose-Headers": "ETag",
        "Access-Control-Max-Age": "600",
        "Vary": "Origin",
    }


def json_response(found: Any, status: int = 200, **headers: str) -> Response:
    """A response with JSON; `_` in names of headers stands for `-`."""
    text = json.dumps(found, ensure_ascii=False) + "\n"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(text, status, named, "application/json")


def megabytes(number: float) -> int:
    """Megabytes as bytes."""
    return int(number * MEGABYTE)
