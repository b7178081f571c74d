"""Paths whose segments may have any name in them, also one with a slash.

Law: a path is cut at the slashes that the client has sent, and each segment read as it was before
it was percent-encoded; so `/views/a%2Fb` is the view `a/b`.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from starlette.convertors import Convertor, register_url_convertor
from starlette.types import ASGIApp, Receive, Scope, Send


class _Name(Convertor[str]):
    """A segment that is a name: `{view:name}`."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        """The name of a segment."""
        return unquote(value)

    def to_string(self, value: str) -> str:
        """The segment of a name."""
        return quote(value, safe="")


register_url_convertor("name", _Name())


class Segments:
    """An application whose routes see slashes only where segments end.

    Args:
        app: with routes.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on."""
        raw = scope.get("raw_path")
        if raw is not None and b"%" in raw:
            scope = {**scope, "path": "/".join(map(_segment, raw.decode("ascii").split("/")))}
        await self._app(scope, receive, send)


def _segment(text: str) -> str:
    return unquote(text).replace("%", "%25").replace("/", "%2F")
