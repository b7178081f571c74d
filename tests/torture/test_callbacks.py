"""What ends a program is no error of a statement, also where Python was called by DuckDB."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import ivm
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse import warehouse
from ivm.storage.warehouse.duckdb.duck import Cursor, run
from tests.support.view_oracle import assert_verified

pytestmark = pytest.mark.full(smoke=3)

ENDS = [KeyboardInterrupt, MemoryError]


class Struck:
    """A function, or rows lent to DuckDB, that raise at one call when they are asked to."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind
        self.armed = False

    def strike(self) -> None:
        if self.armed:
            self.armed = False
            raise self.kind

    def half(self, value: int) -> int:
        self.strike()
        return value // 2

    @contextlib.contextmanager
    def now(self) -> Iterator[None]:
        self.armed = True
        with pytest.raises(self.kind):
            yield
        assert not self.armed


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("begun", [False, True])
def test_a_function_of_a_view(kind: type[BaseException], begun: bool) -> None:
    struck = Struck(kind)
    function = ivm.Function("half", struck.half, ["INTEGER"], "INTEGER")
    with ivm.connect(functions=[function]) as db:
        db.execute("CREATE TABLE t (a INTEGER); CREATE TABLE u (a INTEGER)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT half(a) AS h, a FROM t")
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT sum(half(a)) AS h FROM t JOIN u USING (a)")
        db.execute(
            "INSERT INTO t VALUES (1), (2); INSERT INTO u VALUES (2), (5)"
        )  # (two: what is constant DuckDB tries alone)
        for statement in (
            "SELECT half(a) FROM u",
            "INSERT INTO t VALUES (8)",
            "INSERT INTO t SELECT half(a) FROM u",
            "UPDATE t SET a = 6 WHERE a = 2",
            "CREATE OR REPLACE TABLE u AS SELECT half(a) AS a FROM t",
            "CREATE MATERIALIZED VIEW x AS SELECT half(a) FROM u",
        ):
            if begun:
                db.execute("BEGIN; DELETE FROM u WHERE a = 5; INSERT INTO u VALUES (7)")
            with struck.now():
                db.execute(statement).arrow()
                db.execute("FROM v").arrow()  # in a transaction, views follow when they are read
            if begun:
                db.execute("ROLLBACK")
            assert sorted(db.execute("FROM v").fetchall()) == [(0, 1), (1, 2)]
            assert db.execute("FROM w").fetchall() == [(1,)]
        db.execute("INSERT INTO t VALUES (8)")
        assert_verified(db)


@pytest.mark.parametrize("kind", ENDS)
def test_rows_that_are_lent(kind: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    struck, real = Struck(kind), ZSet.to_arrow

    class Lent:
        def __init__(self, rows: pa.Table) -> None:
            self.rows = rows

        def __getattr__(self, name: str) -> Any:
            return getattr(self.rows, name)

        def __arrow_c_schema__(self) -> Any:
            return self.rows.schema.__arrow_c_schema__()

        def __arrow_c_stream__(self, *requested: Any) -> Any:
            struck.strike()
            return self.rows.__arrow_c_stream__(*requested)

    monkeypatch.setattr(ZSet, "to_arrow", lambda rows, schema: Lent(real(rows, schema)))
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER, a INTEGER)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a")
        db.insert("t", {"id": range(9000), "a": [i % 7 for i in range(9000)]})
        for begun in (False, True):
            if begun:
                db.execute("BEGIN")
            with struck.now():
                db.execute("DELETE FROM t WHERE id < 4000")
                db.execute("SELECT sum(n) FROM v").fetchall()
            if begun:
                db.execute("ROLLBACK")
            db.execute("UPDATE t SET a = a + 1 WHERE id = 3")
            assert_verified(db)


@pytest.mark.parametrize("error", [*ENDS, ValueError])
@pytest.mark.parametrize("earlier", [False, True])
def test_an_exception_behind_the_begin_of_a_snapshot_leaves_no_transaction(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException], earlier: bool
) -> None:
    def begun(cursor: Cursor, sql: str) -> None:
        run(cursor, sql)
        monkeypatch.setattr(warehouse, "run", run)
        raise error

    with ivm.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER); CREATE TABLE u (a INTEGER)")
        result = db.execute("FROM t, range(5000)") if earlier else None
        monkeypatch.setattr(warehouse, "run", begun)
        with pytest.raises(ivm.errors.InternalError if error is ValueError else error):
            db.execute("FROM t, u")
        assert result is None or result.fetchall() == []
        db.execute("INSERT INTO t SELECT 1")
        assert db.execute("FROM t").fetchall() == [(1,)]
