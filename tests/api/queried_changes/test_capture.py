"""A change run by DuckDB is captured exactly, and its user sees what plain DuckDB shows."""

from __future__ import annotations

import csv
from pathlib import Path

import duckdb
import pytest

from ivm.storage.warehouse.duckdb.duck import rows
from tests.support.capture_pair import KEYED, KEYLESS, Twins, amounts
from tests.support.duckdb_twin import Twin

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


@pytest.mark.full
@pytest.mark.cases(3)
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


@pytest.mark.full
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


@pytest.mark.full
@pytest.mark.cases(3)
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


@pytest.mark.full
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


@pytest.mark.full
@pytest.mark.cases(3)
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


@pytest.mark.full
@pytest.mark.cases(3)
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


def test_merge_that_hits_a_row_twice_does_what_duckdb_does() -> None:
    """2.0.0 refuses it, 2.0.1 changes the row once."""
    sql = "MERGE INTO t USING (SELECT 1 AS k FROM range(2)) ON a = k WHEN MATCHED THEN UPDATE"
    sql, twins = f"{sql} SET a = 7", Twins(*KEYLESS)
    with duckdb.connect() as plain:
        for statement in KEYLESS:
            plain.execute(statement)
        try:
            plain.execute(sql)
        except duckdb.InvalidInputException:
            with pytest.raises(duckdb.InvalidInputException, match="more than once"):
                twins.run(sql)
            return
    twins.run(sql)


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


@pytest.mark.full
@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO t VALUES (5, 2)",
        "INSERT INTO t VALUES (5, (SELECT max(a) FROM t) + random() * 0)",
        "INSERT OR REPLACE INTO t VALUES (1, 9)",
        "INSERT INTO t SELECT 7, a FROM t ON CONFLICT DO NOTHING",
        "UPDATE t SET a = 7 WHERE id = 1",
        "UPDATE t SET a = 7 WHERE random() >= 0",
        "DELETE FROM t WHERE id = 1",
        "DELETE FROM t WHERE random() >= 0",
        "MERGE INTO t USING (SELECT 1 AS k) ON k = id WHEN MATCHED THEN UPDATE SET a = 77",
        "MERGE INTO t USING (SELECT 1 AS k) ON k + 0 = id + 0 WHEN MATCHED THEN DELETE",
    ],
)
@pytest.mark.parametrize(
    "listed",
    [
        "id AS x, a AS x",
        "id, id, *",
        'a AS "X", id AS x',
        "id x, a x, id x_1, 2 AS x, id + 1, id + 1",
    ],
)
def test_columns_of_one_name_keep_it(change: str, listed: str) -> None:
    """A relation of DuckDB's renames the later ones."""
    twin = Twin("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER); INSERT INTO t VALUES (1, 2)")
    assert twin.run(f"{change} RETURNING {listed}")


@pytest.mark.full
@pytest.mark.parametrize(
    ("sql", "params"),
    [
        ("INSERT INTO t AS z SELECT ?, random() * 0 RETURNING t.i, j AS i, 1 AS I", [4]),
        ("DELETE FROM t AS z WHERE i + random() * 0 > $x RETURNING z.i, i, 1 AS I", {"x": 0}),
        ("WITH d AS (DELETE FROM t RETURNING *) SELECT i, i FROM d", None),
    ],
)
def test_columns_of_one_name_with_parameters(sql: str, params: object) -> None:
    twin = Twin(
        "CREATE TABLE t (g INTEGER AS (i + 1), i INTEGER, j INTEGER NOT NULL);"
        "INSERT INTO t VALUES (1, 2)"
    )
    assert twin.run(sql, params)


@pytest.mark.full
@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES (DEFAULT, 'a') ON CONFLICT (u) DO NOTHING",
        "INSERT INTO t VALUES (DEFAULT, 'a'), (DEFAULT, 'b') ON CONFLICT (u) DO UPDATE SET u = 'x'",
        "INSERT INTO t VALUES (DEFAULT, 'a') ON CONFLICT DO UPDATE SET nope = 1",
        "INSERT INTO t VALUES (DEFAULT, 'a') ON CONFLICT (id) DO UPDATE SET u = nope",
        "INSERT INTO t SELECT nextval('q'), 'a' ON CONFLICT (id) DO UPDATE SET u = 'x'"
        " RETURNING nope",
        "INSERT INTO t BY NAME SELECT nextval('q') AS id ON CONFLICT (u) DO NOTHING",
        "INSERT INTO t BY NAME SELECT nextval('q') AS id ON CONFLICT (id) DO UPDATE SET u = 'x'",
        "INSERT INTO t BY NAME SELECT ? AS u, nextval('q') AS id ON CONFLICT (id) DO NOTHING",
        "INSERT INTO t SELECT nextval('q'), 'a' ON CONFLICT (id) DO UPDATE SET u = 'x'",
    ],
)
def test_a_sequence_gives_the_values_that_it_gives_in_duckdb(sql: str) -> None:
    """None to a statement that does not bind; BY NAME took one more."""
    twin = Twin(
        "CREATE SEQUENCE q; CREATE TABLE t (id BIGINT DEFAULT nextval('q') PRIMARY KEY, u VARCHAR)"
    )
    twin.run(sql, ["x"] if "?" in sql else None)
    assert twin.run("SELECT nextval('q')")
    assert twin.run("FROM t")


@pytest.mark.full
@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t (id,) VALUES (9,)",
        "INSERT INTO t (id, a,) VALUES (8, 1,), (9, DEFAULT,),",
        "INSERT INTO t (id, a,) SELECT 9, random() * 0, RETURNING id,",
        "INSERT INTO t (id,) SELECT id + 1, FROM t, ON CONFLICT (id,) DO NOTHING RETURNING id,",
        "INSERT INTO t VALUES (1, random() * 0,) ON CONFLICT (id,) DO UPDATE SET a = 7,",
        "UPDATE t SET a = 1, WHERE random() >= 0 RETURNING id,",
        "DELETE FROM t WHERE random() >= 0 RETURNING id AS x, a AS x,",
        "MERGE INTO t USING u ON u.id = t.id + random() * 0 WHEN NOT MATCHED THEN"
        " INSERT (id, a,) VALUES (u.id, 3,) RETURNING id,",
        "DROP TABLE u,",
        "DROP TABLE IF EXISTS none,",
        "DROP INDEX IF EXISTS i,",
        "DROP VIEW IF EXISTS none,",
        "INSERT INTO t (,) VALUES (1)",
        "INSERT INTO t (id,,) VALUES (1)",
        "DROP TABLE u,,",
    ],
)
def test_a_comma_at_the_end_of_a_list(sql: str) -> None:
    twin = Twin(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER DEFAULT 5); INSERT INTO t VALUES (1, 2);"
        "CREATE TABLE u (id INTEGER); CREATE INDEX i ON u (id); INSERT INTO u VALUES (4)",
        "CREATE MATERIALIZED VIEW v (n,) AS SELECT sum(a), FROM t",
    )
    assert twin.run(sql) == (",," not in sql and "(,)" not in sql)
    twin.run("FROM u")
    twin.check()


def test_a_comma_at_the_end_of_many_rows() -> None:
    view = "CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS n FROM t"
    twin = Twin("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER)", view)
    insert = "INSERT INTO t (id, a,) VALUES (?, ?,)"
    twin.duck.executemany(insert, [(1, 2), (3, 4)])
    twin.db.executemany(insert, [(1, 2), (3, 4)])
    twin.check()
