"""`executemany` leaves what executing the statement with each row does, in one epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm.errors import ConstraintError, InputError, IvmError, SqlError
from tests.support.duckdb_twin import Twin, watched
from tests.tiers import examples

TABLES = """
CREATE TABLE t (id INTEGER PRIMARY KEY, n BIGINT DEFAULT 7, s VARCHAR,
                m DECIMAL(9,2) NOT NULL DEFAULT 1);
CREATE TABLE plain (k INTEGER, v VARCHAR);
INSERT INTO t SELECT i, i, 's' || i, i FROM range(4) r(i);
"""
VIEW = """
CREATE MATERIALIZED VIEW v AS SELECT n % 2 AS odd, count(*) AS c, sum(m) AS m FROM t GROUP BY 1
"""

integers, texts = st.integers(0, 9), st.sampled_from(["", "a", "it's", None])
BATCHES: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "INSERT INTO plain VALUES (?, ?)": st.tuples(integers, texts),
    "INSERT INTO t (id, s) VALUES (?, ?)": st.tuples(st.integers(), texts).filter(
        lambda row: 9 < row[0] < 2**31
    ),
    "INSERT OR REPLACE INTO t (s, id, n) VALUES (?, ?, 5)": st.tuples(texts, integers),
    "INSERT OR IGNORE INTO t (id, n) VALUES (?, ?)": st.tuples(integers, integers),
    "INSERT INTO t (id, n) VALUES ($1, $2) ON CONFLICT DO UPDATE SET n = t.n * 10 + $2": st.tuples(
        integers, integers
    ),
    "INSERT INTO t (id, s) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET s = t.s || excluded.s"
    " WHERE t.n > ?": st.tuples(integers, texts, integers),
    "UPDATE t SET n = n * 10 + ?, s = ? WHERE id = ?": st.tuples(integers, texts, integers),
    "UPDATE t SET n = n + 1 WHERE id = ? AND n > ?": st.tuples(integers, integers),
    "DELETE FROM t WHERE id = ?": st.tuples(integers),
    "DELETE FROM t WHERE n = ?": st.tuples(integers),
    "UPDATE t SET m = m + ? WHERE n = ?": st.tuples(integers, integers),
    "UPDATE t SET n = n + 1 WHERE n = ?": st.tuples(integers),
    "DELETE FROM t WHERE id = ? RETURNING id, s": st.tuples(integers),
    "UPDATE t SET n = n * 10 + ? WHERE id = ? RETURNING n": st.tuples(integers, integers),
    "INSERT OR REPLACE INTO t (id, s) VALUES (?, ?) RETURNING *": st.tuples(integers, texts),
    "INSERT INTO t (id, n) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING id": st.tuples(
        integers, integers
    ),
    "INSERT INTO plain VALUES (?, ?) RETURNING v": st.tuples(integers, texts),
}


def demand_in_turn(both: Twin, sql: str, rows: list[Any]) -> None:
    """A batch has the rows, the count and the last result of the rows in turn, or is refused."""
    both.duck.execute("BEGIN")
    try:
        results = [both.duck.execute(sql, list(row)).fetchall() for row in rows]
        both.duck.execute("COMMIT")
    except duckdb.Error:
        both.duck.execute("ROLLBACK")
        with pytest.raises(IvmError):
            both.db.executemany(sql, rows)
    else:
        done = both.db.executemany(sql, rows)
        if "RETURNING" in sql:
            assert done.rowcount == sum([len(returned) for returned in results])
            assert done.fetchall() == results[-1]
        else:
            assert done.rowcount == sum([count for [(count,)] in results])
    both.check()


@pytest.mark.full
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_many_rows_are_each_row_in_turn(data: st.DataObject) -> None:
    both = Twin(TABLES, VIEW, ("t", "plain"))
    if data.draw(st.booleans()):
        both.run("CREATE INDEX by_n ON t (n)")
    for _ in range(data.draw(st.integers(1, 5))):
        sql = data.draw(st.sampled_from(list(BATCHES)))
        demand_in_turn(both, sql, data.draw(st.lists(BATCHES[sql], min_size=1, max_size=6)))
    both.db.close()


few, names = st.integers(1, 4), st.none() | st.sampled_from("abc")
SEVERAL_KEYS = {
    "INSERT OR IGNORE INTO two VALUES (?, ?, 1)": st.tuples(few, names),
    "INSERT INTO two (u, id) VALUES (?, ?) ON CONFLICT DO NOTHING": st.tuples(names, few),
    "INSERT INTO two VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING": st.tuples(few, names, few),
    "INSERT INTO two VALUES (?, ?, ?) ON CONFLICT (u) DO UPDATE SET n = n + excluded.n": st.tuples(
        few, names, few
    ),
    "INSERT INTO two VALUES (?, ?, 5) ON CONFLICT (id) DO UPDATE SET u = excluded.u": st.tuples(
        few, names
    ),
    "INSERT INTO two VALUES (?, ?, 6)": st.tuples(few, names),
    "UPDATE two SET u = ? WHERE id = ?": st.tuples(names, few),
    "UPDATE two SET n = n + ? WHERE u = ?": st.tuples(few, names),
    "DELETE FROM two WHERE u = ?": st.tuples(names),
    "DELETE FROM two WHERE id = ?": st.tuples(few),
}


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_rows_of_several_keys_are_each_row_in_turn(data: st.DataObject) -> None:
    """A row may have the further key that an earlier one has taken, or has left."""
    both = Twin(
        "CREATE TABLE two (id INTEGER PRIMARY KEY, u VARCHAR UNIQUE, n INTEGER);"
        "INSERT INTO two VALUES (1, 'a', 1), (2, 'b', 2)",
        "CREATE MATERIALIZED VIEW v AS SELECT u, sum(n) AS n FROM two GROUP BY u",
        ("two",),
    )
    for _ in range(data.draw(st.integers(1, 4))):
        sql = data.draw(st.sampled_from(list(SEVERAL_KEYS)))
        demand_in_turn(both, sql, data.draw(st.lists(SEVERAL_KEYS[sql], min_size=2, max_size=6)))
    both.db.close()


@pytest.mark.full
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("INSERT INTO t (id, n) SELECT ?, ?", [(100, 1), (101, 2), (102, 3)]),
        ("INSERT INTO t (id, n) VALUES (? + 100, abs(?))", [(1, 1), (2, 2)]),
        ("UPDATE t SET n = n + 1 WHERE n < ?", [(1000,), (-1000,)]),
        ("DELETE FROM t WHERE n > ?", [(-1000,), (0,)]),
    ],
)
def test_the_count_is_of_all_rows(sql: str, rows: list[Any]) -> None:
    """It was that of the last row, where the statement is run once for each."""
    demand_in_turn(Twin(TABLES, VIEW, ("t", "plain")), sql, rows)


RETURNED = [sql for sql in BATCHES if "RETURNING" in sql]


@pytest.mark.full
@pytest.mark.parametrize("sql", RETURNED)
def test_a_batch_returns_what_the_last_row_returns(sql: str) -> None:
    with ivm.connect() as db, watched() as seen:
        db.execute(TABLES)
        db.execute(VIEW)
        seen.clear()
        done = db.executemany(sql, [(i, i)[: sql.count("?")] for i in range(10, 300)])
        assert seen == []
        if "INSERT" in sql:
            assert len(done.fetchall()) == 1
        before = db.epoch
        db.executemany(sql, [(3, 3)[: sql.count("?")]])
        assert db.epoch <= before + 1


@pytest.mark.parametrize("set", ["m = m + ?", "s = ?, m = 2"])
def test_a_batch_by_an_index_needs_no_duckdb(set: str) -> None:
    both = Twin(TABLES, VIEW)
    both.run("INSERT INTO t SELECT 10 + i, i % 20, 'x', i FROM range(100) r(i)")
    both.run("CREATE INDEX by_n ON t (n)")
    with watched() as seen:
        for sql in (f"UPDATE t SET {set} WHERE n = ? AND id > 5", "DELETE FROM t WHERE n = ?"):
            rows = [(i, i)[: sql.count("?")] for i in (3, 4, 3, 19, 77)]
            both.db.executemany(sql, rows)
            both.duck.executemany(sql, rows)
        assert seen == []
    both.check()


@pytest.mark.full
@pytest.mark.parametrize(
    "sql", [sql for sql in BATCHES if " n = ?" not in sql[-7:] and "RETURNING" not in sql]
)
def test_a_batch_is_one_epoch_without_duckdb(sql: str) -> None:
    with ivm.connect() as db:
        db.execute(TABLES)
        db.execute(VIEW)
        strategy = [(i + 10, "x", 1) for i in range(300)]
        width = sql.count("?") or 2
        if width == 3 and sql.startswith("UPDATE"):
            rows: list[tuple[Any, ...]] = [(1, "x", i) for i in range(300)]
        elif "(s, id, n)" in sql:
            rows = [("x", i + 10) for i in range(300)]
        elif sql.endswith("n > ?") or "(id, n)" in sql:
            rows = [(i + 10, i) for i in range(300)]
            rows = [(*row, 1)[:width] for row in rows]
        else:
            rows = [row[:width] for row in strategy]
        if sql.startswith("INSERT INTO t (id, s) VALUES (?, ?) ON"):
            rows = [(i, "x", i) for i in range(300)]
        before = db.epoch
        with watched() as seen:
            db.executemany(sql, rows)
        assert seen == []
        assert db.epoch <= before + 1


COLUMNS = {"id": [10, 11, 1], "n": [1, None, 3]}


@pytest.mark.parametrize(
    "rows",
    [
        COLUMNS,
        pa.table(COLUMNS),
        pa.table(COLUMNS).to_batches()[0],
        pd.DataFrame(COLUMNS, dtype="Int64"),
        {"id": np.array([10, 11, 1]), "n": [1, None, 3]},
        [(10, 1), [11, None], (1, 3)],
        iter([(10, 1), (11, None), (1, 3)]),
        [{"id": 10, "n": 1}, {"n": None, "id": 11}, {"id": 1, "n": 3}],
    ],
)
def test_forms_of_rows(rows: Any) -> None:
    named = isinstance(rows, list) and isinstance(rows[0], dict)
    marks = "$id, $n" if named else "?, ?"
    with ivm.connect() as db:
        db.execute(TABLES)
        with watched() as seen:
            done = db.executemany(f"INSERT OR REPLACE INTO t (id, n) VALUES ({marks})", rows)
        assert (done.rowcount, seen) == (3, [])
        found = db.execute("SELECT id, n FROM t WHERE id IN (1, 10, 11) ORDER BY id").fetchall()
        assert found == [(1, 3), (10, 1), (11, None)]


def test_other_statements_are_executed_row_by_row() -> None:
    with ivm.connect() as db:
        db.execute(TABLES)
        before = db.epoch
        db.executemany("INSERT INTO plain SELECT k, ? FROM range(?) r(k)", [("a", 2), ("b", 1)])
        assert db.epoch == before + 1
        assert db.execute("FROM plain ORDER BY ALL").fetchall() == [(0, "a"), (0, "b"), (1, "a")]
        assert db.executemany("SELECT ? + 1", [(1,), (2,)]).fetchall() == [(3,)]
        assert db.executemany("INSERT INTO plain VALUES (?, ?)", []).rowcount == 0


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE t SET v = $v WHERE id = $id OR id = $id + 10",
        "INSERT INTO t SELECT $id + 20, $v",
        "MERGE INTO t USING (SELECT $id i, $v j) ON id = i WHEN MATCHED THEN UPDATE SET v = j",
    ],
)
def test_columns_go_by_name_to_other_statements_too(sql: str) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v VARCHAR)")
        db.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        assert db.executemany(sql, {"v": ["x", "y"], "id": [1, 2]}).rowcount == 2
        assert db.execute("SELECT v FROM t ORDER BY id DESC LIMIT 2").fetchall() == [("y",), ("x",)]


def test_an_error_leaves_nothing() -> None:
    with ivm.connect() as db:
        db.execute(TABLES)
        before = db.execute("FROM t ORDER BY id").fetchall()
        insert = "INSERT INTO t (id) VALUES (?)"
        for rows, error in (
            ([(10,), (1,)], ConstraintError),
            ([(10,), (10,)], ConstraintError),
            ([(10,), ("no number",)], IvmError),
            ([(10,), (11, 12)], IvmError),
            ([10, 11], InputError),
            ("abc", InputError),
            ({"a": [1], "b": [1, 2]}, InputError),
        ):
            with pytest.raises(error):
                db.executemany(insert, rows)
            assert not db.in_transaction
            assert db.execute("FROM t ORDER BY id").fetchall() == before
        with pytest.raises(InputError):
            db.executemany("SELECT 1; SELECT 2", [()])
        with pytest.raises(SqlError):
            db.executemany("INSERT INTO nowhere VALUES (?)", [(1,)])


def _broken_rows() -> Iterator[tuple[int]]:
    yield (10,)
    raise ValueError("bad line 2 of my file")


def test_an_error_of_the_programs_own_rows_is_its_own() -> None:
    """It was told as a fault of ours."""
    with ivm.connect() as db, db.cursor() as cursor:
        db.execute(TABLES)
        db.begin()
        for executemany in (db.executemany, cursor.executemany):
            with pytest.raises(ValueError, match="bad line 2 of my file"):
                executemany("INSERT INTO t (id) VALUES (?)", _broken_rows())
        assert db.aborted is None
        assert db.execute("FROM t WHERE id = 10").fetchall() == []


def test_an_error_of_a_stream_has_the_streams_words() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [10]})
        raise ValueError("bad line 2 of my file")

    def reader() -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(pa.schema({"id": pa.int64()}), batches())

    with ivm.connect() as db:
        db.execute(TABLES)
        with pytest.raises(InputError, match="bad line 2 of my file"):
            db.executemany("INSERT INTO t (id) VALUES (?)", reader())
        with pytest.raises(InputError, match="bad line 2 of my file"):
            db.insert("t", reader())


def test_in_a_transaction_it_is_a_part_of_it() -> None:
    with ivm.connect() as db:
        db.execute(TABLES)
        db.execute("BEGIN")
        db.executemany("INSERT INTO t (id) VALUES (?)", [(10,), (11,)])
        db.executemany("UPDATE t SET n = ? WHERE id = ?", [(1, 10), (2, 11)])
        assert db.in_transaction
        db.execute("ROLLBACK")
        assert db.execute("SELECT count(*) FROM t").fetchall() == [(4,)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("UPDATE t SET n = n + ? WHERE id = ?", [[1, 1], ["x", 99]]),
        ("UPDATE t SET s = upper(?) WHERE id = ?", [["q", 1], [5, 99]]),
        ("DELETE FROM t WHERE id = ? AND n + ? > 100", [[1, 1], [99, "x"]]),
        ("INSERT INTO t (id) VALUES (?) ON CONFLICT DO UPDATE SET n = t.n + ?", [[1, 1], [9, "x"]]),
    ],
)
def test_a_row_that_finds_none_has_to_bind(sql: str, rows: list[list[Any]]) -> None:
    demand_in_turn(Twin(TABLES, VIEW), sql, rows)
