"""Whatever is given to a database, what is raised is one of `ivm.errors`, and no fault of ours."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import ivm
from ivm.errors import InputError, InternalError, IvmError
from tests.support.view_oracle import assert_verified
from tests.tiers import examples

TYPES = {
    "a": "VARCHAR", "d": "DOUBLE", "l": "INTEGER[]", "u": "UUID[]", "z": "TIMETZ[]",
    "s": "STRUCT(x INTEGER, y VARCHAR)", "b": "BLOB", "ts": "TIMESTAMP", "n": "DECIMAL(9,2)",
    "h": "HUGEINT", "i": "INTERVAL", "m": "MAP(VARCHAR, INTEGER)",
}  # fmt: skip
ZONE = dt.timezone(dt.timedelta(hours=14))
VALUES: list[Any] = [
    "\ud800", "a\x00b", "9" * 5000, 10**30, -(10**50), float("nan"), float("inf"), True, b"\xff",
    dt.date.max, dt.datetime.max, dt.datetime(1, 1, 1, tzinfo=ZONE), dt.time(1, tzinfo=ZONE),
    dt.timedelta.max, dt.timedelta.min, uuid.uuid4(), decimal.Decimal("NaN"),
    decimal.Decimal("1e400"), complex(1, 2), object(), [1, 2], [[1]], [uuid.uuid4()], [1, "a"],
    [dt.time(12, tzinfo=ZONE)], ["\ud800"], [None, object()], {"x": 1}, {"x": "\ud800", "y": [1]},
    {1: 2}, {"x": object()}, (1, 2), {1, 2}, np.int64(5), np.datetime64("NaT"), np.array([1, 2]),
    range(3), print, Ellipsis, pa.scalar(3), bytearray(b"a"), memoryview(b"a"),
]  # fmt: skip
NAMES: list[Any] = [
    's."Ord ers"', "s.Ord ers", '"s"."Ord ers"', "s.", ".", "", '"', '""', '"unclosed', "v",
    's."x"."y"."z"', 'memory.s."Ord ers"', "\ud800", "t; DROP TABLE t", "t\x00", '"we""ird"',
    "_ivm.views", None, 5, b"t", ["t"], "t" * 10_000,
]  # fmt: skip
TEXTS = [
    "SELECT '", 'SELECT "', "SELECT $$", "/*", "SELECT 'a'::INT", "SELECT '\ud800'", "\x00",
    "SELECT " + "(" * 200, "SELECT " + "-" * 500 + "1", "SELECT [" * 100, "CREATE", "DROP",
    "CREATE MATERIALIZED VIEW", "CREATE MATERIALIZED VIEW w", "CREATE MATERIALIZED VIEW w AS",
    "CREATE MATERIALIZED VIEW w AS SELECT", "CREATE MATERIALIZED VIEW w AS SELECT '\ud800'",
    "VERIFY", "EXPLAIN MATERIALIZED", "PREPARE", "EXECUTE x(", "COPY t FROM", "COMMENT ON", "ALTER",
    "INSERT INTO t VALUES", "INSERT INTO t VALUES (", "UPDATE t SET", "MERGE INTO t", "SET", "USE",
    "ATTACH", "IMPORT DATABASE", "EXPORT DATABASE", "SELECT get_type(1)", "SELECT '🦆'::BIT",
    "SELECT * FROM range(3) WHERE range = ?", "PRAGMA", "CALL", "DETACH x", "ROLLBACK", "COMMIT",
    "SUBSCRIBE v", "TRUNCATE", "SELECT 1; SELECT", ";;;", "\ufeffSELECT 1", "SELECT 1e999::INT",
]  # fmt: skip


@pytest.fixture(scope="module")
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as made:
        made.execute('CREATE SCHEMA s; CREATE TABLE s."Ord ers" ("I d" INTEGER, v VARCHAR)')
        columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
        made.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {columns})")
        made.execute("CREATE MATERIALIZED VIEW v AS SELECT id, a FROM t")
        made.execute('CREATE MATERIALIZED VIEW "we""ird" AS SELECT count(*) AS n FROM t')
        yield made


def demand_ours(call: Callable[..., Any], *arguments: Any) -> None:
    try:
        call(*arguments)
    except InternalError:
        raise
    except IvmError:
        pass


@pytest.mark.cases(4)
@pytest.mark.parametrize("column", TYPES)
def test_values(db: ivm.Database, column: str) -> None:
    every = examples(4)  # in a short run each column meets others
    start = list(TYPES).index(column)
    for n, value in enumerate(VALUES):
        if (n + start) % 4 >= every:
            continue
        row = {"id": n, column: value}
        demand_ours(db.insert, "t", [row])
        demand_ours(db.upsert, "t", {"id": [n], column: [value]})
        sql = f"INSERT INTO t (id, {column}) "
        for text in (sql + "VALUES (1000 + ?, ?)", sql + "SELECT 2000 + ?, ?", "SELECT ?, ?"):
            demand_ours(answer, db, text, [n, value])
        demand_ours(db.delete, "t", [row])
    db.execute("DELETE FROM t")
    assert_verified(db, "v")


def answer(db: ivm.Database, text: str, parameters: list[Any] | None = None) -> None:
    db.execute(text, parameters).fetchall()


def subscribe(db: ivm.Database, name: Any) -> None:
    db.subscribe(name).close()


def test_names(db: ivm.Database) -> None:
    for name in NAMES:
        for call in (db.insert, db.delete, db.upsert):
            demand_ours(call, name, [{"I d": 1, "v": "x"}])
        demand_ours(subscribe, db, name)
        for sql in ("FROM {}", "VERIFY MATERIALIZED VIEW {}", "EXPLAIN MATERIALIZED VIEW {}"):
            demand_ours(answer, db, sql.format(name))
        if isinstance(name, str):
            demand_ours(db.execute, "SELECT $a", {name: 1})
            demand_ours(db.executemany, "INSERT INTO t (id) VALUES ($a)", [{name: 1}])
    assert db.execute('SELECT n FROM "we""ird"').fetchall() == [(0,)]


@pytest.mark.parametrize("text", TEXTS)
def test_texts(db: ivm.Database, text: str) -> None:
    for script in (text, f"CREATE OR REPLACE MATERIALIZED VIEW w AS {text}", f"EXPLAIN {text}"):
        demand_ours(answer, db, script)
    if db.in_transaction:
        db.execute("ROLLBACK")
    assert db.execute("SELECT 1").fetchall() == [(1,)]


def test_no_setting_is_advised_that_is_refused(db: ivm.Database) -> None:
    db.execute("CREATE TABLE divisors (n INTEGER); INSERT INTO divisors VALUES (0)")
    for statement in ("", "CREATE MATERIALIZED VIEW quotients AS "):
        with pytest.raises(
            InputError, match=r"Use TRY\(...\) to return NULL for this expression.$"
        ):
            db.execute(f"{statement}SELECT 1 // n AS q FROM divisors").fetchall()
