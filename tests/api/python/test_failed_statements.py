"""A failed statement costs itself and, as in DuckDB, its transaction; nothing after it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import ivm
from ivm import errors

SCHEMA = (
    "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)",
    "CREATE TABLE words (w VARCHAR)",
    "INSERT INTO words SELECT i::VARCHAR FROM range(3000) r(i)",
    "INSERT INTO words VALUES ('no number')",
)
VIEW = "CREATE MATERIALIZED VIEW total AS SELECT count(*) AS c, sum(n) AS n FROM t"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[ivm.Database]:
    with ivm.connect(tmp_path / "failed.duckdb") as opened:
        for sql in (*SCHEMA, VIEW):
            opened.execute(sql)
        yield opened


FAILING = [
    "SELEC 1",
    "SELECT missing FROM t",
    "SELECT * FROM nowhere",
    "SELECT 'x'::INTEGER",
    "SELECT w::INTEGER FROM words",
    "SELECT w::INTEGER FROM words, t",
    "SELECT ?",
    "EXPLAIN SELECT missing FROM t",
    "DESCRIBE nowhere",
    "SET nothing_known = 1",
    "EXECUTE nothing",
    "INSERT INTO t VALUES (1, 1)",
    "INSERT INTO t VALUES ('x', 1)",
    "INSERT INTO nowhere VALUES (1)",
    "UPDATE t SET missing = 1",
    "UPDATE t SET n = w::INTEGER FROM words",
    "DELETE FROM t WHERE missing = 1",
    "DROP TABLE nowhere",
    "INSERT INTO t VALUES (7, 7) RETURNING * EXCLUDE (id, n)",
    "UPDATE t SET n = 8 RETURNING * EXCLUDE (id, n)",
    "DELETE FROM t RETURNING * EXCLUDE (id, n)",
    "BEGIN",
]


def outcome(run: Callable[[str], Any], sql: str) -> bool:
    """Whether it succeeds, its rows read."""
    try:
        run(sql).fetchall()
    except (errors.IvmError, duckdb.Error):
        return False
    return True


@pytest.mark.full
def test_a_failed_statement_leaves_nothing_behind(db: ivm.Database) -> None:
    duck = duckdb.connect()
    for sql in (*SCHEMA, "INSERT INTO t VALUES (1, 10)"):
        duck.execute(sql)
    db.execute("INSERT INTO t VALUES (1, 10)")
    for number, failing in enumerate(FAILING[:-1]):
        assert not outcome(duck.execute, failing)
        assert not outcome(db.execute, failing)
        for sql in ("FROM t", f"INSERT INTO t SELECT {number} + 2, 5", "FROM t ORDER BY id"):
            assert db.execute(sql).fetchall() == duck.execute(sql).fetchall(), failing
    assert db.execute("FROM total").fetchall() == duck.execute(VIEW.split(" AS ", 1)[1]).fetchall()


@pytest.mark.full
@pytest.mark.parametrize("native", [False, True])
def test_a_failed_statement_ends_the_transaction_as_in_duckdb(
    db: ivm.Database, native: bool
) -> None:
    duck = duckdb.connect()
    for sql in SCHEMA:
        duck.execute(sql)
    before = ["BEGIN", "INSERT INTO t VALUES (1, 10)", *(["SELECT 1"] if native else [])]
    after = ["SELECT 1", "INSERT INTO t VALUES (2, 20)"]
    for number, failing in enumerate(FAILING):
        for sql in (*before, failing, *after):
            assert outcome(db.execute, sql) == outcome(duck.execute, sql), (sql, failing)
        with pytest.raises(errors.UnavailableError, match=r"(?s)failed .*: ROLLBACK, then begin"):
            db.execute("SELECT 1").fetchall()
        duck.execute("COMMIT")  # rolls back without a word; here the user is told
        with pytest.raises(errors.UnavailableError, match=r"(?s)failed .*: it is over, begin"):
            db.execute("COMMIT")
        for sql in (f"INSERT INTO t VALUES (3 + {number}, 30)", "SELECT count(*), sum(n) FROM t"):
            assert db.execute(sql).fetchall() == duck.execute(sql).fetchall()
    rows = db.execute("FROM t").fetchall()
    db.close()
    with ivm.connect(db.path) as again:
        assert again.execute("FROM t").fetchall() == rows == duck.execute("FROM t").fetchall()
        assert again.execute("FROM total").fetchall() == [(len(FAILING), 30 * len(FAILING))]


@pytest.mark.full
def test_an_error_caught_inside_a_transaction_block(db: ivm.Database) -> None:
    def block(wrong: Callable[[], object]) -> None:
        with db.transaction():
            db.insert("t", {"id": [1], "n": [10]})
            with pytest.raises(errors.InputError):
                wrong()

    for wrong in (
        lambda: db.execute("SELECT missing FROM t"),
        lambda: db.execute("SELECT w::INTEGER FROM words").fetchall(),
        lambda: db.insert("t", {"id": [1], "n": [10]}),
        lambda: db.insert("nowhere", {"id": [1]}),
        lambda: db.subscribe("nowhere"),
    ):
        with pytest.raises(errors.UnavailableError, match="rolled back because a statement in it"):
            block(wrong)
    db.insert("t", {"id": [2], "n": [20]})
    assert db.execute("FROM total").fetchall() == [(1, 20)]


@pytest.mark.full
def test_the_error_of_a_block_that_has_ended_its_transaction_is_not_hidden(
    db: ivm.Database,
) -> None:
    def block() -> None:
        with db.transaction():
            db.execute("ROLLBACK")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()


READERS: list[Callable[[ivm.Result], object]] = [
    lambda result: result.fetchall(),
    lambda result: result.arrow(),
    lambda result: result.df(),
    lambda result: result.pl(),
    lambda result: list(result),
    lambda result: [result.fetchone() for _ in range(4000)],
]


@pytest.mark.full
@pytest.mark.parametrize("relations", ["words", "words, t, total"])
def test_a_query_that_fails_while_it_is_read(db: ivm.Database, relations: str) -> None:
    db.execute("INSERT INTO t VALUES (1, 10)")
    for number, read in enumerate(READERS):
        result = db.execute(f"SELECT w::INTEGER FROM {relations}")
        for _ in range(2):
            with pytest.raises(errors.EvaluationError, match="no number") as caught:
                read(result)
            assert isinstance(caught.value.__cause__, duckdb.ConversionException)
        db.execute("INSERT INTO words VALUES ('7')")
        rows = db.execute("SELECT count(*) FROM words, t, total").fetchall()
        assert rows == [(3002 + number,)]


@pytest.mark.full
@pytest.mark.parametrize("relations", ["words", "words, total"])
def test_a_failing_result_that_is_never_read_spoils_nothing(
    db: ivm.Database, relations: str
) -> None:
    db.execute("INSERT INTO t VALUES (1, 10)")
    query = f"SELECT w::INTEGER FROM {relations}"
    result = db.execute(query)
    db.execute("INSERT INTO words VALUES ('7')")
    db.execute(query)
    db.insert("words", {"w": ["8"]})
    db.execute(query)
    with db.transaction():
        db.insert("words", {"w": ["9"]})
    assert db.execute("SELECT count(*) FROM words").fetchall() == [(3004,)]
    with pytest.raises(errors.EvaluationError, match="no number"):
        result.fetchall()
    db.execute(query)
    db.close()


@pytest.mark.full
def test_a_failing_result_that_is_never_read_fails_its_own_transaction(db: ivm.Database) -> None:
    db.execute("BEGIN")
    db.execute("INSERT INTO t VALUES (1, 10)")
    result = db.execute("SELECT w::INTEGER FROM words")
    with pytest.raises(errors.UnavailableError, match="no number"):
        db.execute("COMMIT")
    with pytest.raises(errors.EvaluationError, match="no number"):
        result.fetchall()
    assert db.execute("FROM total").fetchall() == [(0, None)]


@pytest.mark.full
def test_a_failing_result_at_the_end_of_the_program(tmp_path: Path) -> None:
    script = tmp_path / "ends.py"
    script.write_text(
        "import ivm\n"
        f"db = ivm.connect({str(tmp_path / 'ends.duckdb')!r})\n"
        f"for sql in {SCHEMA!r}: db.execute(sql)\n"
        "result = db.execute('SELECT w::INTEGER FROM words')\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert ended.stderr == ""


@pytest.mark.full
@pytest.mark.cases(3)
@pytest.mark.parametrize("first", ["SELECT * FROM total", "INSERT INTO t VALUES (5, 5)"])
@pytest.mark.parametrize(
    "failing",
    [
        "INSERT INTO t VALUES ('x', 1)",
        "INSERT INTO t (n, id) VALUES (99999999999, 2)",
        "UPDATE t SET n = 'x' WHERE id = 1",
        "UPDATE t SET n = 3e30 WHERE id = 1",
    ],
)
def test_a_failing_cast_is_told_as_duckdb_tells_it(
    db: ivm.Database, first: str, failing: str
) -> None:
    # Inside a transaction the cast itself aborted it, and that was all the user was told.
    plain = duckdb.connect()
    for sql in (*SCHEMA, VIEW.replace("MATERIALIZED ", ""), "INSERT INTO t VALUES (1, 1)"):
        plain.execute(sql)
    db.execute("INSERT INTO t VALUES (1, 1)")
    for side in (db, plain):
        side.execute("BEGIN")
        side.execute(first).fetchall()
    with pytest.raises(duckdb.Error) as expected:
        plain.execute(failing)
    with pytest.raises(errors.EvaluationError) as raised:
        db.execute(failing)
    assert str(raised.value).splitlines()[0] == str(expected.value).splitlines()[0]


@pytest.mark.full
def test_a_value_that_python_has_not_is_read_by_other_means(db: ivm.Database) -> None:
    db.execute("SET TimeZone = 'America/Los_Angeles'")
    query = "SELECT '0001-01-01 00:00:00'::TIMESTAMP::TIMESTAMPTZ AS z"
    with pytest.raises(errors.UnsupportedError, match=r"read it with arrow\(\)"):
        db.execute(query).fetchall()
    assert db.execute(query).arrow().num_rows == 1
    ((text,),) = db.execute(f"SELECT z::VARCHAR FROM ({query})").fetchall()
    assert text.startswith("0001-01-01 00:00:00-07:52")


def test_rows_that_duckdb_refuses_leave_no_name_behind() -> None:
    """DuckDB writes rows to a table with a generated column; that of an ENUM is cast back."""
    with ivm.connect() as db:
        db.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        db.execute("CREATE TABLE m (id INTEGER PRIMARY KEY, e mood, twice INTEGER AS (id * 2))")
        db.insert("m", {"id": [1], "e": ["ok"]})
        with pytest.raises(errors.ConstraintError):
            db.insert("m", {"id": [1], "e": ["sad"]})
        assert (
            db.execute(
                "SELECT view_name FROM duckdb_views() WHERE view_name LIKE '%given%'"
            ).fetchall()
            == []
        )
        db.insert("m", {"id": [2]})  # whose columns need no cast
        assert db.execute("SELECT * FROM m ORDER BY id").fetchall() == [(1, "ok", 2), (2, None, 4)]


@pytest.mark.full
@pytest.mark.parametrize(
    "condition",
    ["s.k < 'abc'", "t.k < 'abc'", "s.w::INTEGER > 1", "t.k IN (SELECT w::INTEGER FROM s)"],
)
def test_an_error_quotes_nothing_but_the_users_text(condition: str) -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, x DOUBLE); INSERT INTO t VALUES (1, 2)")
        db.execute("CREATE TABLE s (k BIGINT, w VARCHAR); INSERT INTO s VALUES (1, 'abc')")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS x FROM t")
        sql = f"UPDATE t SET x = 0 FROM s WHERE t.k = s.k AND {condition}"
        with pytest.raises(errors.EvaluationError, match="'abc'") as raised:
            db.execute(sql)
        _, _, excerpt = str(raised.value).partition("LINE 1: ")
        assert excerpt.partition("\n")[0].strip(".") in sql


@pytest.mark.full
def test_the_error_of_a_view_that_cannot_be_filled_quotes_no_sql_of_ours(db: ivm.Database) -> None:
    with pytest.raises(errors.EvaluationError, match="Could not convert") as failed:
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT w::INTEGER AS n FROM words")
    assert "LINE" not in str(failed.value)
