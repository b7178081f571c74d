"""What a client is told of an error: `{"error", "what", "hint"}`, perhaps a SQLSTATE; its status.

Law: an error is for the client alone who has caused it, and says nothing of others.
"""

from __future__ import annotations

import json
import logging
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.responses import Response

from ivm.serve.pg.wire.errors import code_of
from ivm.serve.served_session import CancelledError
from ivm.storage.errors import (
    AccessError,
    ConstraintError,
    CorruptionError,
    EvaluationError,
    InputError,
    IvmError,
    SqlError,
    UnavailableError,
    UnsupportedError,
)

_log = logging.getLogger("ivm.serve")


class _Kind(NamedTuple):
    name: str
    status: int
    hint: str


_KINDS: tuple[tuple[type[BaseException], _Kind], ...] = (
    (AccessError, _Kind("access", 403, "ask an admin for the role that it needs")),
    (CancelledError, _Kind("cancelled", 408, "nothing was changed: ask for less")),
    (SqlError, _Kind("sql", 400, "mend the statement")),
    (ConstraintError, _Kind("constraint", 409, "nothing was applied: mend the rows")),
    (EvaluationError, _Kind("evaluation", 409, "nothing was applied: mend the rows")),
    (InputError, _Kind("input", 400, "mend the request")),
    (UnsupportedError, _Kind("unsupported", 400, "see what the message names instead")),
    (UnavailableError, _Kind("unavailable", 503, "try again later")),
    (CorruptionError, _Kind("corruption", 500, "see ivm recover")),
)
_FAULT = _Kind("internal", 500, "this is a fault of the server: please report it")
_OF_HTTP = {
    401: "log in by basic authentication or with a bearer token",
    404: "GET /openapi.json lists what there is",
    405: "GET /openapi.json lists what there is",
    413: "send less at a time",
    415: "GET /openapi.json lists what is taken",
}


class HttpError(IvmError):
    """An error with a status of its own.

    Args:
        status: of HTTP.
        error: its kind, one word.
        what: what is wrong, with the way out.
        hint: what to do.
    """

    def __init__(self, status: int, error: str, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.status = status
        self.error = error
        self.hint = hint


def told(error: BaseException) -> tuple[int, dict[str, object]]:
    """The status of an error, and what the client is told."""
    if isinstance(error, HttpError):
        hint = error.hint or _OF_HTTP.get(error.status, "")
        return error.status, {"error": error.error, "what": str(error), "hint": hint}
    kind = next((kind for type, kind in _KINDS if isinstance(error, type)), _FAULT)
    what = str(error) if isinstance(error, IvmError) else f"{type(error).__name__}"
    found: dict[str, object] = {
        "error": kind.name,
        "what": what,
        "hint": kind.hint,
        "sqlstate": code_of(error),
    }
    position = getattr(error, "position", None)
    if position is not None:
        found["position"] = position
    return kind.status, found


def answer(error: BaseException) -> Response:
    """The response that tells of an error."""
    if isinstance(error, HTTPException):  # of Starlette: no such route or method
        error = HttpError(error.status_code, error.detail.lower().replace(" ", "_"), error.detail)
    status, found = told(error)
    if found["error"] == _FAULT.name:
        _log.error("a fault of the server: please report it", exc_info=error)
    headers = {"WWW-Authenticate": 'Basic realm="ivm", charset="UTF-8"'} if status == 401 else {}
    if status == 503:
        headers["Retry-After"] = "1"
    text = json.dumps(found, ensure_ascii=False)
    return Response(text + "\n", status, headers, "application/json")
