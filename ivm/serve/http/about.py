"""What the server tells of itself: `/healthz`, `/metrics`, `/openapi.json` and a page."""

from __future__ import annotations

import contextlib
import html
import math
from collections.abc import Iterable, Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ivm.cdc.run_sources import SourceInfo, list_sources
from ivm.cdc.sinks.run_sinks import list_sinks
from ivm.engine.tables.row_times import seconds
from ivm.engine.tables.watermark_rows import Watermark
from ivm.serve.access import User
from ivm.serve.http.endpoint import Served, json_response
from ivm.serve.http.formats import ARROW, CSV, JSON, LINES
from ivm.serve.http.measures import BOUNDS
from ivm.serve.row_counts import RowCounts
from ivm.storage.errors import UnavailableError

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_INFINITE = {math.inf: "+Inf", -math.inf: "-Inf"}


async def health(served: Served, request: Request, user: User) -> Response:
    """Whether the database is open."""
    return json_response({"status": "ok", "epoch": served.database.epoch})


# -- metrics ------------------------------------------------------------------------------------


async def metrics(served: Served, request: Request, user: User) -> Response:
    """Numbers for Prometheus."""
    found = await served.pool.threads.call(lambda: "\n".join(_lines(served)) + "\n")
    return Response(found, media_type=_PROMETHEUS)


def _counted(served: Served) -> dict[str, int]:
    """The rows of each view; of none where the tables cannot be brought up to date."""
    engine = served.database._engine
    with contextlib.suppress(UnavailableError):  # the server's other numbers help to find out why
        return RowCounts(engine).of(list(engine.catalog.version.committed_views))
    return {}


def _lines(served: Served) -> Iterator[str]:
    database, pool = served.database, served.pool
    yield from _told("ivm_epoch", "counter", "Commits so far.", [("", database.epoch)])
    yield from _told("ivm_connections", "gauge", "Clients with a session.", [("", pool.size)])
    yield from _told("ivm_statements_running", "gauge", "Statements that run.", [("", pool.busy)])
    yield from _told("ivm_subscribers", "gauge", "Of changefeeds.", [("", served.hub.size)])
    feeds = [(_label(view=feed.view), feed.version) for feed in served.hub]
    yield from _told("ivm_feed_epoch", "gauge", "Last change of a view with a feed.", feeds)
    with database.connection() as connection:
        sources, sinks = connection.run(lambda s: (list_sources(s), list_sinks(s)))
    counts = _counted(served)
    views = [(_label(view=name), count) for name, count in counts.items()]
    yield from _told("ivm_view_rows", "gauge", "Rows of a view.", views)
    yield from _watermarks(database._engine.watermarks.known.values())
    yield from _sources(sources)
    lags = [(_label(sink=sink.name), sink.lag_epochs) for sink in sinks]
    yield from _told("ivm_sink_lag_epochs", "gauge", "What a sink has not acknowledged.", lags)
    yield from _requests(served)


def _sources(sources: Iterable[SourceInfo]) -> Iterator[str]:
    found = [(_label(source=source.name), source) for source in sources]
    running = [(label, int(source.state == "running")) for label, source in found]
    yield from _told("ivm_source_running", "gauge", "Whether a source runs.", running)
    events = [(label, source.events) for label, source in found]
    yield from _told("ivm_source_events_total", "counter", "Events applied since then.", events)
    lags = [(label, s.lag_seconds) for label, s in found if s.lag_seconds is not None]
    yield from _told("ivm_source_lag_seconds", "gauge", "Age of the newest applied change.", lags)
    behind = [(label, s.lag_events) for label, s in found if s.lag_events is not None]
    yield from _told("ivm_source_lag_events", "gauge", "Events not applied yet, about.", behind)
    letters = [(label, source.dead_letters) for label, source in found]
    yield from _told("ivm_source_dead_letters", "gauge", "Events not applicable.", letters)


def _watermarks(marks: Iterable[Watermark]) -> Iterator[str]:
    found = [(_label(table=mark.table), mark) for mark in marks]
    reached = [(label, seconds(mark.at)) for label, mark in found if mark.at is not None]
    yield from _told("ivm_watermark_seconds", "gauge", "Watermark, since 1970.", reached)
    late = [(label, mark.late_rows) for label, mark in found]
    yield from _told(
        "ivm_late_rows_total", "counter", "Late rows, but those that were refused.", late
    )


def _requests(served: Served) -> Iterator[str]:
    measures = served.measures
    counts = [
        (_label(request=name, status=str(status)), count)
        for (name, status), count in sorted(measures.counts.items())
    ]
    yield from _told("ivm_http_requests_total", "counter", "Requests answered.", counts)
    rows_in = [("", measures.rows_in)]
    yield from _told("ivm_http_rows_in_total", "counter", "Rows written by requests.", rows_in)
    name = "ivm_http_request_seconds"
    yield f"# HELP {name} How long requests took, with the sending of their results."
    yield f"# TYPE {name} histogram"
    for kind, buckets in sorted(measures.buckets.items()):
        total = 0
        for bound, count in zip((*BOUNDS, None), buckets, strict=True):
            total += count
            le = "+Inf" if bound is None else f"{bound:g}"
            yield f"{name}_bucket{_label(request=kind, le=le)} {total}"
        yield f"{name}_sum{_label(request=kind)} {measures.seconds[kind]:.6f}"
        yield f"{name}_count{_label(request=kind)} {total}"


def _told(name: str, type: str, help: str, values: Iterable[tuple[str, float]]) -> Iterator[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {type}"
    for label, value in values:
        yield f"{name}{label} {_INFINITE.get(value, value)}"


def _label(**labels: str) -> str:
    escaped = {
        name: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for name, value in labels.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"


# -- OpenAPI ------------------------------------------------------------------------------------


def _parameter(name: str, place: str, what: str, type: str = "string") -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "description": what,
        "required": place == "path",
        "schema": {"type": type},
    }


def _operation(
    summary: str, parameters: Iterable[dict[str, Any]] = (), **more: Any
) -> dict[str, Any]:
    good = {"200": {"description": "done"}}
    return {"summary": summary, "parameters": list(parameters), "responses": good, **more}


def _content(*types: str) -> dict[str, Any]:
    return {"content": {type: {"schema": {}} for type in types}, "required": True}


_SESSION = _parameter("Ivm-Session", "header", "a session of POST /sessions")
_VIEW = _parameter("view", "path", "the name of a materialized view")
OPENAPI: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "ivmdb", "version": "1"},
    "components": {
        "securitySchemes": {
            "basic": {"type": "http", "scheme": "basic"},
            "token": {"type": "http", "scheme": "bearer"},
        },
        "schemas": {
            "Error": {
                "type": "object",
                "required": ["error", "what", "hint"],
                "properties": {
                    "error": {"type": "string", "description": "the kind of error"},
                    "what": {"type": "string", "description": "what is wrong, and the way out"},
                    "hint": {"type": "string"},
                    "sqlstate": {"type": "string"},
                    "position": {"type": "integer", "description": "offset in the statement"},
                },
            }
        },
    },
    "security": [{"basic": []}, {"token": []}],
    "paths": {
        "/sql": {
            "post": _operation(
                f"Runs statements; Accept asks for {JSON}, {LINES}, {CSV} or {ARROW}",
                [_SESSION],
                requestBody=_content("application/sql", JSON),
            )
        },
        "/tables/{table}": {
            "post": _operation(
                "Writes rows as one epoch",
                [
                    _parameter("table", "path", "its name"),
                    _parameter("op", "query", "insert (the default), upsert or delete"),
                    _parameter("Idempotency-Key", "header", "makes a repeated request harmless"),
                    _SESSION,
                ],
                requestBody=_content(JSON, LINES, ARROW),
            )
        },
        "/views": {"get": _operation("Lists the materialized views")},
        "/views/{view}": {
            "get": _operation(
                "The rows of a view; further parameters are columns and the values they have",
                [
                    _VIEW,
                    _parameter("after", "query", "wait until it has changed since", "integer"),
                    _parameter("wait", "query", "seconds to wait at most", "number"),
                    _parameter("limit", "query", "rows at most", "integer"),
                    _parameter("If-None-Match", "header", "the ETag of an answer"),
                ],
            )
        },
        "/views/{view}/changes": {
            "get": _operation(
                f"The changes of a view: server-sent events, {ARROW} or WebSocket",
                [
                    _VIEW,
                    _parameter("Last-Event-ID", "header", "the epoch that the client has"),
                    _parameter("after", "query", "the same", "integer"),
                    _parameter("snapshot", "query", "0: without one, from now on", "integer"),
                ],
            )
        },
        "/sessions": {"post": _operation("Opens a session for transactions")},
        "/sessions/{token}": {
            "delete": _operation("Closes a session", [_parameter("token", "path", "of it")])
        },
        "/metrics": {"get": _operation("Numbers for Prometheus")},
        "/healthz": {"get": _operation("Whether the server is well", security=[])},
    },
}


async def openapi(served: Served, request: Request, user: User) -> Response:
    """The description of this interface for programs."""
    return json_response(OPENAPI)


async def page(served: Served, request: Request, user: User) -> Response:
    """The same for people."""
    return HTMLResponse(_PAGE)


def _rows() -> Iterator[str]:
    for path, operations in OPENAPI["paths"].items():
        for method, operation in operations.items():
            names = ", ".join(each["name"] for each in operation["parameters"])
            cells = (f"{method.upper()} {path}", operation["summary"], names)
            yield "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"


_PAGE = f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>ivmdb</title>
<style>
:root {{ color-scheme: light dark }} body {{ font: 15px/1.5 system-ui; margin: 2rem }}
td, th {{ text-align: left; padding: .2rem 1rem .2rem 0; vertical-align: top }}
td:first-child {{ font-family: monospace; white-space: nowrap }}
</style>
<h1>ivmdb</h1>
<p>This database answers over HTTP; programs read <a href="openapi.json">openapi.json</a>,
people open the <a href="console/">console</a>.</p>
<table><tr><th>request<th>does<th>parameters</tr>{"".join(_rows())}</table>
</html>
"""
