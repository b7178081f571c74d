"""Who calls: the user of a request, and whether the request may come from where it comes from.

Law: nobody is let in without a user, but for programs of this machine if the settings trust them. A
page of another origin than the server's own, which a browser shows on this machine, is no such
program: neither by its Origin, nor by a name of its own for our address.
"""

from __future__ import annotations

import asyncio
import base64
import binascii

from starlette.requests import HTTPConnection

from ivm.serve.access import AccessError, User, is_loopback, trusted
from ivm.serve.http.errors import HttpError
from ivm.serve.settings import ServerSettings
from ivm.serve.threads import Threads
from ivm.serve.users import Users

_OWN_NAMES = frozenset(("localhost", ""))
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")
_NO_USER = "log in: this server lets nobody in without a user"


def peer_of(call: HTTPConnection) -> str:
    """The client's address, for the log."""
    return "?" if call.client is None else f"{call.client.host}:{call.client.port}"


def demand_origin(call: HTTPConnection, settings: ServerSettings) -> str | None:
    """Refuses requests that a page of another origin makes.

    Returns:
        The origin, if it is another one that the settings allow.

    Raises:
        HttpError: they do not.
    """
    origin = call.headers.get("origin")
    if origin is None:
        if call.headers.get("sec-fetch-site") == "cross-site":
            raise _foreign("another site")
        return None
    if origin and origin in [each.strip() for each in settings.origins.split(",")]:
        return origin
    if origin.partition("://")[2].lower() != call.headers.get("host", "").lower():
        raise _foreign(origin)
    return None


def _foreign(origin: str) -> HttpError:
    return HttpError(
        403,
        "origin",
        f"a page of {origin} may not speak to this server: add it to origins in [server] of "
        "ivm.toml",
    )


async def user_of(
    call: HTTPConnection, users: Users, settings: ServerSettings, threads: Threads
) -> User:
    """The user of a request.

    Raises:
        HttpError: there is none.
        AccessError: the password or the token is wrong.
        UnavailableError: logins have failed just now, and many are tried.
    """
    given = call.headers.get("authorization")
    if given is None:
        return _trusted(call, settings)
    scheme, _, value = given.partition(" ")
    if scheme.lower() == "bearer":
        return await threads.call(lambda: users.bearer(value.strip()))
    if scheme.lower() == "basic":
        name, password = _basic(value)
        host = "?" if call.client is None else call.client.host
        return await _logged_in(name, password, host, users, threads)
    raise HttpError(401, "access", f"{scheme!r} is unknown here: use Basic or Bearer")


async def _logged_in(name: str, password: str, host: str, users: Users, threads: Threads) -> User:
    """The user of this name; a wrong password is told late, see `FailedLogins`."""
    known = await threads.call(lambda: users.known(name, password))
    if known is not None:
        return known
    await asyncio.sleep(users.failures.wait(host, name))
    try:
        user = await threads.call(lambda: users.login(name, password))  # which takes long
    except AccessError:
        await asyncio.sleep(users.failures.failed(host, name))
        raise
    users.failures.succeeded(host, name)
    return user


def _basic(value: str) -> tuple[str, str]:
    try:
        name, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        colon = ""
    if not colon:
        raise HttpError(401, "access", "the basic authentication is not base64 of user:password")
    return name, password


def _trusted(call: HTTPConnection, settings: ServerSettings) -> User:
    here = call.client is not None and is_loopback(call.client.host)
    if not here or settings.trust != "loopback" or any(n in call.headers for n in _FORWARDED):
        raise HttpError(401, "access", _NO_USER)
    host = call.headers.get("host", "")
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    name = name.strip("[]").lower()
    if name not in _OWN_NAMES and not is_loopback(name):
        raise HttpError(
            403,
            "host",
            f"this server is not {host[:100]!r} to programs that log in without a user: call it by "
            "localhost or 127.0.0.1",
        )
    return trusted("")
