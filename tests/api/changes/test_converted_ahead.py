"""Rows are converted before their writer waits for its turn, and follow the table as it is then.

Law: a call that waits for another session's transaction does and raises what it would if it came
after that transaction; its rows are converted once if the catalog stays as it is, else once more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import ivm
from ivm.errors import ConstraintError, InputError, IvmError, SqlError
from ivm.ingest.literal_columns import columns_of
from ivm.ingest.row_columns import RowColumns
from ivm.ingest.rows import RowReader
from tests.support.view_oracle import assert_verified

Call = Callable[[ivm.Database], object]


class Waiting:
    """A call in a thread of its own, which waits for the writer lock until `result` is asked for.

    Attributes:
        conversions: the tables' schemas for which rows were converted, in that order.
    """

    def __init__(self, db: ivm.Database, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        self.conversions: list[tuple[str, ...]] = []
        self._waits = threading.Event()
        self._found: object = None
        self._spy(db, monkeypatch)
        self._thread = threading.Thread(target=self._run, args=(db, call))
        self._thread.start()
        assert self._waits.wait(60)

    def _spy(self, db: ivm.Database, monkeypatch: pytest.MonkeyPatch) -> None:
        read, wait = RowReader.read, db._engine.writer_lock._wait

        def noted_read(reader: RowReader, *args: Any) -> Any:
            self.conversions.append(tuple(type.sql for _, type in reader.info.schema))
            return read(reader, *args)

        def noted_columns(rows: Any, types: Any, *args: Any) -> Any:
            self.conversions.append(tuple(type.sql for type in types))
            return columns_of(rows, types, *args)

        def noted_wait() -> None:
            self._waits.set()
            wait()

        class NotedColumns(RowColumns):
            def convert(noting, given: Any) -> Any:  # noqa: N805
                self.conversions.append(tuple(type.sql for _, type in noting._schema))
                return super().convert(given)

        monkeypatch.setattr(RowReader, "read", noted_read)
        monkeypatch.setattr("ivm.changes.executemany.RowColumns", NotedColumns)
        monkeypatch.setattr("ivm.changes.inserts.columns_of", noted_columns)
        monkeypatch.setattr(db._engine.writer_lock, "_wait", noted_wait)

    def _run(self, db: ivm.Database, call: Call) -> None:
        try:
            self._found = call(db)
        except BaseException as error:
            self._found = error

    def result(self) -> object:
        """What the call gave, or the error it raised."""
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self._found


KEYED = "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER)"
BY_DUCKDB = "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, d BIGINT DEFAULT getvariable('x'))"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, max(id) AS m FROM t"
ROWS = "INSERT INTO t (id, a) VALUES (1, 10), (2, 20)"
CALLS: dict[str, Call] = {
    "insert": lambda db: db.insert("t", [{"id": 3, "a": 30}]),
    "upsert": lambda db: db.upsert("t", {"id": [1], "a": [30]}),
    "delete": lambda db: db.delete("t", pa.table({"id": pa.array([2], pa.int32())})),
    "sql": lambda db: db.execute("INSERT INTO t (id, a) VALUES (3, 30)").rowcount,
    "many": lambda db: db.executemany("INSERT INTO t (id, a) VALUES (?, ?)", [(3, 30)]).rowcount,
    "update": lambda db: db.executemany("UPDATE t SET a = ? WHERE id = ?", [(30, 1)]).rowcount,
}
SAME = {
    "insert": [(1, "10"), (2, "20"), (3, "30")],
    "upsert": [(1, "30"), (2, "20")],
    "delete": [(1, "10")],
    "sql": [(1, "10"), (2, "20"), (3, "30")],
    "many": [(1, "10"), (2, "20"), (3, "30")],
    "update": [(1, "30"), (2, "20")],
}
BY_SQL = ("sql", "many", "update")


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as made:
        yield made
        if made.views():
            assert_verified(made)


def rows_of(db: ivm.Database) -> list[Any]:
    return db.execute("SELECT id, a::VARCHAR FROM t ORDER BY ALL").fetchall()


def set_up(db: ivm.Database, table: str) -> None:
    for sql in (table, ROWS, VIEW, "INSERT INTO t (id) VALUES (0)", "DELETE FROM t WHERE id = 0"):
        db.execute(sql)


@pytest.mark.full
@pytest.mark.parametrize("table", [KEYED, BY_DUCKDB])
@pytest.mark.parametrize("call", CALLS)
def test_rows_are_converted_before_the_lock(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch, call: str, table: str
) -> None:
    set_up(db, table)
    with db.transaction():
        db.execute("UPDATE t SET a = a WHERE id = 1")
        waiting = Waiting(db, CALLS[call], monkeypatch)
        early = len(waiting.conversions)
    assert waiting.result() == 1
    natively = call in BY_SQL and table == BY_DUCKDB
    assert early == len(waiting.conversions) == (0 if natively else 1)
    assert rows_of(db) == SAME[call]


@pytest.mark.full
@pytest.mark.cases(5)
@pytest.mark.parametrize("table", [KEYED, BY_DUCKDB])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_rows_follow_a_table_that_is_altered_meanwhile(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch, call: str, table: str, end: str
) -> None:
    set_up(db, table)
    db.execute("BEGIN")
    waiting = Waiting(db, CALLS[call], monkeypatch)
    db.execute("ALTER TABLE t ALTER a TYPE VARCHAR")
    db.execute("ALTER TABLE t ADD COLUMN z INTEGER DEFAULT 7")
    db.execute(end)
    assert waiting.result() == 1
    assert rows_of(db) == SAME[call]
    if call not in BY_SQL or table != BY_DUCKDB:
        assert len(waiting.conversions) == 2
        assert ("VARCHAR" in waiting.conversions[1]) == (end == "COMMIT")
    if end == "COMMIT":
        assert set(db.execute("SELECT z FROM t").fetchall()) == {(7,)}


@pytest.mark.full
@pytest.mark.parametrize("call", CALLS)
def test_what_is_not_committed_is_no_ground_to_convert_on(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    set_up(db, KEYED)
    db.execute("BEGIN")
    db.execute("DROP TABLE t CASCADE")
    db.execute("CREATE TABLE t (id DATE, b INTEGER)")
    waiting = Waiting(db, CALLS[call], monkeypatch)
    assert not waiting.conversions
    db.execute("ROLLBACK")
    assert waiting.result() == 1
    assert rows_of(db) == SAME[call]


def insert(table: str, **values: Any) -> Call:
    return lambda db: db.insert(table, [values])


TYPE = "ALTER TABLE t ALTER a TYPE"
MORE = "ALTER TABLE t ADD COLUMN z INTEGER"
INSERTS: list[tuple[list[str], Call, type[IvmError] | int, str]] = [
    # a value that does not fit any more
    ([f"{TYPE} TINYINT"], insert("t", id=3, a=300), ConstraintError, "does not fit table 't'"),
    # one that did not fit
    ([f"{TYPE} VARCHAR"], insert("t", id=3, a="x"), 1, ""),
    ([f"{TYPE} BIGINT"], insert("t", id=3, a=2**40), 1, ""),
    ([f"{TYPE} DECIMAL(9, 2)"], insert("t", id=3, a=Decimal("1.25")), 1, ""),
    # one that fits neither before nor after
    ([], insert("t", id=3, a="x"), ConstraintError, "Could not convert"),
    ([MORE], insert("t", id=3, a="x"), ConstraintError, "Could not convert"),
    # columns that come and go
    (["ALTER TABLE t RENAME a TO b"], insert("t", id=3, a=1), InputError, "no column 'a'; it has"),
    ([MORE], insert("t", id=3, z=1), 1, ""),
    # tables that come and go
    (["DROP TABLE t CASCADE"], insert("t", id=3), SqlError, "there is no table 't'"),
    (["CREATE TABLE u (n INTEGER)"], insert("u", n=3), 1, ""),
    # a stream is read once
    ([f"{TYPE} BIGINT"], lambda db: db.insert("t", stream()), 4, ""),
]


def stream() -> pa.RecordBatchReader:
    """Rows 3 to 6, to be read once."""
    batches = [pa.record_batch({"id": [i, i + 1], "a": [1, 2]}) for i in (3, 5)]
    return pa.RecordBatchReader.from_batches(batches[0].schema, iter(batches))


@pytest.mark.cases(3)
@pytest.mark.parametrize("number", range(len(INSERTS)))
def test_errors_are_those_of_the_table_as_it_is(
    db: ivm.Database, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    changes, call, expected, message = INSERTS[number]
    set_up(db, KEYED)
    with db.transaction():
        waiting = Waiting(db, call, monkeypatch)
        for sql in changes:
            db.execute(sql)
    found = waiting.result()
    if isinstance(expected, int):
        assert found == expected
    else:
        assert type(found) is expected
        assert message in str(found)


@pytest.mark.full
def test_a_failed_conversion_fails_an_open_transaction_and_no_other() -> None:
    with ivm.connect() as db:
        set_up(db, KEYED)
        db.execute("BEGIN")
        db.insert("t", [{"id": 3, "a": 1}])
        with pytest.raises(ConstraintError):
            db.insert("t", [{"id": 4, "a": "x"}])
        assert db.aborted
        db.execute("ROLLBACK")
        with pytest.raises(ConstraintError):
            db.insert("t", [{"id": 4, "a": "x"}])
        assert not db.in_transaction
        db.insert("t", [{"id": 5, "a": 1}])
        assert [id for id, _ in rows_of(db)] == [1, 2, 5]
        assert_verified(db)
