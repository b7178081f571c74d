"""`POST /tables/{table}`: rows in, as one epoch."""

from __future__ import annotations

import hashlib
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response

from ivm.ingest.rows import Rows
from ivm.serve.access import User
from ivm.serve.http.endpoint import Served, json_response, megabytes
from ivm.serve.http.errors import HttpError
from ivm.serve.http.formats import ARROW, JSON, LINES
from ivm.serve.http.runs import body_of
from ivm.serve.http.statements import SESSION, ending, json_of
from ivm.serve.requests import once
from ivm.serve.session_values import demand_own_default
from ivm.session.row_calls import delete, insert, table_info, upsert
from ivm.session.session import Session
from ivm.storage.errors import InputError
from ivm.storage.identifiers import path_of

_CALLS = {"insert": insert, "upsert": upsert, "delete": delete}
KEY = "Idempotency-Key"
_DIGITS_OF_FLOAT = 15  # that all come back


async def write(served: Served, request: Request, user: User) -> Response:
    """Inserts, upserts or deletes rows; with a key a repeated request changes nothing."""
    async with ending(served, request, user):
        user.grant.demand_write()
        body = await body_of(request, megabytes(served.settings.request_megabytes))
        action = request.query_params.get("op", "insert")
        if action not in _CALLS:
            raise InputError(f"op is {', '.join(_CALLS)}, not {action!r}")
        media_type = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
        rows = await served.pool.threads.call(lambda: rows_of(body, media_type))
    table, key = request.path_params["table"], request.headers.get(KEY)
    digest = hashlib.sha256(b"\0".join([table.encode(), action.encode(), body])).hexdigest()

    def work(session: Session) -> tuple[dict[str, Any], bool]:
        name = table_info(session, table).name
        user.grant.demand_relation(name)
        if action != "delete":
            demand_own_default(session, path_of(name))

        def call() -> int:
            return _CALLS[action](session, table, rows)

        if session.transaction is not None:
            if key is not None:
                raise InputError(f"{KEY} goes with a request that is a transaction of its own")
            return {"rows": call()}, False
        return once(session, user.name, key, digest, call)

    answer, repeated = await _run(served, request, user, work)
    if not repeated:
        served.measures.rows_in += int(answer["rows"])
    return json_response({**answer, "repeated": repeated})


async def _run(served: Served, request: Request, user: User, work: Any) -> Any:
    token = request.headers.get(SESSION)
    if token is None:
        async with served.runner.session(request, user) as session:
            return await served.runner.run(request, session, work)
    async with served.held.using(token, user) as session:
        return await served.runner.run(request, session, work)


def rows_of(body: bytes, media_type: str) -> Rows:
    """The rows of a body: a JSON list of objects, JSON lines, or an Arrow stream.

    Raises:
        InputError: they are none.
        HttpError: the type of the body is another one.
    """
    if media_type == ARROW:
        try:
            found = pa.ipc.open_stream(body).read_all()
            found.validate(full=True)  # else offsets would be followed wherever they lead
            return found
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"the body is no Arrow stream: {error}") from error
    if media_type == LINES:
        lines = filter(None, map(bytes.strip, body.split(b"\n")))
        found = json_of(b"[" + b",".join(lines) + b"]", _number)
    elif media_type == JSON:
        found = json_of(body, _number)
    else:
        raise HttpError(
            415, "request", f"{media_type!r} is no type of rows: send {JSON}, {LINES} or {ARROW}"
        )
    rows = [found] if isinstance(found, dict) else found
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError("rows are objects, one for each row")
    return rows


def _number(text: str) -> float | Decimal:
    """A number of JSON with a point or an exponent, with all its digits: a column has its type."""
    found = float(text)
    needs_more = len(text) > _DIGITS_OF_FLOAT and math.isfinite(found) and found != 0
    return Decimal(text) if needs_more else found
