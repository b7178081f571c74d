"""Our own records in the user's file: schema `_ivm` with identity, views and epochs.

Contract: every function works inside the cursor's transaction, so a record is as durable as the
tables it describes. Epochs are appended, never updated; the highest one counts.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, cast

import duckdb

from ivm.storage.errors import CorruptionError
from ivm.storage.identifiers import literal, quote
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run
from ivm.storage.warehouse.duckdb.time_zone import zone_of

FORMAT = "3"
READABLE = ("1", "2", FORMAT)
BASE = ""
"""The relation under which the common epoch of all base tables is recorded."""
FLUSHES = "_ivm.flushes"
"""The relation under which flushes are numbered, which shows afterwards if one is committed."""

_SCHEMA = """
CREATE SCHEMA _ivm;
CREATE TABLE _ivm.meta (key VARCHAR, value VARCHAR);
CREATE TABLE _ivm.views (
    name VARCHAR, query VARCHAR, columns VARCHAR[], state VARCHAR, number BIGINT);
CREATE TABLE _ivm.epochs (relation VARCHAR, epoch BIGINT);
"""

_LISTED = """
SELECT 1 FROM system.main.duckdb_tables()
WHERE system.main.lower(database_name) = system.main.lower($1)
    AND schema_name = '_ivm' AND table_name = 'meta'
"""

STREAM_TABLES = {
    "positions": "(source VARCHAR, stream VARCHAR, position BIGINT NOT NULL, "
    "detail VARCHAR NOT NULL, PRIMARY KEY (source, stream))",
    "dead_letters": '(source VARCHAR, "table" VARCHAR, stream VARCHAR, position BIGINT, '
    "event BIGINT, time TIMESTAMPTZ, reason VARCHAR, payload VARCHAR)",
    "letter_keys": '(source VARCHAR, "table" VARCHAR, stream VARCHAR, position BIGINT, '
    'event BIGINT, key VARCHAR, PRIMARY KEY (source, "table", stream, position, event))',
    "letter_facts": '(source VARCHAR, "table" VARCHAR, stream VARCHAR, position BIGINT, '
    'event BIGINT, facts VARCHAR NOT NULL, PRIMARY KEY (source, "table", stream, position, event))',
    "origins": '(source VARCHAR, "table" VARCHAR, origin VARCHAR NOT NULL, '
    'PRIMARY KEY (source, "table"))',
    "displaced": '(source VARCHAR, "table" VARCHAR, columns VARCHAR NOT NULL, '
    "transaction VARCHAR NOT NULL, rows BLOB NOT NULL, again BOOLEAN NOT NULL, "
    'PRIMARY KEY (source, "table"))',
    "sources": "(name VARCHAR PRIMARY KEY, kind VARCHAR NOT NULL, target VARCHAR, "
    "options VARCHAR NOT NULL, state VARCHAR NOT NULL, reason VARCHAR)",
    "sinks": '(name VARCHAR PRIMARY KEY, "view" VARCHAR NOT NULL, target VARCHAR NOT NULL, '
    "options VARCHAR NOT NULL, paused BOOLEAN NOT NULL, acknowledged BIGINT NOT NULL)",
    "outbox": "(sink VARCHAR, epoch BIGINT, part BIGINT, time TIMESTAMPTZ NOT NULL, "
    "rows BIGINT NOT NULL, payload BLOB NOT NULL, PRIMARY KEY (sink, epoch, part))",
}
"""The columns of the tables in `_ivm` that change with the user's, epoch by epoch. The first event
ingested, or the first source or sink created, has them made."""

CLOCK_TABLES = {
    "clock": "(tick BIGINT PRIMARY KEY, now TIMESTAMPTZ NOT NULL, local TIMESTAMP NOT NULL, "
    "today DATE NOT NULL, midnight TIMESTAMP NOT NULL, local_midnight TIMESTAMPTZ NOT NULL)",
}
"""The same for the time; the first view that reads it has them made."""

WATERMARK_TABLES = {
    "watermarks": '("table" VARCHAR PRIMARY KEY, "column" VARCHAR NOT NULL, delay BIGINT NOT NULL, '
    "late VARCHAR NOT NULL, idle_after BIGINT, watermark TIMESTAMP, greatest TIMESTAMP, "
    "seen TIMESTAMPTZ, late_rows BIGINT NOT NULL, watermark_by VARCHAR)",
    "watermark_parts": '("table" VARCHAR, part VARCHAR, greatest TIMESTAMP NOT NULL, '
    'seen TIMESTAMPTZ NOT NULL, PRIMARY KEY ("table", part))',
}
"""The same for watermarks; the first one has them made."""

REQUEST_TABLES = {
    "requests": "(key VARCHAR PRIMARY KEY, micros BIGINT NOT NULL, digest VARCHAR NOT NULL, "
    "answer VARCHAR NOT NULL)",
}
"""The same for requests that may be repeated; the first one has them made."""

OLDER_STREAM_TABLES = {
    "positions": """SELECT source, "table", position, '' FROM _ivm.positions""",
    "dead_letters": 'SELECT source, "table", "table", position, event, time, reason, payload '
    "FROM _ivm.dead_letters",
}
"""The rows of tables that formats 1 and 2 had without a column `stream`, which was the table."""

_RENAMED = """
UPDATE _ivm.views SET broken =
    CASE broken WHEN 'unsettled' THEN 'needs_rewrite' ELSE coalesce(broken, 'exact') END;
ALTER TABLE _ivm.views RENAME COLUMN broken TO state;
"""
"""What format 2 changed; format 3 says of a view that it is broken."""

State = Literal["exact", "needs_rewrite", "recomputed", "broken"]
"""The state of a view's rows: those that its deltas add up to; DuckDB's answer, which may differ
from them in its last bits until the circuit rewrites it; the rows of the last recomputation, which
may be out of date; or rows that changes have passed by, since the view fails on one of them."""
_OLD_STATES: dict[str | None, State] = {None: "exact", "unsettled": "needs_rewrite"}
"""The words of format 1, where they were others."""
_TICK = "tick: "
"""Stands before a view's name in the key of `_ivm.meta` under which its tick is."""
Emits = Literal["changes", "final", "arrival"]
"""When the rows of a view come: with every change below; once, when watermarks have passed them; or
once, when the row arrives that they are joined to."""
_KEPT: Mapping[Emits, str] = {"final": "final: ", "arrival": "arrival: "}
"""Stand before the name of a view whose rows stay in a key of `_ivm.meta`."""
_BROKEN = "broken: "
"""Stands before the reason in the state of a broken view."""


@dataclass(frozen=True)
class StoredView:
    """A materialized view as it was created.

    Attributes:
        name: canonical name.
        query: the user's SELECT, verbatim.
        columns: the column names given at creation; empty for the query's own.
        state: of its rows.
        reason: why it is broken, if it is.
        tick: of the clock that it reads, in microseconds; None if it reads none.
        emits: when its rows come.
    """

    name: str
    query: str
    columns: tuple[str, ...] = ()
    state: State = "exact"
    reason: str | None = None
    tick: int | None = None
    emits: Emits = "changes"


def create_schema(cursor: Cursor, catalog: str, database_id: str) -> None:
    """Creates `_ivm` in a file that has none, or none with records."""
    if rows(cursor, _LISTED, [catalog]):
        run(cursor, "DROP SCHEMA _ivm CASCADE")
    for statement in _SCHEMA.strip().split(";")[:-1]:
        run(cursor, statement)
    run(
        cursor,
        "INSERT INTO _ivm.meta VALUES ('database_id', $1), ('format', $2), ('duckdb', $3)",
        [database_id, FORMAT, duckdb.__version__],
    )
    write_epochs(cursor, {BASE: 0})


def read_database_id(cursor: Cursor, catalog: str) -> str | None:
    """The file's id, or None if it has no records of ours, or their tables alone: a copy of the
    definitions of another file.

    Raises:
        CorruptionError: records of another format.
    """
    if not rows(cursor, _LISTED, [catalog]):
        return None
    meta = dict(rows(cursor, "FROM _ivm.meta"))
    if not meta and not rows(cursor, "FROM _ivm.epochs LIMIT 1"):
        return None
    if meta.get("format") not in READABLE or "database_id" not in meta:
        raise CorruptionError(
            f"The schema _ivm of this file has format {meta.get('format')}, this program reads"
            f" format {' and '.join(READABLE)}: open the database with the version that wrote it."
        )
    return str(meta["database_id"])


def upgrade(cursor: Cursor) -> None:
    """Upgrades records of an older format to ours; until then they are read as they are."""
    ((found,),) = rows(cursor, "SELECT value FROM _ivm.meta WHERE key = 'format'")
    if found == FORMAT:
        return
    run(cursor, "BEGIN")
    if found == "1":
        for statement in _RENAMED.strip().split(";")[:-1]:
            run(cursor, statement)
    run(cursor, "UPDATE _ivm.meta SET value = $1 WHERE key = 'format'", [FORMAT])
    run(cursor, "COMMIT")


def read_duckdb(cursor: Cursor) -> str | None:
    """The version of DuckDB that last filled all views; None if nobody has written it down."""
    found = rows(cursor, "SELECT value FROM _ivm.meta WHERE key = 'duckdb'")
    return str(found[0][0]) if found else None


def record_duckdb(cursor: Cursor) -> None:
    """Records that all views are filled by the DuckDB at hand."""
    run(cursor, "DELETE FROM _ivm.meta WHERE key = 'duckdb'")
    run(cursor, "INSERT INTO _ivm.meta VALUES ('duckdb', $1)", [duckdb.__version__])


def home_zone(cursor: Cursor) -> str:
    """The time zone recorded in the file; if none is, the cursor's own, which is then recorded."""
    found = rows(cursor, "SELECT value FROM _ivm.meta WHERE key = 'time_zone'")
    if found:
        return str(found[0][0])
    zone = zone_of(cursor)
    run(cursor, "INSERT INTO _ivm.meta VALUES ('time_zone', $1)", [zone])
    return zone


def read_mark(cursor: Cursor) -> str | None:
    """The mark of an opening that has not been closed, else None: see `mark_open`."""
    found = rows(cursor, "SELECT value FROM _ivm.meta WHERE key = 'open'")
    return str(found[0][0]) if found else None


def read_closed(cursor: Cursor) -> str | None:
    """The mark of the last opening, if it was closed in good order and is the last one still."""
    found = rows(cursor, "SELECT value FROM _ivm.meta WHERE key = 'closed'")
    return str(found[0][0]) if found else None


def mark_open(cursor: Cursor, mark: str) -> None:
    """Marks the file: from here on commits may be in the log alone, in the marked side folder."""
    run(cursor, "DELETE FROM _ivm.meta WHERE key = 'closed'")
    run(cursor, "INSERT INTO _ivm.meta VALUES ('open', $1)", [mark])


def mark_closed(cursor: Cursor) -> None:
    """Marks the file as closed: every commit is in it, and it needs no side folder."""
    run(cursor, "UPDATE _ivm.meta SET key = 'closed' WHERE key = 'open'")


def set_apart(cursor: Cursor, catalog: str) -> None:
    """Makes what has been copied into another database the records of a closed one, of its own."""
    if rows(cursor, _LISTED, [catalog]):
        meta, new = f"{quote(catalog)}._ivm.meta", [uuid.uuid4().hex]
        run(cursor, f"UPDATE {meta} SET key = 'closed' WHERE key = 'open'")
        run(cursor, f"UPDATE {meta} SET value = $1 WHERE key = 'database_id'", new)


def load_views(cursor: Cursor) -> list[StoredView]:
    """All views in the order of their creation, from records of any format."""
    views = "_ivm.views AS v(name, query, columns, state, number)"
    found = rows(cursor, f"SELECT name, query, columns, state FROM {views} ORDER BY number")
    meta = rows(cursor, "SELECT key, value FROM _ivm.meta")
    ticks, emits = read_ticks(meta), read_emits(meta)
    return [
        StoredView(
            name,
            query,
            tuple(names),
            *read_state(state),
            ticks.get(name),
            emits.get(name, "changes"),
        )
        for name, query, names, state in found
    ]


def read_ticks(meta: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The ticks that views read, by their names, of the rows of `_ivm.meta`."""
    found = [(key, value) for key, value in meta if key.startswith(_TICK)]
    return {key.removeprefix(_TICK): int(value) for key, value in found}


def read_emits(meta: Iterable[tuple[str, str]]) -> dict[str, Emits]:
    """When the rows of views come that stay, by their names, of the rows of `_ivm.meta`."""
    found = [(key, emits, begin) for key, _ in meta for emits, begin in _KEPT.items()]
    return {key.removeprefix(begin): emits for key, emits, begin in found if key.startswith(begin)}


def read_state(stored: str | None) -> tuple[State, str | None]:
    """The state of a view, and the reason if it is broken."""
    if stored is not None and stored.startswith(_BROKEN):
        return "broken", stored.removeprefix(_BROKEN)
    return _OLD_STATES.get(stored, cast(State, stored)), None


def save_view(cursor: Cursor, view: StoredView) -> None:
    """Adds a view, or replaces the record of that name and keeps its place in the order."""
    state = view.state if view.reason is None else _BROKEN + view.reason
    values = [view.name, view.query, list(view.columns), state]
    kept = rows(cursor, "DELETE FROM _ivm.views WHERE name = $1 RETURNING number", [view.name])
    number = kept[0][0] if kept else _last_number(cursor) + 1
    run(cursor, "INSERT INTO _ivm.views VALUES ($1, $2, $3, $4, $5)", [*values, number])
    _forget_options(cursor, view.name)
    if view.emits in _KEPT:
        run(cursor, "INSERT INTO _ivm.meta VALUES ($1, '')", [_KEPT[view.emits] + view.name])
    if view.tick is not None:
        run(cursor, "INSERT INTO _ivm.meta VALUES ($1, $2)", [_TICK + view.name, str(view.tick)])


def _last_number(cursor: Cursor) -> int:
    return int(rows(cursor, "SELECT system.main.max(number) FROM _ivm.views")[0][0] or 0)


def delete_view(cursor: Cursor, name: str) -> None:
    """Removes a view. Its epochs the transaction's own passes: they are left to `compact_epochs`,
    which may delete rows at the same time, and DuckDB lets one transaction delete a row."""
    run(cursor, "DELETE FROM _ivm.views WHERE name = $1", [name])
    _forget_options(cursor, name)


def _forget_options(cursor: Cursor, name: str) -> None:
    keys = [begin + name for begin in (_TICK, *_KEPT.values())]
    run(cursor, "DELETE FROM _ivm.meta WHERE system.main.list_contains($1, key)", [keys])


def load_epochs(cursor: Cursor) -> dict[str, int]:
    """The epoch each relation has reached (base tables under `BASE`)."""
    return dict(
        rows(cursor, "SELECT relation, system.main.max(epoch) FROM _ivm.epochs GROUP BY relation")
    )


def has_reached(connection: duckdb.DuckDBPyConnection, relation: str, epoch: int) -> bool:
    """Returns whether the file says that a relation has reached an epoch.

    Raises:
        duckdb.Error: it can no longer be read.
    """
    with contextlib.closing(connection.cursor()) as cursor:
        return load_epochs(cursor).get(relation, 0) >= epoch


def write_epochs(cursor: Cursor, epochs: Mapping[str, int]) -> None:
    """Records that relations have reached epochs."""
    values = ", ".join([f"({literal(name)}, {epoch})" for name, epoch in epochs.items()])
    run(cursor, f"INSERT INTO _ivm.epochs VALUES {values}")


def forget_view_epochs(cursor: Cursor) -> None:
    """Removes the views' epochs: all views are at the epoch of the base tables."""
    run(cursor, "DELETE FROM _ivm.epochs WHERE relation NOT IN ($1, $2)", [BASE, FLUSHES])


def compact_epochs(cursor: Cursor) -> None:
    """Drops epochs that have been passed: by the relation's own, or a view's by the tables'."""
    own = "SELECT 1 FROM _ivm.epochs e WHERE e.relation = o.relation AND e.epoch > o.epoch"
    tables = "SELECT system.main.max(epoch) FROM _ivm.epochs WHERE relation = $1"
    by_tables = f"o.relation NOT IN ($1, $2) AND o.epoch <= ({tables})"
    sql = f"DELETE FROM _ivm.epochs o WHERE EXISTS ({own}) OR ({by_tables})"
    run(cursor, sql, [BASE, FLUSHES])
