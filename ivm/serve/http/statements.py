"""`POST /sql`, and the sessions of transactions."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ivm.dispatch import run_statement, run_with_each
from ivm.ingest.parameters import Params
from ivm.serve.access import User
from ivm.serve.http.callers import peer_of
from ivm.serve.http.endpoint import Served, json_response, megabytes
from ivm.serve.http.errors import HttpError
from ivm.serve.http.formats import Form, encoded, rows_of, wanted
from ivm.serve.http.runs import Streamed, body_of
from ivm.serve.http.sessions import IDLE
from ivm.serve.served_session import ServedSession
from ivm.serve.session_values import SessionValues, with_values
from ivm.serve.statement_log import StatementLog
from ivm.session.results.result import Result
from ivm.session.results.state_result import StateResult
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.errors import InputError, IvmError

SESSION = "Ivm-Session"
_TYPES = ("application/json", "application/sql", "text/plain", "")
_CURL = "application/x-www-form-urlencoded"  # which curl -d says of any text


async def sql(served: Served, request: Request, user: User) -> Response:
    """Runs statements; the last one's result is the answer."""
    async with ending(served, request, user):
        body = await body_of(request, megabytes(served.settings.request_megabytes))
        given, form = asked(body, request), wanted(request.headers.get("accept", ""))
    return _Sql(served, request, user, given, form)


@contextlib.asynccontextmanager
async def ending(served: Served, request: Request, user: User) -> AsyncIterator[None]:
    """An error in the block ends the transaction of the request's session.

    So does that of a statement: a COMMIT that follows must not make half of it last.
    """
    try:
        yield
    except IvmError as error:
        token, reason = request.headers.get(SESSION), error
        if token is None:
            raise

        def work(session: Session) -> None:
            raise reason

        async with served.held.using(token, user) as session:
            await served.runner.run(request, session, work)


def asked(body: bytes, request: Request) -> tuple[str, Params, list[Any] | None]:
    """The statements of a request, their parameters, and the rows of parameters, if many.

    Raises:
        InputError: they make no sense.
        HttpError: the type of the body is another one.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in (*_TYPES, _CURL):
        raise HttpError(
            415,
            "request",
            f"{media_type!r} is no type of statements: send {' or '.join(_TYPES[:3])}",
        )
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"the body is no UTF-8 at byte {error.start}") from error
    if media_type != "application/json":
        return text, None, None
    given = json_of(text)
    if not isinstance(given, dict) or not set(given) <= {"sql", "params", "many"}:
        raise InputError('the body is an object with "sql", and "params" or "many"')
    statement, params, many = given.get("sql"), given.get("params"), given.get("many")
    if not isinstance(statement, str):
        raise InputError('"sql" is a text')
    if params is not None and not isinstance(params, list | dict):
        raise InputError('"params" is a list for ?, or an object for $name')
    if many is not None and (not isinstance(many, list) or params is not None):
        raise InputError('"many" is a list of lists or objects, without "params"')
    return statement, params, many


def json_of(text: str | bytes, number: Callable[[str], Any] = float) -> Any:
    """Reads JSON.

    Args:
        text: to be read.
        number: makes a value of what has a point or an exponent.

    Raises:
        InputError: it is none.
    """
    try:
        return json.loads(text, parse_float=number)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the body is no JSON: {error}") from error


class _Sql(Response):
    """The result of statements, whose session lives until it is sent."""

    def __init__(
        self,
        served: Served,
        request: Request,
        user: User,
        statements: tuple[str, Params, list[Any] | None],
        form: Form,
    ) -> None:
        super().__init__()
        self._served, self._request, self._user = served, request, user
        self._statements, self._form = statements, form

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        served, token = self._served, self._request.headers.get(SESSION)
        if token is None:
            async with served.runner.session(self._request, self._user) as session:
                await self._answer(session, self._run_whole, scope, receive, send)
            return
        async with served.held.using(token, self._user) as session:
            await self._answer(session, self._run, scope, receive, send)

    def _run(self, session: Session) -> Result:
        return run(self._served, self._user, session, *self._statements)

    def _run_whole(self, session: Session) -> Result:
        """Runs statements in a session that ends with them.

        Raises:
            InputError: they leave a transaction open.
        """
        result = self._run(session)
        if session.transaction is not None:
            raise InputError(
                "the transaction would end with the request, and was rolled back: COMMIT in the "
                f"same text, or open a session by POST /sessions and send its token as {SESSION}"
            )
        return result

    async def _answer(
        self,
        session: ServedSession,
        work: Callable[[Session], Result],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        served, text = self._served, self._statements[0]
        log, began = StatementLog(served.settings), time.perf_counter()
        try:
            result = await served.runner.run(self._request, session, work)
        except IvmError as error:
            log.failed(session, text, error)
            raise
        log.statement(session, text, time.perf_counter() - began)
        chunks = encoded(rows_of(result), self._form, _head(result), as_objects=False)
        most = 0 if result.is_of_change else megabytes(served.settings.result_megabytes)
        headers = {"Ivm-Kind": result.kind, "Ivm-Rowcount": str(result.rowcount)}
        response = Streamed(
            served.runner, self._request, session, chunks, self._form, most, headers
        )
        await response.begin()
        await response(scope, receive, send)


def _head(result: Result) -> dict[str, object]:
    head: dict[str, object] = {"kind": result.kind, "rowcount": result.rowcount}
    if result.kind == "rows":
        head["read_from"] = "memory" if isinstance(result, StateResult) else "DuckDB"
    return head | ({"message": result.message} if result.message else {})


def run(
    served: Served,
    user: User,
    session: Session,
    text: str,
    params: Params,
    many: Sequence[Any] | None = None,
) -> Result:
    """Runs a user's statements, each of which is checked before.

    Raises:
        AccessError: the user may not run one of them.
    """
    statements = st.parse(text)
    if (params or many is not None) and len(statements) != 1:
        raise InputError(f"parameters go with one statement, not with {len(statements)}")
    if many is not None:
        with served.users.allowing(user, statements[0], session):
            statement = with_values(session, statements[0], SessionValues(user.name))
            return run_with_each(session, statement, many)
    result = Result("done")
    for statement in statements:
        with served.users.allowing(user, statement, session):
            if isinstance(statement, st.TransactionControl) and not user.grant.writes:
                continue  # it would hold up writers, and change nothing
            told = with_values(session, statement, SessionValues(user.name))
            result = run_statement(session, told, params)
    return result


async def open_session(served: Served, request: Request, user: User) -> Response:
    """`POST /sessions`: a session for transactions, by its token."""
    token = await served.held.open(user, peer_of(request))
    return json_response({"session": token, "idle_seconds": IDLE}, 201)


async def close_session(served: Served, request: Request, user: User) -> Response:
    """`DELETE /sessions/{token}`: rolls its open transaction back."""
    params: Mapping[str, str] = request.path_params
    served.held.close(params["token"], user)
    return Response(status_code=204)
