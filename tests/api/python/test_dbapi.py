"""Cursors and connections as PEP 249 and DuckDB's Python API have them."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pytest

import ivm
from ivm import dbapi
from ivm.errors import ConstraintError, InputError, UnavailableError
from tests.support import ROOT
from tests.support.churn import churning


@pytest.fixture
def db(tmp_path: Path) -> ivm.Database:
    database = ivm.connect(tmp_path / "shop.duckdb")
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount DECIMAL(9, 2))")
    database.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(amount) AS total FROM orders")
    database.execute("INSERT INTO orders VALUES (1, 9.5), (2, NULL)")
    return database


@pytest.mark.full
def test_a_cursor_reads_as_duckdbs_does(db: ivm.Database) -> None:
    cursor, peer = db.cursor(), duckdb.connect().cursor()
    query = "SELECT i AS n, i::VARCHAR AS s FROM range(5) r(i) ORDER BY i"
    cursor.execute(query)
    peer.execute(query)
    assert [(d[0], d[1], *d[2:]) for d in cursor.description or []] == [
        (d[0], str(d[1]), *d[2:]) for d in peer.description or []
    ]
    assert cursor.fetchone() == peer.fetchone()
    assert cursor.fetchmany() == peer.fetchmany()
    assert cursor.fetchmany(2) == peer.fetchmany(2)
    assert list(cursor) == peer.fetchall()
    assert (cursor.fetchone(), cursor.fetchall()) == (None, [])
    cursor.close()
    with pytest.raises(UnavailableError, match="connection is closed"):
        cursor.execute("SELECT 1")


@pytest.mark.full
@pytest.mark.parametrize("call", ["commit", "rollback", "begin", "cursor"])
def test_a_closed_connection_does_nothing(call: str) -> None:
    """Bug: COMMIT behind an end of the connection, which undid all, went well."""
    with dbapi.connect() as connection:
        connection.execute("CREATE TABLE t (a INTEGER)")
        connection.close()
        with pytest.raises(dbapi.Error, match="closed"):
            getattr(connection, call)()


def test_the_type_objects_are_those_of_duckdb() -> None:
    query = """SELECT 1 AS a, 1.5 AS b, 'x' AS c, DATE '2020-01-01' AS d, 'x'::BLOB AS e, true AS f,
        now() AS g, [1.5] AS h, 1::UHUGEINT AS i, '10:00'::TIME AS j, INTERVAL 1 DAY AS k"""
    cursor, peer = dbapi.connect().execute(query), duckdb.connect().execute(query)
    for name in ("STRING", "BINARY", "NUMBER", "DATETIME"):
        mine = [c[0] for c in cursor.description or () if c[1] == getattr(dbapi, name)]
        theirs = [c[0] for c in peer.description or () if c[1] == getattr(duckdb, name)]
        assert mine == theirs != []
    assert all(c[1] != dbapi.ROWID for c in cursor.description or ())


@pytest.mark.full
def test_it_is_there_without_an_import_of_its_own() -> None:
    read = "import ivm; print(ivm.dbapi.connect().execute('SELECT 42').fetchall())"
    done = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("[(42,)]\n", 0), done.stderr


@pytest.mark.full
def test_before_a_statement_and_after_one_without_rows_there_are_no_columns(
    db: ivm.Database,
) -> None:
    with db.cursor() as cursor:
        assert (cursor.description, cursor.rowcount, cursor.fetchall()) == (None, -1, [])
        assert cursor.execute("CREATE TABLE other (a INTEGER)").description is None
        assert cursor.execute("INSERT INTO other VALUES (1), (2)").rowcount == 2
        assert cursor.execute("SELECT * FROM other").rowcount == -1


@pytest.mark.full
@pytest.mark.parametrize(
    ("sql", "count"),
    [
        ("INSERT INTO orders VALUES (3, 1), (4, 2) RETURNING id", 2),
        ("INSERT OR REPLACE INTO orders VALUES (2, 1), (4, 2) RETURNING *", 2),
        ("INSERT INTO orders VALUES (2, 1), (4, 2) ON CONFLICT DO NOTHING RETURNING *", 1),
        ("INSERT INTO orders SELECT range + 3, random() FROM range(3) RETURNING amount", 3),
        ("UPDATE orders SET amount = 5 WHERE id = 1 RETURNING amount", 1),
        ("UPDATE orders SET amount = random() RETURNING amount", 2),
        ("UPDATE orders SET amount = 5 WHERE id = 7 RETURNING amount", 0),
        ("DELETE FROM orders WHERE id IN (1, 2) RETURNING *", 2),
        ("MERGE INTO orders USING range(2) s ON id = s WHEN MATCHED THEN DELETE RETURNING *", 1),
    ],
)
def test_changes_that_return_rows_are_counted(db: ivm.Database, sql: str, count: int) -> None:
    """Bug: their count was -1, as that of a query."""
    with db.cursor() as cursor:
        assert cursor.execute(sql).rowcount == count
        assert len(cursor.fetchall()) == count


@pytest.mark.full
def test_a_cursor_has_a_transaction_of_its_own(db: ivm.Database) -> None:
    with db.cursor() as cursor:
        cursor.begin()
        cursor.execute("INSERT INTO orders VALUES (3, 1)")
        assert cursor.execute("SELECT total FROM total").fetchone() == (10.5,)
        assert db.execute("SELECT total FROM total").fetchone() == (9.5,)
        assert not db.in_transaction
        cursor.rollback()
        assert cursor.execute("SELECT count(*) FROM orders").fetchone() == (2,)
        cursor.begin().execute("DELETE FROM orders WHERE id = 2")
        cursor.commit()
    assert db.execute("SELECT count(*) FROM orders").fetchone() == (1,)


def begin_by_a_thread(db: ivm.Database) -> None:
    thread = threading.Thread(target=db.execute, args=["BEGIN; DELETE FROM orders"])
    thread.start()
    thread.join()


def begin_by_a_cursor(db: ivm.Database) -> None:
    db.cursor().execute("BEGIN; DELETE FROM orders")


@pytest.mark.parametrize("begin", [begin_by_a_thread, begin_by_a_cursor])
def test_a_transaction_with_which_nobody_can_go_on_is_in_nobodys_way(
    db: ivm.Database, begin: Callable[[ivm.Database], None]
) -> None:
    """Bug: who wanted to write waited for a minute."""
    begin(db)
    gc.collect()
    db._engine.writer_lock.wait_limit = 5.0  # seconds
    db.execute("INSERT INTO orders VALUES (3, 1)")
    assert db.execute("SELECT count(*) FROM orders").fetchone() == (3,)


@pytest.mark.full
def test_closing_a_cursor_undoes_its_transaction_and_frees_the_writers(db: ivm.Database) -> None:
    with db.cursor() as cursor:
        cursor.begin()
        cursor.execute("INSERT INTO orders VALUES (3, 1)")
    db.execute("INSERT INTO orders VALUES (3, 2)")
    assert db.execute("SELECT amount FROM orders WHERE id = 3").fetchone() == (2,)


def test_executemany_is_one_transaction(db: ivm.Database) -> None:
    with db.cursor() as cursor:
        before = db.epoch
        cursor.executemany("INSERT INTO orders VALUES (?, ?)", [(i, i) for i in range(10, 20)])
        assert (cursor.rowcount, db.epoch) == (10, before + 1)
        with pytest.raises(ConstraintError):
            cursor.executemany("INSERT INTO orders VALUES (?, ?)", [(30, 1), (10, 1)])
        assert db.execute("SELECT count(*) FROM orders").fetchone() == (12,)
        cursor.begin()
        cursor.executemany("INSERT INTO orders VALUES (?, ?)", [(40, 1)])
        cursor.rollback()
    assert db.execute("SELECT count(*) FROM orders").fetchone() == (12,)


@pytest.mark.full
def test_begin_commit_and_rollback_are_the_threads(db: ivm.Database) -> None:
    db.begin()
    db.execute("DELETE FROM orders")
    db.rollback()
    db.begin().execute("DELETE FROM orders WHERE id = 1")
    db.commit()
    assert db.execute("SELECT id FROM orders").fetchall() == [(2,)]
    db.commit()  # nothing, as in DuckDB
    with pytest.raises(InputError):
        db.rollback()


@pytest.mark.full
def test_a_connection_begins_at_its_first_change(db: ivm.Database) -> None:
    with db.connection() as reader, db.connection() as writer:
        reader.begin()
        assert reader.execute("SELECT count(*) FROM orders").fetchall() == [(2,)]
        writer.begin()
        writer.execute("INSERT INTO orders VALUES (3, 1)")  # the reader does not hold it up
        writer.commit()
        assert reader.execute("SELECT count(*) FROM orders").fetchall() == [(3,)]
        with pytest.raises(InputError, match="open already"):
            reader.begin()
        reader.execute("DELETE FROM orders")
        reader.rollback()
        reader.rollback()  # of nothing
        reader.commit()
        assert reader.execute("SELECT count(*) FROM orders").fetchall() == [(3,)]


@pytest.mark.full
def test_a_failed_transaction_says_so_at_its_commit(db: ivm.Database) -> None:
    with db.connection() as connection:
        connection.begin()
        connection.execute("INSERT INTO orders VALUES (3, 1)")
        with pytest.raises(ConstraintError):
            connection.execute("INSERT INTO orders VALUES (1, 1)")
        with pytest.raises(UnavailableError):
            connection.commit()
        assert connection.execute("SELECT count(*) FROM orders").fetchall() == [(2,)]


@pytest.mark.full
def test_an_error_in_its_block_undoes_a_connections_transaction(db: ivm.Database) -> None:
    def fail() -> None:
        with db.connection() as connection:
            connection.begin()
            connection.execute("DELETE FROM orders")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert db.execute("SELECT count(*) FROM orders").fetchall() == [(2,)]


@pytest.mark.full
def test_connections_to_a_file_share_its_database(tmp_path: Path) -> None:
    path = tmp_path / "own.duckdb"
    first, second = dbapi.connect(path), dbapi.connect(str(path))
    first.execute("CREATE TABLE t (a INTEGER)")
    first.close()
    first.close()
    second.execute("INSERT INTO t VALUES (1)")
    second.close()
    with ivm.connect(path) as db:  # the last connection has released the file
        assert db.execute("SELECT * FROM t").fetchall() == [(1,)]
        with dbapi.connect(path) as third:
            third.execute("INSERT INTO t VALUES (2)")
        assert db.execute("SELECT * FROM t").fetchall() == [(1,), (2,)]


@pytest.mark.full
def test_a_connection_that_is_forgotten_keeps_no_file_open(tmp_path: Path) -> None:
    """Bug: its database stayed open to the end of the program, with nothing to close it by."""
    path = tmp_path / "shop.duckdb"
    dbapi.connect(path).execute("CREATE TABLE t AS SELECT 1 AS a")
    ivm.connect(path).close()
    assert dbapi.connect(path).execute("FROM t").fetchall() == [(1,)]
    kept = dbapi.connect(path)
    dbapi.connect(path).begin()
    kept.close()  # the last one that is open
    ivm.connect(path).close()


def test_databases_in_memory_are_not_shared() -> None:
    with dbapi.connect() as first, dbapi.connect() as second:
        assert first.database is not second.database


def test_any_thread_may_use_a_connection(db: ivm.Database) -> None:
    with db.connection() as connection:
        connection.begin()
        connection.execute("INSERT INTO orders VALUES (3, 1)")
        found: list[object] = []
        thread = threading.Thread(
            target=lambda: found.append(
                connection.execute("SELECT count(*) FROM orders").fetchone()
            )
        )
        thread.start()
        thread.join()
        connection.rollback()
    assert found == [(3,)]


def test_closing_the_database_ends_its_connections(db: ivm.Database) -> None:
    connection = db.connection()
    connection.execute("SELECT 1")
    db.close()
    with pytest.raises(UnavailableError, match="closed"):
        connection.execute("SELECT 1")
    connection.close()


@pytest.mark.filterwarnings("ignore:pandas only supports SQLAlchemy:UserWarning")
def test_pandas_reads_by_a_database_and_by_a_connection(db: ivm.Database) -> None:
    with db.connection() as connection:
        for con in (db, connection):
            frame = pd.read_sql("SELECT * FROM orders WHERE id = ? ORDER BY id", con, params=[1])
            assert frame.to_dict("records") == [{"id": 1, "amount": 9.5}]


@pytest.mark.full
def test_polars_reads_by_a_database(db: ivm.Database) -> None:
    query, given = "SELECT id FROM orders WHERE id > ?", {"parameters": [1]}
    for con in (db, db.cursor()):
        frame = pl.read_database(query, con, execute_options=given)
        assert frame.to_dict(as_series=False) == {"id": [2]}


@pytest.mark.full
@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("execute", {"query": "SELECT ?", "parameters": [1]}),
        ("executemany", {"query": "INSERT INTO orders VALUES (?, ?)", "parameters": [[8, 1]]}),
        ("sql", {"query": "SELECT ?", "params": [1]}),
        ("table", {"table_name": "orders"}),
        ("register", {"view_name": "shown", "python_object": pd.DataFrame({"a": [1]})}),
        ("unregister", {"view_name": "shown"}),
    ],
)
def test_arguments_have_the_names_of_duckdbs(
    db: ivm.Database, method: str, arguments: dict[str, Any]
) -> None:
    with duckdb.connect() as plain:
        plain.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount DECIMAL(9, 2))")
        getattr(plain, method)(**arguments)
    getattr(db, method)(**arguments)
    if method == "execute":
        assert db.cursor().execute(**arguments).fetchall() == [(1,)]


@pytest.mark.parametrize("name", ["apilevel", "threadsafety", "paramstyle"])
def test_the_module_says_what_pep_249_asks(name: str) -> None:
    assert getattr(dbapi, name) == getattr(duckdb, name)


@pytest.mark.full
def test_the_modules_errors_are_those_of_pep_249(db: ivm.Database) -> None:
    with db.cursor() as cursor:
        with pytest.raises(dbapi.IntegrityError):
            cursor.execute("INSERT INTO orders VALUES (1, 1)")
        with pytest.raises(dbapi.ProgrammingError):
            cursor.execute("SELEC 1")
    for name in ("DataError", "OperationalError", "IntegrityError", "InternalError",
                 "ProgrammingError", "NotSupportedError"):  # fmt: skip
        assert issubclass(getattr(dbapi, name), dbapi.DatabaseError)
        assert issubclass(getattr(dbapi, name), dbapi.Error)


def test_the_names_of_duckdb_that_are_missing_are_told_in_the_docs() -> None:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    table = text.split("### Names of DuckDB's Python API")[1].split("## ")[0]
    told = [n for line in table.splitlines() if line.startswith("| `") for n in names_in(line)]
    theirs = {name for name in dir(duckdb.DuckDBPyConnection) if not name.startswith("_")}
    assert sorted(told) == sorted(theirs - set(dir(ivm.Database)))


def names_in(line: str) -> list[str]:
    return re.findall(r"`(\w+)`", line.split("|")[1])


@pytest.mark.parametrize("count", [3, 1024, 1030, 5000])
def test_a_loop_that_is_left_early_loses_no_row(db: ivm.Database, count: int) -> None:
    """Bug: what the loop had read ahead was gone."""
    rows = [(i,) for i in range(count)]
    db.execute(f"CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n FROM range({count})")
    db.execute("CREATE MATERIALIZED VIEW in_memory AS SELECT i FROM n")
    for result in (
        db.execute(f"SELECT i FROM range({count}) t(i)"),
        db.cursor().execute(f"SELECT i FROM range({count}) t(i)"),
        db.execute("SELECT i FROM n WHERE i >= 0"),
        db.cursor().execute("SELECT i FROM in_memory WHERE i >= 0"),
        db.execute("UPDATE n SET i = i WHERE i >= 0 RETURNING i"),
    ):
        found = [next(iter(result))]
        for row in result:
            found.append(row)
            break
        found += [result.fetchone() or (), *result.fetchmany(5), *result.fetchall()]
        assert sorted(found) == rows
        assert result.fetchall() == list(result) == []
    assert next(db.cursor().execute(f"SELECT {count}")) == (count,)


@pytest.mark.parametrize(
    "query", ["SELECT i FROM range(9000) t(i)", "SELECT i FROM n WHERE i >= 0"]
)
def test_threads_that_share_a_result_get_each_row_once(db: ivm.Database, query: str) -> None:
    db.execute("CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n FROM range(9000)")
    result, found = db.execute(query), list[Any]()

    def by_a_loop() -> None:
        found.extend(result)

    def by_three() -> None:
        while rows := result.fetchmany(3):
            found.extend(rows)

    with churning(), ThreadPoolExecutor(4) as threads:
        for read in [threads.submit(read) for read in (by_a_loop, by_three) * 2]:
            read.result()
    assert sorted(found) == [(i,) for i in range(9000)]


@pytest.mark.parametrize("query", ["SELECT i FROM range(5) t(i)", "SELECT i FROM n WHERE i >= 0"])
@pytest.mark.parametrize("read", ["arrow", "df", "pl", "fetchnumpy", "held", "batch", "show"])
def test_what_a_loop_has_read_ahead_is_in_no_frame(db: ivm.Database, read: str, query: str) -> None:
    db.execute("CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n FROM range(5)")
    result = db.execute(query)
    assert next(iter(result)) == (0,)
    with pytest.raises(InputError, match=r"read the rest by rows, with fetchall\(\)"):
        getattr(result, read)()
    assert repr(result) == "a loop over the rows is under way"
    db.execute("SELECT 1")  # which detaches it
    assert result.fetchall() == [(1,), (2,), (3,), (4,)]
    assert result.arrow().num_rows == 0


@pytest.mark.parametrize("query", ["SELECT i FROM range(5) t(i)", "SELECT i FROM n WHERE i >= 0"])
def test_fetchmany_takes_a_number_of_rows(db: ivm.Database, query: str) -> None:
    db.execute("CREATE TABLE n (i INTEGER PRIMARY KEY); INSERT INTO n FROM range(5)")
    for size in (-1, 2**70, "x", 1.5):
        with pytest.raises(InputError, match="a number of rows"):
            db.execute(query).fetchmany(size)  # type: ignore[arg-type]


@pytest.mark.parametrize("explain", ["EXPLAIN ANALYZE", "EXPLAIN (ANALYZE, FORMAT json)"])
def test_what_is_explained_as_it_is_created_has_its_plan(explain: str) -> None:
    with ivm.connect() as db:
        result = db.execute(f"{explain} CREATE TABLE made AS SELECT 5 AS a")
        assert result.columns == ["explain_key", "explain_value"]
        assert result.fetchall()[0][0] == "analyzed_plan"
        assert db.execute("FROM made").fetchall() == [(5,)]
