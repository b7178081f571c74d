"""What the fast path accepts, DuckDB accepts; what it stores, DuckDB stores."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import ivm
from ivm.errors import ConstraintError, EvaluationError

LIMITS = {
    "TINYINT": (-128, 127),
    "BIGINT": (-(2**63), 2**63 - 1),
    "UTINYINT": (0, 255),
}
CHECKS = (
    "a * 100 > 0",
    "a + 1 > 0",
    "a - 1 < 0",
    "2 * a <> 4",
    "a + 1 > 0 OR a > 5",
    "a = 0 OR 10 / a < 100",
    "a % 2 = 0 AND -a < 5",
    "a BETWEEN -5 AND 5 OR a * 2 > 8",
    "a",
    "a / 7",
    "CASE WHEN a > 5 THEN a + 1 > 0 ELSE true END",
    "a IN (1, 2, 3) OR a::TINYINT > 0",
)


Either = ivm.Database | duckdb.DuckDBPyConnection


def _accepts(db: Either, *row: object, table: str = "t") -> bool:
    values = ", ".join("?" * len(row))
    try:
        db.execute(f"INSERT INTO {table} VALUES ({values})", list(row))
    except (ConstraintError, duckdb.ConstraintException):
        return False
    return True


@pytest.mark.full
@pytest.mark.parametrize("type", LIMITS)
def test_a_check_refuses_what_duckdb_refuses(type: str) -> None:
    ours, plain = ivm.connect(), duckdb.connect()
    low, high = LIMITS[type]
    values = (low, low + 1, 0, 2, 6, high - 1, high, None)
    for number, check in enumerate(CHECKS):
        table = f"t{number}"
        for db in (ours, plain):
            db.execute(f"CREATE TABLE {table} (a {type} CHECK ({check}))")
        for value in values:
            accepted = _accepts(plain, value, table=table)
            assert _accepts(ours, value, table=table) == accepted, (check, value)
    for number in range(len(CHECKS)):
        wanted = plain.execute(f"FROM t{number} ORDER BY a").fetchall()
        assert ours.execute(f"FROM t{number} ORDER BY a").fetchall() == wanted


TEXT_CHECKS = (
    "s = '' OR s::INTEGER > 0",
    "position('l' IN s) > 0",
    "s LIKE 'a%' OR length(s) < 3",
    "substr(s, 2, 1) = 'l'",
    "s",
    "x",
    "0.4",
    "x > 0.5 OR 1 / x > 2",
)


def test_a_check_of_texts_and_doubles() -> None:
    ours, plain = ivm.connect(), duckdb.connect()
    rows = [("", 0.4), ("l", 1.0), ("7", float("nan")), ("al", 0.0), ("-3", None), (None, 2.0)]
    for number, check in enumerate(TEXT_CHECKS):
        table = f"t{number}"
        for db in (ours, plain):
            db.execute(f"CREATE TABLE {table} (s VARCHAR, x DOUBLE, CHECK ({check}))")
        for row in rows:
            accepted = _accepts(plain, *row, table=table)
            assert _accepts(ours, *row, table=table) == accepted, (check, row)
        wanted = plain.execute(f"FROM {table}").fetchall()
        assert str(ours.execute(f"FROM {table}").fetchall()) == str(wanted)


@pytest.mark.full
@pytest.mark.parametrize(
    ("macro", "check", "value"),
    [
        ("abs(x) AS x + 1000", "abs(a) > 500", -600),
        ('"+"(x, y) AS 0', "a + 1 > 0", 5),
        ("substr(x, y) AS 'm'", "substr(a::VARCHAR, 1) <> 'm'", 5),
    ],
)
def test_a_users_macro_in_a_check(macro: str, check: str, value: int) -> None:
    for first, second in ((0, 1), (1, 0)):
        ours, plain = ivm.connect(), duckdb.connect()
        statements = f"CREATE MACRO {macro}", f"CREATE TABLE t (a INTEGER CHECK ({check}))"
        for db in (ours, plain):
            db.execute(statements[first])
            if first == 1:
                _accepts(db, 3)  # the table has a fast path before there is a macro
            db.execute(statements[second])
        assert _accepts(ours, value) == _accepts(plain, value)
        assert len(ours.execute("FROM t").fetchall()) == len(plain.execute("FROM t").fetchall())


@pytest.mark.full
@pytest.mark.parametrize("temporary", ["", "TEMP "])
def test_a_users_macro_in_an_update_by_key(temporary: str) -> None:
    ours, plain = ivm.connect(), duckdb.connect()
    update = "UPDATE t SET a = abs(a) WHERE id = 1"
    for db in (ours, plain):
        for sql in (
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER)",
            "INSERT INTO t VALUES (1, 5), (2, 5)",
            *[update] * 5,
            f"CREATE {temporary}MACRO abs(x) AS x + 1000",
            *[update] * 5,
            "DROP MACRO abs",
            *[update] * 5,
        ):
            db.execute(sql)
    assert ours.execute("FROM t").fetchall() == plain.execute("FROM t").fetchall()


def counted() -> Callable[[], int]:
    """A function of the user's with a side effect."""
    numbers = itertools.count()
    return lambda: next(numbers)


OF_EACH_ROW = {  # rows of one statement differ, too
    "nextval('s')": "BIGINT",
    "from_sequence()": "BIGINT",
    "random()": "DOUBLE",
    "uuid()": "UUID",
    "counted()": "BIGINT",
}
OF_EACH_TRANSACTION = {
    "localtimestamp": "TIMESTAMP",
    "current_localtimestamp()": "TIMESTAMP",
    "transaction_timestamp()": "TIMESTAMPTZ",
    "now()": "TIMESTAMPTZ",
    "get_current_timestamp()": "TIMESTAMPTZ",
    "current_timestamp": "TIMESTAMPTZ",
    "current_time": "TIMETZ",
    "txid_current()": "BIGINT",
    "getvariable('n')": "BIGINT",
}
OF_THE_DAY = {"current_date": "DATE", "today()": "DATE"}
DEFAULTS = OF_EACH_ROW | OF_EACH_TRANSACTION | OF_THE_DAY


@pytest.mark.full
@pytest.mark.parametrize("default", DEFAULTS)
def test_a_default_is_evaluated_for_each_row(default: str) -> None:
    """Bug: those of the clock and the transaction kept the first row's value."""
    with ivm.connect() as db:
        function = ivm.Function("counted", counted(), [], "BIGINT", side_effects=True)
        db.create_function(function)
        db.execute("CREATE SEQUENCE s; CREATE MACRO from_sequence() AS nextval('s')")
        db.execute(
            f"CREATE TABLE t (i INTEGER PRIMARY KEY, a {DEFAULTS[default]} DEFAULT ({default}))"
        )
        for i in range(0, 6, 3):
            db.execute(f"SET VARIABLE n = {i}")
            db.execute("INSERT INTO t (i) VALUES (?)", [i])
            db.execute(f"SET VARIABLE n = {i + 1}")
            db.insert("t", {"i": [i + 1, i + 2]})
        values = [a for (a,) in db.execute("SELECT a FROM t").fetchall()]
        assert len(values) == 6
        assert None not in values
        if default in OF_THE_DAY:
            assert len(set(values)) <= 2  # midnight
        else:
            assert len(set(values)) == (6 if default in OF_EACH_ROW else 4)


@pytest.mark.full
@pytest.mark.parametrize(
    "made",
    [
        "CREATE TABLE t (i INTEGER PRIMARY KEY, a DATE DEFAULT 7)",
        "CREATE TABLE t (i INTEGER PRIMARY KEY, a DATE DEFAULT CAST('abc' AS DATE))",
        "CREATE TABLE t (i INT PRIMARY KEY, a TEXT DEFAULT 'abc'); ALTER TABLE t ALTER a TYPE DATE",
    ],
)
def test_a_default_that_cannot_be_cast_fails_where_it_is_used_alone(made: str) -> None:
    """Bug: no row of the table could be inserted, changed or deleted."""
    with ivm.connect() as db:
        db.execute(made)
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT i, a FROM t")
        db.execute("INSERT INTO t VALUES (1, NULL), (2, DATE '2020-01-02'), (3, NULL)")
        db.upsert("t", {"i": [3], "a": ["2020-01-03"]})
        db.execute("DELETE FROM t WHERE i = 1")
        with pytest.raises(EvaluationError, match=r"Unimplemented type for cast|abc"):
            db.execute("INSERT INTO t (i) VALUES (4)")
        found = db.execute("SELECT i, a::VARCHAR FROM v ORDER BY i").fetchall()
        assert found == [(2, "2020-01-02"), (3, "2020-01-03")]


@pytest.mark.full
@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("type", "default"),
    [
        ("INTEGER", "-7"),
        ("DOUBLE", "1e5"),
        ("DECIMAL(9, 2)", "1_000.50"),
        ("VARCHAR", "'it''s'"),
        ("BOOLEAN", "true"),
        ("DATE", "DATE '2020-01-01'"),
        ("INTEGER", "NULL"),
        ("BLOB", "x'AA'"),
        ("INTEGER[]", "[1, 2]"),
        ("VARCHAR", "getvariable('x')"),
        ("TIMESTAMPTZ", "'2020-01-01 00:00:00'"),
        ("VARCHAR", "TIMESTAMPTZ '2020-01-01 00:00:00'"),
        ("TIMETZ", "'10:00'"),
        ("STRUCT(a INTEGER)", "{'a': 1}"),
        ("INTEGER", "abs(-3)"),
    ],
)
def test_defaults_are_those_of_duckdb(type: str, default: str) -> None:
    ours, plain = ivm.connect(), duckdb.connect()
    for db in (ours, plain):
        for sql in (
            f"CREATE TABLE t (i INTEGER, a {type} DEFAULT ({default}))",
            "INSERT INTO t (i) VALUES (1)",
            "SET VARIABLE x = 'set'",
            "SET TimeZone = 'Asia/Tokyo'",
            "INSERT INTO t (i) VALUES (2)",
        ):
            db.execute(sql)
    query = "SELECT i, a::VARCHAR FROM t ORDER BY i"
    assert ours.execute(query).fetchall() == plain.execute(query).fetchall()
    assert (ours._engine.definitions.fast_path("t") is not None) == (  # it is taken for literals
        default[0] in "-1'tDNx" and type not in ("TIMESTAMPTZ", "TIMETZ")
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("DATE", "infinity"),
        ("DATE", "5874897-12-31"),
        ("TIMESTAMP", "-infinity"),
        ("TIMESTAMP_S", "294246-12-31 00:00:00"),
        ("TIMESTAMPTZ", "infinity"),
        ("TIME", "24:00:00"),
    ],
)
def test_values_that_python_has_not_are_named(tmp_path: Path, type: str, value: str) -> None:
    with ivm.connect(tmp_path / "shop.duckdb") as db:
        db.execute(f"CREATE TABLE t (k {type} PRIMARY KEY); INSERT INTO t VALUES ('{value}')")
        db.execute(f"CREATE TABLE s AS SELECT '{value}'::{type} AS k FROM range(2)")
        for source in (f"VALUES ('{value}')", "FROM s", "SELECT DISTINCT k FROM s"):
            with pytest.raises(ivm.errors.ConstraintError, match=value):
                db.execute(f"INSERT INTO t {source}")
