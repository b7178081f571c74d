"""Requests to a server, and its errors as those of `ivm.errors`.

Law: a request with a key is sent again when its connection is lost: the server does it once.
Invariant: no two processes use one connection: a forked one opens its own.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from ivm.storage.errors import (
    AccessError,
    ConstraintError,
    CorruptionError,
    EvaluationError,
    InputError,
    InternalError,
    IvmError,
    SqlError,
    UnavailableError,
    UnsupportedError,
)

if TYPE_CHECKING:
    import httpx

SCHEMES = {"ivm": "http", "ivms": "https"}
ARROW = "application/vnd.apache.arrow.stream"
_PATIENCE = 30.0  # seconds for which a request with a key is sent again
_PAUSE = 0.2
_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), seconds)
        for name, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
        if hasattr(socket, name)
    ),
]
"""By which it is noticed that a server is gone without a word."""


class LostSessionError(UnavailableError):
    """The server has closed the session, and rolled its transaction back."""


_KINDS: dict[str, type[IvmError]] = {
    "access": AccessError,
    "constraint": ConstraintError,
    "corruption": CorruptionError,
    "evaluation": EvaluationError,
    "input": InputError,
    "internal": InternalError,
    "request": InputError,
    "session": LostSessionError,
    "unsupported": UnsupportedError,
    "view": SqlError,
}


class Wire:
    """The connections to one server; any thread uses them.

    Args:
        url: `ivm://[user:password@]host:port`, or `ivms://` for TLS.
        token: of a user, in place of a password.
        verify: whether TLS certificates are verified, or the path of those that are trusted.
        timeout: seconds that an answer may take; None: no limit.

    Raises:
        InputError: the URL is none.
        UnavailableError: the package for HTTP is missing.
    """

    def __init__(
        self, url: str, token: str | None, verify: bool | str, timeout: float | None
    ) -> None:
        parts = _parts(url)
        host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
        port = f":{parts.port}" if parts.port else ""
        self.server = f"{SCHEMES[parts.scheme]}://{host}{port}"
        name, password = unquote(parts.username or ""), unquote(parts.password or "")
        self._auth = (name, password) if name and not token else None
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._verify, self._timeout = _trusted(verify), timeout
        self._made, self._process = self._make(), os.getpid()

    def _make(self) -> httpx.Client:
        try:
            import httpx
        except ImportError as error:
            raise UnavailableError(
                f"a server cannot be spoken to ({error}): pip install 'ivmdb[client]'"
            ) from error
        transport = httpx.HTTPTransport(
            verify=self._verify,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            proxy=_proxy_for(self.server),
            socket_options=_ALIVE,
        )
        return httpx.Client(
            base_url=self.server,
            auth=self._auth,
            headers=self._headers,
            timeout=httpx.Timeout(self._timeout, connect=10.0),
            transport=transport,
        )

    @property
    def _client(self) -> httpx.Client:
        """The connections of this process."""
        if self._process != os.getpid():
            self._made, self._process = self._make(), os.getpid()
        if self._made.is_closed:
            raise UnavailableError("the connection is closed: connect again")
        return self._made

    def ask(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        again: bool = False,
    ) -> httpx.Response:
        """Sends a request, and returns its answer.

        Args:
            method: of HTTP.
            path: on the server.
            content: the body.
            headers: further ones.
            params: of the query.
            again: whether it may be sent again if the connection is lost; a key says so to the
                server.

        Raises:
            IvmError: what the server tells.
            UnavailableError: it cannot be reached.
        """
        named = dict(headers or {})
        if again:
            named["Idempotency-Key"] = str(uuid.uuid4())
        end = time.monotonic() + (_PATIENCE if again else 0.0)
        while True:
            try:
                answer = self._client.request(
                    method, path, content=content, headers=named, params=params
                )
            except _transport() as error:
                if time.monotonic() < end and _tls_of(error) is None:
                    time.sleep(_PAUSE)
                    continue
                raise self.unreachable(error) from error
            if answer.status_code == 503 and time.monotonic() < end:
                time.sleep(_PAUSE)
                continue
            if answer.is_success or answer.status_code == 304:
                return answer
            raise error_of(answer.content, answer.status_code)

    def stream(self, path: str, params: Mapping[str, str]) -> httpx.Response:
        """An answer whose body is still to come; it is to be closed."""
        import httpx

        headers = {"Accept": ARROW}
        timeout = httpx.Timeout(10.0, read=None)
        client = self._client
        asked = client.build_request("GET", path, headers=headers, params=params, timeout=timeout)
        return client.send(asked, stream=True)

    def unreachable(self, error: Exception) -> UnavailableError:
        """The error of a lost connection."""
        told = f"the server at {self.server} does not answer ({str(error) or type(error).__name__})"
        tls = _tls_of(error)
        if isinstance(tls, ssl.SSLCertVerificationError):
            return UnavailableError(
                f"{told}: give the certificate that it has made for itself, such as "
                "verify='shop.duckdb.tls/server.crt', or call it by a name that is in its own"
            )
        if tls is not None:
            return UnavailableError(f"{told}: if it has no TLS, use ivm:// and not ivms://")
        return UnavailableError(
            f"{told}: see whether it runs, with TLS or without, and whether a change was made "
            "before you repeat it"
        )

    def close(self) -> None:
        """Closes the connections."""
        self._made.close()


def segment(name: str) -> str:
    """A name as a segment of a path.

    Raises:
        InputError: it is none; dots alone would be steps of the path.
    """
    if not isinstance(name, str) or not name.strip("."):
        raise InputError(f"a table or view is named by text such as 'orders', not by {name!r}")
    return quote(name, safe="")


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        good = parts.scheme in SCHEMES and parts.hostname and not parts.path.strip("/")
        good = good and parts.port != 0
    except ValueError:  # a port that is none
        good = False
    if not good:
        raise InputError(
            "a server is named as ivm://user:password@host:port, or ivms:// for TLS, with nothing "
            "behind it"
        )
    return parts


def _proxy_for(server: str) -> str | None:
    """The proxy that the environment names for a server."""
    parts = urlsplit(server)
    return None if proxy_bypass(str(parts.hostname)) else getproxies().get(parts.scheme)


def _tls_of(error: BaseException | None) -> ssl.SSLError | None:
    """The error of TLS for which a server cannot be spoken to, if it is one."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error


def _trusted(verify: bool | str) -> Any:
    if isinstance(verify, bool):
        return verify
    return ssl.create_default_context(cafile=verify)


def _transport() -> type[Exception]:
    import httpx

    return httpx.TransportError


def error_of(content: bytes, status: int) -> IvmError:
    """The error that a server tells of."""
    try:
        found = json.loads(content)
        kind, what = str(found["error"]), str(found["what"])
    except (ValueError, KeyError, TypeError):
        return UnavailableError(f"the server answers {status}: {content[:200]!r}")
    if kind == "sql":
        return SqlError(what, found.get("position"))
    return _KINDS.get(kind, UnavailableError)(what)
