"""Defaults that are evaluated for each row: sequences, the time, random values, without capture."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm import errors
from tests.support.duckdb_twin import Twin, watched
from tests.tiers import examples

TABLES = """
CREATE SEQUENCE s; CREATE SEQUENCE down START 5 INCREMENT -2 MINVALUE -1000 MAXVALUE 9;
CREATE SCHEMA z; CREATE SEQUENCE z.s START 100 INCREMENT 10;
CREATE TABLE t (id BIGINT PRIMARY KEY DEFAULT nextval('s'), n TINYINT CHECK (n < 100),
                d INTEGER NOT NULL DEFAULT nextval('down'),
                o VARCHAR DEFAULT ('o-' || nextval('Z.S')));
CREATE TABLE z.t (id INTEGER DEFAULT nextval('s'), n INTEGER);
"""
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c, max(id) AS id FROM t GROUP BY n"
NAMES = ("t", "z.t")
FAST: list[tuple[str, Any]] = [
    ("INSERT INTO t (n) VALUES (1), (2), (3)", None),
    ("INSERT INTO t (n, d) VALUES (?, ?) RETURNING *", [4, 7]),
    ("INSERT INTO t (n, o) VALUES (5, NULL) RETURNING id, d", None),
    ("INSERT OR REPLACE INTO t (n, id) VALUES (6, 3), (7, 90) RETURNING *", None),
    ("INSERT OR IGNORE INTO t (id, n) VALUES (1, 1), (2, 1)", None),
    ("INSERT INTO t (n) VALUES (8) ON CONFLICT (id) DO NOTHING RETURNING id", None),
    ("INSERT INTO t (id, n) VALUES (2, 9) ON CONFLICT DO UPDATE SET n = t.n + 1", None),
    ("INSERT INTO z.t (n) VALUES (1), (2) RETURNING *", None),
    ("UPDATE t SET n = n + 1 WHERE id = 2", None),
    ("DELETE FROM t WHERE id = 3", None),
]
NATIVE: list[tuple[str, Any]] = [
    ("INSERT INTO t (n) SELECT i FROM range(3) r(i)", None),
    ("INSERT INTO z.t (id) VALUES (nextval('s'))", None),
    ("INSERT INTO t (id, n) VALUES (2, 9) ON CONFLICT DO UPDATE SET n = (SELECT 1)", None),
    ("UPDATE t SET d = DEFAULT WHERE id = 2", None),
    ("DELETE FROM t WHERE n = 8", None),
]
QUERIES = ("SELECT nextval('s')", "SELECT nextval('z.s') FROM range(3)", "SELECT setval('s', 500)")
WRONG: list[tuple[str, Any]] = [
    ("INSERT INTO t (n) VALUES (1), (100)", None),
    ("INSERT INTO t (id, n) VALUES (NULL, 1)", None),
    ("INSERT INTO t (n, d) VALUES (1, NULL)", None),
    ("INSERT INTO t (id, n) VALUES (700, 1), (700, 2)", None),
    ("INSERT INTO t (id, n) VALUES (701, 200) ON CONFLICT DO NOTHING", None),
    ("INSERT INTO t (id, n) VALUES (701, 101) ON CONFLICT DO UPDATE SET d = 1", None),
]


def twin(path: Path | None = None) -> Twin:
    return Twin(TABLES, VIEW, NAMES, path)


def check(both: Twin) -> None:
    both.check()
    for name in ("s", "down", "z.s"):
        both.run(f"SELECT currval('{name}')")


@pytest.mark.full
@pytest.mark.cases(4)
@pytest.mark.parametrize(("sql", "params"), FAST)
def test_no_capture_is_needed(sql: str, params: Any) -> None:
    both = twin()
    with watched() as seen:
        for _ in range(2):
            assert both.run("INSERT INTO t (n) VALUES (0), (0), (0), (0)")
            assert both.run(sql, params)
            both.run("BEGIN")
            assert both.run(sql, params)
            assert both.run("INSERT INTO t (n) VALUES (0)")
            both.run("ROLLBACK")
        assert seen == []
    check(both)


@pytest.mark.full
@pytest.mark.cases(3)
@pytest.mark.parametrize(("sql", "params"), WRONG)
def test_what_duckdb_refuses_uses_up_what_it_uses_up(sql: str, params: Any) -> None:
    both = twin()
    assert both.run("INSERT INTO t (n) VALUES (1)")
    assert not both.run(sql, params)
    check(both)
    assert both.run("INSERT INTO t (n) VALUES (1) RETURNING *")


statements = st.lists(
    st.one_of(
        st.sampled_from([*FAST, *FAST, *NATIVE, *WRONG]),
        st.sampled_from([(sql, None) for sql in QUERIES]),
    ),
    max_size=7,
)


@pytest.mark.full
@settings(max_examples=examples(15), deadline=None)
@given(
    history=st.lists(st.tuples(st.booleans(), statements), max_size=4),
    many=st.booleans(),
    data=st.data(),
)
def test_any_history_draws_what_duckdb_draws(
    tmp_path_factory: pytest.TempPathFactory,
    history: list[tuple[bool, Any]],
    many: bool,
    data: st.DataObject,
) -> None:
    stored = data.draw(st.booleans())  # in a file, where each value drawn is synced
    both = twin(tmp_path_factory.mktemp("twin") / "t.duckdb" if stored else None)
    if many:  # before others set the sequences back: DuckDB draws for one row after the other
        both.db.executemany("INSERT INTO t (n) VALUES (?)", [[i] for i in range(5)])
        both.duck.executemany("INSERT INTO t (n) VALUES (?)", [[i] for i in range(5)])
        both.db.insert("t", {"n": [6, 7]})
        both.duck.execute("INSERT INTO t (n) VALUES (6), (7)")
    for keep, chosen in history:
        both.run("BEGIN")
        going = all(both.run(sql, params) for sql, params in chosen)
        both.run("COMMIT" if keep and going else "ROLLBACK")
        for sql, params in chosen[:2]:
            both.run(sql, params)
        check(both)
    if stored:
        both.reopen()
        check(both)
    both.db.close()


LEFT = """
CREATE SEQUENCE s;
CREATE TABLE p (id BIGINT PRIMARY KEY); INSERT INTO p FROM range(5);
CREATE TABLE t (id BIGINT PRIMARY KEY DEFAULT nextval('s'), u INTEGER UNIQUE, n INTEGER,
                p BIGINT REFERENCES p (id));
INSERT INTO t (u, n) SELECT i, i FROM range(3) r(i);
"""
Rows = list[tuple[Any, ...]]
LEFT_ALONE: list[tuple[str, str, Rows | None]] = [
    ("", "(10, 1), (10, 2) ON CONFLICT (u) DO UPDATE SET n = t.n + 1", None),
    ("", "(?, ?) ON CONFLICT DO NOTHING", [(30, 1), (30, 2), (31, 1)]),
    ("", "(?, ?) ON CONFLICT (u) DO UPDATE SET n = excluded.n", [(1, 1), (30, 2), (30, 1)]),
    ("UPDATE t SET n = n + 1 WHERE n > 0 OR u > 5", "(20, 1)", None),
    ("DELETE FROM t WHERE n > 0 AND u < 9", "(2, 1), (3, 4)", None),
    ("UPDATE t SET n = n + 1 WHERE n > 0 OR u > 5", "(?, ?)", [(20, 1), (21, 2)]),
    ("UPDATE t SET n = 3 WHERE n > 0 OR u > 5", "(?, 1) ON CONFLICT DO NOTHING", [(20,), (1,)]),
]


@pytest.mark.cases(3)
@pytest.mark.parametrize(("before", "values", "rows"), LEFT_ALONE)
def test_what_is_left_to_duckdb_has_drawn_nothing(
    before: str, values: str, rows: Rows | None
) -> None:
    both, sql = Twin(LEFT, VIEW, ("t", "p")), f"INSERT INTO t (u, n) VALUES {values}"
    for db in (both.db, both.duck):
        db.execute("BEGIN")
        if before:
            db.execute(before)
        if rows is None:
            db.execute(sql)
        else:
            db.executemany(sql, rows)
        db.execute("COMMIT")
    both.check()
    assert both.run("SELECT nextval('s')")


def test_rows_in_each_others_way_are_left_to_duckdb() -> None:
    """Of these it keeps now one, now the other, and so now one number of the sequence."""
    both = Twin(LEFT, VIEW, ("t", "p"))
    for db in (both.db, both.duck):
        db.execute("BEGIN; INSERT INTO t (u, n) VALUES (10, 1), (10, 1) ON CONFLICT DO NOTHING")
        db.execute("UPDATE t SET id = 90 WHERE u = 10; COMMIT")
    both.check()
    assert both.run("SELECT nextval('s')")


def test_many_rows_that_are_refused_draw_as_far_as_they_are_taken() -> None:
    both = Twin(LEFT, VIEW, ("t", "p"))
    sql = "INSERT INTO t (u, p) VALUES (?, ?)"
    for rows in ([(30, 1), (30, 2), (31, 3)], [(40, 1), (41, 9)], [(50, None), (1, None)]):
        for db in (both.db, both.duck):
            db.execute("BEGIN")
            with pytest.raises((duckdb.Error, errors.ConstraintError)):
                db.executemany(sql, rows)
            db.execute("ROLLBACK")
        assert both.run("SELECT nextval('s')")
    both.check()


@pytest.mark.full
def test_upsert_by_call_keeps_what_is_stored() -> None:
    with ivm.connect() as db:
        db.execute("CREATE SEQUENCE s")
        db.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT DEFAULT nextval('s'), m INT)")
        db.upsert("t", [{"id": 1, "m": 1}, {"id": 2, "m": 2}])
        db.upsert("t", [{"id": 2, "m": 5}, {"id": 3, "m": 3}])
        assert db.execute("FROM t ORDER BY id").fetchall() == [(1, 1, 1), (2, 2, 5), (3, 4, 3)]


CRASH = """
import ivm, os, sys
db = ivm.connect(sys.argv[1])
if sys.argv[2] == "first":
    db.execute("CREATE SEQUENCE s; CREATE TABLE t (id INT PRIMARY KEY DEFAULT nextval('s'), n INT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS c, sum(id) AS i FROM t")
for i in range(7):
    print(db.execute("INSERT INTO t (n) VALUES (?) RETURNING id", [i]).fetchall()[0][0])
    if i == 3:
        db.execute("FROM t").fetchall()
db.execute("BEGIN")
db.execute("INSERT INTO t (n) VALUES (9)")
sys.stdout.flush()
os.kill(os.getpid(), 9)
"""


@pytest.mark.full(smoke=1)
def test_no_value_is_given_twice_after_a_crash(tmp_path: Path) -> None:
    given: list[int] = []
    for turn in ("first", "second", "third"):
        command = [sys.executable, "-c", CRASH, str(tmp_path / "t.duckdb"), turn]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == -9, done.stderr
        given += map(int, done.stdout.split())
    assert len(set(given)) == 21
    with ivm.connect(tmp_path / "t.duckdb") as db:
        assert db.execute("SELECT id FROM t ORDER BY 1").fetchall() == [(i,) for i in sorted(given)]
        assert db.execute("FROM v").fetchall() == [(21, sum(given))]
        (drawn,) = db.execute("INSERT INTO t (n) VALUES (1) RETURNING id").fetchall()
        assert drawn[0] > max(given)


CLOCKS = """
CREATE TABLE t (i INTEGER, a TIMESTAMPTZ DEFAULT now(), b TIMESTAMP DEFAULT current_timestamp,
    c DATE DEFAULT current_date, d TIMESTAMP DEFAULT localtimestamp, e TIME DEFAULT localtime,
    f TIMETZ DEFAULT current_time, g DATE DEFAULT today(), h VARCHAR DEFAULT now()::DATE::VARCHAR,
    j UUID DEFAULT uuid(), k DOUBLE DEFAULT random());
CREATE TABLE other (n INTEGER);
"""
TOLD = """SELECT now(), now()::TIMESTAMP, current_date, localtimestamp, localtime, current_time,
    today(), now()::DATE::VARCHAR"""


def test_a_transaction_has_one_time_that_of_its_begin() -> None:
    with ivm.connect() as db, watched() as seen:
        db.execute(CLOCKS)
        db.execute("SET TimeZone = 'Asia/Tokyo'")
        early = dt.datetime.now(dt.UTC)
        db.execute("BEGIN")
        late = dt.datetime.now(dt.UTC)
        time.sleep(0.05)
        for i in range(3):
            db.execute("INSERT INTO t (i) VALUES (?), (?)", [i, i])
            db.insert("t", {"i": [i]})
        assert seen == []
        told = db.execute(TOLD).fetchall()
        db.execute("INSERT INTO t (i) SELECT 7")
        rows = db.execute("SELECT a, b, c, d, e, f, g, h FROM t").fetchall()
        assert rows == told * 10
        assert early <= told[0][0] <= late
        assert len(db.execute("SELECT DISTINCT j, k FROM t").fetchall()) == 10
        db.execute("COMMIT")
        assert db.execute("SELECT a, b, c, d, e, f, g, h FROM t").fetchall() == told * 10
        db.execute("INSERT INTO t (i) VALUES (1), (1)")
        assert len(db.execute("SELECT DISTINCT a FROM t").fetchall()) == 2
        assert len(seen) == 1


@pytest.mark.full
def test_the_transactions_snapshot_is_not_that_of_its_time() -> None:
    """What other threads flush after BEGIN is there when the transaction begins to read."""
    with ivm.connect() as db:
        db.execute(CLOCKS)
        db.execute("INSERT INTO other VALUES (1)")
        db.execute("BEGIN")
        db.insert("t", {"i": ["1", "2"]})  # DuckDB casts them
        db.insert("t", {"i": [3]})
        db._engine.tables.flush()
        assert db.execute("SELECT count(*) FROM other").fetchall() == [(1,)]
        assert db.execute("SELECT count(*), count(DISTINCT b) FROM t").fetchall() == [(3, 1)]
        with pytest.raises(errors.IvmError):
            db.execute("INSERT INTO t (i) VALUES ('x')")
        db.execute("ROLLBACK")
        db.execute("BEGIN; INSERT INTO t (i) VALUES (1); COMMIT")
        assert db.execute("SELECT count(*) FROM t").fetchall() == [(1,)]


@pytest.mark.full
def test_an_exhausted_sequence_is_duckdbs_error() -> None:
    both = Twin(
        "CREATE SEQUENCE s MAXVALUE 3; CREATE TABLE t (i INT DEFAULT nextval('s'), n INT)",
        "CREATE MATERIALIZED VIEW v AS SELECT sum(i) AS i FROM t",
    )
    assert both.run("INSERT INTO t (n) VALUES (1), (2)")
    assert not both.run("INSERT INTO t (n) VALUES (1), (2)")
    both.check()


def test_explain_says_that_defaults_are_evaluated() -> None:
    with ivm.connect() as db:
        db.execute(TABLES)
        told = db.execute("EXPLAIN INSERT INTO t (n) VALUES (1)").fetchall()[-1][1]
        assert "the defaults of id, d, o are evaluated by DuckDB" in told
        assert db.execute("SELECT nextval('s')").fetchall() == [(1,)]
        told = db.execute("EXPLAIN INSERT INTO t VALUES (1, 2, 3, 'a')").fetchall()[-1][1]
        assert "evaluated" not in told


@pytest.mark.full
def test_explain_says_when_duckdb_tells_the_time() -> None:
    insert = "EXPLAIN INSERT INTO t (i) VALUES (1)"
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (i INT, a DATE DEFAULT today(), b TIMESTAMP DEFAULT now())")
        assert "evaluated" not in db.execute(insert).fetchall()[-1][1]
        db.execute("BEGIN")
        told = "the defaults of a, b are evaluated by DuckDB"
        assert told in db.execute(insert).fetchall()[-1][1]
        db.execute("COMMIT; ALTER TABLE t ADD COLUMN u UUID DEFAULT uuid()")
        told = "the defaults of u are evaluated by DuckDB"
        assert told in db.execute(insert).fetchall()[-1][1]
        db.execute("ALTER TABLE t ADD COLUMN c TIME DEFAULT current_localtime()")
        told = "the defaults of a, b, u, c are evaluated by DuckDB"
        assert told in db.execute(insert).fetchall()[-1][1]


@pytest.mark.full
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("CREATE SEQUENCE s", "CREATE TEMP SEQUENCE s START 500"),
        ("CREATE SEQUENCE s", "CREATE SEQUENCE temp.S"),
        ("CREATE TEMPORARY SEQUENCE s", "CREATE SEQUENCE IF NOT EXISTS s"),
    ],
)
def test_no_temporary_sequence_hides_the_one_of_a_default(first: str, second: str) -> None:
    with ivm.connect() as db:
        db.execute(first)
        with pytest.raises(errors.UnsupportedError, match="a name of its own"):
            db.execute(second)
        db.execute("CREATE TEMP SEQUENCE mine; CREATE SEQUENCE theirs")
