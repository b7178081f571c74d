"""Appenders write rows in batches, lose none of them, and tell of errors."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import ivm
from ivm.appender import Appender
from ivm.errors import ConstraintError, InputError, SqlError, UnavailableError
from tests.support.view_oracle import assert_verified
from tests.tiers import examples

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER DEFAULT 7, s VARCHAR)"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c FROM t GROUP BY n"
WAIT = 50.0
LATE = 1e6  # seconds: no batch is written for its age


@pytest.fixture
def db() -> Iterator[ivm.Database]:
    with ivm.connect() as db:
        db.execute(TABLE)
        db.execute(VIEW)
        yield db


def ids(db: ivm.Database) -> list[int]:
    return [i for (i,) in db.execute("SELECT id FROM t ORDER BY id").fetchall()]


@pytest.mark.full
def test_each_batch_is_one_epoch(db: ivm.Database) -> None:
    before = db.epoch
    with db.appender("t", ["id", "s"], batch_rows=10, max_age=LATE) as appender:
        for i in range(25):
            appender.append(i, f"s{i}")
    assert db.epoch == before + 3
    assert ids(db) == list(range(25))
    assert db.execute("SELECT DISTINCT n FROM t").fetchall() == [(7,)]
    assert_verified(db)


def test_a_row_is_written_for_its_age(db: ivm.Database) -> None:
    feed = db.subscribe("v")
    with db.appender("t", max_age=0.01) as appender:
        appender.append_row({"id": 1, "n": 2, "s": None})
        epoch, _ = next(iter(feed))
        assert epoch == db.epoch
        assert ids(db) == [1]


def test_names_of_a_row_have_no_case(db: ivm.Database) -> None:
    """Bug: `insert` took them so, and `append_row` did not."""
    with db.appender("t", ["ID", "n"]) as appender:
        for row in ({"id": 1, "N": 2}, {"n": 3, "Id": 2}, {"ID": 3, "n": 4}):
            appender.append_row(row)
        wrong: list[Any] = [{"id": 9, "ID": 9}, {"id": 9, "n": 1, "N": 2}, {"id": 9, 5: 1}]
        for row in wrong:
            with pytest.raises(InputError, match="the columns ID, n here"):
                appender.append_row(row)
    assert db.execute("SELECT id, n FROM t ORDER BY id").fetchall() == [(1, 2), (2, 3), (3, 4)]


def test_flush_waits_for_the_rows(db: ivm.Database) -> None:
    with db.appender("main.t", max_age=LATE) as appender:
        for i in range(3):
            appender.append_row([i, i, "x"])
            appender.flush()
            assert ids(db) == list(range(i + 1))
        appender.flush()


def test_an_error_is_told_by_the_next_call(db: ivm.Database) -> None:
    db.execute("INSERT INTO t VALUES (1, 1, 'first')")
    appender = db.appender("t", max_age=LATE)
    appender.append(2, 2, "a")
    appender.append(1, 2, "b")
    with pytest.raises(ConstraintError, match="Duplicate key"):
        appender.flush()
    assert appender.refused == [(2, 2, "a"), (1, 2, "b")]
    appender.append(3, 3, "c")
    appender.close()
    appender.close()
    assert ids(db) == [1, 3]
    with pytest.raises(UnavailableError, match="closed"):
        appender.append(4, 4, "d")
    with pytest.raises(UnavailableError, match="closed"):
        appender.flush()


def test_an_error_is_told_at_the_end(db: ivm.Database) -> None:
    with pytest.raises(ConstraintError), db.appender("t", max_age=LATE) as appender:
        appender.append(1, "no number", "a")
    assert appender.refused == [(1, "no number", "a")]
    other = db.appender("t", max_age=LATE)
    other.append(None, 1, "a")
    with pytest.raises(KeyError) as raised, other:
        raise KeyError
    assert "batch was refused" in raised.value.__notes__[0]


def test_what_is_no_row_is_refused_at_once(db: ivm.Database) -> None:
    with db.appender("t") as appender:
        with pytest.raises(InputError, match="3 values"):
            appender.append(1)
        with pytest.raises(InputError, match="the columns id, n, s"):
            appender.append_row({"id": 1})
        for row in (5, None, "123", iter([1, 2, "a"])):
            with pytest.raises(InputError, match="given as a list, tuple or dict"):
                appender.append_row(cast(Any, row))
    assert ids(db) == []
    with pytest.raises(SqlError):
        db.appender("nowhere")
    wrong: list[Any] = [["nope"], ["id", "ID"], [], [1], "ns"]
    for columns in wrong:
        with pytest.raises(InputError, match="columns"):
            db.appender("t", columns)
    others: list[Any] = [{"batch_rows": 0}, {"max_age": None}, {"max_age": "1"}]
    for numbers in others:
        with pytest.raises(InputError, match="numbers above 0"):
            db.appender("t", **numbers)


def test_it_does_not_wait_for_its_own_thread(db: ivm.Database) -> None:
    appender = db.appender("t", batch_rows=1, max_age=LATE)
    db.execute("BEGIN; INSERT INTO t VALUES (100, 1, 'x')")

    def fill() -> None:
        for i in range(100):
            appender.append(i, 1, "a")

    with pytest.raises(InputError, match="transaction"):
        fill()
    with pytest.raises(InputError, match="transaction"):
        appender.flush()
    with pytest.raises(InputError, match="transaction"):
        appender.close()
    db.execute("ROLLBACK")
    appender.close()
    assert ids(db) == list(range(len(ids(db))))
    assert len(ids(db)) >= 4


def test_times_are_read_in_the_zone_of_the_session_that_made_it(db: ivm.Database) -> None:
    """Bug: they were read in the zone of the database."""
    db.execute("CREATE TABLE times (n INTEGER, ts TIMESTAMPTZ); SET TimeZone = 'Asia/Kathmandu'")
    values = [datetime(2020, 1, 1, 10), "2020-01-01 10:00:00", date(2020, 1, 1)]
    db.insert("times", {"n": [0, 1, 2], "ts": values})
    with db.appender("times", batch_rows=1) as appender:
        for n, value in enumerate(values):
            appender.append(n, value)
    found = db.execute("SELECT n, count(*), count(DISTINCT ts) FROM times GROUP BY n").fetchall()
    assert sorted(found) == [(0, 2, 1), (1, 2, 1), (2, 2, 1)]


def test_a_value_is_what_it_was_when_it_was_appended(db: ivm.Database) -> None:
    """Bug: a list or array that was filled anew for each row had its last values in all of them."""
    db.execute("CREATE TABLE points (n INTEGER, xy DOUBLE[2], l VARCHAR[])")
    xy, words = np.zeros(2), ["", ""]
    with db.appender("points", max_age=LATE) as appender:
        for n in range(3):
            xy[:] = n
            words[1] = str(n)
            appender.append(n, xy, words)
    found = db.execute("SELECT xy[1], l[2] FROM points ORDER BY n").fetchall()
    assert found == [(0.0, "0"), (1.0, "1"), (2.0, "2")]


@pytest.mark.full
def test_rows_may_wait_for_ever(db: ivm.Database) -> None:
    """Bug: the thread ended, and `flush` and `close` waited for it."""
    with db.appender("t", max_age=float("inf")) as appender:
        appender.append(1, 1, "a")
        time.sleep(0.05)
        assert appender._writer.is_alive()
        appender.flush()
        assert ids(db) == [1]


def test_many_threads_append(db: ivm.Database) -> None:
    with db.appender("t", batch_rows=7, max_age=0.001) as appender:

        def work(first: int) -> None:
            for i in range(first, first + 200):
                appender.append(i, i % 3, "x")

        threads = [threading.Thread(target=work, args=(200 * k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert ids(db) == list(range(800))
    assert_verified(db)


@pytest.mark.full
def test_closing_the_database_writes_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    with ivm.connect(path) as db:
        db.execute(TABLE)
        db.appender("t", max_age=LATE).append(1, 1, "a")
        bad = db.appender("t", max_age=LATE)
        bad.append(2, "no number", "b")
        db.execute("BEGIN; INSERT INTO t VALUES (1, 1, 'rolled back')")
        with pytest.raises(ConstraintError):
            db.close()
    assert bad.refused == [(2, "no number", "b")]
    with ivm.connect(path) as db:
        assert ids(db) == [1]


@pytest.mark.full
def test_a_program_that_ends_writes_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    program = f"""
        import ivm
        db = ivm.connect({str(path)!r})
        db.execute({TABLE!r})
        db.appender("t", max_age=1e6).append(1, 1, "a")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
    with ivm.connect(path) as db:
        assert ids(db) == [1]


def appending(appender: Appender, taken: list[int], first: int) -> threading.Thread:
    """A thread that appends rows for as long as they are taken."""

    def work() -> None:
        with contextlib.suppress(UnavailableError):
            for i in itertools.count(first):
                appender.append(i, i % 3, "x")
                taken.append(i)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.full
@pytest.mark.parametrize("by_database", [False, True])
def test_what_was_taken_beside_the_closing_is_written(tmp_path: Path, by_database: bool) -> None:
    """Bug: rows that came while `close` waited were neither written nor refused."""
    path = tmp_path / "t.duckdb"
    for _ in range(examples(20)):
        with ivm.connect(path) as db:
            db.execute("DROP TABLE IF EXISTS t CASCADE; " + TABLE)
            appender, taken = db.appender("t", batch_rows=500), list[int]()
            threads = [appending(appender, taken, first) for first in (0, 10**6)]
            while len(taken) < 2000:
                time.sleep(0.001)
            (db if by_database else appender).close()
            for thread in threads:
                thread.join(WAIT)
        with ivm.connect(path) as db:
            assert (ids(db), appender.refused) == (sorted(taken), [])


def test_appenders_are_made_beside_the_closing_or_refused() -> None:
    """Bugs: the set of appenders changed while it was walked through, which left the database open;
    an appender made then could be closed no more."""
    for _ in range(examples(20)):
        db, made = ivm.connect(), list[Appender]()
        db.execute(TABLE)

        def make(db: ivm.Database = db, made: list[Appender] = made) -> None:
            with contextlib.suppress(UnavailableError):
                while True:
                    made.append(db.appender("t"))

        threads = [threading.Thread(target=make, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        while len(made) < 10:
            time.sleep(0.001)
        db.close()
        for thread in threads:
            thread.join(WAIT)
        for each in made:
            each._writer.join(WAIT)
            assert not each._writer.is_alive()


def test_an_appender_of_a_closed_database_refuses_its_rows_and_ends() -> None:
    db = ivm.connect()
    db.execute(TABLE)
    appender = db.appender("t", max_age=LATE)
    appender.append(1, 1, "a")
    db._lifetime.close()
    with pytest.raises(UnavailableError, match="database is closed"):
        appender.close()
    assert appender.refused == [(1, 1, "a")]
    appender._writer.join(WAIT)
    assert not appender._writer.is_alive()


@pytest.mark.full
def test_a_program_that_ends_in_a_transaction_writes_what_was_appended_before(
    tmp_path: Path,
) -> None:
    """Bug: the appender refused to be closed, and its rows were lost."""
    path = tmp_path / "t.duckdb"
    program = f"""
        import ivm
        db = ivm.connect({str(path)!r})
        db.execute({TABLE!r})
        db.appender("t", max_age=1e6).append(1, 1, "a")
        db.execute("BEGIN; INSERT INTO t VALUES (2, 2, 'b')")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
    with ivm.connect(path) as db:
        assert ids(db) == [1]


@pytest.mark.full
def test_a_forked_child_appends_nothing(tmp_path: Path) -> None:
    """Bug: its rows had no thread, and were lost in silence, and closing it waited for a minute."""
    program = f"""
        import os, ivm
        db = ivm.connect({str(tmp_path / "t.duckdb")!r})
        db.execute({TABLE!r})
        with db.appender("t", max_age=1e6) as appender:
            appender.append(1, 1, "a")
            if not (child := os.fork()):
                try:
                    appender.append(2, 2, "b")
                except ivm.errors.UnavailableError:
                    appender.close()
                    os._exit(7)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        print(db.execute("SELECT id FROM t").fetchall())
    """
    run = [sys.executable, "-c", textwrap.dedent(program)]
    assert subprocess.check_output(run, text=True, timeout=WAIT) == "[(1,)]\n"
