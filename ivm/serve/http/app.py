"""The routes of the HTTP side."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.types import ASGIApp

from ivm.serve.console.assets import ConsoleFiles
from ivm.serve.http import about, changes, console, statements, tables, views
from ivm.serve.http.endpoint import Endpoint, Handler, Served
from ivm.serve.http.errors import answer
from ivm.serve.http.paths import Segments


def app_of(served: Served) -> ASGIApp:
    """The ASGI application of a server."""

    def route(path: str, method: str, name: str, handler: Handler, *, free: bool = False) -> Route:
        endpoint = Endpoint(served, handler, name, free=free)
        return Route(path, endpoint, methods=[method, "OPTIONS"])

    routes = [
        route("/sql", "POST", "sql", statements.sql),
        route("/tables/{table:name}", "POST", "tables", tables.write),
        route("/views", "GET", "views", views.listed),
        route("/views/{view:name}", "GET", "view", views.rows),
        route("/views/{view:name}/changes", "GET", "changes", changes.changes),
        WebSocketRoute("/views/{view:name}/changes", changes.Socket(served)),
        route("/sessions", "POST", "sessions", statements.open_session),
        route("/sessions/{token}", "DELETE", "sessions", statements.close_session),
        route("/metrics", "GET", "metrics", about.metrics),
        route("/healthz", "GET", "healthz", about.health, free=True),
        route("/openapi.json", "GET", "openapi", about.openapi, free=True),
        route("/", "GET", "page", about.page, free=True),
        route("/console/state", "GET", "state", console.state(served)),
        Mount("/console", ConsoleFiles()),
    ]
    handlers = {404: _refused, 405: _refused}
    return Segments(Starlette(routes=routes, exception_handlers=handlers))


async def _refused(request: Request, error: Exception) -> Response:
    return answer(error)
