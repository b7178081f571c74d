"""Changes with side effects on other tables, changes that fail, and random ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ivm
from ivm.capture.capture import capture
from ivm.capture.side_effects import written_names
from ivm.sql.statements.parse import Dml, parse
from ivm.storage.warehouse.duckdb.duck import run
from tests.support.capture_pair import KEYED, KEYLESS, Twins, amounts, connect
from tests.support.view_oracle import assert_verified
from tests.tiers import examples

# --- reaching further ---


def test_data_modifying_ctes() -> None:
    twins = Twins(*KEYLESS)
    twins.run("WITH d AS (DELETE FROM t WHERE a = 1 RETURNING *) SELECT count(*), min(b) FROM d")
    sql = "WITH d AS (DELETE FROM u RETURNING *), i AS (INSERT INTO t (a) VALUES (5) RETURNING a)"
    assert set(twins.run(f"{sql} SELECT * FROM d, i").changes) == {"t", "u"}
    twins.run("WITH d AS (DELETE FROM t RETURNING *) INSERT INTO u SELECT a, b FROM d")


@pytest.mark.parametrize(
    "changes",
    [
        '(UPDATE "of" SET a = 9 RETURNING a)', "(UPDATE of SET a = 9 RETURNING a)",
        "(UPDATE set SET a = 9 RETURNING a)", "(DELETE FROM set RETURNING a)", "(TRUNCATE set)",
        "(DELETE FROM 'set' RETURNING a)", "(UPDATE 'of' SET a = 9 RETURNING a)",
        "(INSERT INTO 'of' VALUES (5) RETURNING a)",
        "(UPDATE memory.s1.s2.t AS q SET a = 9 RETURNING a)",
    ],
)  # fmt: skip
@pytest.mark.parametrize("beside", ["", ", y AS (DELETE FROM s RETURNING a)"])
def test_tables_of_such_ctes_are_found_whatever_their_names(changes: str, beside: str) -> None:
    """Bug: views lost what was changed in tables that are called as clauses are, or by strings."""
    with ivm.connect() as db:
        db.execute("CREATE SCHEMA s1; CREATE SCHEMA s1.s2; CREATE TABLE s (a INTEGER)")
        for table in ('"of"', '"set"', "s1.s2.t"):
            db.execute(f"CREATE TABLE {table} (a INTEGER); INSERT INTO {table} VALUES (1)")
        db.execute('CREATE MATERIALIZED VIEW v AS FROM "of" UNION ALL FROM "set"')
        db.execute("CREATE MATERIALIZED VIEW w AS FROM s1.s2.t")
        db.execute(f"WITH x AS {changes}{beside} SELECT 1")
        assert_verified(db)


def test_explain_analyze_of_a_change() -> None:
    twins = Twins(*KEYLESS)
    captured = twins.run("EXPLAIN ANALYZE INSERT INTO t (a) VALUES (5)", same_rows=False)
    assert amounts(captured) == (0, 1)
    assert captured.returned is not None


def test_names_of_changed_tables() -> None:
    sql = (
        'WITH d AS (DELETE FROM a.b RETURNING *), e AS (UPDATE "C c" AS x SET y = 1 RETURNING *)'
        " INSERT INTO f FROM d ON CONFLICT DO UPDATE SET z = 1"
    )
    assert written_names(sql) == [("a", "b"), ("C c",), ("f",)]
    for sql, found in (
        ("CREATE TRIGGER g AFTER UPDATE OF v ON t INSERT INTO u VALUES (1)", [("u",)]),
        ("CREATE TRIGGER g AFTER INSERT OR UPDATE ON t UPDATE of SET a = 1", [("of",)]),
        ("WITH x AS (UPDATE of SET a = 1), y AS (DELETE FROM set) TRUNCATE set",
         [("of",), ("set",), ("set",)]),
        ("MERGE INTO t USING s ON true WHEN MATCHED THEN UPDATE SET a = 1", [("t",)]),
        ("WITH x AS (DELETE FROM 'a''b'), y AS (INSERT INTO 's' VALUES (1)) UPDATE m.'x' SET a = 1",
         [("a'b",), ("s",), ("",)]),
    ):  # fmt: skip
        assert written_names(sql) == found


@pytest.mark.full
@pytest.mark.parametrize("each", ["FOR EACH ROW", "FOR EACH STATEMENT"])
def test_triggers(each: str) -> None:
    value = "new.a" if each == "FOR EACH ROW" else "1"
    twins = Twins(
        *KEYLESS,
        "CREATE SCHEMA x",
        "CREATE TABLE x.log (a INTEGER)",
        "CREATE TABLE other (a INTEGER)",
        f"CREATE TRIGGER g AFTER INSERT ON t {each} INSERT INTO x.log VALUES ({value})",
        "CREATE TRIGGER h AFTER INSERT ON x.log FOR EACH STATEMENT INSERT INTO other VALUES (7)",
    )
    captured = twins.run("INSERT INTO t (a) VALUES (5), (6)")
    assert set(captured.changes) == {"t", "x.log", "other"}
    assert captured.count == 2
    assert set(twins.run("UPDATE t SET a = 1").changes) == {"t"}
    assert set(twins.run("INSERT INTO u VALUES (1, 'u')").changes) == {"u"}


def test_temporary_tables_are_no_base_tables() -> None:
    ours = connect()
    run(ours, "CREATE TEMP TABLE tt (a INTEGER)")
    (statement,) = parse("INSERT INTO tt VALUES (1 + 1) RETURNING a")
    assert isinstance(statement, Dml)
    captured = capture(ours, statement, None, None, {})
    assert captured.changes == {}
    assert captured.returned is not None
    assert captured.returned.to_pylist() == [{"a": 2}]


def test_a_column_named_rowid() -> None:
    twins = Twins(
        "CREATE TABLE t (rowid INTEGER PRIMARY KEY, b VARCHAR)",
        "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
        "CREATE TABLE u (k INTEGER)",
        "INSERT INTO u VALUES (2)",
    )
    twins.run("UPDATE t SET b = 'z' WHERE rowid = 1 RETURNING *")
    twins.run("INSERT OR REPLACE INTO t VALUES (2, 'w'), (3, 'v')")
    twins.run("MERGE INTO t USING u ON t.rowid = k WHEN MATCHED THEN UPDATE SET b = 'm'")


def test_names_that_need_quotes() -> None:
    twins = Twins(
        'CREATE SCHEMA "S s"',
        'CREATE TABLE "S s"."T ""t" ("select" INTEGER PRIMARY KEY, "b b" VARCHAR)',
        """INSERT INTO "S s"."T ""t" VALUES (1, 'x'), (2, 'y')""",
    )
    name = '"S s"."T ""t"'
    twins.run(f"""UPDATE {name} SET "b b" = 'z' WHERE "select" = 1 RETURNING "b b" """)
    twins.run(f"INSERT OR REPLACE INTO {name} VALUES (1, 'q')")
    twins.run(
        f'MERGE INTO {name} AS "q q" USING (SELECT 1 AS k) AS "s s" ON "select" = k'
        ' WHEN MATCHED THEN DELETE RETURNING "q q"."b b"'
    )
    twins.run(f"DELETE FROM {name}")


# --- errors ---


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("INSERT INTO t VALUES (1, 'x', 9)", duckdb.ConstraintException),
        ("INSERT INTO t (a) VALUES ('q')", duckdb.ConversionException),
        ("UPDATE t SET a = 1", duckdb.ConstraintException),
        ("UPDATE t SET a = row_number() OVER ()", duckdb.BinderException),
        ("UPDATE t SET a = unnest([1])", duckdb.BinderException),
        ("UPDATE t SET nope = 1", duckdb.BinderException),
        ("UPDATE t SET b = 1 WHERE nope", duckdb.BinderException),
        (
            "INSERT INTO t VALUES (1, 'x', 2) ON CONFLICT DO UPDATE SET b = 1",
            duckdb.BinderException,
        ),
        ("INSERT OR REPLACE INTO t VALUES (1)", duckdb.BinderException),
        ("MERGE INTO t USING nope ON true WHEN MATCHED THEN DELETE", duckdb.CatalogException),
        ("UPDATE t SET d = CAST(b AS DOUBLE)", duckdb.ConversionException),
        ("DELETE FROM t RETURNING nope", duckdb.BinderException),
        (
            "UPDATE t SET b = q.v FROM (SELECT v FROM u WHERE u.a = t.a) q",
            duckdb.BinderException,
        ),
        (
            "UPDATE t SET b = q.v FROM u, LATERAL (SELECT u.v WHERE u.a = t.a) q",
            duckdb.BinderException,
        ),
        ("INSERT INTO t (a) VALUES (7) RETURNING * EXCLUDE (a, b, d)", duckdb.BinderException),
        ("UPDATE t SET b = 'c' RETURNING * EXCLUDE (a, b, d)", duckdb.BinderException),
        ("DELETE FROM t RETURNING * EXCLUDE (a, b, d)", duckdb.BinderException),
        ("DELETE FROM t USING (SELECT 1 FROM u WHERE u.a = t.a) q", duckdb.BinderException),
        (
            "MERGE INTO t USING (SELECT * FROM u WHERE u.a = t.a) q ON q.a = t.a"
            " WHEN MATCHED THEN DELETE",
            duckdb.BinderException,
        ),
    ],
)
def test_errors_are_duckdbs_own(sql: str, error: type[duckdb.Error]) -> None:
    twins = Twins(*KEYED)
    with pytest.raises(error) as ours:
        twins.run(sql)
    with pytest.raises(error) as theirs:
        twins.plain.sql(sql)
    first = str(theirs.value).split("\n")[0]
    assert str(ours.value).split("\n")[0] == first
    assert "__ivm" not in str(ours.value)


def test_foreign_keys() -> None:
    twins = Twins(
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR)",
        "CREATE TABLE u (a INTEGER REFERENCES t (a))",
        "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
        "INSERT INTO u VALUES (1)",
    )
    twins.run("UPDATE t SET b = 'z'")
    twins.run("UPDATE u SET a = 2")
    twins.run("DELETE FROM t WHERE a = 1")
    with pytest.raises(duckdb.ConstraintException):
        twins.run("DELETE FROM t")


def test_several_changes_in_one_transaction(tmp_path: Path) -> None:
    """Rows inserted, moved and deleted in one transaction have row ids of their own."""
    path = tmp_path / "x.csv"
    path.write_text("200,x,200\n201,y,201\n")
    twins = Twins(*KEYED)
    run(twins.ours, "BEGIN")
    statements = [
        "INSERT INTO t VALUES (10, 'n', 10), (11, 'n', 11)",
        "UPDATE t SET a = a + 100 WHERE a > 9",
        "DELETE FROM t WHERE a = 111",
        "INSERT INTO u VALUES (110, 'x')",
        "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED AND v = 'x' THEN UPDATE SET b = v, a = 5",
        "INSERT INTO t VALUES (5, 'c', 50), (6, 'c', 60) ON CONFLICT (a) DO UPDATE SET b = 'd'",
        f"COPY t FROM '{path}'",
        "TRUNCATE t",
    ]
    for sql in statements:
        before = {name: twins.read(info) for name, info in twins.tables.items()}
        (statement,) = parse(sql)
        assert isinstance(statement, Dml)
        captured = capture(twins.ours, statement, twins.table(statement), None, twins.tables)
        twins.check(before, captured, sql)
    run(twins.ours, "COMMIT")


# --- random changes ---

INTEGERS = st.one_of(st.none(), st.integers(0, 5))
STRINGS = st.one_of(st.none(), st.sampled_from(("x", "y", "it''s")))
DOUBLES = st.sampled_from(("NULL", "0.0", "-0.0", "'NaN'", "1.5", "'Infinity'"))


def sql_of(value: Any) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


@st.composite
def row(draw: st.DrawFn) -> str:
    cells = sql_of(draw(INTEGERS)), sql_of(draw(STRINGS)), f"{draw(DOUBLES)}::DOUBLE"
    return f"({', '.join(cells)})"


CONDITIONS = st.sampled_from(
    (
        "true",
        "t.a = 1",
        "t.a > 2",
        "t.b IS NULL",
        "t.d = 0",
        "t.a IN (SELECT a FROM u)",
        "t.b < 'y'",
    )
)
SETS = st.sampled_from(
    ("b = 'n'", "d = d * 2", "b = NULL, d = 0.0", "b = t.b || 'q'", "a = t.a", "d = -d")
)


@st.composite
def change(draw: st.DrawFn) -> str:
    """A random change of t (a, b, d) whose outcome DuckDB determines."""
    returning = draw(st.sampled_from(("", " RETURNING *", " RETURNING d, a + 1 AS x")))
    condition, sets = draw(CONDITIONS), draw(SETS)
    values = ", ".join(draw(st.lists(row(), min_size=1, max_size=3)))
    source = f"(SELECT DISTINCT ON (a) * FROM (VALUES {values}) v (a, b, d) ORDER BY ALL)"
    kinds = {
        "insert": f"INSERT INTO t VALUES {values}",
        "select": f"INSERT INTO t SELECT a + 10, b, d FROM t WHERE {condition}",
        "ignore": f"INSERT OR IGNORE INTO t FROM {source}",
        "replace": f"INSERT OR REPLACE INTO t FROM {source}",
        "conflict": f"INSERT INTO t FROM {source} ON CONFLICT (a) DO UPDATE SET {sets}"
        f" WHERE {condition}",
        "update": f"UPDATE t SET {sets} WHERE {condition}",
        "update from": f"UPDATE t SET {sets} FROM {source} s WHERE t.a = s.a AND {condition}",
        "delete": f"DELETE FROM t WHERE {condition}",
        "using": f"DELETE FROM t USING u WHERE t.a = u.a AND {condition}",
        "merge": f"MERGE INTO t USING {source} s ON t.a = s.a WHEN MATCHED AND {condition} THEN"
        f" UPDATE SET {sets} WHEN MATCHED AND s.b = 'x' THEN DELETE WHEN NOT MATCHED THEN INSERT"
        " VALUES (s.a, s.b, s.d)",
        "by source": f"MERGE INTO t USING {source} s ON t.a = s.a WHEN NOT MATCHED BY SOURCE AND"
        f" {condition} THEN DELETE WHEN MATCHED THEN UPDATE SET d = s.d",
        "truncate": "TRUNCATE t",
    }
    kind = draw(st.sampled_from(sorted(kinds)))
    return kinds[kind] + ("" if kind == "truncate" else returning)


@pytest.mark.full
@settings(max_examples=examples(50), deadline=None)
@given(
    st.sampled_from(("", "PRIMARY KEY", "UNIQUE")),
    st.lists(row(), max_size=6),
    st.lists(change(), min_size=1, max_size=4),
)
def test_random_changes(key: str, start: list[str], changes: list[str]) -> None:
    ignore = "OR IGNORE" if key else ""
    twins = Twins(
        f"CREATE TABLE t (a INTEGER {key}, b VARCHAR, d DOUBLE)",
        "CREATE TABLE u (a INTEGER)",
        "INSERT INTO u VALUES (1), (2), (2), (NULL)",
        *[f"INSERT {ignore} INTO t VALUES {r}" for r in start if not (key and "(NULL," in r)],
    )
    for sql in changes:
        try:
            twins.run(sql)
        except duckdb.Error as error:
            with pytest.raises(type(error)):
                twins.plain.sql(sql)
