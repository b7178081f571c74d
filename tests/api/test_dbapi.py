"""PEP 249: the module's names, connections and cursors, errors, and transactions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import ivm
from ivm.integrations import dbapi


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as database:
        database.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR)")
        yield database


@pytest.mark.parametrize("module", [ivm, dbapi])
def test_the_module_has_the_names(module: object) -> None:
    names = ("connect", "apilevel", "threadsafety", "paramstyle", "Warning", "Error")
    errors = ("DatabaseError", "DataError", "OperationalError", "IntegrityError", "InternalError")
    for name in (*names, *errors, "ProgrammingError", "NotSupportedError", "InterfaceError"):
        assert hasattr(module, name), name
    assert issubclass(ivm.Warning, Exception)
    for name in (*errors, "ProgrammingError", "NotSupportedError"):
        assert issubclass(getattr(module, name), ivm.DatabaseError)
    assert issubclass(ivm.InterfaceError, ivm.Error)


def test_a_cursor(db: ivm.Database) -> None:
    with db.cursor() as cursor:
        assert cursor.description is None
        assert cursor.rowcount == -1
        cursor.execute("INSERT INTO t VALUES (?, ?), (2, 'y'), (3, NULL)", [1, "x"])
        assert (cursor.rowcount, cursor.description) == (3, None)
        cursor.execute("SELECT a, b FROM t ORDER BY a")
        assert cursor.description is not None
        assert [column[0] for column in cursor.description] == ["a", "b"]
        assert all(len(column) == 7 for column in cursor.description)
        assert cursor.description[0][1] == ivm.NUMBER
        assert cursor.description[1][1] == ivm.STRING
        assert cursor.fetchone() == (1, "x")
        assert cursor.fetchmany() == [(2, "y")]
        cursor.arraysize = 5
        assert cursor.fetchmany() == [(3, None)]
        assert cursor.fetchone() is None
        assert list(cursor.execute("FROM t ORDER BY a")) == [(1, "x"), (2, "y"), (3, None)]
        assert cursor.execute("FROM t").df().shape == (3, 2)
        cursor.setinputsizes([1])
        cursor.setoutputsize(1)
    with pytest.raises(ivm.InterfaceError, match="closed"):
        cursor.execute("SELECT 1")
    with pytest.raises(ivm.InterfaceError, match="no rows"):
        db.cursor().fetchall()
    with pytest.raises(AttributeError):
        _ = db.cursor().nothing


def test_executemany_is_one_transaction(db: ivm.Database) -> None:
    cursor = db.cursor()
    before = db.epoch
    cursor.executemany("INSERT INTO t VALUES (?, ?)", [(1, "x"), (2, "y")])
    assert (cursor.rowcount, db.epoch) == (2, before + 1)
    with pytest.raises(ivm.IntegrityError):
        cursor.executemany("INSERT INTO t VALUES (?, ?)", [(3, "z"), (1, "x")])
    assert db.execute("SELECT count(*) FROM t").fetchall() == [(2,)]
    cursor.executemany("INSERT INTO t VALUES (?, ?)", [])
    assert cursor.rowcount in (-1, 0)


def test_two_cursors_have_results_of_their_own(db: ivm.Database) -> None:
    one, two = db.cursor(), db.cursor()
    one.execute("FROM range(5000)")
    assert one.fetchone() == (0,)
    two.execute("SELECT 7")
    assert (two.fetchall(), len(one.fetchall())) == ([(7,)], 4999)


def test_begin_commit_and_rollback(db: ivm.Database) -> None:
    db.commit()  # nothing to end
    db.rollback()
    db.begin()
    db.execute("INSERT INTO t VALUES (1, 'x')")
    db.rollback()
    assert not db.in_transaction
    db.begin()
    db.execute("INSERT INTO t VALUES (2, 'x')")
    db.commit()
    assert db.execute("FROM t").fetchall() == [(2, "x")]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("SELEC", "ProgrammingError"),
        ("SELECT nope", "ProgrammingError"),
        ("INSERT INTO t VALUES (NULL, 'x')", "IntegrityError"),
        ("SELECT CAST('x' AS INTEGER)", "DataError"),
        ("USE memory", "NotSupportedError"),
    ],
)
def test_errors_by_their_names(db: ivm.Database, statement: str, error: str) -> None:
    with pytest.raises(getattr(ivm, error)):
        db.cursor().execute(statement).fetchall()


def test_pandas_reads_by_a_cursor(db: ivm.Database) -> None:
    db.execute("INSERT INTO t VALUES (1, 'x')")
    with pytest.warns(UserWarning, match="SQLAlchemy"):
        frame = pd.read_sql("SELECT * FROM t WHERE a = ?", db, params=[1])
    assert frame.to_dict("list") == {"a": [1], "b": ["x"]}


def test_a_duplicate_is_a_session_of_its_own(db: ivm.Database) -> None:
    with db.duplicate() as other:
        other.begin()
        other.execute("INSERT INTO t VALUES (1, 'x')")
        other.execute("CREATE TEMP TABLE own (a INTEGER)")
        assert db.execute("FROM t").fetchall() == []
        found: list[object] = []
        thread = threading.Thread(target=lambda: found.append(other.execute("FROM t").fetchall()))
        thread.start()
        thread.join()
        assert found == [[(1, "x")]]  # one session, whatever thread calls
        other.commit()
        assert db.execute("FROM t").fetchall() == [(1, "x")]
        other.begin()
        other.execute("DELETE FROM t")
    with pytest.raises(ivm.OperationalError, match="closed"):
        other.execute("SELECT 1")
    other.close()
    assert db.execute("FROM t").fetchall() == [(1, "x")]


def test_connections_begin_at_their_first_change(tmp_path: Path) -> None:
    one, two = dbapi.connect(tmp_path / "shop.duckdb"), dbapi.connect(tmp_path / "shop.duckdb")
    with one.cursor() as cursor:
        cursor.execute("CREATE TABLE t (a INTEGER)")
        one.commit()
        cursor.execute("SELECT * FROM t").fetchall()
        assert not one.in_transaction  # what only reads holds up nobody
        cursor.execute("INSERT INTO t VALUES (1)")
        assert one.in_transaction
        assert two.cursor().execute("FROM t").fetchall() == []
        one.rollback()
        cursor.execute("INSERT INTO t VALUES (2)")
        one.commit()
        assert two.cursor().execute("FROM t").fetchall() == [(2,)]
        one.autocommit = True
        cursor.execute("INSERT INTO t VALUES (3)")
        assert not one.in_transaction
    with pytest.raises(ivm.OperationalError, match="already open"):
        ivm.connect(tmp_path / "shop.duckdb")
    one.close()
    one.close()
    two.cursor().execute("DELETE FROM t")
    two.close()
    with ivm.connect(tmp_path / "shop.duckdb") as db:  # the last one has closed the file
        assert db.execute("SELECT count(*) FROM t").fetchall() == [(2,)]
        joined = dbapi.connect(tmp_path / "shop.duckdb")
        assert joined.cursor().execute("SELECT count(*) FROM t").fetchall() == [(2,)]
        joined.close()
        assert db.execute("SELECT 1").fetchall() == [(1,)]
    late = dbapi.connect(tmp_path / "shop.duckdb")
    late.cursor().execute("DELETE FROM t")
    late.close()
    late.rollback()  # as pools do at the end of the program
    memory = dbapi.connect()
    memory.cursor().execute("CREATE TABLE t (a INTEGER)")
    with pytest.raises(ivm.ProgrammingError):
        dbapi.connect().cursor().execute("FROM t")
    memory.close()
