"""Values that Arrow would alter are refused wherever they come in, and all others arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

import ivm
from ivm.errors import EvaluationError, IvmError, UnsupportedError
from ivm.storage.warehouse.duckdb.carried import carried
from tests.support.view_oracle import assert_verified

LONG = "INTERVAL '2562047 hours'"
EITHER = "UNION(num INTEGER, str VARCHAR)"
NESTED = 'UNION("a\'b" INTERVAL, s STRUCT(x INTEGER, y INTERVAL[]))'
GOOD_AND_BAD = [
    ("INTERVAL '2562046 hours'", LONG),
    ("INTERVAL '-5 years'", "INTERVAL '-2562047 hours'"),
    (f"NULL::{EITHER}", f"(NULL::INTEGER)::{EITHER}"),
    (f"'NULL'::{EITHER}", f"(NULL::VARCHAR)::{EITHER}"),
    ("[INTERVAL 1 day, NULL]", f"[NULL, {LONG}]"),
    ("[[INTERVAL 1 day]]", f"[[NULL, {LONG}]]"),
    ("array_value(INTERVAL 1 day, NULL)", f"array_value(INTERVAL 1 day, {LONG})"),
    ("MAP {'a': INTERVAL 1 day}", f"MAP {{'a': {LONG}}}"),
    ("MAP {INTERVAL 1 day: 1}", f"MAP {{{LONG}: 1}}"),
    ("{'a': 1, 'b': INTERVAL 1 day}", f"{{'a': 1, 'b': {LONG}}}"),
    ("row(1, INTERVAL 1 day)", f"row(1, {LONG})"),
    (f"[{{'u': 1::{EITHER}}}]", f"[{{'u': NULL::INTEGER::{EITHER}}}]"),
    (f"(INTERVAL 1 day)::{NESTED}", f"({LONG})::{NESTED}"),
    (f"NULL::{NESTED}", f"(NULL::INTERVAL)::{NESTED}"),
    ("9223372036854775807::VARIANT", "9223372036854775808::VARIANT"),
    ("[1, 1e30]::VARIANT", "{'a': [99999999999999999999]}::VARIANT"),
    ("['x'::VARIANT, NULL]", "['x', (INTERVAL 1 day)::VARIANT]"),
]


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"arrow_lossless_conversion": "true"}) as connection:
        yield connection


@pytest.mark.parametrize(("good", "bad"), GOOD_AND_BAD)
def test_an_answer_arrives_as_it_is_or_fails(
    duck: duckdb.DuckDBPyConnection, good: str, bad: str
) -> None:
    answer = carried(duck.sql(f"SELECT 1 AS a, {good} AS v")).to_arrow_table()
    duck.register("answer", answer)
    ((kind,),) = duck.sql(f"SELECT typeof({good})").fetchall()
    pairs = [(f"v::{kind}", f"({good})"), (f"v::{kind}::VARCHAR", f"({good})::VARCHAR")]
    same = " AND ".join(f"{arrived} IS NOT DISTINCT FROM {given}" for arrived, given in pairs)
    assert duck.sql(f"SELECT {same} FROM answer").fetchall() == [(True,)]
    with pytest.raises(duckdb.InvalidInputException, match="cannot be followed"):
        carried(duck.sql(f"SELECT 1 AS a, {bad} AS v")).to_arrow_table()


@pytest.mark.full
@pytest.mark.cases(3)
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (2, '2562048 hours', NULL)",
        f"INSERT INTO t SELECT 2, {LONG}, NULL",
        f"INSERT INTO t SELECT 2, NULL, NULL::INTEGER::{EITHER}",
        f"UPDATE t SET i = {LONG}",
        "UPDATE t SET i = to_hours(id * 3000000) WHERE id = 1",
        f"UPDATE t SET u = NULL::VARCHAR::{EITHER}",
        f"MERGE INTO t USING (SELECT 1 AS id) s USING (id) WHEN MATCHED THEN UPDATE SET i = {LONG}",
        f"CREATE OR REPLACE TABLE t AS SELECT 1 AS id, {LONG} AS i, NULL::{EITHER} AS u",
        f"ALTER TABLE t ALTER i TYPE INTERVAL USING {LONG}",
    ],
)
def test_no_change_brings_such_a_value(statement: str) -> None:
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t (id INTEGER, i INTERVAL, u {EITHER})")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT i, u, count(*) FROM t GROUP BY i, u")
        db.execute("INSERT INTO t VALUES (1, '1 day', 'two')")
        with pytest.raises(IvmError, match="cannot be followed"):
            db.execute(statement)
        assert len(db.execute("FROM t").fetchall()) == 1
        db.execute("UPDATE t SET i = INTERVAL '100 days', u = NULL")
        assert_verified(db, "v")


@pytest.mark.full
@pytest.mark.cases(4)
@pytest.mark.parametrize(
    "statement",
    [
        *(f"CREATE TABLE other AS SELECT 1 AS a, {bad} AS x" for _, bad in GOOD_AND_BAD),
        f"CREATE TABLE other AS SELECT {LONG}::span AS x",
        f"CREATE OR REPLACE TABLE t AS SELECT {LONG} AS i",
        f"ALTER TABLE t ADD COLUMN x INTERVAL DEFAULT {LONG}",
        f"ALTER TABLE t ALTER i TYPE INTERVAL USING {LONG}",
        "ALTER TABLE t ALTER long SET DATA TYPE INTERVAL",
        "COPY FROM DATABASE att TO memory",
        "BEGIN; CREATE TABLE other AS SELECT 1 AS a; "
        f"CREATE OR REPLACE TABLE other AS SELECT {LONG} AS i",
    ],
)
def test_no_table_is_made_with_such_a_value(statement: str, tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "a.duckdb")) as plain:
        plain.execute(f"CREATE TABLE s AS SELECT {LONG} AS i")
    with ivm.connect() as db:
        db.execute(f"ATTACH '{tmp_path / 'a.duckdb'}' AS att; CREATE TYPE span AS INTERVAL")
        db.execute("CREATE TABLE t (long VARCHAR, i INTERVAL)")
        db.execute("INSERT INTO t VALUES ('2562048 hours', '1 day')")
        with pytest.raises(UnsupportedError, match="cannot be followed"):
            db.execute(statement)
        if statement.startswith("BEGIN"):
            db.execute("ROLLBACK")
        with pytest.raises(IvmError, match="does not exist"):
            db.execute("FROM other")
        db.execute("UPDATE t SET i = INTERVAL '2 days'")
        db.execute("CREATE TABLE other AS SELECT long, i AS x FROM t")
        db.execute("ALTER TABLE other ALTER x TYPE INTERVAL USING x + x")
        assert db.execute("DELETE FROM other RETURNING x::VARCHAR").fetchall() == [("4 days",)]


def test_a_table_that_has_such_a_value_can_be_healed(tmp_path: Path) -> None:
    file = tmp_path / "d.duckdb"
    with duckdb.connect(str(file)) as plain:
        plain.execute(f"CREATE TABLE t AS SELECT 1 AS a, {LONG} AS i, {LONG} AS j")
    with ivm.connect(file) as db:
        db.execute("ALTER TABLE t RENAME TO u; ALTER TABLE u ADD COLUMN b INTEGER")
        db.execute("ALTER TABLE u DROP COLUMN i; ALTER TABLE u ALTER j TYPE VARCHAR")
        assert db.execute("DELETE FROM u RETURNING a, b").fetchall() == [(1, None)]


def test_a_view_over_such_a_value_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "d.duckdb"
    with duckdb.connect(str(file)) as plain:
        plain.execute(f"CREATE TABLE t AS SELECT {LONG} AS i")
    with ivm.connect(file) as db:
        with pytest.raises(UnsupportedError, match="cannot be followed"):
            db.execute("CREATE MATERIALIZED VIEW v AS SELECT i, count(*) FROM t GROUP BY i")
        assert len(db.execute("FROM t").fetchall()) == 1
        db.execute("CREATE TABLE other (a INTEGER)")


def test_a_view_whose_state_cannot_be_built_can_be_dropped(tmp_path: Path) -> None:
    file = tmp_path / "d.duckdb"
    for _ in range(2):  # also after it was opened again
        with ivm.connect(file) as db:
            db.execute("CREATE TABLE IF NOT EXISTS t AS SELECT 3000000 AS a")
            db.execute("CREATE TABLE IF NOT EXISTS other (a INTEGER)")
            db.execute(
                "CREATE MATERIALIZED VIEW IF NOT EXISTS v AS"
                " SELECT count(*) FROM (SELECT DISTINCT to_hours(a) FROM t)"
            )
            with pytest.raises(EvaluationError, match="cannot be followed"):
                db.execute("INSERT INTO t VALUES (1)")
            db.execute("INSERT INTO other VALUES (1)")
    with ivm.connect(file) as db:
        db.execute("DROP MATERIALIZED VIEW v; INSERT INTO t VALUES (1)")
        assert len(db.execute("FROM t").fetchall()) == 2


@pytest.mark.full
@pytest.mark.parametrize("kind", ["UNION(s STRUCT(f INTEGER), k VARCHAR)", "STRUCT(f INTEGER)[]"])
def test_slices_of_nested_values_reach_the_table(kind: str) -> None:
    value = "{f: %d}" if kind.startswith("UNION") else "[{f: %d}]"
    with ivm.connect() as db:
        db.execute(f"CREATE TABLE t (id INTEGER, u {kind})")
        listed = ", ".join(f"({i}, {value % i})" for i in range(4))
        db.execute(f"INSERT INTO t VALUES {listed}")
        db.execute("CREATE MATERIALIZED VIEW v AS FROM t")
        before = db.execute("SELECT u::VARCHAR FROM t ORDER BY id").fetchall()
        db.execute("UPDATE t SET id = 30 WHERE id = 3")
        assert db.execute("SELECT u::VARCHAR FROM v ORDER BY id").fetchall() == before


@pytest.mark.full
@pytest.mark.parametrize(
    ("value", "given"),
    [
        ("18446744073709551615", 2**64 - 1),
        ("[99999999999999999999]", [99999999999999999999]),
        ("(INTERVAL 1 day)", timedelta(days=1)),
    ],
)
def test_what_a_variant_of_arrow_does_not_hold_is_named_at_every_door(
    tmp_path: Path, value: str, given: object
) -> None:
    with duckdb.connect(tmp_path / "x.duckdb") as plain:
        plain.execute(f"CREATE TABLE t AS SELECT 1 AS id, {value}::VARIANT AS v")
        plain.execute("CREATE TABLE u (id INTEGER, v VARIANT)")
    with ivm.connect(tmp_path / "x.duckdb") as db:
        assert db.execute("FROM t").fetchall() == [(1, given)]
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT id, v FROM u")
        doors: list[Callable[[], object]] = [
            lambda: db.execute("FROM t").arrow(),
            lambda: db.execute("CREATE MATERIALIZED VIEW x AS SELECT id, v FROM t"),
            lambda: db.execute("INSERT INTO u FROM t"),
            lambda: db.execute(f"INSERT INTO u VALUES (2, {value})"),
            lambda: db.execute("INSERT INTO u VALUES (2, ?)", [given]),
            lambda: db.insert("u", {"id": [2], "v": [given]}),
        ]
        for door in doors:
            with pytest.raises(IvmError, match="VARIANT"):
                door()
        assert db.execute("SELECT count(*) FROM u").fetchall() == [(0,)]


STATES = ["sum(1) EXPORT_STATE", "[sum(1) EXPORT_STATE]", "{'a': bit_or('1'::BIT) EXPORT_STATE}"]


@pytest.mark.parametrize("state", STATES)
def test_the_state_of_an_aggregate_is_no_answer_in_arrow(
    duck: duckdb.DuckDBPyConnection, state: str
) -> None:
    with pytest.raises(duckdb.InvalidInputException, match="write finalize"):
        carried(duck.sql(f"SELECT 1 AS a, {state} AS v")).to_arrow_table()
    with ivm.connect() as db:
        db.execute("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)")
        db.execute(f"PREPARE p AS SELECT {state} AS v FROM t")
        for sql in (f"SELECT {state} AS v FROM t WHERE false", "EXECUTE p"):
            with pytest.raises(IvmError, match="write finalize"):
                db.execute(sql).arrow()


def test_what_is_named_like_a_state_is_none(duck: duckdb.DuckDBPyConnection) -> None:
    named = """{'AGGREGATE_STATE': 1} AS a, {'x AGGREGATE_STATE': 1} AS b,
        'AGGREGATE_STATE'::ENUM('AGGREGATE_STATE') AS c"""
    assert carried(duck.sql(f"SELECT {named}")).to_arrow_table().num_rows == 1
