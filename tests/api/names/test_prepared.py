"""PREPARE and EXECUTE keep what DuckDB keeps: types, names, counts and errors.

Changes by EXECUTE are captured, and READ ONLY transactions change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pytest

import ivm
from ivm import errors
from ivm.session.results.state_result import StateResult

SCRIPT = """\
CREATE TABLE a(i INT, s VARCHAR, d DECIMAL(10,4))
CREATE TABLE k(i INT PRIMARY KEY, s VARCHAR)
PREPARE p AS SELECT typeof($1)
EXECUTE p(1::TINYINT)
EXECUTE p(NULL::INT)
EXECUTE p(1.50::DECIMAL(10,4))
EXECUTE p(1, 2)
EXECUTE p
PREPARE n AS SELECT $a + $b
EXECUTE n(a := 1, b := 2)
EXECUTE n(B := 1, A := 2)
EXECUTE n(1, 2)
EXECUTE n(a := 1)
PREPARE w AS INSERT INTO a VALUES ($1, $2, $3)
EXECUTE w(1, 'x', 2.5)
EXECUTE w(1::TINYINT, 'x;''y', 2.55555::DECIMAL(10,5))
EXECUTE w('7', 3.5::FLOAT, '2.5')
EXECUTE w(0, 0.1::FLOAT, 0)
EXECUTE w(3000000000, 'x', 2)
EXECUTE w(1)
EXECUTE w(1, 2, 3, 4)
EXECUTE w(1, DATE '2020-01-01', INTERVAL 1 DAY)
EXECUTE w(1, INTERVAL '1 month 1 microsecond', 1e3)
EXECUTE w(1, [1, 2], 1e3)
EXECUTE w(1, {'a': 1}, 1e3)
FROM a
PREPARE kk AS INSERT INTO k VALUES (?, ?)
EXECUTE kk(1, 'a')
EXECUTE kk(1, 'a')
EXECUTE kk(2::BIGINT, NULL)
PREPARE u AS UPDATE k SET s = $s WHERE i = $i
EXECUTE u(i := 1, s := 'z')
EXECUTE u(i := '2', s := 5::HUGEINT)
PREPARE u2 AS UPDATE k SET s = s || ?::VARCHAR || '?' || '$1' WHERE i > ?
EXECUTE u2(5::TINYINT, 0)
EXECUTE u2(5::TINYINT)
FROM k
PREPARE 'it''s' AS UPDATE k SET s = $1
EXECUTE "it's"('q')
EXECUTE 'IT''s'('r')
DEALLOCATE 'it''s'
EXECUTE "it's"('s')
PREPARE 'q q' AS SELECT $1
EXECUTE 'q q'(5)
DEALLOCATE PREPARE 'q q'
EXECUTE "q q"(5)
DEALLOCATE 'none'
FROM k
PREPARE d AS DELETE FROM a WHERE i = ? RETURNING i
EXECUTE d('7')
PREPARE v AS SELECT DISTINCT ON (?) 42
PREPARE v AS SELECT $1::SMALLINT + 32000::SMALLINT
EXECUTE v(1665::SMALLINT)
DEALLOCATE nothing
DEALLOCATE p
EXECUTE p(1)
PREPARE N AS SELECT 5
EXECUTE n
PREPARE "q q" AS DELETE FROM a WHERE i = 1
EXECUTE "q q"
DEALLOCATE "q q"
PREPARE x AS SELECT * FROM nothing
PREPARE x AS CREATE TABLE z(i INT)
PREPARE x AS FROM k LIMIT ?
EXECUTE x(1)
PREPARE x AS INSERT INTO a SELECT i, s, ? FROM k
EXECUTE x(1.5)
BEGIN
INSERT INTO k VALUES (77,'t')
PREPARE x AS SELECT count(*) FROM k
EXECUTE x
ROLLBACK
EXECUTE x
FROM a
FROM k
"""


def outcome(run: Callable[[str], Any], text: str) -> object:
    """The names and rows of a statement's result, or that it fails."""
    try:
        result = run(text)
        rows = result.fetchall()
    except (errors.IvmError, duckdb.Error):
        return "fails"
    if not rows:
        return []
    names = result.columns if isinstance(result, ivm.Result) else [d[0] for d in result.description]
    return names, rows


def test_everything_is_as_in_duckdb() -> None:
    duck = duckdb.connect()
    with ivm.connect() as db:
        for text in SCRIPT.splitlines():
            assert outcome(db.execute, text) == outcome(duck.execute, text), text
            if text.startswith("CREATE TABLE a"):
                db.execute("CREATE MATERIALIZED VIEW v AS SELECT i, s, d FROM a")
        assert sorted(map(str, db.execute("FROM v").fetchall())) == sorted(
            map(str, duck.execute("FROM a").fetchall())
        )


@pytest.mark.full
def test_explain_of_execute() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t(i INT); CREATE MATERIALIZED VIEW v AS SELECT sum(i) AS i FROM t")
        db.execute("PREPARE q AS SELECT i FROM v WHERE i > $1")
        db.execute("PREPARE c AS INSERT INTO t VALUES ($1)")
        (((_, plan),)) = db.execute("EXPLAIN ANALYZE EXECUTE q(1::TINYINT)").fetchall()
        assert "0 rows" in plan
        assert db.execute("EXPLAIN EXECUTE c(1)").fetchall()
        assert db.execute("FROM v").fetchall() == [(None,)]
        assert db.execute("EXPLAIN ANALYZE EXECUTE c(5::TINYINT)").fetchall()
        assert db.execute("FROM v").fetchall() == [(5,)]


WRITING = [
    "INSERT INTO t VALUES (2, 2)",
    "INSERT INTO t SELECT 2, 2",
    "UPDATE t SET b = 3 WHERE a = 1",
    "UPDATE t SET b = b + 1",
    "DELETE FROM t WHERE a = 1",
    "DELETE FROM t WHERE a = 7",
    "DELETE FROM t",
    "CREATE TABLE u (a INT)",
    "CREATE MATERIALIZED VIEW w AS SELECT a FROM t",
    "DROP MATERIALIZED VIEW v",
    "ALTER TABLE t ADD COLUMN c INT",
    "SELECT nextval('s')",
]


def test_a_read_only_transaction_changes_nothing() -> None:
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (a INT PRIMARY KEY, b INT); CREATE SEQUENCE s")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT approx_count_distinct(a) AS n FROM t")
        db.execute("CREATE MATERIALIZED VIEW g AS SELECT b, count(*) AS n FROM t GROUP BY b")
        db.execute("INSERT INTO t VALUES (1, 1)")
        for native in (False, True):
            for text in WRITING:
                db.execute("BEGIN TRANSACTION READ ONLY")
                if native:
                    assert db.execute("FROM g, v").fetchall() == [(1, 1, 1)]
                with pytest.raises(errors.UnavailableError, match=r"(?i)read.only"):
                    db.execute(text).fetchall()
                db.execute("ROLLBACK")
        db.execute("BEGIN TRANSACTION READ ONLY")
        with pytest.raises(errors.UnavailableError, match="READ ONLY"):
            db.insert("t", {"a": [2], "b": [2]})
        db.execute("ROLLBACK")
        db.execute("BEGIN TRANSACTION READ ONLY; CREATE TEMP TABLE x AS FROM t")
        db.execute("INSERT INTO x VALUES (2, 2); COMMIT")
        assert db.execute("SELECT count(*) FROM x").fetchall() == [(2,)]
        assert db.execute("FROM t").fetchall() == [(1, 1)]


ARGUMENTS = ["1", "-1", "'1'", "'a'", "3000000000", "1.5", "1e0", "NULL", "DATE '2024-01-01'",
    "1::TINYINT", "1 + 1", "'2024-01-01'", "true", "9223372036854775808", "E'a'"]  # fmt: skip
PREPARED = [
    "SELECT * FROM v WHERE i = ?",
    "SELECT * FROM v WHERE s = $1 AND i < 5",
    "SELECT * FROM v WHERE d = $day",
    "SELECT i, $1 AS given FROM v ORDER BY i",
    "SELECT count(*) AS n FROM v WHERE i >= $1",
    "SELECT * FROM v LIMIT ?",
]


@pytest.mark.full
@pytest.mark.parametrize("text", PREPARED)
def test_prepared_queries_over_views_are_those_of_duckdb(text: str) -> None:
    """In memory or not: the rows, types and errors are those of DuckDB's own EXECUTE."""
    came = []
    with ivm.connect() as db:
        db.execute("CREATE TABLE t AS SELECT 1::INT AS i, '1' AS s, DATE '2024-01-01' AS d")
        db.execute("INSERT INTO t VALUES (2, 'a', NULL), (NULL, NULL, '2024-01-02')")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        db.execute(f"PREPARE p AS {text}")
        db.flush()
        plain = db._engine.warehouse.cursor()
        plain.execute(f"PREPARE p AS {text}").fetchall()
        for argument in ARGUMENTS:
            given = f"day := {argument}" if "$day" in text else argument
            for _ in range(2):
                found, wanted = _run(db, given), _run(plain, given)
                assert found == wanted, given
                if isinstance(found, tuple):
                    came.append(isinstance(db.execute(f"EXECUTE p({given})"), StateResult))
    assert (True in came) != ("LIMIT" in text or "$day" in text)


def _run(connection: Any, given: str) -> Any:
    """Types and rows, or "an error"."""
    try:
        result = connection.execute(f"EXECUTE p({given})")
        types = [str(column[1]) for column in result.description]
        return types, sorted(map(repr, result.fetchall()))
    except (errors.IvmError, duckdb.Error):
        return "an error"
