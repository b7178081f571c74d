"""Tables, views that fail on some of their rows, and what both must hold after any events."""

from __future__ import annotations

import contextlib
from typing import Any

import duckdb

import ivm
from ivm import errors
from tests.support.view_oracle import assert_same_rows

VIEWS = {
    "counted": "SELECT g, count(*) AS n FROM t GROUP BY g",
    "numbers": "SELECT id, g, s::INTEGER AS i FROM t",
    "sums": "SELECT g, sum(i) AS i FROM numbers GROUP BY g",
    "small": "SELECT g, sum(length(s))::TINYINT AS n FROM t GROUP BY g",
    "joined": "SELECT t.id, n.n * 40::TINYINT AS m FROM t JOIN counted AS n USING (g)",
    "tiny": "SELECT g, (i * 10)::TINYINT AS i FROM sums",
    "last": "SELECT list(s ORDER BY id)[-1] AS s FROM t",
    "after": "SELECT s::INTEGER AS i FROM last",
    "kept": "SELECT id, TRY_CAST(s AS INTEGER) AS i FROM t WHERE g > 0",
    "others": "SELECT s, count(*) AS n FROM u GROUP BY s",
}
"""Some fail by a row alone, some by a sum, some by a view below; the last two never do."""
RECOMPUTED = {"last"}

Rows = dict[int, tuple[int, str]]


def create(db: ivm.Database) -> None:
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, s VARCHAR)")
    db.execute("CREATE TABLE u (id INTEGER PRIMARY KEY, g INTEGER, s VARCHAR)")
    for name, query in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")


def event(id: int, values: tuple[int, str] | None) -> dict[str, Any]:
    if values is None:
        return {"op": "d", "before": {"id": id}}
    return {"op": "u", "after": {"id": id, "g": values[0], "s": values[1]}}


def apply(rows: Rows, events: list[tuple[int, tuple[int, str] | None]]) -> None:
    """Applies events one by one."""
    for id, values in events:
        rows.pop(id, None)
        if values is not None:
            rows[id] = values


def broken(db: ivm.Database) -> set[str]:
    return {view.name for view in db.views() if view.broken is not None}


def check(db: ivm.Database, t: Rows, u: Rows) -> None:
    """The tables hold these rows, each view that is not broken its answer, a broken one none."""
    twin = duckdb.connect()
    for name, rows in {"t": t, "u": u}.items():
        wanted = [(id, *values) for id, values in rows.items()]
        assert_same_rows(db.execute(f"FROM {name}").fetchall(), wanted, name)
        twin.execute(f"CREATE TABLE {name} (id INTEGER, g INTEGER, s VARCHAR)")
        if wanted:
            twin.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", wanted)
    for name, query in VIEWS.items():
        twin.execute(f"CREATE VIEW {name} AS {query}")
        with contextlib.suppress(errors.EvaluationError):
            found = db.execute(f"FROM {name}").fetchall()
            assert_same_rows(found, twin.execute(f"FROM {name}").fetchall(), name)
            assert name not in broken(db)
            continue
        assert name in broken(db)
    assert not broken(db) & {"counted", "last", "kept", "others"}


def refresh(db: ivm.Database, name: str) -> None:
    """Refreshes a view: it is then whole if its query can be answered, broken if not."""
    with contextlib.suppress(errors.EvaluationError):
        db.execute(f"REFRESH MATERIALIZED VIEW {name}")
        assert name not in broken(db)
        return
    assert name in broken(db)


def mend(db: ivm.Database) -> None:
    """Empties both tables and refreshes what is broken: nothing then is."""
    for table in ("t", "u"):
        db.ingest(table, [{"op": "t"}], source="mend")
    for name in VIEWS:
        if name in broken(db):
            db.execute(f"REFRESH MATERIALIZED VIEW {name}")
    assert not broken(db)
    check(db, {}, {})


def refused(db: ivm.Database, sql: str) -> bool:
    """Runs a write of the user's; returns whether a view has refused it."""
    whole = {view.name for view in db.views()} - broken(db)
    try:
        db.execute(sql)
    except errors.EvaluationError:
        return True
    assert whole & {"counted", "kept"} <= {view.name for view in db.views()} - broken(db)
    return False
