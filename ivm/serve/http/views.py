"""`GET /views` and `GET /views/{view}`: rows of views, with the epoch in which they last changed.

Law: the rows are at least as new as the epoch that the answer names, and that epoch is durable. An
answer without rows (304) means that the view has not changed since the epoch that the client has.
"""

from __future__ import annotations

import time

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ivm.catalog.names import name_parts
from ivm.catalog.version import View
from ivm.serve.access import AccessError, User
from ivm.serve.http.endpoint import Served, json_response, megabytes
from ivm.serve.http.errors import HttpError
from ivm.serve.http.feeds import ViewFeed
from ivm.serve.http.formats import encoded, rows_of, wanted
from ivm.serve.http.runs import Streamed
from ivm.session.queries.query import query
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.errors import InputError, SqlError
from ivm.storage.identifiers import fold, path_of, quote

_OWN = ("after", "wait", "limit")
_WAIT, _LONGEST = 30.0, 300.0  # seconds of a long poll
_MOMENT = 0.2  # seconds in which a feed is open, if no transaction is


def view_of(served: Served, name: str, user: User) -> View:
    """The view that a name means, if the user may read it.

    Raises:
        HttpError: there is none.
        AccessError: the user may not.
    """
    try:
        found = served.database._engine.catalog.version.committed_view(name_parts(name))
    except (SqlError, InputError):
        found = None
    if found is None:
        raise _no_view(name)
    user.grant.demand_relation(found.name)
    return found


def _no_view(name: str) -> HttpError:
    return HttpError(
        404,
        "view",
        f"there is no materialized view {name!r}; GET /views lists them, and POST /sql reads "
        "tables",
    )


async def feed_of(served: Served, view: str, patience: float | None = None) -> ViewFeed:
    """The feed of a view.

    Raises:
        HttpError: the view was dropped meanwhile.
        TimeoutError: it is not open after `patience` seconds.
    """
    try:
        return await served.hub.feed(view, patience)
    except SqlError as error:
        raise _no_view(view) from error


async def listed(served: Served, request: Request, user: User) -> Response:
    """The views that the user may read."""
    found = []
    for view in await served.pool.threads.call(served.database.views):
        try:
            user.grant.demand_relation(view.name)
        except AccessError:
            continue
        columns = [{"name": name, "type": type} for name, type in view.columns]
        broken = {"broken": view.broken} if view.broken else {}
        found.append({"name": view.name, "strategy": view.strategy, "columns": columns, **broken})
    return json_response({"epoch": served.database.epoch, "views": found})


async def rows(served: Served, request: Request, user: User) -> Response:
    """The rows of a view; with `after` once it has changed after that epoch."""
    view = view_of(served, request.path_params["view"], user)
    wanted(request.headers.get("accept", ""))  # an error before a wait
    sql, params = _query(served, view, request.query_params)
    version = await _changed(served, view, request, user)
    headers = {"ETag": f'"{version}"', "Cache-Control": "no-cache", "Ivm-Epoch": str(version)}
    headers["Vary"] = "Accept"
    if version <= _known(served, request):
        return Response(status_code=304, headers=headers)
    return _Rows(
        served, request, user, (sql, params), headers, {"view": view.name, "epoch": version}
    )


def _query(served: Served, view: View, given: QueryParams) -> tuple[str, list[str]]:
    """The SELECT of a request's columns and values."""
    columns = {fold(name): (name, type) for name, type in view.schema}
    conditions, params = [], []
    for name, value in given.multi_items():
        if len(given.getlist(name)) > 1:
            raise InputError(f"{name!r} is given twice: POST /sql filters by several values")
        if name in _OWN:
            continue
        if fold(name) not in columns:
            known = ", ".join(name for name, _ in view.schema)
            raise InputError(f"view {view.name!r} has no column {name!r}; there are: {known}")
        column, type = columns[fold(name)]
        conditions.append(f"{quote(column)} = CAST(? AS {type.sql})")
        params.append(value)
    path = served.database._engine.catalog.database, *path_of(view.name)
    sql = f"SELECT * FROM {'.'.join(map(quote, path))}"
    if conditions:
        sql += " WHERE " + " AND ".join(conditions)
    if "limit" in given:
        sql += f" LIMIT {_whole('limit', given['limit'])}"
    return sql, params


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise InputError(f"{name} is a whole number, not {text!r}")
    return int(text)


def _known(served: Served, request: Request) -> int:
    """The epoch that the client has; -1 for none, or one of another file than this."""
    after = request.query_params.get("after")
    tag = request.headers.get("if-none-match", "").removeprefix("W/").strip('"')
    known = -1
    if after is not None:
        known = _whole("after", after)
    elif tag == "*":  # whatever the rows are by now
        known = served.database.epoch
    elif tag.isascii() and tag.isdigit() and len(tag) < 19:
        known = int(tag)
    return known if known <= served.database.epoch else -1


async def _changed(served: Served, view: View, request: Request, user: User) -> int:
    """The epoch of the view's last change, after a wait for one later than `after`, if asked.

    Raises:
        HttpError: the view was dropped meanwhile.
        AccessError: the user was.
    """
    feed = await _feed_within(served, view.name, _MOMENT)
    if request.query_params.get("after") is not None:
        feed = await _awaited(served, view, feed, request)
        served.users.demand_unchanged(user)
        view_of(served, view.name, user)
    if feed is not None and feed.is_over:  # another view has the name now
        feed = await _feed_within(served, view.name, _MOMENT)
    engine = served.database._engine
    if engine.recomputed.is_outdated([view.name]):
        async with served.runner.session(request, user) as session:
            await served.runner.run(request, session, lambda inner: _recompute(inner, view.name))
    version = _version(served, feed)
    await served.pool.threads.call(lambda: engine.log.make_durable(version))
    return version


async def _awaited(
    served: Served, view: View, feed: ViewFeed | None, request: Request
) -> ViewFeed | None:
    """Waits until the view has changed, for as long as the client says; gives its feed."""
    end = time.monotonic() + _seconds(request.query_params.get("wait"))
    while (left := end - time.monotonic()) > 0:
        is_over = feed is not None and feed.is_over
        if is_over or _version(served, feed) > _known(served, request):
            break
        if await request.is_disconnected():
            break
        if feed is None:
            feed = await _feed_within(served, view.name, min(left, 1.0))
        else:
            await feed.wait_at_most(min(left, 1.0))
    return feed


async def _feed_within(served: Served, view: str, seconds: float) -> ViewFeed | None:
    """The feed of a view, None if a transaction keeps it from being opened."""
    try:
        return await feed_of(served, view, seconds)
    except TimeoutError:
        return None


def _version(served: Served, feed: ViewFeed | None) -> int:
    """The epoch of the view's last change, or of all that is committed where that is unknown."""
    return served.database.epoch if feed is None else feed.version


def _recompute(session: Session, view: str) -> None:
    with session.writing():
        session.engine.recomputed.refresh([view])


def _seconds(text: str | None) -> float:
    try:
        found = _WAIT if text is None else float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= _LONGEST:
        raise InputError(f"wait is a number of seconds up to {_LONGEST:g}, not {text!r}")
    return found


class _Rows(Response):
    """The rows of a view, whose session lives until they are sent."""

    def __init__(
        self,
        served: Served,
        request: Request,
        user: User,
        asked: tuple[str, list[str]],
        headers: dict[str, str],
        head: dict[str, object],
    ) -> None:
        super().__init__()
        self._served, self._request, self._user = served, request, user
        self._asked, self._named, self._head = asked, headers, head

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        served, request, (sql, params) = self._served, self._request, self._asked
        form = wanted(request.headers.get("accept", ""))
        async with served.runner.session(request, self._user) as session:
            statement = st.Query(sql, 0, "select")
            result = await served.runner.run(
                request, session, lambda inner: query(inner, statement, params)
            )
            chunks = encoded(rows_of(result), form, self._head, as_objects=True)
            most = megabytes(served.settings.result_megabytes)
            response = Streamed(served.runner, request, session, chunks, form, most, self._named)
            await response.begin()
            await response(scope, receive, send)
