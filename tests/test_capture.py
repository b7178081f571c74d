"""A change run by DuckDB is captured exactly, and its user sees what plain DuckDB shows."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.capture import Captured, capture
from ivm.capture_reach import written_names
from ivm.sql.statements import Dml, parse
from ivm.storage.consolidate import consolidate
from ivm.storage.duck import Cursor, rows, run, table
from ivm.storage.table_info import TableInfo, read_tables
from ivm.storage.zset import ZSet, add, from_arrow

Rows = list[tuple[Any, ...]]


def connect() -> Cursor:
    connection = duckdb.connect(":memory:")
    run(connection, "SET arrow_lossless_conversion = true")
    return connection


class Twins:
    """Two equal databases: one captures a change, the other runs it plainly."""

    def __init__(self, *setup: str) -> None:
        self.ours, self.plain = connect(), connect()
        for sql in setup:
            run(self.ours, sql)
            run(self.plain, sql)
        self.tables = read_tables(self.ours, "memory")

    def run(self, sql: str, params: Any = None, *, same_rows: bool = True) -> Captured:
        """Capture a change and compare everything with the plain twin.

        Args:
            same_rows: the twin must end with the same rows (not where DuckDB leaves it open).
        """
        (statement,) = parse(sql)
        assert isinstance(statement, Dml), sql
        before = {name: self.read(info) for name, info in self.tables.items()}
        run(self.ours, "BEGIN")
        try:
            captured = capture(self.ours, statement, self.table(statement), params, self.tables)
        except duckdb.Error:
            run(self.ours, "ROLLBACK")
            raise
        self.check(before, captured, sql)
        assert not rows(self.ours, "SELECT * FROM duckdb_tables() WHERE temporary"), sql
        run(self.ours, "COMMIT")
        shown = self.plain.sql(sql, params=params)
        if same_rows:
            self.check_shown(captured, shown)
            for info in self.tables.values():
                query = f"FROM {info.qualified}"
                assert text(rows(self.ours, query)) == text(rows(self.plain, query)), sql
        return captured

    def table(self, statement: Dml) -> TableInfo | None:
        name = None if statement.table is None else ".".join(statement.table)
        return None if name is None else self.tables.get(name)

    def read(self, info: TableInfo) -> ZSet:
        return from_arrow(table(self.ours, f"FROM {info.qualified}"), info.schema)

    def check(self, before: dict[str, ZSet], captured: Captured, sql: str) -> None:
        """before − removed + added = after, exactly."""
        for name, info in self.tables.items():
            removed, added = captured.changes.get(name, (None, None))
            parts = [before[name], self.read(info).negate()]
            parts += [] if removed is None else [removed.negate()]
            parts += [] if added is None else [added]
            types = [t for _, t in info.schema]
            assert not len(consolidate(add(parts), types)), (name, sql)
            assert all((p.weights > 0).all() for p in (removed, added) if p is not None)

    @staticmethod
    def check_shown(captured: Captured, shown: duckdb.DuckDBPyRelation) -> None:
        if captured.returned is None:
            assert captured.count == shown.fetchall()[0][0]
            return
        assert captured.returned.column_names == shown.columns
        assert captured.types == tuple(str(t) for t in shown.types)
        theirs = shown.to_arrow_table()
        assert captured.returned.schema.types == theirs.schema.types
        ours = [tuple(row.values()) for row in captured.returned.to_pylist()]
        assert text(ours) == text([tuple(row.values()) for row in theirs.to_pylist()])


def text(found: Rows) -> Counter[str]:
    return Counter(repr(row) for row in found)


def amounts(captured: Captured, name: str = "t") -> tuple[int, int]:
    """How many rows were removed and added."""
    removed, added = captured.changes.get(name, (None, None))
    gone, come = (0 if z is None else int(z.weights.sum()) for z in (removed, added))
    return gone, come


KEYLESS = (
    "CREATE TABLE t (a INTEGER, b VARCHAR, d DOUBLE)",
    "INSERT INTO t VALUES (1, 'x', 0.0), (1, 'x', 0.0), (1, 'x', -0.0), (2, NULL, 'NaN'),"
    " (NULL, 'y', 1), (NULL, 'y', 1), (3, 'z', NULL)",
    "CREATE TABLE u (a INTEGER, v VARCHAR)",
    "INSERT INTO u VALUES (1, 'one'), (2, 'two'), (9, 'nine'), (NULL, 'none')",
)
KEYED = (
    "CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR, d DOUBLE UNIQUE)",
    "INSERT INTO t VALUES (1, 'x', 1), (2, NULL, 2), (3, 'z', NULL), (4, 'w', NULL)",
    "CREATE TABLE u (a INTEGER, v VARCHAR)",
    "INSERT INTO u VALUES (1, 'one'), (2, 'two'), (9, 'nine')",
)


# --- INSERT ---


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES (5, 'q', 0.5), (5, 'q', 0.5)",
        "INSERT INTO t (b, a) VALUES (upper('q'), 1 + 1) RETURNING *, a + 1 AS next, b",
        "INSERT INTO t SELECT a, v, random() FROM u",
        "INSERT INTO t BY NAME SELECT 'n' AS b, 7 AS a RETURNING b",
        "INSERT INTO t DEFAULT VALUES",
        "WITH w AS (SELECT 8 AS x) INSERT INTO t (a) SELECT x FROM w RETURNING a AS t",
        "INSERT INTO t SELECT * FROM t",
        "INSERT INTO t SELECT * FROM t WHERE false RETURNING *",
    ],
)
def test_insert(sql: str) -> None:
    twins = Twins(*KEYLESS)
    removed, _ = amounts(twins.run(sql, same_rows="random" not in sql))
    assert removed == 0


def test_insert_with_parameters() -> None:
    twins = Twins(*KEYLESS)
    sql = "INSERT INTO t SELECT a + ?, v, ? FROM u WHERE a < ? RETURNING a, b AS p"
    assert twins.run(sql, [1, 2.5, 5]).changes
    assert twins.run("INSERT INTO t (a) VALUES ($x + $x)", {"x": 3}).count == 1


def test_defaults_and_generated_columns() -> None:
    twins = Twins(
        "CREATE SEQUENCE s",
        "CREATE TABLE t (i INTEGER DEFAULT nextval('s'), j INTEGER, g INTEGER AS (j * 2))",
    )
    twins.run("INSERT INTO t (j) SELECT * FROM range(5)")
    twins.run("INSERT INTO t (j) VALUES (1), (2) RETURNING *")
    twins.run("UPDATE t SET j = j + 1, i = DEFAULT WHERE j < 2 RETURNING g, i")
    twins.run("DELETE FROM t WHERE g > 6 RETURNING *")
    assert rows(twins.ours, "SELECT nextval('s')") == rows(twins.plain, "SELECT nextval('s')")


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES (1, 'new', 9), (7, 'new', 8) ON CONFLICT DO NOTHING RETURNING *",
        "INSERT OR IGNORE INTO t SELECT a, v, a + 10 FROM u",
        "INSERT INTO t VALUES (1, 'n', 9), (7, 'm', 8)"
        " ON CONFLICT (a) DO UPDATE SET b = excluded.b",
        "INSERT INTO t VALUES (1, 'n', 9), (1, 'm', 9), (7, 'o', 5), (7, 'p', 5)"
        " ON CONFLICT (a) DO UPDATE SET b = concat(t.b, excluded.b) RETURNING *, b || '!'",
        "INSERT INTO t VALUES (1, 'n', 9), (2, 'm', 9) ON CONFLICT (a) DO UPDATE"
        " SET b = excluded.b WHERE t.b IS NULL RETURNING a",
        "INSERT INTO t VALUES (5, 'n', 1), (6, 'm', NULL), (7, 'o', NULL)"
        " ON CONFLICT (d) DO UPDATE SET a = 50, b = excluded.b",
        "INSERT INTO t (b, a) VALUES ('n', 1), ('m', 8) ON CONFLICT (a) DO UPDATE SET d = 77",
        "INSERT INTO t BY NAME SELECT v AS b, a FROM u"
        " ON CONFLICT (a) DO UPDATE SET b = excluded.b",
        "WITH w AS (FROM u) INSERT INTO t (a, b) SELECT a, v FROM w"
        " ON CONFLICT (a) DO UPDATE SET b = excluded.b RETURNING *",
        "INSERT INTO t (a) VALUES (2) ON CONFLICT (a) DO UPDATE SET b = DEFAULT, d = DEFAULT",
        "INSERT INTO t VALUES (1, DEFAULT, 3) ON CONFLICT (a) DO UPDATE SET d = excluded.d",
        "INSERT INTO t DEFAULT VALUES ON CONFLICT DO NOTHING",
    ],
)
def test_insert_on_conflict(sql: str) -> None:
    twins = Twins(*KEYED)
    if "DEFAULT VALUES" in sql:
        with pytest.raises(duckdb.ConstraintException):
            twins.run(sql)
        return
    twins.run(sql)


@pytest.mark.parametrize("key", ["PRIMARY KEY", "UNIQUE"])
def test_insert_or_replace(key: str) -> None:
    twins = Twins(
        "CREATE SEQUENCE s",
        f"CREATE TABLE t (a INTEGER {key}, b VARCHAR DEFAULT 'std',"
        " n INTEGER DEFAULT nextval('s'))",
        "INSERT INTO t VALUES (1, 'x', 100), (2, 'y', 200)",
    )
    assert amounts(twins.run("INSERT OR REPLACE INTO t VALUES (1, 'z', 3), (3, 'n', 4)")) == (1, 2)
    twins.run("INSERT OR REPLACE INTO t (a) VALUES (1), (4) RETURNING *")
    twins.run("INSERT OR REPLACE INTO t (a, b) VALUES (2, DEFAULT), (5, DEFAULT)")
    twins.run("INSERT OR REPLACE INTO t BY NAME SELECT 2 AS a, 'bn' AS b")
    twins.run("INSERT OR REPLACE INTO t VALUES (2, ?, ?), (?, 'q', 1)", ["p", 9, 6])
    twins.run("INSERT OR REPLACE INTO t (b) VALUES ('k')" if key == "UNIQUE" else "DELETE FROM t")
    assert rows(twins.ours, "SELECT nextval('s')") == rows(twins.plain, "SELECT nextval('s')")


# --- UPDATE ---


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE t SET d = d + 1",
        "UPDATE t SET d = d + 1 WHERE a = 1 RETURNING *",
        "UPDATE t SET b = 'same' WHERE false RETURNING b AS bb, a + 1",
        "UPDATE t AS x SET b = v, d = DEFAULT FROM u WHERE x.a = u.a RETURNING x.b, d",
        "UPDATE t x SET b = upper(x.b) WHERE EXISTS (SELECT 1 FROM u WHERE u.a = x.a)",
        "UPDATE t SET b = w.v FROM (FROM u WHERE v <> 'two') AS w JOIN u ON w.a = u.a"
        " WHERE t.a = w.a",
        "UPDATE t SET (b, d) = ('p', 2) WHERE a = 1 RETURNING *",
        "WITH w AS (SELECT max(a) AS m FROM u) UPDATE t SET b = m FROM w WHERE t.a < m",
        "UPDATE t SET b = CASE WHEN a = 1 THEN 'a' ELSE NULL END, a = 4 WHERE a IS NOT NULL",
        "UPDATE t SET d = -0.0 WHERE d = 0",
        "UPDATE t SET d = 1.5, a = 2.5, b = 10",
        "UPDATE t SET a = NULL",
    ],
)
@pytest.mark.parametrize("setup", [KEYLESS, KEYED], ids=["keyless", "keyed"])
def test_update(sql: str, setup: tuple[str, ...]) -> None:
    twins = Twins(*setup)
    try:
        twins.plain.sql(sql)
    except duckdb.ConstraintException:
        with pytest.raises(duckdb.ConstraintException):
            twins.run(sql)
        return
    twins = Twins(*setup)
    twins.run(sql)


def test_update_of_many_rows() -> None:
    """Many rows are found again by row id, also where they move."""
    twins = Twins(
        "CREATE TABLE t (a INTEGER, l INTEGER[])",
        "INSERT INTO t SELECT i, [i] FROM range(5000) r (i)",
    )
    assert amounts(twins.run("UPDATE t SET a = a + 1 WHERE a % 2 = 0")) == (2500, 2500)
    twins.run("UPDATE t SET l = [7] WHERE a > 100")
    twins.run("UPDATE t SET a = a + 1, l = NULL WHERE a > 4000 RETURNING a")


def test_values_that_duckdb_returns_but_does_not_store() -> None:
    """DuckDB 2.0 does not write a value that equals the old one, but RETURNING shows it."""
    twins = Twins(
        "CREATE TABLE t (a INTEGER, d DOUBLE, i INTERVAL)",
        "INSERT INTO t VALUES (1, 0.0, INTERVAL 1 MONTH)",
    )
    twins.run("UPDATE t SET i = INTERVAL 30 DAY, d = -0e0")
    twins.run("UPDATE t SET i = INTERVAL 30 DAY, d = -0e0 RETURNING *")
    twins.run("UPDATE t SET i = INTERVAL 30 DAY, d = -d WHERE a IN (SELECT 1) RETURNING *")
    sql = "MERGE INTO t USING (SELECT 1 AS k) ON a = k WHEN MATCHED THEN UPDATE SET d = -0e0"
    twins.run(f"{sql} RETURNING *")


def test_every_type() -> None:
    twins = Twins(
        "CREATE TABLE t (a INTEGER, e ENUM('p', 'q'), j JSON, i INTERVAL, u UUID, h HUGEINT,"
        " x BLOB, ts TIMESTAMPTZ, bi BIT, arr INTEGER[2], un UNION(n INTEGER, s VARCHAR),"
        " tt TIMETZ)",
        "INSERT INTO t VALUES (1, 'p', '{\"a\": 1}', INTERVAL 1 MONTH,"
        " '00000000-0000-0000-0000-000000000001', 170141183460469231731687303715884105727, '\\x00',"
        " '2020-01-01 00:00:00+02', '101', [1, 2], 5, '10:00:00+02')",
        "INSERT INTO t (a) VALUES (2)",
    )
    twins.run("UPDATE t SET e = 'q', j = '[1]' WHERE a IN (SELECT 1) RETURNING *")
    twins.run("UPDATE t SET un = 'z', h = -h")
    twins.run("INSERT INTO t FROM t RETURNING *")
    sql = "MERGE INTO t USING (SELECT 1 AS k) s ON a = k WHEN MATCHED THEN"
    twins.run(f"{sql} UPDATE SET e = 'p', tt = '11:00:00+03' RETURNING merge_action, *")
    twins.run(
        f"{sql.replace('MATCHED', 'NOT MATCHED BY SOURCE')} UPDATE SET arr = [3, 4], ts = now()",
        same_rows=False,
    )
    twins.run("DELETE FROM t WHERE e = 'p' RETURNING *", same_rows=False)
    twins.run("TRUNCATE t", same_rows=False)


def test_update_swaps_keys() -> None:
    twins = Twins(*KEYED)
    twins.run("UPDATE t SET a = CASE a WHEN 1 THEN 2 ELSE 1 END WHERE a < 3 RETURNING *")
    twins.run("UPDATE t SET a = a + 1")


def test_update_evaluates_each_expression_once() -> None:
    twins = Twins("CREATE SEQUENCE s", *KEYLESS)
    captured = twins.run("UPDATE t SET d = random() RETURNING d", same_rows=False)
    assert captured.returned is not None
    twins.run("UPDATE t SET d = 5 WHERE random() < 0.5", same_rows=False)
    twins = Twins("CREATE SEQUENCE s", *KEYLESS)
    twins.run("UPDATE t SET d = nextval('s')")
    twins.run("UPDATE t SET d = 5 WHERE nextval('s') % 2 = 0")
    assert rows(twins.ours, "SELECT nextval('s')") == rows(twins.plain, "SELECT nextval('s')")


def test_update_with_two_matches_has_one_winner() -> None:
    twins = Twins(*KEYLESS, "INSERT INTO u VALUES (1, 'uno'), (1, 'ein')")
    captured = twins.run("UPDATE t SET b = v FROM u WHERE t.a = u.a", same_rows=False)
    assert captured.count == 4
    assert amounts(captured) == (4, 4)


def test_update_with_parameters() -> None:
    twins = Twins(*KEYLESS)
    sql = "UPDATE t SET b = ?, d = ? + d FROM u WHERE t.a = u.a AND u.v = ? RETURNING b AS p, *"
    twins.run(sql, ["new", 2, "one"])
    twins.run("UPDATE t SET d = $2 WHERE a = $1", [1, 9])
    twins.run("UPDATE t SET d = $d WHERE a = $a", {"a": 1, "d": 9})
    twins.run("UPDATE t SET b = ?1 WHERE b <> ?1".replace("?1", "$1"), ["v"])


def test_rows_that_move() -> None:
    twins = Twins(
        "CREATE TABLE t (a INTEGER, l INTEGER[], s STRUCT(x DOUBLE, y VARCHAR),"
        " m MAP(INTEGER, INTEGER))",
        "INSERT INTO t VALUES (1, [1], {'x': 0, 'y': 'p'}, MAP {1: 2}), (2, NULL, NULL, NULL)",
        "CREATE INDEX i ON t (a)",
    )
    twins.run("UPDATE t SET l = list_append(l, 5) RETURNING *")
    twins.run("UPDATE t SET a = a + 1, s = {'x': -0.0, 'y': 'q'}")
    twins.run("MERGE INTO t USING (SELECT 2 AS k) s ON a = k WHEN MATCHED THEN UPDATE SET l = [7]")


# --- DELETE, TRUNCATE ---


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM t",
        "DELETE FROM t WHERE a = 1 RETURNING b, *",
        "DELETE FROM t USING u WHERE t.a = u.a",
        "DELETE FROM t AS x USING u, u AS w WHERE x.a = u.a AND w.a > 1 RETURNING x.a",
        "WITH w AS (SELECT 1 AS k) DELETE FROM t WHERE a IN (SELECT k FROM w)",
        "TRUNCATE t",
        "TRUNCATE TABLE t",
    ],
)
@pytest.mark.parametrize("setup", [KEYLESS, KEYED], ids=["keyless", "keyed"])
def test_delete(sql: str, setup: tuple[str, ...]) -> None:
    _, added = amounts(Twins(*setup).run(sql))
    assert added == 0


def test_some_of_many_equal_rows() -> None:
    twins = Twins(*KEYLESS)
    sql = "DELETE FROM t WHERE rowid IN (SELECT min(rowid) FROM t GROUP BY a)"
    assert amounts(twins.run(sql)) == (4, 0)
    assert amounts(twins.run("UPDATE t SET a = a WHERE a = 1")) == (2, 2)
    assert amounts(twins.run("UPDATE t SET b = 'k' WHERE a = 1")) == (2, 2)


# --- MERGE ---


@pytest.mark.parametrize(
    "sql",
    [
        "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN UPDATE SET b = v",
        "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED AND v = 'one' THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET b = v WHEN NOT MATCHED THEN INSERT (a, b) VALUES (u.a, v)"
        " RETURNING merge_action, *",
        "MERGE INTO t AS x USING (FROM u WHERE a < 5) AS y (k, w) ON x.a = y.k"
        " WHEN MATCHED THEN UPDATE SET b = w || x.b RETURNING x.b",
        "MERGE INTO t USING u USING (a) WHEN MATCHED THEN DELETE",
        "MERGE INTO t USING u ON t.a = u.a WHEN NOT MATCHED BY SOURCE THEN DELETE"
        " WHEN NOT MATCHED BY TARGET THEN INSERT (a) VALUES (u.a)",
        "WITH w AS (SELECT 1 AS a) MERGE INTO t USING w ON t.a = w.a WHEN MATCHED THEN"
        " UPDATE SET d = (SELECT count(*) + 50 FROM w)",
        "MERGE INTO t USING u JOIN u AS w ON u.a = w.a ON t.a = u.a WHEN MATCHED THEN DELETE",
        "MERGE INTO t USING range(2) AS r (i) ON t.a = r.i WHEN MATCHED THEN UPDATE SET b = DEFAULT"
        " WHEN NOT MATCHED THEN INSERT VALUES (77, 'i', 5)",
        "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN DO NOTHING",
    ],
)
@pytest.mark.parametrize("setup", [KEYLESS, KEYED], ids=["keyless", "keyed"])
def test_merge(sql: str, setup: tuple[str, ...]) -> None:
    Twins(*setup).run(sql)


def test_merge_with_parameters_and_a_volatile_source() -> None:
    twins = Twins("CREATE SEQUENCE s", *KEYLESS)
    sql = "MERGE INTO t USING (SELECT a, ? AS p, nextval('s') AS n FROM u) q ON t.a = q.a AND n < ?"
    sql += " WHEN MATCHED THEN UPDATE SET b = p, d = ? RETURNING merge_action, b AS z"
    twins.run(sql, ["p", 3, 1.5])
    assert rows(twins.ours, "SELECT nextval('s')") == rows(twins.plain, "SELECT nextval('s')")


def test_merge_that_hits_a_row_twice_is_refused_by_duckdb() -> None:
    twins = Twins(*KEYLESS)
    sql = "MERGE INTO t USING (SELECT 1 AS k FROM range(2)) ON a = k WHEN MATCHED THEN DELETE"
    with pytest.raises(duckdb.InvalidInputException, match="more than once"):
        twins.run(sql.replace("WHEN MATCHED THEN DELETE", "WHEN MATCHED THEN UPDATE SET a = 7"))


# --- COPY ---


def test_copy_from(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["a", "b"], [1, "x"], [2, ""], [1, "x"]])
    twins = Twins(
        "CREATE SEQUENCE s",
        "CREATE TABLE t (a INTEGER, b VARCHAR, n INTEGER DEFAULT nextval('s'),"
        " g INTEGER AS (a + 1))",
    )
    captured = twins.run(f"COPY t (a, b) FROM '{path}' (HEADER)")
    assert captured.count == 3
    assert amounts(captured) == (0, 3)
    twins.run(f"COPY t (a, b) FROM '{path}' (HEADER)")


# --- reaching further ---


def test_data_modifying_ctes() -> None:
    twins = Twins(*KEYLESS)
    twins.run("WITH d AS (DELETE FROM t WHERE a = 1 RETURNING *) SELECT count(*), min(b) FROM d")
    sql = "WITH d AS (DELETE FROM u RETURNING *), i AS (INSERT INTO t (a) VALUES (5) RETURNING a)"
    assert set(twins.run(f"{sql} SELECT * FROM d, i").changes) == {"t", "u"}
    twins.run("WITH d AS (DELETE FROM t RETURNING *) INSERT INTO u SELECT a, b FROM d")


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
    assert written_names("CREATE TRIGGER g AFTER UPDATE OF v ON t INSERT INTO u VALUES (1)") == [
        ("u",)
    ]


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


@settings(max_examples=50, deadline=None)
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
